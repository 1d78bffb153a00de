package plan

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// randomPlans returns two plans of one tree and one host context.
func randomPlans(t testing.TB, random *rand.Rand) (a, b *Plan) {
	t.Helper()
	for {
		files := randomTree(random)
		h := Host{Filesystem: files, Workspace: randomDirectory(random, files)}
		if random.IntN(2) == 0 {
			h.Temp = randomDirectory(random, files)
		}
		a, aErr := Resolve(randomPolicy(t, random), h)
		b, bErr := Resolve(randomPolicy(t, random), h)
		if aErr == nil && bErr == nil {
			return a, b
		}
	}
}

// universe is every path that a rule can be about, and one beneath each that none is.
var universe = pathsOf(append([]string{"other"}, someNames...), 4)

// TestAlgebraIsExact holds Diff, Contains, Overlaps and Restrict to Evaluate on every
// path of the universe.
func TestAlgebraIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(51, 52))
	seen := map[[2]mir.Permission]int{}
	for range rounds(1500) {
		a, b := randomPlans(t, random)
		algebra(t, a, b, universe, seen)
	}
	if len(seen) != 9 && !testing.Short() {
		t.Errorf("the test has seen only %v", seen)
	}
}

// algebra holds what is said of two plans to Evaluate on every path of a world.
func algebra(t *testing.T, a, b *Plan, universe []string, seen map[[2]mir.Permission]int) {
	t.Helper()
	both, err := Restrict(a, b)
	if err != nil {
		t.Fatal(err)
	}
	diff, overlap := Diff(a, b), Overlaps(a, b)
	for _, path := range universe {
		pa, pb := a.Evaluate(path), b.Evaluate(path)
		seen[[2]mir.Permission{pa.Permission, pb.Permission}]++
		checkPath(t, path, pa, pb, diff, overlap)
		d := both.Evaluate(path)
		if want := min(pa.Permission, pb.Permission); d.Permission != want {
			t.Fatalf("%s: %s and %s restrict to %s\n%+v %v\n%+v %v\n%+v %v", path, pa.Permission, pb.Permission, d.Permission, a.rules, a.fresh, b.rules, b.fresh, both.rules, both.fresh)
		}
		if d.Permission != mir.PermitNone && !d.Private && (pa.Private || pb.Private) {
			t.Fatalf("%s: what the host has there is not granted by both\n%+v\n%+v\n%+v", path, a.rules, b.rules, both.rules)
		}
	}
	checkWitnesses(t, a, b, diff, overlap)
	for _, p := range []*Plan{a, b} {
		if ok, excess := Contains(p, both); !ok {
			t.Fatalf("the restricted plan goes beyond: %+v", excess)
		}
		for _, r := range p.rules {
			if r.Access == mir.Deny && !slices.ContainsFunc(both.rules, func(k Rule) bool { return k.Access == mir.Deny && k.Path == r.Path && k.Scope == r.Scope }) {
				t.Fatalf("the deny of %s is gone", r.Path)
			}
		}
	}
	within := !slices.ContainsFunc(universe, func(path string) bool {
		pa, pb := a.Evaluate(path), b.Evaluate(path)
		return pa.Permission < pb.Permission || onHost(pa) < onHost(pb)
	})
	if ok, excess := Contains(a, b); ok != within || ok != (len(excess) == 0) {
		t.Fatalf("Contains: %v, want %v; %+v", ok, within, excess)
	}
}

// onHost is what a decision permits on what the host has at its path.
func onHost(d Decision) mir.Permission {
	if d.Private {
		return mir.PermitNone
	}
	return d.Permission
}

// A step is a permission before and after.
type step struct{ before, after mir.Permission }

// steps are the changes of a path: of what it may be used for, and of what the host's
// file there may be used for.
func steps(a, b Decision) map[step]bool {
	all := map[step]bool{}
	for _, s := range []step{{a.Permission, b.Permission}, {onHost(a), onHost(b)}} {
		if s.before != s.after {
			all[s] = true
		}
	}
	return all
}

func checkPath(t *testing.T, path string, pa, pb Decision, diff mir.Comparison, overlap Overlapping) {
	t.Helper()
	at := mir.ResolvedPath(path)
	said := map[step]bool{}
	for widened, list := range map[bool][]mir.Change{true: diff.Widened, false: diff.Narrowed} {
		for _, change := range list {
			if c, ok := change.(mir.PathChange); ok && c.Region.Contains(at) {
				said[step{c.Before, c.After}] = true
				if widened != (c.Before < c.After) {
					t.Fatalf("%s: %+v is in the wrong list", path, c)
				}
			}
		}
	}
	if want := steps(pa, pb); !maps.Equal(said, want) {
		t.Fatalf("%s: regions say %v, want %v: %+v", path, said, want, diff)
	}
	before, after := pa.Permission, pb.Permission
	got, want := "", ""
	if min(before, after) != mir.PermitNone {
		want = fmt.Sprint(before, after)
	}
	for _, o := range overlap.Paths {
		if o.Region.Contains(at) {
			got += fmt.Sprint(o.First, o.Second)
		}
	}
	if got != want {
		t.Fatalf("%s: overlaps say %q, want %q: %+v", path, got, want, overlap)
	}
}

func checkWitnesses(t *testing.T, a, b *Plan, diff mir.Comparison, overlap Overlapping) {
	t.Helper()
	for _, change := range slices.Concat(diff.Widened, diff.Narrowed) {
		c, ok := change.(mir.PathChange)
		if !ok {
			t.Fatalf("%+v: these plans differ in paths only", change)
		}
		before, after := a.Evaluate(c.Witness.Text()), b.Evaluate(c.Witness.Text())
		if c.IfAbsent || !c.Region.Contains(c.Witness) || !steps(before, after)[step{c.Before, c.After}] {
			t.Fatalf("%+v: the witness has %+v and %+v", c, before, after)
		}
	}
	for _, o := range overlap.Paths {
		if a.Evaluate(o.Witness.Text()).Permission != o.First || b.Evaluate(o.Witness.Text()).Permission != o.Second {
			t.Fatalf("%+v: the witness is none", o)
		}
	}
}

func hostname(t testing.TB, name string) mir.Hostname {
	t.Helper()
	h, err := mir.NewHostname(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// slowAddresses is a model of what one destination can lead to: a public address, a
// private one, and two that are pinned, of which one is public.
func slowAddresses(p *Plan, d mir.Destination) (all [4]bool) {
	switch p.Mode() {
	case mir.ModeNone:
		return all
	case mir.ModeDirect:
		return [4]bool{true, true, true, true}
	case mir.ModeMediated:
	}
	if !slices.Contains(p.Destinations(), d) {
		return all
	}
	for _, pin := range p.Pins() {
		if pin.Destination == d {
			all[2] = pin.Address == pinOne
			all[3] = pin.Address == pinTwo
			return all
		}
	}
	all[0] = true
	if slices.Contains(p.AllowPrivate(), d.Host) {
		all[1], all[2], all[3] = true, true, true
	}
	return all
}

var pinOne, pinTwo = netip.MustParseAddrPort("192.0.2.1:443"), netip.MustParseAddrPort("[::1]:8443")

// TestDestinations compares plans that differ in network, addresses and tree
// confinement with the model.
func TestDestinations(t *testing.T) {
	random := rand.New(rand.NewPCG(53, 54))
	var all []mir.Destination
	for _, name := range []string{"a.example.com", "b.example.com"} {
		for _, port := range []uint16{80, 443} {
			all = append(all, mir.Destination{Host: hostname(t, name), Port: port})
		}
	}
	build := func() *Plan {
		spec := mir.Spec{Mode: mir.Mode(1 + random.IntN(3)), TreeConfinement: mir.TreeConfinement(1 + random.IntN(2))}
		h := Host{Filesystem: tree{"/etc": "dir", "/etc/hosts": "file", "/etc/resolv.conf": "file"}, Pins: map[mir.Destination]netip.AddrPort{}}
		if spec.Mode == mir.ModeMediated {
			for i, d := range all {
				if i == 0 || random.IntN(2) == 0 {
					spec.Destinations = append(spec.Destinations, d)
					switch random.IntN(6) {
					case 0:
						h.Pins[d] = pinOne
					case 1:
						h.Pins[d] = pinTwo
					case 2:
						h.AllowPrivate = append(h.AllowPrivate, d.Host)
					}
				}
			}
		}
		policy, err := mir.Build(spec)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Resolve(policy, h)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	beyond := func(a, b [4]bool) bool {
		for i := range a {
			if b[i] && !a[i] {
				return true
			}
		}
		return false
	}
	listed := func(list []mir.Change, d mir.Destination) bool {
		return slices.Contains(list, mir.Change(mir.DestinationChange{Destination: d}))
	}
	for range rounds(20_000) {
		a, b := build(), build()
		diff := Diff(a, b)
		both, err := Restrict(a, b)
		if err != nil {
			t.Fatal(err)
		}
		within := a.TreeConfinement() == mir.Disabled || b.TreeConfinement() == mir.Required
		width := map[mir.Mode]int{mir.ModeNone: 0, mir.ModeMediated: 1, mir.ModeDirect: 2}
		within = within && width[b.Mode()] <= width[a.Mode()]
		for _, d := range all {
			x, y := slowAddresses(a, d), slowAddresses(b, d)
			within = within && !beyond(x, y)
			if a.Mode() != mir.ModeDirect && b.Mode() != mir.ModeDirect && (listed(diff.Widened, d) != beyond(x, y) || listed(diff.Narrowed, d) != beyond(y, x)) {
				t.Fatalf("%s: %v and %v: %+v", d, x, y, diff)
			}
			z := slowAddresses(both, d)
			if beyond(x, z) || beyond(y, z) {
				t.Fatalf("%s: %v and %v restrict to %v", d, x, y, z)
			}
			if comparable := !beyond(x, y) || !beyond(y, x); comparable && (beyond(z, x) && beyond(z, y)) {
				t.Fatalf("%s: %v and %v restrict to no more than %v", d, x, y, z)
			}
		}
		if ok, excess := Contains(a, b); ok != within {
			t.Fatalf("Contains: %v, want %v; %+v", ok, within, excess)
		}
		overlap := Overlaps(a, b)
		common := false
		for _, d := range all {
			common = common || slowAddresses(a, d) != [4]bool{} && slowAddresses(b, d) != [4]bool{}
		}
		if overlap.Network != common {
			t.Fatalf("Overlaps: %+v, want a network in common: %v", overlap, common)
		}
	}
}

func TestRestrictRefuses(t *testing.T) {
	files := tree{"/w": "dir", "/tmp": "dir", "/x": "file", "/y": "file"}
	policy, err := mir.Build(mir.Spec{
		Rules: []mir.Rule{{Access: mir.Read, Path: hostPath(t, "/x"), Scope: mir.Exact, Missing: mir.MissingError}},
		Mode:  mir.ModeNone, TreeConfinement: mir.Required,
	})
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(h Host) *Plan {
		t.Helper()
		p, err := Resolve(policy, h)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := Host{Filesystem: files, Workspace: "/w", Temp: "/tmp", Executable: "/x", RuntimeRoots: []string{"/w"}}
	for _, tt := range []struct {
		name   string
		change func(*Host)
		code   Code
	}{
		{"the same", func(*Host) {}, ""},
		{"another workspace", func(h *Host) { h.Workspace = "/tmp" }, CodeHostContext},
		{"no workspace", func(h *Host) { h.Workspace = "" }, CodeHostContext},
		{"another temp", func(h *Host) { h.Temp = "/w" }, CodeHostContext},
		{"private temp in the same place", func(h *Host) { h.Temp = "" }, CodeHostContext},
		{"another executable", func(h *Host) { h.Executable = "/y" }, CodeHostContext},
		{"other runtime roots", func(h *Host) { h.RuntimeRoots = nil }, CodeHostContext},
		{"another file in its place", func(h *Host) { h.Filesystem = renamed{files, "/x", "/y"} }, CodeChanged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := one
			tt.change(&other)
			_, err := Restrict(resolve(one), resolve(other))
			var faults Errors
			switch {
			case tt.code == "" && err != nil:
				t.Error(err)
			case tt.code != "" && (!errors.As(err, &faults) || len(faults) != 1 || faults[0].Code != tt.code):
				t.Errorf("%v, want %s", err, tt.code)
			}
		})
	}
}

// TestRestrictKeeps looks at what a restricted plan takes over from both.
func TestRestrictKeeps(t *testing.T) {
	h := someHost()
	base, err := Resolve(policyOf(t, "write tree workspace:", "read exact workspace:absent skip", "deny tree workspace:in"), h)
	if err != nil {
		t.Fatal(err)
	}
	ceiling, err := Resolve(policyOf(t, "read exact /etc", "write tree workspace:", "deny exact workspace:late skip", "read exact workspace:up", "deny exact /elsewhere"), h)
	if err != nil {
		t.Fatal(err)
	}
	both, err := Restrict(base, ceiling)
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	for _, w := range both.Warnings() {
		warnings = append(warnings, fmt.Sprint(w.Rule, " ", w.Code))
	}
	if want := []string{"-1 omissible-deny", "2 replaceable-link"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	if omitted := both.Omitted(); len(omitted) != 2 || omitted[0].Path != "/home/ws/absent" || omitted[0].Rule != 1 || omitted[1].Path != "/home/ws/late" || omitted[1].Rule != -1 {
		t.Errorf("omitted %+v, want those of the base and those of the ceiling", omitted)
	}
	if base.Omitted()[0].Rule != 1 || ceiling.Omitted()[0].Rule < 0 {
		t.Error("restricting has changed the base or the ceiling")
	}
	if links := both.Links(); !slices.Contains(links, Link{"/home/ws/in", "d"}) || !slices.Contains(links, Link{"/home/ws/up", "d/../f"}) {
		t.Errorf("links %v, want those of both", links)
	}
	if !slices.Equal(both.Directories(), []string{"/home/ws/d"}) {
		t.Errorf("directories %v, want those of both", both.Directories())
	}
	for _, p := range []*Plan{base, ceiling} {
		same, err := Restrict(p, p)
		if err != nil || !slices.Equal(same.Links(), p.Links()) || !slices.Equal(same.Directories(), p.Directories()) {
			t.Errorf("%v: links %v and directories %v, want each once", err, same.Links(), same.Directories())
		}
	}
	if other, err := Restrict(ceiling, base); err != nil || !slices.Equal(other.Links(), both.Links()) {
		t.Errorf("%v: links %v, want them in order", err, other.Links())
	}
	if base.Digest() == both.Digest() || both.Policy() != base.Policy() {
		t.Error("a restricted plan passes for its base")
	}
	for _, r := range both.Rules() {
		want := map[string]int{"/home/ws": 0, "/home/ws/d": 2, "/elsewhere": -1}[r.Path]
		if r.Policy != want {
			t.Errorf("%+v, want it to come from rule %d", r, want)
		}
	}
}

// TestUnmet asks which requirements of a plan some backends cannot hold.
func TestUnmet(t *testing.T) {
	p, err := Resolve(policyOf(t, "write exact workspace:d", "read tree /etc", "deny exact /etc/passwd"), someHost())
	if err != nil {
		t.Fatal(err)
	}
	said := func(list []Requirement) string {
		var all []string
		for _, r := range list {
			all = append(all, fmt.Sprint(r.Capability, r.Unenforceable))
		}
		return strings.Join(all, " ")
	}
	if got, want := said(p.Unmet(Capabilities())), "fs-exact-directorytrue"; got != want {
		t.Errorf("with every capability: %q, want %q", got, want)
	}
	if got, want := said(p.Unmet([]Capability{FSRead, FSWrite, NetworkNone})), "fs-denyfalse fs-exact-directoryfalse fs-exact-directorytrue process-treefalse"; got != want {
		t.Errorf("with few: %q, want %q", got, want)
	}
}

func hostPath(t testing.TB, text string) mir.Path {
	t.Helper()
	p, err := mir.NewPath(mir.RootHost, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A renamed tree has at one path what the tree has at another.
type renamed struct {
	tree
	at, from string
}

func (r renamed) Lstat(path string) (Entry, error) {
	if path == r.at {
		path = r.from
	}
	return r.tree.Lstat(path)
}

// TestRestrictKeepsTheWay has a directory that a link passes in the private temp, and no
// rule left that needs it.
func TestRestrictKeepsTheWay(t *testing.T) {
	files := tree{"/tmp": "dir", "/tmp/q": "dir", "/tmp/q/by": "dir", "/tmp/q/x": "dir", "/tmp/l": "-> q/by/../x"}
	p := restricted(t, Host{Filesystem: files}, []string{"write tree temp:", "read tree /tmp/l"}, []string{"read exact temp:"})
	for path, exists := range map[string]bool{"/tmp/q": true, "/tmp/q/by": true, "/tmp/q/x": false, "/tmp/q/by/x": false, "/tmp/q/b": false, "/tmp/other": false} {
		if at, err := p.Locate(files, path); err != nil || at.Exists != exists {
			t.Errorf("%s: %+v, %v, want that it exists: %v", path, at, err, exists)
		}
	}
}

// TestRestrictNamesRules asks which rule of the base those of a restricted plan are.
func TestRestrictNamesRules(t *testing.T) {
	for _, tt := range []struct {
		base, ceiling []string
		want          string
	}{
		{[]string{"write tree workspace:"}, []string{"read tree workspace:"}, "read tree /home/ws 0"},
		{[]string{"read tree workspace:"}, []string{"write tree workspace:"}, "read tree /home/ws 0"},
		{[]string{"write exact workspace:", "read tree workspace:"}, []string{"write tree workspace:"}, "write exact /home/ws 0, read tree /home/ws 1"},
		{[]string{"read tree /", "write tree workspace:"}, []string{"read tree workspace:d"}, "read tree /home/ws/d -1"},
		{[]string{"read tree workspace:"}, []string{"deny tree workspace:d", "write tree workspace:"}, "read tree /home/ws 0, deny tree /home/ws/d -1"},
	} {
		var all []string
		for _, r := range restricted(t, someHost(), tt.base, tt.ceiling).Rules() {
			all = append(all, fmt.Sprint(r.Access, " ", r.Scope, " ", r.Path, " ", r.Policy))
		}
		if got := strings.Join(all, ", "); got != tt.want {
			t.Errorf("%q and %q: %q, want %q", tt.base, tt.ceiling, got, tt.want)
		}
	}
}

// TestRestrictKeepsIdentities has a denied file of the host in the private temp, and pins
// whose order is not that of their ports.
func TestRestrictKeepsIdentities(t *testing.T) {
	host := newDisk(listing{"/tmp/x": "x"})
	p := restricted(t, Host{Filesystem: host}, []string{"write tree temp:", "deny tree /tmp/x"}, []string{"write tree temp:"})
	from, to := p.rulesAt("/tmp/x")
	if to-from != 1 || p.rules[from].Private || p.rules[from].Identity != host.at("/tmp/x").Identity {
		t.Errorf("%+v, want the host's file denied", p.rules[from:to])
	}
	host.remove("/tmp/x")
	if changed := p.Changed(host); len(changed) != 1 || changed[0].Path != "/tmp/x" {
		t.Errorf("%v, want that the denied file is gone", changed)
	}

	spec := mir.Spec{Mode: mir.ModeMediated, TreeConfinement: mir.Required}
	h := Host{Filesystem: host, Pins: map[mir.Destination]netip.AddrPort{}}
	for _, port := range []uint16{80, 443, 8080} {
		d := mir.Destination{Host: hostname(t, "a.example.com"), Port: port}
		spec.Destinations = append(spec.Destinations, d)
		h.Pins[d] = pinOne
	}
	policy, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	base, err := Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	both, err := Restrict(base, base)
	if err != nil || len(base.Pins()) != 3 || !slices.Equal(both.Pins(), base.Pins()) {
		t.Errorf("%v: pins %v, want %v", err, both.Pins(), base.Pins())
	}
}

// restricted resolves and restricts two policies.
func restricted(t *testing.T, h Host, base, ceiling []string) *Plan {
	t.Helper()
	b, err := Resolve(policyOf(t, base...), h)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Resolve(policyOf(t, ceiling...), h)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Restrict(b, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
