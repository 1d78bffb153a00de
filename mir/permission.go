package mir

// A Permission is what may be done with one path. The zero Permission is none.
type Permission uint8

// The permissions; each includes the ones before it.
const (
	PermitNone      Permission = 0
	PermitRead      Permission = 1 // read, list and execute
	PermitReadWrite Permission = 2
)

func (p Permission) String() string { return name("none read read-write", uint8(p)+1) }

// Grants returns what a rule with access a gives by itself.
func (a Access) Grants() Permission {
	switch a {
	case Read:
		return PermitRead
	case Write:
		return PermitReadWrite
	case Deny:
		return PermitNone
	}
	return PermitNone
}

// Permission returns what p allows to be done with path when every rule is in
// force: none where any rule that applies denies, else the most that any of them
// grants, else none.
//
// The answer is symbolic. It takes rules below other roots for rules about other
// files, although on a host two roots may overlap.
func (p *Policy) Permission(path Path) Permission {
	best := PermitNone
	for _, r := range p.rules {
		if r.Path != path && (r.Scope != Tree || !r.Path.Contains(path)) {
			continue
		}
		if r.Access == Deny {
			return PermitNone
		}
		best = max(best, r.Access.Grants())
	}
	return best
}
