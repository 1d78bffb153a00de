package mir

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// The algebra works on the distinct paths that one or two sets of rules name, as a
// tree. Each such path splits off two cells, within which no rule begins or ends, so
// that a permission is constant on each: the path itself, and what is beneath it and
// not at or beneath a deeper named path.

// A RuleSet is rules that need not be those of a policy, such as what a host has
// resolved: their paths may be resolved ones, and there may be any number of them,
// in any order.
type RuleSet struct {
	Rules []Rule

	// Fresh are paths where something else begins than what lies around it, as at a
	// mount point: grants of paths above do not reach them and what is beneath. Denies
	// do.
	Fresh []Path
}

// ruleSet returns the rules of p; they must not be changed.
func (p *Policy) ruleSet() RuleSet { return RuleSet{Rules: p.rules} }

// maxSets is how many sets of rules one tree of targets can hold side by side.
const maxSets = 2

// A target is one path that some rule names, with what holds there.
type target struct {
	path   Path
	parent int // index of the nearest target above, -1 for none; always less than its own
	of     [maxSets]standing
}

// A standing is what one set of rules says of a target. The fields above the blank line
// come from rules for this very path; those below include what is inherited.
type standing struct {
	exactGrant, treeGrant   Permission
	exactDeny, treeDeny     denial
	exactMissing, treeWants Missing // the stricter of the grants' Missing; zero without grants
	mustExist               bool    // a rule at or beneath this path needs it to exist
	fresh                   bool    // grants above the path do not reach it

	grant  Permission // of the tree rules at and above the path
	denied denial     // by the tree rules at and above the path
	absent Permission // what was granted above the topmost deny that may be left out
}

// A denial is how firmly a path is denied. A deny whose rule is left out where
// its path is missing says nothing about a path that is created later.
type denial uint8

const (
	notDenied  denial = iota
	deniedSkip        // unless the path is missing at the launch
	deniedFirm        // always
)

// cell is what a policy permits in one cell: with every rule in force, and at the
// most, when paths whose absence the policy tolerates are missing at the launch
// and created later.
type cell struct{ present, absent Permission }

// targetsOf returns the targets of the sets as a tree in depth-first order.
func targetsOf(sets ...RuleSet) []target {
	type named struct {
		rule Rule // only a path where it is a fresh one
		set  int
	}
	order := func(a, b named) int { return compareDepthFirst(a.rule.Path, b.rule.Path) }
	var all []named
	// Each part comes in an order that is nearly the right one, which sorting it by itself
	// takes advantage of.
	add := func(part []named) {
		slices.SortFunc(part, order)
		all = merge(all, part, order)
	}
	for i, s := range sets {
		rules := make([]named, len(s.Rules))
		for n, r := range s.Rules {
			rules[n] = named{r, i}
		}
		add(rules)
		fresh := make([]named, len(s.Fresh))
		for n, p := range s.Fresh {
			fresh[n] = named{Rule{Path: p}, i}
		}
		add(fresh)
	}

	targets := make([]target, 0, len(all))
	for _, n := range all {
		last := len(targets) - 1
		if last < 0 || targets[last].path != n.rule.Path {
			parent := last
			for parent >= 0 && !targets[parent].path.Contains(n.rule.Path) {
				parent = targets[parent].parent
			}
			targets = append(targets, target{path: n.rule.Path, parent: parent})
			last++
		}
		if s := &targets[last].of[n.set]; n.rule.Access == 0 {
			s.fresh = true
		} else {
			s.add(n.rule)
		}
	}
	for i := len(targets) - 1; i >= 0; i-- {
		if t := &targets[i]; t.parent >= 0 {
			for s := range t.of {
				up := &targets[t.parent].of[s]
				up.mustExist = up.mustExist || t.of[s].mustExist
			}
		}
	}
	for i := range targets {
		t := &targets[i]
		for s := range t.of {
			var above standing
			if t.parent >= 0 {
				above = targets[t.parent].of[s]
			}
			t.of[s].inherit(above)
		}
	}
	return targets
}

// merge returns the elements of two ordered lists in order.
func merge[E any](a, b []E, order func(a, b E) int) []E {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	all := make([]E, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if order(a[0], b[0]) <= 0 {
			all, a = append(all, a[0]), a[1:]
		} else {
			all, b = append(all, b[0]), b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// compareDepthFirst orders paths so that everything beneath a path follows it at
// once: by bytes, but with the slash before all others.
func compareDepthFirst(a, b Path) int {
	if c := cmp.Compare(a.root, b.root); c != 0 {
		return c
	}
	x, y := a.relative(), b.relative()
	i := commonPrefix(x, y)
	switch {
	case i == len(x) || i == len(y):
		return cmp.Compare(len(x), len(y))
	case x[i] == '/':
		return -1
	case y[i] == '/':
		return 1
	}
	return cmp.Compare(x[i], y[i])
}

func commonPrefix(x, y string) int {
	n := min(len(x), len(y))
	i := 0
	for i+8 <= n && load(x, i) == load(y, i) {
		i += 8
	}
	for i < n && x[i] == y[i] {
		i++
	}
	return i
}

// add records a rule for the path of the standing itself.
func (s *standing) add(r Rule) {
	s.mustExist = s.mustExist || r.Missing == MissingError
	deny, grant, wants := &s.treeDeny, &s.treeGrant, &s.treeWants
	if r.Scope == Exact {
		deny, grant, wants = &s.exactDeny, &s.exactGrant, &s.exactMissing
	}
	if r.Access != Deny {
		*grant = max(*grant, r.Access.Grants())
		if *wants != MissingError {
			*wants = r.Missing
		}
		return
	}
	if r.Missing == MissingError {
		*deny = deniedFirm
	} else {
		*deny = max(*deny, deniedSkip)
	}
}

// inherit completes s from the standing of the nearest target above.
func (s *standing) inherit(above standing) {
	// Where the policy is refused without the path, its denies are never left out.
	if s.mustExist {
		s.treeDeny, s.exactDeny = s.treeDeny.firm(), s.exactDeny.firm()
	}
	if s.fresh {
		above.grant, above.absent = PermitNone, PermitNone
	}
	s.grant = max(above.grant, s.treeGrant)
	s.denied = max(above.denied, s.treeDeny)
	s.absent = above.absent
	if above.denied == notDenied {
		s.absent = above.grant
	}
}

func (d denial) firm() denial {
	if d == deniedSkip {
		return deniedFirm
	}
	return d
}

// at returns what holds for the path itself.
func (s *standing) at() cell {
	switch deny := max(s.denied, s.exactDeny); deny {
	case deniedFirm:
		return cell{PermitNone, PermitNone}
	case deniedSkip:
		return cell{PermitNone, s.absent}
	case notDenied:
	}
	p := max(s.grant, s.exactGrant)
	return cell{p, p}
}

// beneath returns what holds for the paths beneath that are in no other cell.
func (s *standing) beneath() cell {
	switch s.denied {
	case deniedFirm:
		return cell{PermitNone, PermitNone}
	case deniedSkip:
		return cell{PermitNone, s.absent}
	case notDenied:
	}
	return cell{s.grant, s.grant}
}

// freshName returns a name that no path of targets has as a segment, so that an
// entry of that name lies in the cell beneath whatever target it is put under.
func freshName(targets []target) string {
	const name = "any"
	taken := map[string]bool{}
	for i := range targets {
		for segment := range strings.SplitSeq(targets[i].path.relative(), "/") {
			if strings.HasPrefix(segment, name) {
				taken[segment] = true
			}
		}
	}
	fresh := name
	for n := 1; taken[fresh]; n++ {
		fresh = name + "-" + strconv.Itoa(n)
	}
	return fresh
}
