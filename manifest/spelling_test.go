package manifest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// everyMember is a manifest with every member that there is.
const everyMember = `{
  "$schema": "https://schemas.maelys.dev/mir-source/v2/schema.json",
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": [
      { "access": "read", "path": { "root": "workspace", "relative": "src" }, "scope": "tree", "missing": "error" },
      { "access": "read", "path": { "special": "minimal-runtime" } },
      { "access": "read", "path": { "absolute": "/etc/hosts" } }
    ]
  },
  "network": {
    "mode": "mediated",
    "allow": [ { "protocol": "tcp", "host": "example.com", "port": 443 } ]
  },
  "process": { "treeConfinement": "required" }
}
`

// members says where the first of each name in everyMember stands, and which words
// it takes when those are a set.
var members = []struct {
	name, parent string
	words        []string
}{
	{"$schema", "", []string{manifest.SchemaURL}},
	{"formatVersion", "", nil},
	{"filesystem", "", nil},
	{"default", "/filesystem", []string{"deny"}},
	{"rules", "/filesystem", nil},
	{"access", "/filesystem/rules/0", []string{"read", "write", "deny"}},
	{"path", "/filesystem/rules/0", nil},
	{"root", "/filesystem/rules/0/path", []string{"workspace", "temp"}},
	{"relative", "/filesystem/rules/0/path", nil},
	{"scope", "/filesystem/rules/0", []string{"exact", "tree"}},
	{"missing", "/filesystem/rules/0", []string{"error", "skip"}},
	{"special", "/filesystem/rules/1/path", []string{"minimal-runtime"}},
	{"absolute", "/filesystem/rules/2/path", nil},
	{"network", "", nil},
	{"mode", "/network", []string{"none", "direct", "mediated"}},
	{"allow", "/network", nil},
	{"protocol", "/network/allow/0", []string{"tcp"}},
	{"host", "/network/allow/0", nil},
	{"port", "/network/allow/0", nil},
	{"process", "", nil},
	{"treeConfinement", "/process", []string{"required", "disabled"}},
}

// TestMembers checks that members leaves out none that the schema knows, nor a word.
func TestMembers(t *testing.T) {
	var want []string
	walkProperties(t, func(name string, property map[string]any) {
		want = append(want, name)
		words, _ := property["enum"].([]any)
		if word, ok := property["const"].(string); ok {
			words = []any{word}
		}
		for _, m := range members {
			if m.name == name && fmt.Sprint(m.words) != fmt.Sprint(words) {
				t.Errorf("%s takes %v, want %v", name, m.words, words)
			}
		}
	})
	var got []string
	for _, m := range members {
		got = append(got, m.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the members are %q, the schema has %q", got, want)
	}
	compiled(t, everyMember)
}

// misspellings returns word with each letter removed, and with each two
// neighbouring letters swapped where that makes a difference.
func misspellings(word string) (removed, swapped []string) {
	for i := range word {
		if r := word[:i] + word[i+1:]; !slices.Contains(removed, r) {
			removed = append(removed, r)
		}
		if i > 0 && word[i-1] != word[i] {
			swapped = append(swapped, word[:i-1]+word[i:i+1]+word[i-1:i]+word[i+1:])
		}
	}
	return removed, swapped
}

// TestMisspelledMember checks that no member is passed over because its name is
// almost right, and that the hint names the one that was meant.
func TestMisspelledMember(t *testing.T) {
	for _, m := range members {
		t.Run(m.name, func(t *testing.T) {
			removed, swapped := misspellings(m.name)
			for _, name := range append(removed, swapped...) {
				src := []byte(strings.Replace(everyMember, `"`+m.name+`"`, `"`+name+`"`, 1))
				pointer := m.parent + "/" + name
				list := refused(t, src)
				i := slices.IndexFunc(list, func(e *manifest.Error) bool {
					return e.Code == manifest.CodeUnknownMember && e.Pointer == pointer
				})
				if i < 0 {
					t.Errorf("with %q for %q: %v, want unknown-member at %s", name, m.name, list, pointer)
					continue
				}
				if got, want := list[i].Hint, fmt.Sprintf("did you mean %q?", m.name); got != want {
					t.Errorf("with %q: hint %q, want %q", name, got, want)
				}
				if !strings.HasPrefix(string(src[list[i].Offset:]), `"`+name+`"`) {
					t.Errorf("with %q: offset %d, want that of the name", name, list[i].Offset)
				}
			}
		})
	}
}

// TestMisspelledWord checks that no word is taken for another, in particular not
// for the default of its member.
func TestMisspelledWord(t *testing.T) {
	for _, m := range members {
		for _, word := range m.words {
			t.Run(m.name+" "+word, func(t *testing.T) {
				removed, swapped := misspellings(word)
				odd := []string{"", " " + word, word + " ", word + "\\u0000", word + "\\n", word + "s", word + word}
				if upper := strings.ToUpper(word); upper != word {
					odd = append(odd, upper, upper[:1]+word[1:])
				}
				for _, text := range slices.Concat(removed, swapped, odd) {
					value := regexp.MustCompile(`"` + regexp.QuoteMeta(m.name) + `": "[^"]*"`)
					place := value.FindStringIndex(everyMember)
					src := fmt.Sprintf(`%s"%s": "%s"%s`, everyMember[:place[0]], m.name, text, everyMember[place[1]:])
					list := refused(t, []byte(src))
					if got, want := codes(list), "invalid-value "+m.parent+"/"+m.name; got != want {
						t.Errorf("%s %q: %q, want %q", m.name, text, got, want)
					}
					if slices.Contains(removed, text) && !strings.Contains(list[0].Hint, word) {
						t.Errorf("%s %q: hint %q, want one that names %q", m.name, text, list[0].Hint, word)
					}
				}
			})
		}
	}
}

// quoted matches a JSON string of the manifests here, which have no escapes.
var quoted = regexp.MustCompile(`"([^"]*)"`)

// escapes writes every character of text as an escape of format.
func escapes(text, format string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&b, format, unit)
	}
	return b.String()
}

// escapeAll writes every character of every string in src as an escape of format.
func escapeAll(src, format string) string {
	return quoted.ReplaceAllStringFunc(src, func(s string) string {
		return `"` + escapes(strings.Trim(s, `"`), format) + `"`
	})
}

// TestSpellings checks that every spelling of one decision has one digest, and
// every other decision another.
func TestSpellings(t *testing.T) {
	const rule = `{ "access": "read", "path": { "root": "workspace", "relative": "src" }, "scope": "tree", "missing": "error" }`
	const place = `{ "protocol": "tcp", "host": "example.com", "port": 443 }`
	const read = `"access": "read", "path": { "root": "workspace", "relative": "src" }`
	same := func(old, text string) string { return edit(t, everyMember, old, text) }
	digest := compiled(t, everyMember).Digest()
	var compact strings.Builder
	for field := range strings.FieldsSeq(everyMember) {
		compact.WriteString(field)
	}
	for _, tt := range []struct{ name, src string }{
		{"no white space", compact.String()},
		{"white space around every token", regexp.MustCompile(`"[^"]*"|[0-9]+|[{}\[\],:]`).ReplaceAllString(everyMember, "\t\r\n $0 \n\r\t")},
		{"lines end in CRLF", strings.ReplaceAll(everyMember, "\n", "\r\n")},
		{"lines end in CR", strings.ReplaceAll(everyMember, "\n", "\r")},
		{"every letter escaped", escapeAll(everyMember, `\u%04x`)},
		{"every letter escaped in capitals", escapeAll(everyMember, `\u%04X`)},
		{"slashes escaped", strings.ReplaceAll(everyMember, "/", `\/`)},
		{"no $schema", regexp.MustCompile(`"\$schema": "[^"]*",`).ReplaceAllString(everyMember, "")},
		{"defaults left out", same(`, "scope": "tree", "missing": "error"`, "")},
		{"members of a rule in another order", same(rule, `{ "missing": "error", "scope": "tree", "path": { "relative": "src", "root": "workspace" }, "access": "read" }`)},
		{"members of a destination in another order", same(place, `{ "port": 443, "host": "example.com", "protocol": "tcp" }`)},
		{"network and process first", `{ "process": { "treeConfinement": "required" }, "network": { "allow": [ ` + place + ` ], "mode": "mediated" },` +
			` "filesystem": { "rules": [ ` + rule + `, { "path": { "special": "minimal-runtime" }, "access": "read" },` +
			` { "path": { "absolute": "/etc/hosts" }, "access": "read" } ], "default": "deny" }, "formatVersion": 2 }`},
		{"rules in another order", same(rule+`,
      { "access": "read", "path": { "special": "minimal-runtime" } }`, `{ "access": "read", "path": { "special": "minimal-runtime" } }, `+rule)},
		{"a rule twice", same(rule, rule+", "+rule)},
		{"a rule twice, apart", same(`"/etc/hosts" } }`, `"/etc/hosts" } }, `+rule)},
		{"a destination twice", same(place, place+", "+place)},
		{"a destination twice in other case", same(place, place+", "+strings.Replace(place, "example", "Example", 1))},
		{"host in capitals", same("example.com", "EXAMPLE.COM")},
		{"dot segments", same(`"src"`, `"./src/."`)},
		{"repeated and trailing slashes", same(`"src"`, `".///src//"`)},
		{"absolute with dots and slashes", same(`"/etc/hosts"`, `"//etc/.//hosts/"`)},
	} {
		if got := compiled(t, tt.src).Digest(); got != digest {
			t.Errorf("%s: digest %s, want %s", tt.name, got, digest)
		}
	}

	seen := map[mir.Digest]string{digest: "everyMember"}
	for _, tt := range []struct{ name, src string }{
		{"path in capitals", same(`"src"`, `"SRC"`)},
		{"path with a space", same(`"src"`, `"src "`)},
		{"path with a backslash", same(`"src"`, `"\\src"`)},
		{"path of three dots", same(`"src"`, `"..."`)},
		{"path below", same(`"src"`, `"src/src"`)},
		{"root itself", same(`, "relative": "src"`, "")},
		{"other root", same(`"workspace"`, `"temp"`)},
		{"absolute path", same(`"root": "workspace", "relative": "src"`, `"absolute": "/src"`)},
		{"exact", same(`"tree"`, `"exact"`)},
		{"skip", same(`"error"`, `"skip"`)},
		{"write", same(read, strings.Replace(read, "read", "write", 1))},
		{"deny", same(read, strings.Replace(read, "read", "deny", 1))},
		{"a rule more, exact", same(rule, rule+", "+strings.Replace(rule, "tree", "exact", 1))},
		{"a rule more, skip", same(rule, rule+", "+strings.Replace(rule, "error", "skip", 1))},
		{"a rule less", same(rule+",", "")},
		{"other port", same("443", "444")},
		{"other host", same("example.com", "a.example.com")},
		{"a destination more", same(place, place+", "+strings.Replace(place, "443", "80", 1))},
		{"mode none", same(`"mode": "mediated",
    "allow": [ `+place+" ]", `"mode": "none"`)},
		{"mode direct", same(`"mode": "mediated",
    "allow": [ `+place+" ]", `"mode": "direct"`)},
		{"tree not confined", same(`"required"`, `"disabled"`)},
	} {
		got := compiled(t, tt.src).Digest()
		if other, ok := seen[got]; ok {
			t.Errorf("%s: the digest of %s, %s", tt.name, other, got)
		}
		seen[got] = tt.name
	}
}

// TestPathOrder checks that paths are sorted by their bytes, and not by UTF-16 code
// units, without regard to case, or segment by segment.
func TestPathOrder(t *testing.T) {
	want := []string{
		"!", "-", "A", "Z", "a", "a b", "a!", "a-b", "a.b", "a/b", "a0", "aa", "e\u0301", "z",
		"\u00e9", "\u212a", "\u65e5\u672c", "\ue000", "\uf8ff", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff",
	}
	for _, tt := range []struct {
		name  string
		write func(path string) string
	}{
		{"raw", func(path string) string { return path }},
		{"escaped", func(path string) string { return escapes(path, `\u%04x`) }},
	} {
		var rules []string
		for _, path := range slices.Backward(want) {
			rules = append(rules, `{ "access": "read", "path": { "root": "temp", "relative": "`+tt.write(path)+`" } }`)
		}
		var got []string
		for _, r := range compiled(t, edit(t, strictBase, `"rules": [`, `"rules": [`+strings.Join(rules, ",")+",")).Rules() {
			if r.Path.Root() == mir.RootTemp {
				got = append(got, r.Path.Text())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: paths in order %+q, want %+q", tt.name, got, want)
		}
	}
}

// TestUnicodeIsNotNormalized checks that spellings which look alike stay different
// paths: a host may hold all of them.
func TestUnicodeIsNotNormalized(t *testing.T) {
	for _, tt := range []struct{ name, one, other string }{
		{"NFC and NFD", "caf\u00e9", "cafe\u0301"},
		{"ligature", "\ufb01le", "file"},
		{"full width", "\uff53\uff52\uff43", "src"},
		{"Kelvin sign", "\u212a", "K"},
		{"Hangul syllable and jamo", "\ud55c", "\u1112\u1161\u11ab"},
		{"zero width joiner", "a\u200db", "ab"},
		{"replacement character", "\ufffd", "?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both := `"` + tt.one + `" } }, { "access": "read", "path": { "root": "workspace", "relative": "` + tt.other + `"`
			var got []string
			for _, r := range compiled(t, edit(t, strictBase, `"src"`, both)).Rules() {
				got = append(got, r.Path.Text())
			}
			want := []string{tt.one, tt.other}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("paths %+q, want %+q", got, want)
			}
		})
	}
}
