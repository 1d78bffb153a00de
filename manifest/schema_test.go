package manifest_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// validator returns the published schema as a validator that shares nothing with
// the compiler. It loads nothing from elsewhere.
func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(manifest.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // no scheme: neither files nor network
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		// Patterns are ECMA-262. Of what Go writes differently only \uHHHH is used.
		return regexp.Compile(unicodeEscape.ReplaceAllString(pattern, `\x{$1}`))
	})
	if err := c.AddResource(manifest.SchemaURL, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(manifest.SchemaURL)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var unicodeEscape = regexp.MustCompile(`\\u([0-9a-fA-F]{4})`)

// judge returns what the schema says of src. Bytes that are no JSON never reach a
// schema; that is the second result.
func judge(schema *jsonschema.Schema, src []byte) (refusal error, isJSON bool) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		return nil, false
	}
	return schema.Validate(value), true
}

// walkProperties calls visit for every member that the schema defines. What stands
// under if, not, allOf and oneOf only restricts members that are defined elsewhere.
func walkProperties(t *testing.T, visit func(name string, property map[string]any)) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(manifest.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	found := 0
	var walk func(schema any)
	walk = func(schema any) {
		object, _ := schema.(map[string]any)
		for _, keyword := range []string{"properties", "$defs"} {
			for name, property := range asObject(object[keyword]) {
				if keyword == "properties" {
					found++
					resolved := asObject(property)
					if ref, ok := resolved["$ref"].(string); ok {
						resolved = asObject(asObject(root["$defs"])[strings.TrimPrefix(ref, "#/$defs/")])
					}
					visit(name, resolved)
				}
				walk(property)
			}
		}
		walkItems := object["items"]
		if walkItems != nil {
			walk(walkItems)
		}
	}
	walk(root)
	if found == 0 {
		t.Fatal("the schema defines no members")
	}
}

func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

func TestSchemaItself(t *testing.T) {
	meta, err := jsonschema.NewCompiler().Compile(draft2020)
	if err != nil {
		t.Fatal(err)
	}
	refusal, isJSON := judge(meta, manifest.Schema())
	if refusal != nil || !isJSON {
		t.Errorf("the schema is not valid: %v", refusal)
	}
	var head struct {
		Schema string `json:"$schema"`
		ID     string `json:"$id"`
	}
	if err := json.Unmarshal(manifest.Schema(), &head); err != nil {
		t.Fatal(err)
	}
	if head.Schema != draft2020 || head.ID != manifest.SchemaURL {
		t.Errorf("$schema %q and $id %q, want %q and %q", head.Schema, head.ID, draft2020, manifest.SchemaURL)
	}
	walkProperties(t, func(name string, property map[string]any) {
		if text, _ := property["description"].(string); !strings.HasSuffix(text, ".") {
			t.Errorf("the member %q has the description %q, want a sentence", name, text)
		}
	})
	// The caller may do with its bytes what it likes.
	clear(manifest.Schema())
	if !json.Valid(manifest.Schema()) {
		t.Error("Schema returns the bytes that it keeps")
	}
}

func TestSchemaAccepts(t *testing.T) {
	schema := validator(t)
	for name, src := range sources(t) {
		if refusal, isJSON := judge(schema, src); refusal != nil || !isJSON {
			t.Errorf("%s: JSON %t, %v; want no refusal", name, isJSON, refusal)
		}
	}
}

// beyondSchema are the invalid vectors that no schema can refuse, with the reason.
var beyondSchema = map[string]string{
	"version-2.0.json":       "to a schema 2.0 is the integer 2",
	"version-2e0.json":       "to a schema 2e0 is the integer 2",
	"port-fraction.json":     "to a schema 443.0 is the integer 443",
	"port-exponent.json":     "to a schema 4.43e2 is the integer 443",
	"duplicate-top.json":     "a parser keeps one of the two members",
	"duplicate-escaped.json": "a parser keeps one of the two members",
	"duplicate-in-path.json": "a parser keeps one of the two members",
}

func TestSchemaRefuses(t *testing.T) {
	schema := validator(t)
	judged := 0
	passed := maps.Clone(beyondSchema)
	for _, v := range refusals(t) {
		refusal, isJSON := judge(schema, readFile(t, filepath.Join(vectors, "manifest-invalid", v.File)))
		reason, beyond := beyondSchema[v.File]
		delete(passed, v.File)
		switch {
		case v.Code == manifest.CodeSyntax:
			// Not JSON, or JSON of a laxer kind: encoding/json mends invalid UTF-8.
		case refusal == nil && !beyond:
			t.Errorf("%s (%s): JSON %t, and the schema accepts it", v.File, v.Code, isJSON)
		case refusal != nil && beyond:
			t.Errorf("%s: the schema refuses it, although %s: %v", v.File, reason, refusal)
		default:
			judged++
		}
	}
	for name := range passed {
		t.Errorf("%s is said to be beyond a schema and is no vector", name)
	}
	if judged < 50 {
		t.Errorf("the schema judged %d vectors, want most of them", judged)
	}
}

// TestSchemaLengths checks that the schema draws its limits where the compiler does,
// except where bytes are more than characters.
func TestSchemaLengths(t *testing.T) {
	schema := validator(t)
	for _, tt := range lengthLimits {
		src := []byte(edit(t, strictBase, tt.old, tt.text))
		refusal, isJSON := judge(schema, src)
		inBytes := strings.Contains(tt.name, "characters") // a schema counts these
		if want := tt.want != "" && !inBytes; !isJSON || (refusal != nil) != want {
			t.Errorf("%s: refused by the schema: %v, want %t", tt.name, refusal, want)
		}
	}
}

// oddValues are what mutations put into a manifest, by the member they are nearest
// to. The words of the members are added to them.
var oddValues = map[string][]any{
	"relative": {
		"", "a", "etc/", "..", "a/../b", "..a", "a..", ".../b", "./a", "a//b/", "/a", "a\x00b", "\n", "..\n", "caf\u00e9", "\U0010ffff",
		strings.Repeat("a/", 2047), strings.Repeat("a", 4097), strings.Repeat("\u00e9", 2048), strings.Repeat("\u00e9", 2049),
	},
	"absolute": {
		"", "/", "//", "/etc", "etc", "/..", "/../etc", "/..etc", "/etc/..", "/etc/../..\n", "~/a", " /a", "/a\x00b", "/\n", "\n/",
		"/" + strings.Repeat("a", 4095), "/" + strings.Repeat("a", 4096), "/" + strings.Repeat("\u00e9", 2048),
	},
	"host": {
		"", ".", "example.com", "EXAMPLE.com", "example.com.", ".com", "*.example.com", "a_b.example", "-a.example", "a-.example",
		"a--b.example", "127.0.0.1", "127.1", "0x7f", "a.0x", "a.0X1F", "a.0xg", "1.example", "example.1", "a.1b", "::1", "ex\u212aample", "a.example\n",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "ab",
	},
	"port": {
		json.Number("0"), json.Number("1"), json.Number("65535"), json.Number("65536"), json.Number("-1"), json.Number("-0"), json.Number("443.0"),
		json.Number("4.43e2"), json.Number("443.5"), json.Number("1e400"), json.Number("0.0"), json.Number("1E0"), "443",
	},
	"formatVersion": {
		json.Number("1"), json.Number("2"), json.Number("3"), json.Number("2.0"), json.Number("2e0"), json.Number("20E-1"), json.Number("-2"), "2",
	},
	"path":    {map[string]any{"root": "temp"}, map[string]any{"absolute": "/srv"}, map[string]any{"special": "minimal-runtime"}, map[string]any{}, "src"},
	"rules":   {[]any{}, map[string]any{}, []any{[]any{}}, []any{map[string]any{"access": "deny", "path": map[string]any{"root": "temp"}}}},
	"allow":   {[]any{}, map[string]any{}, []any{map[string]any{"protocol": "tcp", "host": "a.example", "port": json.Number("80")}}},
	"network": {map[string]any{"mode": "none"}, map[string]any{"mode": "direct", "allow": []any{}}, map[string]any{"mode": "mediated"}},
	"other":   {nil, true, false, "", "Read", "udp", "host", "none ", manifest.SchemaURL + "#", json.Number("2"), []any{nil}, map[string]any{"": nil}},
}

// odd returns a value that is, more often than not, of the kind of the named member.
func odd(random *rand.Rand, name string) any {
	if random.IntN(4) == 0 {
		names := slices.Sorted(maps.Keys(oddValues))
		name = names[random.IntN(len(names))]
	}
	var values []any
	for _, m := range members {
		for _, word := range m.words {
			if m.name == name {
				values = append(values, word)
			}
		}
	}
	values = append(values, oddValues[name]...)
	if len(values) == 0 {
		values = oddValues["other"]
	}
	return values[random.IntN(len(values))]
}

// mutate returns v, the value of the named member, with one thing about it changed.
func mutate(random *rand.Rand, name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		changed := maps.Clone(v)
		names := slices.Sorted(maps.Keys(v))
		if len(names) == 0 || random.IntN(12) == 0 {
			name := members[random.IntN(len(members))].name
			changed[name] = odd(random, name)
			return changed
		}
		name := names[random.IntN(len(names))]
		switch random.IntN(24) {
		case 0:
			delete(changed, name)
		case 1:
			delete(changed, name)
			changed[members[random.IntN(len(members))].name] = v[name]
		case 2:
			changed[name] = odd(random, name)
		default:
			changed[name] = mutate(random, name, v[name])
		}
		return changed
	case []any:
		if len(v) == 0 {
			return odd(random, name)
		}
		i := random.IntN(len(v))
		changed := slices.Clone(v)
		switch random.IntN(8) {
		case 0:
			return slices.Delete(changed, i, i+1)
		case 1:
			return append(changed, v[i])
		}
		changed[i] = mutate(random, name, v[i])
		return changed
	}
	return odd(random, name)
}

// TestSchemaAgainstCompiler compares the two on documents made at random: what the
// compiler accepts the schema accepts, and what only the compiler refuses it
// refuses for a reason that no schema can see.
func TestSchemaAgainstCompiler(t *testing.T) {
	schema := validator(t)
	random := rand.New(rand.NewPCG(2, 3)) // fixed: a failure must come again
	var seeds []any
	for _, src := range slices.SortedFunc(maps.Values(sources(t)), bytes.Compare) {
		decoder := json.NewDecoder(bytes.NewReader(src))
		decoder.UseNumber()
		var seed any
		if err := decoder.Decode(&seed); err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	accepted, refusedByBoth, onlyCompiler := 0, 0, 0
	for range 6000 {
		doc := seeds[random.IntN(len(seeds))]
		for range 1 + random.IntN(3) {
			doc = mutate(random, "", doc)
		}
		src, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		refusal, isJSON := judge(schema, src)
		if !isJSON {
			t.Fatalf("%s is not JSON", src)
		}
		_, err = manifest.Compile(src)
		switch {
		case err == nil && refusal == nil:
			accepted++
		case err == nil:
			t.Errorf("the schema refuses what compiles: %.600s\n%v", src, refusal)
		case refusal != nil:
			refusedByBoth++
		default:
			onlyCompiler++
			for _, e := range refused(t, src) {
				if !unseenBySchema(src, e) {
					t.Errorf("the schema accepts what is refused: %.600s\n%v", src, e)
				}
			}
		}
	}
	t.Logf("%d accepted, %d refused by both, %d by the compiler alone", accepted, refusedByBoth, onlyCompiler)
	if accepted < 500 || refusedByBoth < 500 || onlyCompiler < 20 {
		t.Errorf("%d accepted, %d refused by both, %d by the compiler alone: too few to say anything", accepted, refusedByBoth, onlyCompiler)
	}
}

// unseenBySchema reports whether e is about how an integer is written, or about a
// path too long in bytes.
func unseenBySchema(src []byte, e *manifest.Error) bool {
	token, _, _ := strings.Cut(string(src[e.Offset:]), "}")
	token, _, _ = strings.Cut(token, ",")
	if e.Code == manifest.CodeLimitExceeded {
		return len(token) > mir.MaxPath && utf8.RuneCountInString(token) <= mir.MaxPath+len(`""`)
	}
	n, ok := new(big.Rat).SetString(token)
	return e.Code == manifest.CodeInvalidValue && ok && n.IsInt() && strings.ContainsAny(token, ".eE")
}
