package mir_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/mir"
)

// largest returns a policy at every limit at once: 4096 rules and 1024
// destinations that encode to exactly 1 MiB.
func largest(t testing.TB) []byte {
	t.Helper()
	build := func(size int) *mir.Policy {
		spec := mir.Spec{Mode: mir.ModeMediated, TreeConfinement: mir.Required}
		for i := range mir.MaxRules {
			text := fmt.Sprintf("services/team-%02d/.config/module_%03d/src", i%61, i)
			// Segments of ordinary length up to the size wanted; the last rule takes the rest.
			for n := 0; len(text) < size-12; n++ {
				text += fmt.Sprintf("/pkg%d.internal"[:min(14, size-len(text))], n%10)
			}
			text = (text + strings.Repeat("x", size))[:size]
			text = strings.TrimSuffix(text, "/") + strings.Repeat("x", len(text)-len(strings.TrimSuffix(text, "/")))
			path, err := mir.NewPath(mir.RootWorkspace, text)
			if err != nil {
				t.Fatal(err)
			}
			spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Read, Path: path, Scope: mir.Tree, Missing: mir.MissingSkip})
		}
		for i := range mir.MaxDestinations {
			host, err := mir.NewHostname(fmt.Sprintf("node-%04d.region-%d.cluster.example.com", i, i%7))
			if err != nil {
				t.Fatal(err)
			}
			spec.Destinations = append(spec.Destinations, mir.Destination{Host: host, Port: 443})
		}
		p, err := mir.Build(spec)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	small := len(build(100).Bytes())
	p := build(100 + (mir.MaxDocument-small)/mir.MaxRules)
	// Pad one path to the byte.
	rules := p.Rules()
	rest := mir.MaxDocument - len(p.Bytes())
	longer, err := mir.NewPath(mir.RootWorkspace, rules[0].Path.Text()+strings.Repeat("y", rest))
	if err != nil {
		t.Fatal(err)
	}
	rules[0].Path = longer
	p, err = mir.Build(mir.Spec{Rules: rules, Mode: p.Mode(), Destinations: p.Destinations(), TreeConfinement: p.TreeConfinement()})
	if err != nil {
		t.Fatal(err)
	}
	return p.Bytes()
}

func BenchmarkRatioVerify(b *testing.B) {
	doc := largest(b)
	ratio.Measure(b, "verify-1MiB/sha256", 1.35,
		func() {
			if _, err := mir.Verify(doc); err != nil {
				b.Fatal(err)
			}
		},
		func() { sha256.Sum256(doc) })
}
