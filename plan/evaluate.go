package plan

import "maelys.dev/maelys/mir"

// A Decision is what a plan permits on one path, and why.
type Decision struct {
	Permission mir.Permission

	// Rule is the index in [Plan.Rules] of the rule that decides, -1 when none
	// applies. Of several it is the deepest; of those for one path, the one with the
	// narrower scope.
	Rule int

	// Applicable are all rules that apply, the deepest first, as indices in
	// [Plan.Rules].
	Applicable []int

	// Private says that the path belongs to the sandbox: what is there is not what
	// the host has there.
	Private bool
}

// Evaluate returns what p permits on a path: none where any rule that applies
// denies, else the most that any of them grants, else none. A rule applies to its
// path, and to everything beneath when it is for a tree. Where the sandbox has a
// directory of its own, rules about the host's files above do not apply to it, and
// the other way round.
//
// The path must be absolute and without links, as [Plan.Locate] returns it. A path
// with an empty, "." or ".." segment is permitted nothing.
func (p *Plan) Evaluate(path string) Decision {
	d := Decision{Rule: -1}
	if mir.ResolvedPath(path) == (mir.Path{}) {
		return d
	}
	granted := false // a grant was found: it says whose the path is
	reached := true  // by grants of this path or above
	for at := path; ; at = parent(at) {
		from, to := p.rulesAt(at)
		for i := from; i < to; i++ {
			r := &p.rules[i]
			if r.Access != mir.Deny {
				if !granted {
					d.Private, granted = r.Private, true
				}
				if !reached {
					continue
				}
			}
			if at == path || r.Scope == mir.Tree {
				d.Applicable = append(d.Applicable, i)
			}
		}
		if at == "/" {
			break
		}
		reached = reached && !p.isFresh(at)
	}
	for _, i := range d.Applicable {
		if d.Rule < 0 || p.rules[i].Access > p.rules[d.Rule].Access { // deny > write > read
			d.Rule = i
		}
	}
	if d.Rule >= 0 {
		d.Permission = p.rules[d.Rule].Access.Grants()
	}
	return d
}

// isPrivate is the Private of [Plan.Evaluate] on a path as resolution leaves it: whose
// the path is, says the deepest grant around it.
func (p *Plan) isPrivate(path string) bool {
	for at := path; ; at = parent(at) {
		from, to := p.rulesAt(at)
		for i := from; i < to; i++ {
			if p.rules[i].Access != mir.Deny {
				return p.rules[i].Private
			}
		}
		if at == "/" {
			return false
		}
	}
}

// inherited returns what tree rules above grant on a path, as if no rule were for
// the path itself.
func (p *Plan) inherited(path string) mir.Permission {
	if path == "/" {
		return mir.PermitNone
	}
	return p.trees(parent(path), !p.isFresh(path))
}

// Beneath returns what is permitted on the entries of a directory for which there is no
// rule, and on everything beneath them.
func (p *Plan) Beneath(path string) mir.Permission { return p.trees(path, true) }

// trees returns what tree rules at a path and above permit; grants count only while
// they reach.
func (p *Plan) trees(path string, reached bool) mir.Permission {
	best := mir.PermitNone
	for at := path; ; at = parent(at) {
		from, to := p.rulesAt(at)
		for i := from; i < to; i++ {
			switch r := &p.rules[i]; {
			case r.Scope != mir.Tree:
			case r.Access == mir.Deny:
				return mir.PermitNone
			case reached:
				best = max(best, r.Access.Grants())
			}
		}
		if at == "/" {
			return best
		}
		reached = reached && !p.isFresh(at)
	}
}
