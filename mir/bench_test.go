package mir_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
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

// overlapping returns two policies of n rules each whose trees share most of their
// paths, with a third of the rules for the same targets.
func overlapping(t testing.TB, n int) (a, b *mir.Policy) {
	t.Helper()
	build := func(shift int) *mir.Policy {
		spec := mir.Spec{Mode: mir.ModeDirect, TreeConfinement: mir.Required}
		for i := range n {
			text := fmt.Sprintf("services/team-%02d/module-%04d", i%61, i)
			if i%3 != 0 {
				text += fmt.Sprintf("/src/part-%d", (i*7+shift)%11)
			}
			path, err := mir.NewPath(mir.RootWorkspace, text)
			if err != nil {
				t.Fatal(err)
			}
			spec.Rules = append(spec.Rules, mir.Rule{
				Access:  mir.Access(1 + (i*5+shift)%3),
				Path:    path,
				Scope:   mir.Scope(1 + (i+shift)%2),
				Missing: mir.Missing(1 + i%2),
			})
		}
		p, err := mir.Build(spec)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return build(0), build(1)
}

// BenchmarkRatioAlgebra prints the milliseconds at 4096 rules, and how much more
// the time grows from 512 rules than N log N does.
func BenchmarkRatioAlgebra(b *testing.B) {
	for _, op := range []struct {
		name string
		do   func(x, y *mir.Policy)
	}{
		{"restrict", func(x, y *mir.Policy) {
			if _, err := mir.Restrict(x, y); err != nil {
				b.Fatal(err)
			}
		}},
		{"compare", func(x, y *mir.Policy) { mir.Compare(x, y) }},
	} {
		first := 0.0
		for _, n := range []int{512, 1024, 2048, 4096} {
			x, y := overlapping(b, n)
			b.Run(fmt.Sprintf("%s/%d", op.name, n), func(b *testing.B) {
				for b.Loop() {
					op.do(x, y)
				}
				took := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				unit := took / (float64(n) * math.Log2(float64(n)))
				if n == 512 {
					first = unit
					return
				}
				ratio.Print(os.Stdout, fmt.Sprintf("%s-%d/%s-512-by-NlogN", op.name, n, op.name), unit/first, 2)
				if n == 4096 {
					ratio.Print(os.Stdout, op.name+"-4096-milliseconds", took/1e6, 20)
				}
			})
		}
	}
}
