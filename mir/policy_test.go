package mir_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

func mustHost(t testing.TB, name string) mir.Hostname {
	t.Helper()
	h, err := mir.NewHostname(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustBuild(t testing.TB, spec mir.Spec) *mir.Policy {
	t.Helper()
	p, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestZeroPolicyGrantsNothing(t *testing.T) {
	zero := new(mir.Policy)
	want := mustBuild(t, mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required})
	if !bytes.Equal(zero.Bytes(), want.Bytes()) || zero.Digest() != want.Digest() {
		t.Errorf("Bytes() = %x, want %x", zero.Bytes(), want.Bytes())
	}
	if zero.Mode() != mir.ModeNone || zero.TreeConfinement() != mir.Required || len(zero.Rules()) != 0 || len(zero.Destinations()) != 0 {
		t.Errorf("the zero policy says %s", zero.Inspect())
	}
	if got := zero.Permission(mustPath(t, mir.RootHost, "/")); got != mir.PermitNone {
		t.Errorf("Permission(/) = %s, want none", got)
	}
	if string(zero.Inspect()) != string(want.Inspect()) {
		t.Errorf("Inspect() = %s, want %s", zero.Inspect(), want.Inspect())
	}
}

// TestPolicyIsImmutable changes everything that a policy hands out or was made of.
func TestPolicyIsImmutable(t *testing.T) {
	rules := []mir.Rule{
		{Access: mir.Read, Path: mustPath(t, mir.RootWorkspace, "a"), Scope: mir.Tree, Missing: mir.MissingError},
		{Access: mir.Read, Path: mustPath(t, mir.RootWorkspace, "b"), Scope: mir.Tree, Missing: mir.MissingError},
	}
	destinations := []mir.Destination{{Host: mustHost(t, "a.example"), Port: 1}, {Host: mustHost(t, "b.example"), Port: 1}}
	p := mustBuild(t, mir.Spec{Rules: rules, Mode: mir.ModeMediated, Destinations: destinations, TreeConfinement: mir.Required})
	doc := p.Bytes()
	decoded, err := mir.Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := p.Digest()
	for _, change := range []func(){
		func() { rules[0].Access = mir.Write },
		func() { destinations[0].Port = 2 },
		func() { doc[len(doc)-1] = 'X' },
		func() { p.Bytes()[0] = 0 },
		func() { p.Rules()[0].Access = mir.Write },
		func() { p.Destinations()[0].Port = 2 },
	} {
		change()
		for _, policy := range []*mir.Policy{p, decoded} {
			rebuilt := mustBuild(t, mir.Spec{Rules: policy.Rules(), Mode: policy.Mode(), Destinations: policy.Destinations(), TreeConfinement: policy.TreeConfinement()})
			if policy.Digest() != want || rebuilt.Digest() != want {
				t.Fatalf("the policy changed: %s", policy.Inspect())
			}
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	rule := mir.Rule{Access: mir.Read, Path: mustPath(t, mir.RootWorkspace, "a"), Scope: mir.Tree, Missing: mir.MissingError}
	destination := mir.Destination{Host: mustHost(t, "a.example"), Port: 443}
	many := func(n int) (rules []mir.Rule) {
		for i := range n {
			r := rule
			r.Path = mustPath(t, mir.RootWorkspace, fmt.Sprint(i))
			rules = append(rules, r)
		}
		return rules
	}
	hosts := func(n int) (list []mir.Destination) {
		for i := range n {
			list = append(list, mir.Destination{Host: mustHost(t, fmt.Sprintf("h%d.example", i)), Port: 443})
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		change func(*mir.Spec)
		code   mir.Code
		field  string
	}{
		{"zero access", func(s *mir.Spec) { s.Rules[1].Access = 0 }, mir.CodeInvalidValue, "Rules[1].Access"},
		{"access 4", func(s *mir.Spec) { s.Rules[1].Access = 4 }, mir.CodeInvalidValue, "Rules[1].Access"},
		{"zero path", func(s *mir.Spec) { s.Rules[1].Path = mir.Path{} }, mir.CodeInvalidPath, "Rules[1].Path"},
		{"zero scope", func(s *mir.Spec) { s.Rules[1].Scope = 0 }, mir.CodeInvalidValue, "Rules[1].Scope"},
		{"zero missing", func(s *mir.Spec) { s.Rules[1].Missing = 0 }, mir.CodeInvalidValue, "Rules[1].Missing"},
		{"missing 3", func(s *mir.Spec) { s.Rules[1].Missing = 3 }, mir.CodeInvalidValue, "Rules[1].Missing"},
		{"zero mode", func(s *mir.Spec) { s.Mode = 0 }, mir.CodeInvalidValue, "Mode"},
		{"mode 4", func(s *mir.Spec) { s.Mode = 4 }, mir.CodeInvalidValue, "Mode"},
		{"zero tree confinement", func(s *mir.Spec) { s.TreeConfinement = 0 }, mir.CodeInvalidValue, "TreeConfinement"},
		{"mediated without destination", func(s *mir.Spec) { s.Destinations = nil }, mir.CodeInconsistent, "Destinations"},
		{"none with destination", func(s *mir.Spec) { s.Mode = mir.ModeNone }, mir.CodeInconsistent, "Destinations"},
		{"direct with destination", func(s *mir.Spec) { s.Mode = mir.ModeDirect }, mir.CodeInconsistent, "Destinations"},
		{"zero host", func(s *mir.Spec) { s.Destinations[0].Host = mir.Hostname{} }, mir.CodeInvalidHost, "Destinations[0].Host"},
		{"zero port", func(s *mir.Spec) { s.Destinations[0].Port = 0 }, mir.CodeInvalidValue, "Destinations[0].Port"},
		{"4097 rules", func(s *mir.Spec) { s.Rules = many(mir.MaxRules + 1) }, mir.CodeLimitExceeded, "Rules"},
		{"1025 destinations", func(s *mir.Spec) { s.Destinations = hosts(mir.MaxDestinations + 1) }, mir.CodeLimitExceeded, "Destinations"},
		{"more than 1 MiB", func(s *mir.Spec) { s.Rules = manyLong(t, mir.MaxDocument/mir.MaxPath+1) }, mir.CodeLimitExceeded, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := mir.Spec{
				Rules: []mir.Rule{rule, rule}, Mode: mir.ModeMediated,
				Destinations: []mir.Destination{destination}, TreeConfinement: mir.Required,
			}
			mustBuild(t, spec)
			tt.change(&spec)
			p, err := mir.Build(spec)
			fault, ok := errors.AsType[*mir.SpecError](err)
			if p != nil || !ok || fault.Code != tt.code || fault.Field != tt.field {
				t.Errorf("Build = %v, %v; want code %s in %q", p, err, tt.code, tt.field)
			}
		})
	}
	// The limits count what is left after duplicates collapse.
	full := mir.Spec{
		Rules: append(many(mir.MaxRules), many(mir.MaxRules)...), Mode: mir.ModeMediated,
		Destinations: append(hosts(mir.MaxDestinations), hosts(mir.MaxDestinations)...), TreeConfinement: mir.Disabled,
	}
	if p := mustBuild(t, full); len(p.Rules()) != mir.MaxRules || len(p.Destinations()) != mir.MaxDestinations {
		t.Errorf("%d rules and %d destinations", len(p.Rules()), len(p.Destinations()))
	}
}

// manyLong returns n rules with different paths of the greatest length.
func manyLong(t testing.TB, n int) (rules []mir.Rule) {
	t.Helper()
	for i := range n {
		text := fmt.Sprintf("%08d", i) + strings.Repeat("x", mir.MaxPath-8)
		rules = append(rules, mir.Rule{Access: mir.Read, Path: mustPath(t, mir.RootTemp, text), Scope: mir.Tree, Missing: mir.MissingError})
	}
	return rules
}

// TestDocumentLimit has a document of exactly 1 MiB, and one byte more.
func TestDocumentLimit(t *testing.T) {
	doc := largest(t)
	if len(doc) != mir.MaxDocument {
		t.Fatalf("%d bytes, want %d", len(doc), mir.MaxDocument)
	}
	if _, err := mir.Verify(doc); err != nil {
		t.Fatal(err)
	}
	agree(t, doc)
	_, err := mir.Verify(append(doc, 0))
	fault, ok := errors.AsType[*mir.DecodeError](err)
	if !ok || fault.Code != mir.CodeLimitExceeded || fault.Offset != mir.MaxDocument {
		t.Errorf("one byte more: %v", err)
	}
	// A policy that would encode to one byte more.
	p, err := mir.Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	rules := p.Rules()
	rules[0].Path = mustPath(t, mir.RootWorkspace, rules[0].Path.Text()+"z")
	_, err = mir.Build(mir.Spec{Rules: rules, Mode: p.Mode(), Destinations: p.Destinations(), TreeConfinement: p.TreeConfinement()})
	if fault, ok := errors.AsType[*mir.SpecError](err); !ok || fault.Code != mir.CodeLimitExceeded {
		t.Errorf("Build of one byte more: %v", err)
	}
}

func TestVerifyDoesNotAllocate(t *testing.T) {
	docs := map[string][]byte{"largest": largest(t)}
	maps.Copy(docs, readAll(t, "mir-valid"))
	for name, doc := range docs {
		allocations := testing.AllocsPerRun(10, func() {
			if _, err := mir.Verify(doc); err != nil {
				t.Fatal(err)
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocations)
		}
	}
}

// TestHugeCounts has headers and records that promise far more than there is.
func TestHugeCounts(t *testing.T) {
	header := func(rules, destinations string) []byte {
		return []byte("MMIR\x00\x02\x00\x00" + rules + "\x03\x01\x00\x00" + destinations)
	}
	for name, doc := range map[string][]byte{
		"rules":        header("\x00\x00\x10\x00", "\x00\x00\x04\x00"),
		"path":         append(header("\x00\x00\x10\x00", "\x00\x00\x04\x00"), "\x01\x01\x02\x02\x01\x00\x00\x00\x00\x00\x10\x00"...),
		"destinations": header("\x00\x00\x00\x00", "\x00\x00\x04\x00"),
	} {
		agree(t, doc)
		if allocated := testing.AllocsPerRun(10, func() { _, _ = mir.Decode(doc) }); allocated > 10 {
			t.Errorf("%s: %v allocations to refuse %d bytes", name, allocated, len(doc))
		}
	}
}

func TestPathLimits(t *testing.T) {
	at := strings.Repeat("a/", mir.MaxPath/2-1) + "ab"
	for _, tt := range []struct {
		name, text string
		code       mir.Code
	}{
		{"4096 bytes", at, ""},
		{"4097 bytes", at + "c", mir.CodeLimitExceeded},
		{"4097 bytes that would shrink", at + "/", mir.CodeLimitExceeded},
		{"4096 bytes of two-byte letters", strings.Repeat("é", mir.MaxPath/2), ""},
		{"4098 bytes of two-byte letters", strings.Repeat("é", mir.MaxPath/2+1), mir.CodeLimitExceeded},
	} {
		_, err := mir.NewPath(mir.RootTemp, tt.text)
		fault, _ := errors.AsType[*mir.SpecError](err)
		if (err == nil) != (tt.code == "") || fault != nil && fault.Code != tt.code {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.code)
		}
	}
	for _, root := range []mir.Root{0, 5, 255} {
		if p, err := mir.NewPath(root, "a"); err == nil {
			t.Errorf("NewPath(%d, a) = %v, want an error", root, p)
		}
	}
}

// The definition of a hostname, as an expression and a second one for what a
// resolver could take for an address.
var (
	hostnameForm = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\z`)
	addressForm  = regexp.MustCompile(`(\A|\.)([0-9]+|0x[0-9a-f]*)\z`)
)

func checkHostname(t *testing.T, name string) {
	t.Helper()
	lower := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 32
		}
		return r
	}, name)
	want := len(name) <= mir.MaxHostname && hostnameForm.MatchString(lower) && !addressForm.MatchString(lower)
	h, err := mir.NewHostname(name)
	if (err == nil) != want || want && h.String() != lower {
		t.Fatalf("NewHostname(%q) = %q, %v; want valid: %v", name, h, err, want)
	}
	if fault, ok := errors.AsType[*mir.SpecError](err); err != nil && (!ok || fault.Code != mir.CodeInvalidHost) {
		t.Fatalf("NewHostname(%q): %v, want code %s", name, err, mir.CodeInvalidHost)
	}
}

// TestHostnameForm holds NewHostname to the definition on every name over a small
// alphabet and on long random ones.
func TestHostnameForm(t *testing.T) {
	var all func(prefix string, depth int)
	all = func(prefix string, depth int) {
		checkHostname(t, prefix)
		if depth > 0 {
			for _, c := range []string{"a", "f", "x", "0", "9", "-", ".", "A", "_", "é"} {
				all(prefix+c, depth-1)
			}
		}
	}
	depth := 5
	if testing.Short() {
		depth = 4
	}
	all("", depth)
	random := rand.New(rand.NewPCG(15, 16))
	for range rounds(50_000) {
		var labels []string
		for range random.IntN(8) {
			labels = append(labels, strings.Repeat(string("az09-x"[random.IntN(6)]), int(math.Abs(random.NormFloat64())*30)))
		}
		checkHostname(t, strings.Join(labels, "."))
		checkHostname(t, "a"+strings.Join(labels, "a.b")+"a")
	}
	for _, name := range []string{
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "ab",
		"127.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.2.3.4.", "example.123", "example.0x", "0x", "0xg", "1a", "[::1]", "::1",
		"\u212a.example", "K.example", "a\x00b", "a.example\n", "*.example", "*",
	} {
		checkHostname(t, name)
	}
}

// TestNames has every value of every enumeration, and one that is none.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		fmt.Sprint(mir.Read, mir.Write, mir.Deny, mir.Access(0), mir.Access(9)):                       "read write deny invalid(0) invalid(9)",
		fmt.Sprint(mir.RootRuntime, mir.RootWorkspace, mir.RootTemp, mir.RootHost, mir.Root(6)):       "minimal-runtime workspace temp host invalid(6)",
		fmt.Sprint(mir.Exact, mir.Tree, mir.MissingError, mir.MissingSkip):                            "exact tree error skip",
		fmt.Sprint(mir.ModeNone, mir.ModeDirect, mir.ModeMediated, mir.Required, mir.Disabled):        "none direct mediated required disabled",
		fmt.Sprint(mir.PermitNone, mir.PermitRead, mir.PermitReadWrite, mir.ExtentBeneath):            "none read read-write beneath",
		mustPath(t, mir.RootWorkspace, "a").String() + " " + mustPath(t, mir.RootHost, "/b").String(): "workspace:a /b",
		mir.Destination{Host: mustHost(t, "A.example"), Port: 443}.String():                           "a.example:443",
		(&mir.SpecError{Code: mir.CodeInvalidPath, Field: "Rules[0].Path", Message: "what"}).Error():  "mir: Rules[0].Path: what [invalid-path]",
		(&mir.DecodeError{Code: mir.CodeTruncated, Offset: 7, Message: "what"}).Error():               "mir: offset 7: what [truncated]",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
