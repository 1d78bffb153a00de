package plan

import (
	"net/netip"
	"slices"

	"maelys.dev/maelys/mir"
)

// ruleSet returns the rules of p for the algebra of package mir.
func (p *Plan) ruleSet() mir.RuleSet { return p.ruleSetOf(func(*Rule) bool { return true }) }

// hostRuleSet returns those that say what is permitted on the host's files.
func (p *Plan) hostRuleSet() mir.RuleSet {
	return p.ruleSetOf(func(r *Rule) bool { return !r.Private || r.Access == mir.Deny })
}

func (p *Plan) ruleSetOf(wanted func(*Rule) bool) mir.RuleSet {
	s := mir.RuleSet{Rules: make([]mir.Rule, 0, len(p.rules)), Fresh: make([]mir.Path, len(p.fresh))}
	for i := range p.rules {
		if r := &p.rules[i]; wanted(r) {
			s.Rules = append(s.Rules, mir.Rule{Access: r.Access, Path: mir.ResolvedPath(r.Path), Scope: r.Scope, Missing: mir.MissingError})
		}
	}
	for i, path := range p.fresh {
		s.Fresh[i] = mir.ResolvedPath(path)
	}
	return s
}

// Diff says what changes when before is replaced by after. It is exact over absolute
// paths: a path is in a region that changed, by some amount, exactly when
// [Plan.Evaluate] gives two permissions for it, or when the permissions on what the
// host has there differ, which are none where the path is the sandbox's own. A
// destination that both allow, but at other addresses, counts as a change of that
// destination. The time is N log N in the number of rules.
func Diff(before, after *Plan) mir.Comparison {
	c := mir.CompareRules(before.ruleSet(), after.ruleSet())
	if !slices.Equal(before.fresh, after.fresh) { // else a path is of one side in both
		host := mir.CompareRules(before.hostRuleSet(), after.hostRuleSet())
		c.Widened = addChanges(c.Widened, host.Widened)
		c.Narrowed = addChanges(c.Narrowed, host.Narrowed)
	}
	limits := mir.Compare(before.limits(), after.limits())
	c.Widened = append(c.Widened, limits.Widened...)
	c.Narrowed = append(c.Narrowed, limits.Narrowed...)
	there := after.network.Destinations()
	for _, d := range before.network.Destinations() {
		if !slices.Contains(there, d) {
			continue
		}
		b, a := before.reach(d), after.reach(d)
		if !b.contains(a) {
			c.Widened = append(c.Widened, mir.DestinationChange{Destination: d})
		}
		if !a.contains(b) {
			c.Narrowed = append(c.Narrowed, mir.DestinationChange{Destination: d})
		}
	}
	return c
}

// addChanges adds those changes of paths that are not in the list yet.
func addChanges(list, more []mir.Change) []mir.Change {
	type key struct {
		path          mir.Path
		extent        mir.Extent
		before, after mir.Permission
	}
	seen := map[key]mir.Region{}
	for _, change := range list {
		if c, ok := change.(mir.PathChange); ok {
			seen[key{c.Region.Path, c.Region.Extent, c.Before, c.After}] = c.Region
		}
	}
	for _, change := range more {
		if c, ok := change.(mir.PathChange); ok {
			region, found := seen[key{c.Region.Path, c.Region.Extent, c.Before, c.After}]
			if !found || !slices.Equal(region.Holes, c.Region.Holes) {
				list = append(list, change)
			}
		}
	}
	return list
}

// A reach is which addresses stand for a destination: the pinned one, or any that its
// name has.
type reach struct {
	pin     netip.AddrPort
	private bool // addresses of private networks too
}

func (p *Plan) reach(d mir.Destination) reach {
	if i := slices.IndexFunc(p.at.pins, func(pin Pin) bool { return pin.Destination == d }); i >= 0 {
		return reach{pin: p.at.pins[i].Address}
	}
	return reach{private: slices.Contains(p.at.allowPrivate, d.Host)}
}

// allows reports whether p itself lists a destination.
func (p *Plan) allows(d mir.Destination) bool { return slices.Contains(p.network.Destinations(), d) }

// contains reports whether every address of s is one of r. A pinned address is within
// what a name may have only when private ones are allowed too: it may be one itself.
func (r reach) contains(s reach) bool {
	return r == s || !r.pin.IsValid() && (r.private || !s.pin.IsValid() && !s.private)
}

// Contains reports whether candidate permits nothing that boundary does not. What the
// sandbox has of its own at a path is within what the host has there, and not the other
// way round. If it does not, excess holds one change for each dimension in which it goes
// beyond, with a witness. It is as exact as [Diff].
func Contains(boundary, candidate *Plan) (contained bool, excess []mir.Change) {
	excess = Diff(boundary, candidate).Excess()
	return len(excess) == 0, excess
}

// An Overlapping is what two plans both permit.
type Overlapping struct {
	Paths        []mir.Overlap
	Destinations []mir.Destination // empty also when one of them may reach everything
	Network      bool              // both may reach some destination
}

// Overlaps returns what both plans permit: regions of absolute paths, exactly, and
// destinations. Commands that run side by side can meet there, but for directories that
// each sandbox has of its own, which count by their paths.
func Overlaps(a, b *Plan) Overlapping {
	o := Overlapping{Paths: mir.OverlapRules(a.ruleSet(), b.ruleSet())}
	both, err := mir.Restrict(a.limits(), b.limits())
	if err != nil {
		panic("plan: internal error: no rules are too many: " + err.Error())
	}
	o.Destinations, o.Network = both.Destinations(), both.Mode() != mir.ModeNone
	return o
}
