package mir

import (
	"cmp"
	"slices"
)

// An InertRule is a rule that can never act, and one that makes it so.
type InertRule struct {
	Rule    int // index of the rule that can be left out
	Because int // index of the rule that decides every path of the first one
}

// Inert returns the rules that can be left out without changing any permission:
// a grant under a deny, a read under a write, a rule under an equal one. A deny
// counts as inert only under one that is left out on no more hosts. Of two rules
// that say the same, the later one is inert. Rules with a zero field are passed
// over. The result is in order of Rule; the time is N log N.
func Inert(rules []Rule) []InertRule {
	order := make([]int, 0, len(rules))
	for i, r := range rules {
		if r.Access.valid() && r.Path.root.valid() && r.Scope.valid() && r.Missing.valid() {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(compareDepthFirst(rules[a].Path, rules[b].Path), cmp.Compare(a, b))
	})
	var inert []InertRule
	type level struct {
		path   Path
		covers covers // what the tree rules at and above path decide
	}
	var stack []level
	for len(order) > 0 {
		path := rules[order[0]].Path
		n := 1
		for n < len(order) && rules[order[n]].Path == path {
			n++
		}
		here := order[:n]
		order = order[n:]
		for len(stack) > 0 && !stack[len(stack)-1].path.Contains(path) {
			stack = stack[:len(stack)-1]
		}
		var tree covers
		if len(stack) > 0 {
			tree = stack[len(stack)-1].covers
		}
		for _, i := range here {
			if rules[i].Scope == Tree {
				tree.add(rules[i], i)
			}
		}
		exact := tree // what is decided for path itself
		for _, i := range here {
			exact.add(rules[i], i)
		}
		for _, i := range here {
			over := &exact
			if rules[i].Scope == Tree {
				over = &tree
			}
			if because, ok := over.decide(rules[i], i); ok {
				inert = append(inert, InertRule{i, because})
			}
		}
		stack = append(stack, level{path, tree})
	}
	slices.SortFunc(inert, func(a, b InertRule) int { return cmp.Compare(a.Rule, b.Rule) })
	return inert
}

// covers holds, for each kind of rule, the first found that covers some paths, as
// its index plus one.
type covers struct{ firmDeny, skipDeny, write, read int }

func (c *covers) of(r Rule) *int {
	switch {
	case r.Access == Read:
		return &c.read
	case r.Access == Write:
		return &c.write
	case r.Missing == MissingSkip:
		return &c.skipDeny
	}
	return &c.firmDeny
}

func (c *covers) add(r Rule, index int) {
	if slot := c.of(r); *slot == 0 {
		*slot = index + 1
	}
}

// decide returns the rule that decides every path of r, which is rule index and
// itself in c.
func (c *covers) decide(r Rule, index int) (because int, ok bool) {
	stronger := []int{c.firmDeny, c.skipDeny, c.write, c.read} // its own kind stays last
	switch {
	case r.Access == Write:
		stronger = stronger[:3]
	case r.Access == Deny && r.Missing == MissingSkip:
		stronger = stronger[:2]
	case r.Access == Deny:
		stronger = stronger[:1]
	}
	for _, s := range stronger {
		if s != 0 && s != index+1 {
			return s - 1, true
		}
	}
	return 0, false
}

// Omissible returns the denies of p that leave their path writable where it does
// not exist at the launch: they have [MissingSkip], nothing else denies the path
// or needs it to exist, and a [Write] above it lets the command create it. The
// result holds indices into [Policy.Rules], in order.
func (p *Policy) Omissible() []int {
	targets := targetsOf(p.ruleSet())
	writable := make(map[Path]bool, len(targets))
	for i := range targets {
		if t := &targets[i]; t.of[0].at() == (cell{PermitNone, PermitReadWrite}) {
			writable[t.path] = true
		}
	}
	var found []int
	for i, r := range p.rules {
		if r.Access == Deny && r.Missing == MissingSkip && writable[r.Path] {
			found = append(found, i)
		}
	}
	return found
}
