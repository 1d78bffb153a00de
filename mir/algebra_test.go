package mir_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// The names of random paths. Some are prefixes of others, and some sort around
// the slash, so that byte order and tree order differ.
var names = []string{"a", "b", "a-b", "a0"}

func mustPath(t testing.TB, root mir.Root, text string) mir.Path {
	t.Helper()
	p, err := mir.NewPath(root, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func randomPolicy(t testing.TB, random *rand.Rand, rules int) *mir.Policy {
	t.Helper()
	spec := mir.Spec{
		Mode:            mir.Mode(1 + random.IntN(3)),
		TreeConfinement: mir.TreeConfinement(1 + random.IntN(2)),
	}
	for range random.IntN(rules + 1) {
		root := []mir.Root{mir.RootWorkspace, mir.RootHost}[random.IntN(2)]
		var segments []string
		for range random.IntN(4) {
			segments = append(segments, names[random.IntN(len(names))])
		}
		text := strings.Join(segments, "/")
		if root == mir.RootHost {
			text = "/" + text
		}
		spec.Rules = append(spec.Rules, mir.Rule{
			Access:  mir.Access(1 + random.IntN(3)),
			Path:    mustPath(t, root, text),
			Scope:   mir.Scope(1 + random.IntN(2)),
			Missing: mir.Missing(1 + random.IntN(2)),
		})
	}
	if spec.Mode == mir.ModeMediated {
		for range 1 + random.IntN(4) {
			host, err := mir.NewHostname(names[random.IntN(2)] + ".example.com")
			if err != nil {
				t.Fatal(err)
			}
			spec.Destinations = append(spec.Destinations, mir.Destination{Host: host, Port: uint16(1 + random.IntN(3))})
		}
	}
	p, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// universe is every path of up to four segments over the names and one that no
// policy has, below both roots that random policies use.
func universe(t testing.TB) []mir.Path {
	t.Helper()
	var all []mir.Path
	var grow func(text string, depth int)
	grow = func(text string, depth int) {
		all = append(all, mustPath(t, mir.RootWorkspace, text), mustPath(t, mir.RootHost, "/"+text))
		if depth == 0 {
			return
		}
		for _, name := range append([]string{"other"}, names...) {
			grow(strings.TrimPrefix(text+"/"+name, "/"), depth-1)
		}
	}
	grow("", 4)
	return all
}

// slowPermission is the permission contract, said as plainly as can be, in a
// world where cut and all beneath it is missing at the launch; "" for no cut.
func slowPermission(p *mir.Policy, path mir.Path, cut *mir.Path) mir.Permission {
	granted := mir.PermitNone
	for _, r := range p.Rules() {
		if cut != nil && beneathOrAt(*cut, r.Path) {
			if r.Missing == mir.MissingError {
				return mir.PermitNone // the policy is refused
			}
			continue
		}
		if r.Path != path && (r.Scope == mir.Exact || !beneathOrAt(r.Path, path)) {
			continue
		}
		switch {
		case r.Access == mir.Deny:
			return mir.PermitNone
		case r.Access == mir.Write:
			granted = mir.PermitReadWrite
		case granted == mir.PermitNone:
			granted = mir.PermitRead
		}
	}
	return granted
}

func beneathOrAt(outer, inner mir.Path) bool {
	o, i := strings.Trim(outer.Text(), "/")+"/", strings.Trim(inner.Text(), "/")+"/"
	return outer.Root() == inner.Root() && (o == "/" || strings.HasPrefix(i, o))
}

// slowAbsent is the most that p can permit on path in any world where path, or a
// directory above it, is missing at the launch, or none is.
func slowAbsent(t testing.TB, p *mir.Policy, path mir.Path) mir.Permission {
	most := slowPermission(p, path, nil)
	text := path.Text()
	for text != "" && text != "/" {
		cut := mustPath(t, path.Root(), text)
		most = max(most, slowPermission(p, path, &cut))
		i := strings.LastIndexByte(text, '/')
		text = text[:max(i, 0)]
		if text == "" && path.Root() == mir.RootHost {
			text = "/"
		}
	}
	return most
}

func TestPermission(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	paths := universe(t)
	for range rounds(300) {
		p := randomPolicy(t, random, 8)
		for _, path := range paths {
			if got, want := p.Permission(path), slowPermission(p, path, nil); got != want {
				t.Fatalf("%s: Permission(%s) = %s, want %s", p.Inspect(), path, got, want)
			}
		}
	}
}

// TestCompareIsExact checks every path of the universe against the regions: it
// lies in one that changed, by that amount, exactly when the permission changed.
func TestCompareIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	paths := universe(t)
	for range rounds(1000) {
		before, after := randomPolicy(t, random, 8), randomPolicy(t, random, 8)
		c := mir.Compare(before, after)
		for _, path := range paths {
			b, a := slowPermission(before, path, nil), slowPermission(after, path, nil)
			checkRegions(t, c, path, false, b, a)
			bAbsent, aAbsent := slowAbsent(t, before, path), slowAbsent(t, after, path)
			if bAbsent == b && aAbsent == a {
				bAbsent, aAbsent = 0, 0 // nothing that the first question does not say
			}
			checkRegions(t, c, path, true, bAbsent, aAbsent)
		}
		for widened, list := range map[bool][]mir.Change{true: c.Widened, false: c.Narrowed} {
			for _, change := range list {
				checkChange(t, before, after, widened, change)
			}
		}
		if got, want := modes(c), before.Mode() != after.Mode(); got != want {
			t.Fatalf("mode changed: %v, want %v", got, want)
		}
		checkDestinations(t, c, before, after)
	}
}

func checkRegions(t *testing.T, c mir.Comparison, path mir.Path, absent bool, before, after mir.Permission) {
	t.Helper()
	want := ""
	if before != after {
		want = fmt.Sprint(before < after, before, after)
	}
	got := ""
	for widened, list := range map[bool][]mir.Change{true: c.Widened, false: c.Narrowed} {
		for _, change := range list {
			if change, ok := change.(mir.PathChange); ok && change.IfAbsent == absent && change.Region.Contains(path) {
				got += fmt.Sprint(widened, change.Before, change.After)
			}
		}
	}
	if got != want {
		t.Fatalf("%s, absent %v: regions say %q, want %q; all: %+v", path, absent, got, want, c)
	}
}

func checkChange(t *testing.T, before, after *mir.Policy, widened bool, change mir.Change) {
	t.Helper()
	switch change := change.(type) {
	case mir.PathChange:
		b, a := slowPermission(before, change.Witness, nil), slowPermission(after, change.Witness, nil)
		if change.IfAbsent {
			b, a = slowAbsent(t, before, change.Witness), slowAbsent(t, after, change.Witness)
		}
		if !change.Region.Contains(change.Witness) || b != change.Before || a != change.After || widened != (b < a) {
			t.Fatalf("%+v: the witness has %s before and %s after", change, b, a)
		}
	case mir.ProcessChange:
		if change.Before == change.After || widened != (change.After == mir.Disabled) {
			t.Fatalf("%+v in widened: %v", change, widened)
		}
	case mir.ModeChange:
		width := map[mir.Mode]int{mir.ModeNone: 0, mir.ModeMediated: 1, mir.ModeDirect: 2}
		if widened != (width[change.Before] < width[change.After]) || change.Before != before.Mode() || change.After != after.Mode() {
			t.Fatalf("%+v in widened: %v", change, widened)
		}
	case mir.DestinationChange: // checked as a whole by checkDestinations
	}
}

func modes(c mir.Comparison) bool {
	return slices.ContainsFunc(slices.Concat(c.Widened, c.Narrowed), func(change mir.Change) bool {
		_, ok := change.(mir.ModeChange)
		return ok
	})
}

func checkDestinations(t *testing.T, c mir.Comparison, before, after *mir.Policy) {
	t.Helper()
	only := func(p, other *mir.Policy) (list []mir.Destination) {
		for _, d := range p.Destinations() {
			if other.Mode() != mir.ModeDirect && !slices.Contains(other.Destinations(), d) {
				list = append(list, d)
			}
		}
		return list
	}
	got := func(changes []mir.Change) (list []mir.Destination) {
		for _, change := range changes {
			if d, ok := change.(mir.DestinationChange); ok {
				list = append(list, d.Destination)
			}
		}
		return list
	}
	if g, w := got(c.Widened), only(after, before); !slices.Equal(g, w) {
		t.Fatalf("destinations widened: %v, want %v", g, w)
	}
	if g, w := got(c.Narrowed), only(before, after); !slices.Equal(g, w) {
		t.Fatalf("destinations narrowed: %v, want %v", g, w)
	}
}

// TestRestrictIsTheMinimum checks the result on every path of the universe, in
// the world where everything exists exactly and in all others from above.
func TestRestrictIsTheMinimum(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	paths := universe(t)
	for range rounds(1000) {
		base, ceiling := randomPolicy(t, random, 8), randomPolicy(t, random, 8)
		r, err := mir.Restrict(base, ceiling)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			want := min(slowPermission(base, path, nil), slowPermission(ceiling, path, nil))
			if got := slowPermission(r, path, nil); got != want {
				t.Fatalf("%s: %s, want %s\nbase %s\nceiling %s\nresult %s", path, got, want, base.Inspect(), ceiling.Inspect(), r.Inspect())
			}
			atMost := min(slowAbsent(t, base, path), slowAbsent(t, ceiling, path))
			if got := slowAbsent(t, r, path); got > atMost {
				t.Fatalf("%s, if absent: %s, want at most %s\nbase %s\nceiling %s\nresult %s", path, got, atMost, base.Inspect(), ceiling.Inspect(), r.Inspect())
			}
		}
		for _, p := range []*mir.Policy{base, ceiling} {
			if ok, excess := mir.Contains(p, r); !ok {
				t.Fatalf("the restricted policy goes beyond: %+v", excess)
			}
			for _, rule := range p.Rules() {
				kept := slices.ContainsFunc(r.Rules(), func(k mir.Rule) bool {
					return k.Access == mir.Deny && k.Path == rule.Path && k.Scope == rule.Scope
				})
				if rule.Access == mir.Deny && !kept {
					t.Fatalf("the deny of %s is gone", rule.Path)
				}
			}
		}
		for _, d := range r.Destinations() {
			for _, p := range []*mir.Policy{base, ceiling} {
				if p.Mode() != mir.ModeDirect && !slices.Contains(p.Destinations(), d) {
					t.Fatalf("%s is allowed, and was not by both", d)
				}
			}
		}
		want := mir.Disabled
		if base.TreeConfinement() == mir.Required || ceiling.TreeConfinement() == mir.Required {
			want = mir.Required
		}
		if r.TreeConfinement() != want {
			t.Fatalf("tree confinement %s, want %s", r.TreeConfinement(), want)
		}
		again, err := mir.Restrict(r, ceiling)
		if err != nil {
			t.Fatal(err)
		}
		if c := mir.Compare(r, again); len(c.Widened)+len(c.Narrowed) != 0 {
			t.Fatalf("restricting twice changes: %+v", c)
		}
	}
}

func TestRestrictNetwork(t *testing.T) {
	policy := func(mode mir.Mode, destinations ...string) *mir.Policy {
		spec := mir.Spec{Mode: mode, TreeConfinement: mir.Required}
		for _, name := range destinations {
			host, err := mir.NewHostname(name)
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
	none, direct := policy(mir.ModeNone), policy(mir.ModeDirect)
	ab, bc, c := policy(mir.ModeMediated, "a.example", "b.example"), policy(mir.ModeMediated, "b.example", "c.example"), policy(mir.ModeMediated, "c.example")
	for _, tt := range []struct {
		name          string
		base, ceiling *mir.Policy
		want          *mir.Policy
	}{
		{"none with direct", none, direct, none},
		{"direct with direct", direct, direct, direct},
		{"direct with mediated", direct, ab, ab},
		{"mediated with none", ab, none, none},
		{"common destinations", ab, bc, policy(mir.ModeMediated, "b.example")},
		{"no common destination", ab, c, none},
		{"zero policy", new(mir.Policy), direct, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, pair := range [][2]*mir.Policy{{tt.base, tt.ceiling}, {tt.ceiling, tt.base}} {
				got, err := mir.Restrict(pair[0], pair[1])
				if err != nil {
					t.Fatal(err)
				}
				if got.Digest() != tt.want.Digest() {
					t.Errorf("got %s, want %s", got.Inspect(), tt.want.Inspect())
				}
			}
		})
	}
}

// TestInertIsExact removes each rule by itself: it is inert exactly when no
// permission changes, in no world; and all inert rules together change none.
func TestInertIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	paths := universe(t)
	build := func(rules []mir.Rule) *mir.Policy {
		p, err := mir.Build(mir.Spec{Rules: rules, Mode: mir.ModeNone, TreeConfinement: mir.Required})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	same := func(a, b *mir.Policy) bool {
		return !slices.ContainsFunc(paths, func(path mir.Path) bool {
			return slowPermission(a, path, nil) != slowPermission(b, path, nil)
		})
	}
	for range rounds(500) {
		rules := randomPolicy(t, random, 6).Rules()
		random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		inert := mir.Inert(rules)
		whole := build(rules)
		var kept []mir.Rule
		for i, r := range rules {
			found := slices.IndexFunc(inert, func(x mir.InertRule) bool { return x.Rule == i })
			if found < 0 {
				kept = append(kept, r)
				continue
			}
			because := rules[inert[found].Because]
			if !beneathOrAt(because.Path, r.Path) || because.Access < r.Access {
				t.Fatalf("%+v is said to be inert because of %+v", r, because)
			}
		}
		if !same(whole, build(kept)) {
			t.Fatalf("leaving out %v changes what %+v permits", inert, rules)
		}
		for i := range kept {
			without := build(slices.Delete(slices.Clone(kept), i, i+1))
			if kept[i].Access != mir.Deny && same(build(kept), without) {
				t.Fatalf("%+v of %+v can be left out and is not inert", kept[i], kept)
			}
		}
	}
}
