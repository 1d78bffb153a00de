package manifest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// surrogate matches the escape of half a character.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// FuzzCompile holds whatever is compiled to the documentation of the package, with
// encoding/json as the second opinion on what is JSON.
func FuzzCompile(f *testing.F) {
	for _, src := range sources(f) {
		f.Add(src)
	}
	for _, src := range readAll(f, vectors+"/manifest-invalid", ".json") {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		kept := bytes.Clone(src)
		p, err := manifest.Compile(src)
		if !bytes.Equal(src, kept) {
			t.Error("Compile writes into its source")
		}
		if err == nil {
			checkCompiled(t, src, p)
			return
		}
		list := refused(t, src)
		isJSON := json.Valid(src) && utf8.Valid(src)
		reachedEnd := true
		for _, e := range list {
			if !slices.Contains(everyCode, e.Code) {
				t.Errorf("%v: unknown code", e)
			}
			if e.Code == manifest.CodeSyntax || e.Code == manifest.CodeLimitExceeded {
				reachedEnd = false
			}
			if e.Code == manifest.CodeSyntax && isJSON && !surrogate.Match(src) {
				t.Errorf("Compile(%q) = %v, want no syntax error: it is JSON", src, e)
			}
		}
		if reachedEnd && !isJSON {
			t.Errorf("Compile(%q) = %v, want a syntax error: it is not JSON", src, list)
		}
		findings, err := manifest.Lint(src)
		var again manifest.Errors
		if findings != nil || !errors.As(err, &again) || codes(again) != codes(list) {
			t.Errorf("Lint(%q) = %v, %v; want the errors of Compile, %v", src, findings, err, list)
		}
	})
}

func checkCompiled(t *testing.T, src []byte, p *mir.Policy) {
	if !json.Valid(src) || !utf8.Valid(src) {
		t.Errorf("Compile(%q) accepts what is not JSON", src)
	}
	if digest, err := mir.Verify(p.Bytes()); err != nil || digest != p.Digest() {
		t.Errorf("Verify of the bytes of Compile(%q) = %s, %v; want %s", src, digest, err, p.Digest())
	}
	formatsBack(t, src)
	linted(t, string(src))
}

// FuzzFormat writes policies as manifests and compiles those. The policies are
// data as MIR, or else are made up by a generator that data drives.
func FuzzFormat(f *testing.F) {
	for _, folder := range []string{"manifest-valid", "mir-valid"} {
		for _, doc := range readAll(f, vectors+"/"+folder, ".mir") {
			f.Add(doc)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		f.Add([]byte(made[name]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := mir.Decode(data)
		if err != nil {
			if p, err = mir.Build(makeSpec(data)); err != nil {
				return
			}
		}
		text, err := manifest.Format(p)
		var fault *manifest.FormatError
		switch {
		case err == nil:
			again, err := manifest.Compile(text)
			if err != nil || !bytes.Equal(again.Bytes(), p.Bytes()) {
				t.Fatalf("Compile(Format(p)) = %v, want p:\n%s\n%s", err, text, p.Inspect())
			}
			formatsBack(t, text)
		case text != nil || !errors.As(err, &fault):
			t.Errorf("Format = %q, %v; want a FormatError", text, err)
		case fault.Rule >= 0:
			if path := p.Rules()[fault.Rule].Path; path.Root() != mir.RootRuntime || path.Text() == "" {
				t.Errorf("Format = %v, although a manifest can say %s", err, path)
			}
		case compactSize(p) <= manifest.MaxSize:
			t.Errorf("Format = %v, although %d bytes are enough", err, compactSize(p))
		}
	})
}

// compactSize returns a number of bytes in which a manifest can say p.
func compactSize(p *mir.Policy) int {
	const around = `{"formatVersion":2,"filesystem":{"default":"deny","rules":[]},"network":{"mode":"mediated","allow":[]},` +
		`"process":{"treeConfinement":"required"}}`
	quoted := func(s string) int {
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(s); err != nil {
			panic(err)
		}
		return b.Len() // the quotes, and a line break for the comma
	}
	size := len(around)
	for _, r := range p.Rules() {
		size += len(`{"access":"write","path":{"root":"workspace","relative":}},"scope":"exact","missing":"skip"`) + quoted(r.Path.Text())
	}
	for _, d := range p.Destinations() {
		size += len(`{"protocol":"tcp","host":,"port":65535},`) + quoted(d.Host.String())
	}
	return size
}

// made are inputs of the generator that show what it can do.
var made = map[string]string{
	"nothing":                "",
	"one rule":               "\x00\x00\x01\x00\x01\x00\x00\x01\x02\x00",
	"every root":             "\x00\x00\x04" + "\x00\x00\x00\x00\x00" + "\x01\x01\x01\x01\x01\x05" + "\x02\x02\x00\x00\x01\x06" + "\x00\x03\x01\x00\x02\x07\x08",
	"below the runtime":      "\x00\x00\x01\x00\x00\x00\x00\x02\x01\x02",
	"destinations":           "\x01\x01\x00\x02" + "\x00\x00\x00\x50" + "\x02\x00\x01\xbb" + "\x03\x07\x03a-b\x1f\x90",
	"odd segments":           "\x02\x00\x03\x00\x01\x00\x00\x06\x09\x0a\x0b\x0c\x0d\x0e\x01\x01\x01\x01\x06\x0f\x10\x11\x12\x13\x14\x00\x01\x00\x01\x05\x15\x16\x17\x18\x19",
	"characters of its own":  "\x00\x00\x02\x00\x01\x00\x00\x02\xfe\x03\x01\x7f\x1b\xfe\x04caf\xc3\x00\x01\x00\x00\x01\xff\x03a\\\"",
	"too large for spaces":   "\x00\x00\xff\x00\x01\x00\x00\x01\xfd\xa0",
	"too large":              "\x00\x00\xff\x02\x01\x01\x01\x01\xfd\xf0",
	"many rules, one access": "\x00\x00\xfe\x00\x01\x00\x00\x02\xfd\x10\x04",
}

// segments are names of files that are easy to get wrong, and some that no path has.
var segments = []string{
	"a", "b", "a-b", "a.b", "A", "...", "..a", "a..", " ", "\"", "\\", "\n", "\t\r", "\x01\x1f", "\x7f", "\u0085", "é", "e\u0301",
	"\u2028\u2029", "\ufeff", "\uffff", "\U00010000", "\U0010ffff", "<&>", "${HOME}", "*", "~", "", ".", "..", "\x00", "\xff", "\xed\xa0\x80",
}

var hostnames = []string{"a", "example.com", "EXAMPLE.com", "a-b.example", "xn--bcher-kva.example", "1a.example", "a.0xg", "a.1", "a_b", "."}

// A maker reads what to make from bytes, and zeros after their end.
type maker []byte

func (m *maker) next(n int) int {
	if len(*m) == 0 {
		return 0
	}
	b := (*m)[0]
	*m = (*m)[1:]
	return int(b) % n
}

func (m *maker) text() string {
	n := min(m.next(256), len(*m))
	s := string((*m)[:n])
	*m = (*m)[n:]
	return s
}

// path returns a path of the given root, one of many when number is not zero, or
// false when what it made up is no path.
func (m *maker) path(root mir.Root, number int) (mir.Path, bool) {
	var parts []string
	for range m.next(8) {
		switch n := m.next(256); n {
		case 255, 254:
			parts = append(parts, strings.ToValidUTF8(m.text(), "\ufffd"))
		case 253:
			parts = append(parts, strings.Repeat("x", m.next(256)))
		default:
			parts = append(parts, segments[n%len(segments)])
		}
	}
	text := strings.Join(parts, "/")
	if root == mir.RootHost {
		text = "/" + text
	}
	if number > 0 {
		text += strconv.Itoa(number)
	}
	path, err := mir.NewPath(root, text)
	return path, err == nil
}

// makeSpec makes up a spec. Two of the bytes that say how many rules there are stand
// for thousands, which differ in their paths.
func makeSpec(data []byte) mir.Spec {
	m := maker(data)
	spec := mir.Spec{Mode: []mir.Mode{mir.ModeNone, mir.ModeMediated, mir.ModeDirect}[m.next(3)], TreeConfinement: mir.TreeConfinement(1 + m.next(2))}
	count := m.next(256)
	many := 1
	if count >= 254 {
		count, many = 1, 4096-(255-count)*3000
	}
	for range min(count, 32) {
		rule := mir.Rule{Access: mir.Access(1 + m.next(3))}
		root := mir.Root(1 + m.next(4))
		rule.Scope, rule.Missing = mir.Scope(1+m.next(2)), mir.Missing(1+m.next(2))
		rest := m
		for number := range many {
			m = rest
			if path, ok := m.path(root, number); ok {
				rule.Path = path
				spec.Rules = append(spec.Rules, rule)
			}
		}
	}
	if spec.Mode != mir.ModeMediated {
		return spec
	}
	for range 1 + m.next(8) {
		name := hostnames[m.next(len(hostnames))]
		if m.next(8) == 7 {
			name = m.text() + ".example"
		}
		if host, err := mir.NewHostname(name); err == nil {
			spec.Destinations = append(spec.Destinations, mir.Destination{Host: host, Port: uint16(max(1, m.next(256)<<8|m.next(256)))})
		}
	}
	return spec
}

// TestMakeSpec checks that the generator reaches what it is for: a fuzz test that
// returns early on everything proves nothing.
func TestMakeSpec(t *testing.T) {
	for _, tt := range []struct {
		name         string
		rules, hosts int
		format       string // how the policy is written
	}{
		{"nothing", 0, 0, "pretty"},
		{"one rule", 1, 0, "pretty"},
		{"every root", 4, 0, "pretty"},
		{"below the runtime", 1, 0, "rule"},
		{"destinations", 0, 3, "pretty"},
		{"odd segments", 3, 0, "pretty"},
		{"characters of its own", 2, 0, "pretty"},
		{"too large for spaces", 4096, 0, "compact"},
		{"too large", 4096, 0, "size"},
		{"many rules, one access", 1096, 0, "pretty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := built(t, makeSpec([]byte(made[tt.name])))
			if rules, hosts := len(p.Rules()), len(p.Destinations()); rules != tt.rules || hosts != tt.hosts {
				t.Errorf("%d rules and %d destinations, want %d and %d", rules, hosts, tt.rules, tt.hosts)
			}
			text, err := manifest.Format(p)
			var fault *manifest.FormatError
			got := "compact"
			switch {
			case errors.As(err, &fault) && fault.Rule >= 0:
				got = "rule"
			case errors.As(err, &fault):
				got = "size"
			case strings.Contains(string(text), "\n"):
				got = "pretty"
			}
			if got != tt.format {
				t.Errorf("Format = %d bytes, %v: %s, want %s", len(text), err, got, tt.format)
			}
		})
	}
}
