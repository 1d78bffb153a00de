package plan

import (
	"fmt"
	"slices"
	"strings"

	"maelys.dev/maelys/mir"
)

// Restrict returns the plan that permits what both base and ceiling permit: on every
// path the smaller of the two permissions, and of the network and the process policy
// what [mir.Restrict] leaves. Every deny of both stays. A destination stays when the
// addresses of one plan are within those of the other.
//
// Both must have been resolved in one host context, apart from what it says of
// destinations, and have seen the same files; else the failure is [Errors].
func Restrict(base, ceiling *Plan) (*Plan, error) {
	if fault := base.differs(ceiling); fault != "" {
		return nil, Errors{{Code: CodeHostContext, Rule: aboutHost, Message: "expected two plans of one host context, found different ones of " + fault}}
	}
	p := &Plan{
		policies:    slices.Concat(base.policies, ceiling.policies),
		at:          base.at,
		omitted:     slices.Clone(base.omitted),
		links:       slices.Concat(base.links, ceiling.links),
		directories: slices.Concat(base.directories, ceiling.directories),
		warnings:    slices.Clone(base.warnings),
	}
	for _, o := range ceiling.omitted {
		o.Rule = aboutHost // as of a warning
		p.omitted = append(p.omitted, o)
	}
	for _, w := range ceiling.warnings {
		about := *w
		about.Rule = aboutHost // its rule is not one of the base
		p.warnings = append(p.warnings, &about)
	}
	p.warnings.sort()
	p.tidy()
	common := mir.RestrictRules(base.ruleSet(), ceiling.ruleSet())
	for _, r := range common.Rules {
		rule, fault := joint(base, ceiling, r)
		if fault != nil {
			return nil, Errors{fault}
		}
		p.rules = append(p.rules, rule)
	}
	slices.SortStableFunc(p.rules, compareRules)
	for _, path := range common.Fresh {
		p.fresh = append(p.fresh, path.Text())
	}
	slices.Sort(p.fresh)
	if err := p.restrictLimits(base, ceiling); err != nil {
		return nil, fmt.Errorf("plan: restricting the network: %w", err)
	}
	return p, nil
}

// differs names what the host contexts of two plans do not agree on.
func (p *Plan) differs(q *Plan) string {
	a, b := &p.at, &q.at
	switch {
	case a.workspace != b.workspace:
		return "the workspace"
	case a.temp != b.temp || a.tempPrivate != b.tempPrivate:
		return "the directory for temporary files"
	case a.executable != b.executable:
		return "the executable"
	case !slices.Equal(a.runtimeRoots, b.runtimeRoots):
		return "the runtime roots"
	}
	return ""
}

// joint returns r, which base and ceiling have in common, as a rule of a plan.
func joint(base, ceiling *Plan, r mir.Rule) (Rule, *Error) {
	path := r.Path.Text()
	rule := Rule{Access: r.Access, Path: path, Scope: r.Scope, Policy: -1}
	seen := false
	for _, p := range []*Plan{base, ceiling} {
		from, to := p.rulesAt(path)
		for i := from; i < to; i++ {
			other := &p.rules[i]
			if p == base && (rule.Policy < 0 || other.Access == r.Access) {
				rule.Policy = other.Policy
			}
			rule.Why = max(rule.Why, other.Why)
			switch {
			case !seen:
				seen, rule.Identity, rule.Private = true, other.Identity, other.Private
			case rule.Private || other.Private:
				rule.Identity, rule.Private = Identity{Type: rule.Identity.Type}, true
			case rule.Identity != other.Identity:
				return rule, &Error{
					Code: CodeChanged, Rule: rule.Policy, Path: path, Hint: "resolve both again",
					Message: fmt.Sprintf("expected one file in both plans, found %s and %s: it was replaced in between", rule.Identity, other.Identity),
				}
			}
		}
	}
	apart := len(base.fresh)+len(ceiling.fresh) > 0 || rule.Private // else all is the host's
	if apart && r.Access != mir.Deny && (base.isPrivate(path) || ceiling.isPrivate(path)) {
		// To one of them the path is the sandbox's own; what the host has there is not
		// granted by both.
		rule.Identity, rule.Private = Identity{Type: rule.Identity.Type}, true
	}
	return rule, nil
}

// restrictLimits sets the network and process policy, and which addresses stand for
// the destinations.
func (p *Plan) restrictLimits(base, ceiling *Plan) error {
	limits, err := mir.Restrict(base.limits(), ceiling.limits())
	if err != nil {
		return err
	}
	spec := mir.Spec{Mode: limits.Mode(), TreeConfinement: limits.TreeConfinement()}
	p.at.pins, p.at.allowPrivate = nil, nil
	for _, d := range limits.Destinations() {
		b, c := base.reach(d), ceiling.reach(d)
		switch {
		case !base.allows(d):
			b = c
		case !ceiling.allows(d):
			c = b
		}
		if !b.contains(c) {
			if !c.contains(b) {
				continue
			}
			c = b
		}
		spec.Destinations = append(spec.Destinations, d)
		switch {
		case c.pin.IsValid():
			p.at.pins = append(p.at.pins, Pin{d, c.pin})
		case c.private && !slices.Contains(p.at.allowPrivate, d.Host):
			p.at.allowPrivate = append(p.at.allowPrivate, d.Host)
		}
	}
	slices.SortFunc(p.at.pins, func(a, b Pin) int { return strings.Compare(a.Destination.String(), b.Destination.String()) })
	if spec.Mode == mir.ModeMediated && len(spec.Destinations) == 0 {
		spec.Mode = mir.ModeNone
	}
	p.at.hosts, p.at.resolver = "", ""
	if spec.Mode == mir.ModeMediated { // one of them has it
		p.at.hosts, p.at.resolver = max(base.at.hosts, ceiling.at.hosts), max(base.at.resolver, ceiling.at.resolver)
	}
	p.network, err = mir.Build(spec)
	return err
}
