package mir

import "slices"

// Restrict returns the policy that permits what both base and ceiling permit:
// on every path the smaller of the two permissions, the narrower network mode
// with the destinations that both allow ([ModeNone] when no destination is left),
// and tree confinement when either requires it.
//
// Every deny of both stays. A path that either policy requires to exist is
// required by the rules made of it, so the result starts on no host where its own
// denies would be left out and those of base or ceiling would not. Like
// [Compare], it takes different roots for different files. The time is N log N in
// the number of rules.
//
// The failure is a *[SpecError] with [CodeLimitExceeded], when the denies and
// grants of both together are more than a policy can hold.
func Restrict(base, ceiling *Policy) (*Policy, error) {
	spec := Spec{Mode: base.Mode(), TreeConfinement: base.TreeConfinement()}
	if ceiling.TreeConfinement() == Required {
		spec.TreeConfinement = Required
	}
	if ceiling.Mode().narrower(spec.Mode) {
		spec.Mode = ceiling.Mode()
	}
	if spec.Mode == ModeMediated {
		spec.Destinations = commonDestinations(base, ceiling)
		if len(spec.Destinations) == 0 {
			spec.Mode = ModeNone
		}
	}
	spec.Rules = RestrictRules(base.ruleSet(), ceiling.ruleSet()).Rules
	return Build(spec)
}

// RestrictRules is the part of [Restrict] that is about paths, for rules that need
// not be those of a policy.
func RestrictRules(base, ceiling RuleSet) RuleSet {
	var common RuleSet
	targets := targetsOf(base, ceiling)
	for i := range targets {
		t := &targets[i]
		var above Permission // what both grant above, by rules of the result
		switch {
		case t.of[0].fresh || t.of[1].fresh:
			common.Fresh = append(common.Fresh, t.path)
		case t.parent >= 0:
			above = commonGrant(&targets[t.parent])
		}
		common.Rules = t.appendCommon(common.Rules, above)
	}
	return common
}

// commonGrant returns what the tree rules of both sets grant at t.
func commonGrant(t *target) Permission { return min(t.of[0].grant, t.of[1].grant) }

// appendCommon appends the rules for the path of t that a set needs which
// permits what both sets of t do, when its tree rules above grant above.
func (t *target) appendCommon(rules []Rule, above Permission) []Rule {
	firm := false // a deny that is never left out makes grants here pointless
	for i := range t.of {
		s := &t.of[i]
		firm = firm || s.denied == deniedFirm
		for _, d := range []struct {
			denial denial
			scope  Scope
		}{{s.exactDeny, Exact}, {s.treeDeny, Tree}} {
			switch d.denial {
			case deniedSkip:
				rules = append(rules, Rule{Deny, t.path, d.scope, MissingSkip})
			case deniedFirm:
				rules = append(rules, Rule{Deny, t.path, d.scope, MissingError})
			case notDenied:
			}
		}
	}
	if firm {
		return rules
	}
	a, b := &t.of[0], &t.of[1]
	tree := commonGrant(t)
	if tree > above {
		rules = append(rules, Rule{tree.access(), t.path, Tree, wanted(a.treeWants, b.treeWants)})
	}
	if exact := min(max(a.grant, a.exactGrant), max(b.grant, b.exactGrant)); exact > tree {
		missing := wanted(a.exactMissing, b.exactMissing, a.treeWants, b.treeWants)
		rules = append(rules, Rule{exact.access(), t.path, Exact, missing})
	}
	return rules
}

// access returns the access of a rule that grants p.
func (p Permission) access() Access {
	switch p {
	case PermitNone:
		return Deny
	case PermitRead:
		return Read
	case PermitReadWrite:
		return Write
	}
	return Deny
}

// wanted returns the strictest of some ways to treat a missing path; zero stands for
// no rule. Where there is none at all the grant comes from above and ends at a fresh
// path, which is there.
func wanted(ways ...Missing) Missing {
	if slices.Contains(ways, MissingError) || !slices.Contains(ways, MissingSkip) {
		return MissingError
	}
	return MissingSkip
}

func commonDestinations(a, b *Policy) []Destination {
	switch {
	case a.mode == ModeDirect:
		return b.Destinations()
	case b.mode == ModeDirect:
		return a.Destinations()
	}
	in := make(map[Destination]bool, len(a.destinations))
	for _, d := range a.destinations {
		in[d] = true
	}
	var both []Destination
	for _, d := range b.destinations {
		if in[d] {
			both = append(both, d)
		}
	}
	return both
}
