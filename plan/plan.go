package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"maelys.dev/maelys/mir"
)

// A Plan is a policy as one host understands it: rules about absolute paths. It is
// immutable and safe for concurrent use; [Resolve] makes one.
type Plan struct {
	policies []*mir.Policy // that it was made of: one, or two when it was restricted
	network  *mir.Policy   // that of it and of the process which counts; its rules do not
	at       context

	rules       []Rule   // by path, scope, access, policy
	fresh       []string // sorted; grants of paths above do not reach these and what is beneath
	omitted     []Omission
	links       []Link // by path, each once
	directories []string
	warnings    Errors
}

// A context is what is left of a [Host]: paths without links.
type context struct {
	workspace    string // empty when there is none
	temp         string // [PrivateTemp] when it is private
	tempPrivate  bool
	executable   string // empty when none is to be started
	runtimeRoots []string
	allowPrivate []mir.Hostname // sorted
	pins         []Pin          // sorted

	hosts, resolver string // files of the sandbox's own
}

// A Rule is a rule of a policy on a host: what it does with one absolute path, and
// with everything beneath when Scope is [mir.Tree].
type Rule struct {
	Access   mir.Access
	Path     string // absolute, without symbolic links; bytes
	Scope    mir.Scope
	Policy   int      // index in [mir.Policy.Rules] of the rule that it comes from; -1 when the network brings it, and in a restricted plan when it comes from the ceiling
	Identity Identity // of what was found there; when Private, its type alone
	Private  bool     // it belongs to the sandbox: nothing of the host is seen there
	Why      string   // why minimal-runtime or the network needs it; empty for other rules
}

// An Omission is a rule of the policy that is left out, because its path is missing.
type Omission struct {
	Rule int    // index in [mir.Policy.Rules]; -1 in a restricted plan, when it comes from the ceiling
	Path string // of the host, as the rule spells it
	At   string // the component that is missing, or that is no directory
	Err  error  // [fs.ErrNotExist] or [ErrNotDirectory]

	private bool // the path is in the private temp
}

// A Pin is the address that stands for a destination.
type Pin struct {
	Destination mir.Destination
	Address     netip.AddrPort
}

// Policy returns the policy that p was resolved from; of a restricted plan, the
// policy of the base.
func (p *Plan) Policy() *mir.Policy { return p.policies[0] }

// Rules returns the rules in order of their paths' bytes, in a slice of the caller's
// own. One rule of a policy can be many here, and several of a policy can be about
// one path.
func (p *Plan) Rules() []Rule { return slices.Clone(p.rules) }

// Omitted returns the rules of the policy that are left out on this host.
func (p *Plan) Omitted() []Omission { return slices.Clone(p.omitted) }

// Links returns the symbolic links that were passed during resolution, in order of
// their paths. Where they are in place, paths work as the policy spells them.
func (p *Plan) Links() []Link { return slices.Clone(p.links) }

// Directories returns directories that must exist for paths to work as they are
// spelled, by way of "..", though nothing in them need be granted.
func (p *Plan) Directories() []string { return slices.Clone(p.directories) }

// Warnings returns what is probably not meant, or cannot be held to the end. Those
// who want to be strict refuse a plan that has any.
func (p *Plan) Warnings() []*Error { return slices.Clone(p.warnings) }

// Mode returns the network posture.
func (p *Plan) Mode() mir.Mode { return p.network.Mode() }

// Destinations returns the destinations that may be reached when the mode is
// [mir.ModeMediated].
func (p *Plan) Destinations() []mir.Destination { return p.network.Destinations() }

// TreeConfinement returns whether descendants must stay confined.
func (p *Plan) TreeConfinement() mir.TreeConfinement { return p.network.TreeConfinement() }

// Workspace returns the directory of the workspace, empty when there is none.
func (p *Plan) Workspace() string { return p.at.workspace }

// Temp returns the directory for temporary files, and whether it is a private one.
func (p *Plan) Temp() (dir string, private bool) { return p.at.temp, p.at.tempPrivate }

// Executable returns what is to be started, empty when that was not said.
func (p *Plan) Executable() string { return p.at.executable }

// AllowPrivate returns the hosts that may have addresses of private networks.
func (p *Plan) AllowPrivate() []mir.Hostname { return slices.Clone(p.at.allowPrivate) }

// Pins returns the addresses that stand for destinations.
func (p *Plan) Pins() []Pin { return slices.Clone(p.at.pins) }

// limits returns the network and the process policy without any rules. To make that takes
// longer than all else in a launch, for which it is of no use.
func (p *Plan) limits() *mir.Policy {
	limits, err := mir.Build(mir.Spec{Mode: p.Mode(), Destinations: p.Destinations(), TreeConfinement: p.TreeConfinement()})
	if err != nil {
		panic("plan: internal error: a policy without its rules is one: " + err.Error())
	}
	return limits
}

// tidy puts what was passed during resolution in order, each once.
func (p *Plan) tidy() {
	slices.SortFunc(p.links, func(a, b Link) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Target, b.Target))
	})
	p.links = slices.Compact(p.links)
	slices.Sort(p.directories)
	p.directories = slices.Compact(p.directories)
}

func compareRules(a, b Rule) int {
	return cmp.Or(
		strings.Compare(a.Path, b.Path),
		cmp.Compare(a.Scope, b.Scope),
		cmp.Compare(a.Access, b.Access),
		cmp.Compare(a.Policy, b.Policy),
	)
}

// rulesAt returns the indices of the rules for a path: from, to.
func (p *Plan) rulesAt(path string) (from, to int) {
	from = sort.Search(len(p.rules), func(i int) bool { return p.rules[i].Path >= path }) // rules are too large to be handed about
	to = from
	for to < len(p.rules) && p.rules[to].Path == path {
		to++
	}
	return from, to
}

func (p *Plan) isFresh(path string) bool {
	_, found := slices.BinarySearch(p.fresh, path)
	return found
}
