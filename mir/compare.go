package mir

import "slices"

// A Comparison is how one policy differs from another in what it permits. Both
// lists are empty when the policies permit the same.
type Comparison struct {
	Widened  []Change // what the second policy permits and the first does not
	Narrowed []Change // what the first policy permits and the second does not
}

// A Change is one difference between two policies: a [PathChange], a
// [ModeChange], a [DestinationChange] or a [ProcessChange].
//
//sumtype:decl
type Change interface{ isChange() }

// A PathChange is a region of paths whose permission differs.
type PathChange struct {
	Region        Region
	Before, After Permission

	// IfAbsent tells apart two questions about the region. False: the permission
	// differs on paths that exist at the launch. True: it differs on paths that
	// are missing then and created later, because a deny with [MissingSkip] is
	// left out in one of the policies; Before and After are the most that holds.
	IfAbsent bool

	Witness Path // one path of the region
}

// A ModeChange is a different network mode.
type ModeChange struct{ Before, After Mode }

// A DestinationChange is a destination that only one of two policies allows.
// Where one of them is [ModeDirect] there is a ModeChange alone, since that mode
// allows every destination.
type DestinationChange struct{ Destination Destination }

// A ProcessChange is a different tree confinement.
type ProcessChange struct{ Before, After TreeConfinement }

func (PathChange) isChange()        {}
func (ModeChange) isChange()        {}
func (DestinationChange) isChange() {}
func (ProcessChange) isChange()     {}

// Compare says what changes when before is replaced by after: which regions of
// which roots, which destinations, which mode and which tree confinement are
// permitted by one and not the other.
//
// It is exact for each root by itself: a path is in a region that widened, by
// some amount, exactly when after permits that much more there than before does.
// Different roots are taken for different files; on a host they may overlap, and
// package plan compares what policies mean there. Whether a grant's path must
// exist ([Missing]) permits nothing and is not compared.
//
// The time is N log N in the number of rules. The order is that of the paths.
func Compare(before, after *Policy) Comparison {
	c := CompareRules(before.ruleSet(), after.ruleSet())
	c.compareNetwork(before, after)
	if b, a := before.TreeConfinement(), after.TreeConfinement(); b != a {
		c.add(a == Disabled, ProcessChange{b, a})
	}
	return c
}

// CompareRules is the part of [Compare] that is about paths, for rules that need not
// be those of a policy: every change is a [PathChange].
func CompareRules(before, after RuleSet) Comparison {
	var c Comparison
	targets := targetsOf(before, after)
	if len(targets) > 0 {
		name := freshName(targets)
		c.comparePaths(targets, name, false)
		if before.omissible() || after.omissible() {
			c.comparePaths(targets, name, true)
		}
	}
	return c
}

// omissible reports whether a rule may be left out.
func (s RuleSet) omissible() bool {
	return slices.ContainsFunc(s.Rules, func(r Rule) bool { return r.Missing == MissingSkip })
}

// Contains reports whether candidate permits nothing that boundary does not. If
// it does, excess is what [Comparison.Excess] returns.
func Contains(boundary, candidate *Policy) (contained bool, excess []Change) {
	excess = Compare(boundary, candidate).Excess()
	return len(excess) == 0, excess
}

// Excess returns of what widened one change for each dimension: paths, paths that
// are absent at the launch, mode, destinations and tree confinement.
func (c Comparison) Excess() []Change {
	type dimension struct{ path, absent, mode, destination, process bool }
	seen := map[dimension]bool{}
	var excess []Change
	for _, change := range c.Widened {
		var d dimension
		switch change := change.(type) {
		case PathChange:
			d.path, d.absent = !change.IfAbsent, change.IfAbsent
		case ModeChange:
			d.mode = true
		case DestinationChange:
			d.destination = true
		case ProcessChange:
			d.process = true
		}
		if !seen[d] {
			seen[d] = true
			excess = append(excess, change)
		}
	}
	return excess
}

func (c *Comparison) add(widened bool, change Change) {
	if widened {
		c.Widened = append(c.Widened, change)
	} else {
		c.Narrowed = append(c.Narrowed, change)
	}
}

func (c *Comparison) compareNetwork(before, after *Policy) {
	b, a := before.Mode(), after.Mode()
	if b != a {
		c.add(b.narrower(a), ModeChange{b, a})
	}
	if b == ModeDirect || a == ModeDirect {
		return
	}
	i, j := 0, 0
	for i < len(before.destinations) || j < len(after.destinations) {
		order := 0
		switch {
		case i == len(before.destinations):
			order = 1
		case j == len(after.destinations):
			order = -1
		default:
			order = compareDestinations(before.destinations[i], after.destinations[j])
		}
		switch {
		case order < 0:
			c.add(false, DestinationChange{before.destinations[i]})
			i++
		case order > 0:
			c.add(true, DestinationChange{after.destinations[j]})
			j++
		default:
			i, j = i+1, j+1
		}
	}
}

// comparePaths adds the regions where two policies differ. With absent it looks
// at paths that are created after the launch, and only where that matters.
func (c *Comparison) comparePaths(targets []target, fresh string, absent bool) {
	label := func(b, a cell) step {
		s := step{b.present, a.present}
		if absent {
			if b.present == b.absent && a.present == a.absent {
				return step{}
			}
			s = step{b.absent, a.absent}
		}
		if s.before == s.after {
			return step{}
		}
		return s
	}
	for _, r := range regionsOf(targets, label) {
		change := PathChange{Region: r.Region, Before: r.before, After: r.after, IfAbsent: absent, Witness: r.witness(fresh)}
		c.add(change.Before < change.After, change)
	}
}
