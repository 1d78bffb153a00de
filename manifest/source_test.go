package manifest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// frame is a manifest with rules and a network policy.
func frame(rules, network string) []byte {
	return []byte(`{"formatVersion":2,"filesystem":{"default":"deny","rules":[` + rules + `]},"network":` + network + `,"process":{"treeConfinement":"required"}}`)
}

func TestSourceRules(t *testing.T) {
	const (
		readA   = `{"access":"read","path":{"root":"workspace","relative":"a"}}`
		writeA  = `{"access":"write","path":{"root":"workspace","relative":"./a/"}}`
		exactA  = `{"access":"read","path":{"root":"workspace","relative":"a"},"scope":"exact"}`
		skipA   = `{"access":"read","path":{"root":"workspace","relative":"a"},"missing":"skip"}`
		readB   = `{"access":"read","path":{"root":"workspace","relative":"b"}}`
		runtime = `{"access":"read","path":{"special":"minimal-runtime"}}`
	)
	for _, tt := range []struct {
		name  string
		rules []string
		want  string // of each rule of the policy, those of the manifest
	}{
		{"none", nil, ""},
		{"in order", []string{runtime, readA, readB}, "[0] [1] [2]"},
		{"in another order", []string{readB, readA, runtime}, "[2] [1] [0]"},
		{"twice", []string{readA, readB, readA}, "[0 2] [1]"},
		{"weaker ones after", []string{readA, writeA, readA, writeA}, "[1 3 0 2]"},
		{"other targets stay apart", []string{readA, skipA, exactA}, "[2] [0] [1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := manifest.Parse(frame(strings.Join(tt.rules, ","), `{"mode":"none"}`))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range s.Policy().Rules() {
				var from []string
				for _, p := range s.Rule(i) {
					from = append(from, strings.TrimPrefix(p.Pointer, "/filesystem/rules/"))
				}
				got = append(got, fmt.Sprint(from))
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("%s, want %s", text, tt.want)
			}
		})
	}
}

func TestSourceNetwork(t *testing.T) {
	src := frame("", "{\r\n \"mode\": \"mediated\", \"allow\": [\r\n"+
		"  {\"protocol\":\"tcp\",\"host\":\"b.example\",\"port\":1},\r\n"+
		"  {\"protocol\":\"tcp\",\"host\":\"A.example\",\"port\":1}, {\"protocol\":\"tcp\",\"host\":\"a.EXAMPLE\",\"port\":1}]}")
	s, err := manifest.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		pointer      string
		line, column int
	}{{"/network/allow/1", 4, 3}, {"/network/allow/0", 3, 3}} {
		if p := s.Destination(i); p.Pointer != want.pointer || p.Line != want.line || p.Column != want.column || src[p.Offset] != '{' {
			t.Errorf("destination %d is at %+v, want %+v", i, p, want)
		}
	}
	if p := s.Mode(); p.Pointer != "/network/mode" || p.Line != 2 || p.Column != 10 || !bytes.HasPrefix(src[p.Offset:], []byte(`"mediated"`)) {
		t.Errorf("the mode is at %+v", p)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, src := range []string{"", "{", string(frame(`{"access":"grant","path":{"root":"temp"}},{}`, `{"mode":"none"}`)), strings.Repeat(" ", manifest.MaxSize+1)} {
		_, want := manifest.Compile([]byte(src))
		s, err := manifest.Parse([]byte(src))
		if s != nil || want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("%.40q: %v, want %v", src, err, want)
		}
	}
}

// checkSource holds the places of a source to what a JSON library finds in it.
func checkSource(t *testing.T, src []byte) {
	t.Helper()
	s, err := manifest.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := manifest.Compile(src)
	if err != nil || compiled.Digest() != s.Policy().Digest() {
		t.Fatalf("Parse and Compile give two policies (%v)", err)
	}
	var said struct {
		Filesystem struct{ Rules []json.RawMessage }
		Network    struct{ Allow []json.RawMessage }
	}
	if err := json.Unmarshal(src, &said); err != nil {
		t.Fatal(err)
	}
	at := func(p manifest.Place, pointer string, list []json.RawMessage) int {
		t.Helper()
		var i int
		if _, err := fmt.Sscanf(p.Pointer, pointer+"%d", &i); err != nil || i >= len(list) {
			t.Fatalf("%+v points nowhere (%v)", p, err)
		}
		before := src[:p.Offset]
		if !bytes.HasPrefix(src[p.Offset:], list[i]) || p.Line != 1+bytes.Count(before, []byte("\n")) || p.Column != p.Offset-bytes.LastIndexByte(before, '\n') {
			t.Fatalf("%+v is not where %s stands", p, list[i])
		}
		return i
	}
	var seen []int
	for i, r := range s.Policy().Rules() {
		for _, p := range s.Rule(i) {
			n := at(p, "/filesystem/rules/", said.Filesystem.Rules)
			seen = append(seen, n)
			alone, err := manifest.Compile(frame(string(said.Filesystem.Rules[n]), `{"mode":"none"}`))
			if err != nil {
				t.Fatal(err)
			}
			one := alone.Rules()[0]
			if one.Path != r.Path || one.Scope != r.Scope || one.Missing != r.Missing || one.Access > r.Access {
				t.Fatalf("rule %d is %+v, and %s is said to have become it", i, r, said.Filesystem.Rules[n])
			}
		}
		if first := s.Rule(i); len(first) == 0 {
			t.Fatalf("rule %d stands nowhere", i)
		}
	}
	slices.Sort(seen)
	for i, n := range seen {
		if i != n || len(seen) != len(said.Filesystem.Rules) {
			t.Fatalf("the rules are from %v, want each of %d once", seen, len(said.Filesystem.Rules))
		}
	}
	for i, d := range s.Policy().Destinations() {
		n := at(s.Destination(i), "/network/allow/", said.Network.Allow)
		if !strings.Contains(strings.ToLower(string(said.Network.Allow[n])), d.Host.String()) {
			t.Fatalf("destination %s is not %s", d, said.Network.Allow[n])
		}
	}
}

// TestSourceOfVectors finds the places of every valid vector.
func TestSourceOfVectors(t *testing.T) {
	for name, src := range readAll(t, filepath.Join(vectors, "manifest-valid"), ".json") {
		t.Run(name, func(t *testing.T) { checkSource(t, src) })
	}
}

// randomSpec is what the generator of the fuzz test makes of random bytes, without
// paths that no manifest can say.
func randomSpec(random *rand.Rand) mir.Spec {
	data := make([]byte, 200)
	for i := range data {
		data[i] = byte(random.UintN(256))
	}
	data[2] %= 32 // rules
	spec := makeSpec(data)
	spec.Rules = slices.DeleteFunc(spec.Rules, func(r mir.Rule) bool { return r.Path.Root() == mir.RootRuntime && r.Path.Text() != "" })
	if spec.Mode == mir.ModeMediated && len(spec.Destinations) == 0 {
		spec.Mode = mir.ModeNone
	}
	return spec
}

// TestSourceOfRandom writes rules in any order, with duplicates and white space.
func TestSourceOfRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(61, 62))
	rules := 0
	for range 500 {
		spec := randomSpec(random)
		spec.Rules = append(spec.Rules, spec.Rules[:len(spec.Rules)/2]...)
		random.Shuffle(len(spec.Rules), func(i, j int) { spec.Rules[i], spec.Rules[j] = spec.Rules[j], spec.Rules[i] })
		var lines []string
		for _, r := range spec.Rules {
			r.Access = mir.Access(1 + random.IntN(3))
			line, err := manifest.FormatRule(r)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, strings.Repeat(" \n", random.IntN(3))+line)
			rules++
		}
		network := `{"mode":"none"}`
		if len(spec.Destinations) > 0 {
			var allow []string
			for _, d := range append(spec.Destinations, spec.Destinations[0]) {
				allow = append(allow, manifest.FormatDestination(d))
			}
			network = `{"mode":"mediated","allow":[` + strings.Join(allow, ",\n") + `]}`
		}
		checkSource(t, frame(strings.Join(lines, ","), network))
	}
	if rules < 1000 {
		t.Errorf("only %d rules were tried", rules)
	}
}

// TestFormatRule compiles single rules back.
func TestFormatRule(t *testing.T) {
	random := rand.New(rand.NewPCG(63, 64))
	tried := 0
	for range 2000 {
		spec := randomSpec(random)
		for _, r := range spec.Rules {
			line, err := manifest.FormatRule(r)
			if err != nil || strings.Contains(line, "\n") {
				t.Fatalf("%+v: %q, %v", r, line, err)
			}
			p, err := manifest.Compile(frame(line, `{"mode":"none"}`))
			if err != nil || len(p.Rules()) != 1 || p.Rules()[0] != r {
				t.Fatalf("%+v is written as %s, which is %v (%v)", r, line, p, err)
			}
			tried++
		}
		for _, d := range spec.Destinations {
			line := manifest.FormatDestination(d)
			p, err := manifest.Compile(frame("", `{"mode":"mediated","allow":[`+line+`]}`))
			if err != nil || strings.Contains(line, "\n") || p.Destinations()[0] != d {
				t.Fatalf("%s is written as %s (%v)", d, line, err)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d rules were tried", tried)
	}
	path, err := mir.NewPath(mir.RootRuntime, "lib")
	if err != nil {
		t.Fatal(err)
	}
	var fault *manifest.FormatError
	if line, err := manifest.FormatRule(mir.Rule{Access: mir.Read, Path: path, Scope: mir.Tree, Missing: mir.MissingError}); !errors.As(err, &fault) {
		t.Errorf("a path below minimal-runtime is written as %q, %v", line, err)
	}
}
