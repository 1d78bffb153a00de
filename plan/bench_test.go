package plan

import (
	"fmt"
	"math"
	"os"
	"testing"

	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/mir"
)

// overlappingPlans returns two plans of n rules each about trees of one host that share
// most of their paths, in a workspace that lies in a private temp.
func overlappingPlans(b *testing.B, n int) (x, y *Plan) {
	b.Helper()
	files := tree{}
	build := func(shift int) *mir.Policy {
		spec := mir.Spec{Mode: mir.ModeDirect, TreeConfinement: mir.Required}
		for i := range n {
			text := fmt.Sprintf("services/team-%02d/module-%04d", i%61, i)
			if i%3 != 0 {
				text += fmt.Sprintf("/src/part-%d", (i*7+shift)%11)
			}
			path, err := mir.NewPath(mir.RootWorkspace, text)
			if err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				path, _ = mir.NewPath(mir.RootTemp, "")
			}
			spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Access(1 + (i*5+shift)%2), Path: path, Scope: mir.Scope(1 + (i+shift)%2), Missing: mir.MissingError})
			for at := "/tmp/ws/" + text; files[at] == ""; at = parent(at) {
				files[at] = "dir"
			}
		}
		p, err := mir.Build(spec)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	first, second := build(0), build(1)
	resolve := func(p *mir.Policy) *Plan {
		r, err := Resolve(p, Host{Filesystem: files, Workspace: "/tmp/ws"})
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	return resolve(first), resolve(second)
}

// BenchmarkRatioAlgebra prints the milliseconds at 4096 rules, and how much more the
// time grows from 512 rules than N log N does.
func BenchmarkRatioAlgebra(b *testing.B) {
	type pair struct{ x, y *Plan }
	plans := map[int]pair{}
	for _, n := range []int{512, 1024, 2048, 4096} {
		x, y := overlappingPlans(b, n)
		plans[n] = pair{x, y}
	}
	for _, op := range []struct {
		name string
		do   func(x, y *Plan)
	}{
		{"plan-diff", func(x, y *Plan) { Diff(x, y) }},
		{"plan-contains", func(x, y *Plan) { Contains(x, y) }},
		{"plan-overlaps", func(x, y *Plan) { Overlaps(x, y) }},
		{"plan-restrict", func(x, y *Plan) {
			if _, err := Restrict(x, y); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		first := 0.0
		for _, n := range []int{512, 1024, 2048, 4096} {
			b.Run(fmt.Sprintf("%s/%d", op.name, n), func(b *testing.B) {
				for b.Loop() {
					op.do(plans[n].x, plans[n].y)
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
