package plan

import (
	"io/fs"
	"slices"

	"maelys.dev/maelys/mir"
)

// A Capability is something that the backend which enforces a plan must be able to
// hold. The names are stable: diagnostics, receipts and doctor use them.
type Capability string

// The capabilities.
const (
	FSRead           Capability = "fs-read"            // some paths can be read and all others not
	FSWrite          Capability = "fs-write"           // some paths can be changed and all others not
	FSDeny           Capability = "fs-deny"            // no access to a path inside a tree that is granted
	FSExactDirectory Capability = "fs-exact-directory" // a directory apart from its entries
	NetworkNone      Capability = "network-none"       // no network at all
	NetworkDirect    Capability = "network-direct"     // the host's network as it is
	NetworkMediated  Capability = "network-mediated"   // the listed destinations and no others
	ProcessTree      Capability = "process-tree"       // no descendant outlives the command or leaves the boundary
)

// Capabilities returns every capability, in the order in which they are shown.
func Capabilities() []Capability {
	return []Capability{FSRead, FSWrite, FSDeny, FSExactDirectory, NetworkNone, NetworkDirect, NetworkMediated, ProcessTree}
}

// A Requirement is a capability that a plan needs, and a rule that needs it.
type Requirement struct {
	Capability Capability
	Rule       int // index in [Plan.Rules] of the first one, with the host's files before the sandbox's own; -1 when the network or the process policy needs it

	// Unenforceable says that no backend can hold this one: an exact rule that grants
	// writing to a directory, or denies one in which all else may be written. Whoever may
	// change a directory changes what is in it, and the other way round.
	Unenforceable bool
}

// Requirements returns what p needs, in order of [Capabilities]; each capability
// once, and once more for each rule that cannot be enforced.
func (p *Plan) Requirements() []Requirement {
	first := map[Capability]int{}
	need := func(c Capability, rule int) {
		if _, ok := first[c]; !ok {
			first[c] = rule
		}
	}
	var impossible []Requirement
	order := make([]int, 0, len(p.rules)) // the host's files first: they make better examples
	for _, private := range []bool{false, true} {
		for i := range p.rules {
			if p.rules[i].Private == private {
				order = append(order, i)
			}
		}
	}
	for _, i := range order {
		r := &p.rules[i]
		directory := r.Identity.Type == fs.ModeDir
		if r.Access == mir.Deny {
			if p.inherited(r.Path) != mir.PermitNone {
				need(FSDeny, i)
			}
			if r.Scope != mir.Exact || !directory {
				continue
			}
			switch p.Beneath(r.Path) {
			case mir.PermitNone:
			case mir.PermitRead:
				need(FSExactDirectory, i)
			case mir.PermitReadWrite:
				impossible = append(impossible, Requirement{FSExactDirectory, i, true})
			}
			continue
		}
		if p.Evaluate(r.Path).Permission == mir.PermitNone && (r.Scope == mir.Exact || p.Beneath(r.Path) == mir.PermitNone) {
			continue // denied as a whole
		}
		need(FSRead, i)
		if r.Access == mir.Write {
			need(FSWrite, i)
		}
		if r.Scope == mir.Tree || !directory || p.Beneath(r.Path) >= r.Access.Grants() {
			continue
		}
		need(FSExactDirectory, i)
		if r.Access == mir.Write {
			impossible = append(impossible, Requirement{FSExactDirectory, i, true})
		}
	}
	switch p.Mode() {
	case mir.ModeNone:
		need(NetworkNone, -1)
	case mir.ModeDirect:
		need(NetworkDirect, -1)
	case mir.ModeMediated:
		need(NetworkMediated, -1)
	}
	if p.TreeConfinement() == mir.Required {
		need(ProcessTree, -1)
	}
	var all []Requirement
	for _, c := range Capabilities() {
		if rule, ok := first[c]; ok {
			all = append(all, Requirement{Capability: c, Rule: rule})
		}
		if c == FSExactDirectory {
			all = append(all, impossible...)
		}
	}
	return all
}

// Unmet returns the requirements that a backend with these capabilities cannot hold:
// a plan that has any must not be started on it.
func (p *Plan) Unmet(offered []Capability) []Requirement {
	return slices.DeleteFunc(p.Requirements(), func(r Requirement) bool {
		return !r.Unenforceable && slices.Contains(offered, r.Capability)
	})
}
