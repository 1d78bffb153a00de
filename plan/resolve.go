package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"maelys.dev/maelys/mir"
)

// Resolve says what p means on a host. Each rule becomes rules about absolute paths
// without links, with the identity of what is there; a path that is missing removes
// its rule only where the rule says so. A rule below a symbolic root that leads out of
// it is refused, a deny too. Resolve opens files only to find out what an executable
// needs, and changes nothing.
//
// Every failure is [Errors] with all faults.
func Resolve(p *mir.Policy, h Host) (*Plan, error) {
	if h.Filesystem == nil {
		return nil, Errors{{Code: CodeHostContext, Rule: aboutHost, Message: "expected a filesystem to resolve the policy on, found none"}}
	}
	r := &resolver{
		w:    newWalker(h.Filesystem),
		host: h,
		plan: &Plan{policies: []*mir.Policy{p}, network: p},
	}
	r.roots(p)
	r.network(p)
	for i, rule := range p.Rules() {
		r.rule(i, rule)
	}
	r.names(p.Mode())
	r.conflicts()
	r.withoutPlace()
	if len(r.faults) > 0 {
		r.faults.sort()
		return nil, r.faults
	}
	r.finish()
	return r.plan, nil
}

// A resolver makes a plan.
type resolver struct {
	w      *walker
	host   Host
	plan   *Plan
	faults Errors

	absent  []absence    // denies that were left out
	passed  []passedDeny // denies that were found through links
	unnamed []string     // files of the sandbox's own that are to be where the host has none
	started bool         // the executable was looked at
	closure *runtimeClosure
	failed  error // why there is no closure
}

// An absence is where the path of a rule that was left out would come to be.
type absence struct {
	rule  int
	paths []string // as spelled, at the end of links, and what was passed on the way
	at    string   // what is missing, or no directory
}

type passedDeny struct {
	rule int
	path string
	way  []string
}

// way returns what was passed on the way to a path, and can lead elsewhere when it is
// replaced: links, and directories that were left again by "..".
func (r resolved) way() []string {
	way := make([]string, 0, len(r.links)+len(r.through))
	for _, l := range r.links {
		way = append(way, l.Path)
	}
	return append(way, r.through...)
}

func (r *resolver) fail(code Code, rule int, path string, cause error, hint, format string, args ...any) {
	r.faults = append(r.faults, &Error{Code: code, Rule: rule, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint, Err: cause})
}

func (r *resolver) warn(code Code, rule int, path, hint, format string, args ...any) {
	r.plan.warnings = append(r.plan.warnings, &Error{Code: code, Rule: rule, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// record keeps what was passed on the way to a path.
func (r *resolver) record(found resolved) {
	r.plan.links = append(r.plan.links, found.links...)
	r.plan.directories = append(r.plan.directories, found.through...)
}

const aboutHost = -1 // the host context, where the index of a rule stands

// roots finds the directories that the symbolic roots stand for.
func (r *resolver) roots(p *mir.Policy) {
	at := &r.plan.at
	needed := map[mir.Root]bool{}
	for _, rule := range p.Rules() {
		needed[rule.Path.Root()] = true
	}
	switch {
	case r.host.Workspace != "":
		at.workspace = r.directory("the workspace", r.host.Workspace)
	case needed[mir.RootWorkspace]:
		r.fail(CodeHostContext, aboutHost, "", nil, "name the directory that the command works on",
			"expected a workspace, since the policy has rules below it, found none")
	}
	if r.host.Temp == "" {
		at.temp, at.tempPrivate = PrivateTemp, true
	} else {
		at.temp = r.directory("the directory for temporary files", r.host.Temp)
	}
	for _, root := range r.host.RuntimeRoots {
		found, err := r.absolute(root)
		if err != nil {
			r.fail(CodeHostContext, aboutHost, root, err, "", "expected a runtime root, found: %s", reason(err))
			continue
		}
		r.record(found)
		at.runtimeRoots = append(at.runtimeRoots, found.path)
	}
	slices.Sort(at.runtimeRoots)
	at.runtimeRoots = slices.Compact(at.runtimeRoots)
	if r.host.Executable != "" && !needed[mir.RootRuntime] {
		found, err := r.absolute(r.host.Executable)
		if err != nil {
			r.fail(CodeRuntime, aboutHost, r.host.Executable, err, "", "expected an executable, found: %s", reason(err))
			return
		}
		r.record(found)
		at.executable = found.path
	}
}

// absolute follows a path of the host context.
func (r *resolver) absolute(path string) (resolved, error) {
	if !strings.HasPrefix(path, "/") {
		return resolved{}, errors.New("a relative path; expected an absolute one")
	}
	return r.w.resolve(path)
}

func (r *resolver) directory(what, path string) string {
	found, err := r.absolute(path)
	switch {
	case err != nil:
		r.fail(CodeHostContext, aboutHost, path, err, "", "expected %s, found: %s", what, reason(err))
		return ""
	case found.entry.Type != fs.ModeDir:
		r.fail(CodeHostContext, aboutHost, path, nil, "", "expected %s, found a %s", what, found.entry.kind())
		return ""
	}
	r.record(found)
	return found.path
}

// reason returns what err says beside the path that is shown with it.
func reason(err error) string {
	if broken, ok := errors.AsType[*PathError](err); ok {
		return broken.reason()
	}
	return err.Error()
}

// network checks what the host context says of destinations.
func (r *resolver) network(p *mir.Policy) {
	destinations := p.Destinations()
	at := &r.plan.at
	hint := "leave it out, or add the destination to network.allow of the policy"
	for _, host := range r.host.AllowPrivate {
		if !slices.ContainsFunc(destinations, func(d mir.Destination) bool { return d.Host == host }) {
			r.fail(CodeHostContext, aboutHost, "", nil, hint, "expected a host that the policy allows, found %s, whose private addresses are to be allowed", host)
		}
		at.allowPrivate = append(at.allowPrivate, host)
	}
	slices.SortFunc(at.allowPrivate, func(a, b mir.Hostname) int { return cmp.Compare(a.String(), b.String()) })
	at.allowPrivate = slices.Compact(at.allowPrivate)
	for d, address := range r.host.Pins {
		switch {
		case !slices.Contains(destinations, d):
			r.fail(CodeHostContext, aboutHost, "", nil, hint, "expected a destination that the policy allows, found %s, which is to be pinned", d)
		case !address.IsValid() || address.Port() == 0:
			r.fail(CodeHostContext, aboutHost, "", nil, "write it as ADDRESS:PORT", "expected an address and a port to pin %s to, found %s", d, address)
		}
		at.pins = append(at.pins, Pin{d, netip.AddrPortFrom(address.Addr().Unmap(), address.Port())})
	}
	slices.SortFunc(at.pins, func(a, b Pin) int { return cmp.Compare(a.Destination.String(), b.Destination.String()) })
}

// rule resolves rule i of the policy.
func (r *resolver) rule(i int, rule mir.Rule) {
	text := rule.Path.Text()
	switch rule.Path.Root() {
	case mir.RootRuntime:
		if text != "" {
			r.fail(CodeUnsupported, i, "", nil, "grant the file by its absolute path", "expected minimal-runtime as a whole, found the path %q below it", text)
			return
		}
		r.runtime(i, rule)
	case mir.RootWorkspace:
		r.symbolic(i, rule, "the workspace", r.plan.at.workspace)
	case mir.RootTemp:
		switch {
		case !r.plan.at.tempPrivate:
			r.symbolic(i, rule, "the directory for temporary files", r.plan.at.temp)
		case text == "":
			r.add(Rule{Access: rule.Access, Path: PrivateTemp, Scope: rule.Scope, Policy: i, Identity: Identity{Type: fs.ModeDir}, Private: true})
		default:
			path := below(PrivateTemp, text)
			r.missing(i, rule, path, &PathError{Path: path, At: path, Err: fs.ErrNotExist}, nil, true)
		}
	case mir.RootHost:
		if found, ok := r.follow(i, rule, text, "", ""); ok {
			r.found(i, rule, found)
		}
	}
}

// symbolic resolves a rule below a root that a directory stands for.
func (r *resolver) symbolic(i int, rule mir.Rule, what, root string) {
	if root == "" {
		return // it has been said that there is none
	}
	path := root
	if text := rule.Path.Text(); text != "" {
		path = below(root, text)
	}
	found, ok := r.follow(i, rule, path, what, root)
	if !ok {
		return
	}
	if !inside(root, found.path) {
		r.escape(i, path, what, root, found.path, found.links)
		return
	}
	r.found(i, rule, found)
}

// inside reports whether path is dir or beneath it; both are without links.
func inside(dir, path string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

func (r *resolver) escape(i int, path, what, root, end string, links []Link) {
	by := "it"
	for _, l := range links {
		if inside(root, l.Path) {
			by = fmt.Sprintf("the link %q", l.Path)
		}
	}
	r.fail(CodeEscape, i, path, nil, "name the target by its absolute path, if the rule is meant for it",
		"expected a path in %s %q, found that %s leads out of it, to %q", what, root, by, end)
}

// follow follows the path of a rule; ok means that it is there. A path that breaks
// off outside of root is an escape, not a missing path.
func (r *resolver) follow(i int, rule mir.Rule, path, what, root string) (found resolved, ok bool) {
	found, err := r.w.resolve(path)
	if err == nil {
		return found, true
	}
	broken, known := errors.AsType[*PathError](err)
	switch {
	case known && root != "" && !inside(root, broken.At):
		r.escape(i, path, what, root, broken.At, found.links)
	case known && isMissing(err):
		r.missing(i, rule, path, broken, found.way(), false)
	default:
		hint := "a path that cannot be looked at may be there: missing \"skip\" does not cover it"
		r.fail(CodeUnresolvable, i, path, err, hint, "expected a path that can be followed to its end, found: %s", reason(err))
	}
	return found, false
}

// missing leaves out a rule whose path is not there, or refuses it.
func (r *resolver) missing(i int, rule mir.Rule, path string, broken *PathError, way []string, private bool) {
	if rule.Missing != mir.MissingSkip {
		reason := broken.reason()
		if private {
			reason = "the private temp is empty when the command starts"
		}
		r.fail(CodeMissing, i, path, broken, `create it, or write "missing": "skip" if the command can do without`, "expected a path that exists, found none: %s", reason)
		return
	}
	r.plan.omitted = append(r.plan.omitted, Omission{Rule: i, Path: path, At: broken.At, Err: broken.Err, private: private})
	if rule.Access == mir.Deny {
		r.absent = append(r.absent, absence{i, append([]string{path, broken.end()}, way...), broken.At})
	}
}

// found adds the rule for an entry of the host.
func (r *resolver) found(i int, rule mir.Rule, found resolved) {
	r.record(found)
	r.add(Rule{Access: rule.Access, Path: found.path, Scope: rule.Scope, Policy: i, Identity: found.entry.Identity})
	if rule.Access != mir.Deny {
		return
	}
	if way := found.way(); len(way) > 0 {
		r.passed = append(r.passed, passedDeny{i, found.path, way})
	}
	if found.entry.Type == 0 && found.entry.Links > 1 {
		r.warn(CodeHardLinkedDeny, i, found.path, "deny its other names too, or make it a file with one name",
			"expected a denied file with one name, found one with %d: the command may reach it by another", found.entry.Links)
	}
}

func (r *resolver) add(rule Rule) { r.plan.rules = append(r.plan.rules, rule) }

// runtime adds the rules of minimal-runtime, which is rule i.
func (r *resolver) runtime(i int, rule mir.Rule) {
	for _, root := range r.plan.at.runtimeRoots {
		entry := r.w.look(root).entry
		r.add(Rule{Access: rule.Access, Path: root, Scope: mir.Tree, Policy: i, Identity: entry.Identity, Why: "a runtime root"})
	}
	for _, own := range ownFiles() {
		own.Policy, own.Why = i, "the sandbox's own"
		if rule.Access == mir.Deny {
			own.Access = mir.Deny
		}
		r.add(own)
	}
	r.plan.links = append(r.plan.links, ownLinks()...)
	if r.host.Executable == "" {
		return
	}
	if !r.started {
		r.started = true
		r.closure, r.failed = r.w.runtime(r.host.Executable, runtimeOptions{
			searchPath: r.host.SearchPath, hardware: r.host.Hardware, services: r.nameServices(r.plan.Mode()),
		})
	}
	if r.failed != nil {
		path := r.host.Executable
		message := r.failed.Error()
		if fault, ok := errors.AsType[*RuntimeError](r.failed); ok {
			path, message = fault.Path, strings.TrimLeft(strings.TrimPrefix(message, fault.Path), ",: ")
		}
		r.fail(CodeRuntime, i, path, r.failed, "", "%s", message)
		return
	}
	for _, f := range r.closure.files {
		r.add(Rule{Access: rule.Access, Path: f.path, Scope: mir.Exact, Policy: i, Identity: f.entry.Identity, Why: f.why})
	}
	r.plan.links = append(r.plan.links, r.closure.links...)
	r.plan.directories = append(r.plan.directories, r.closure.directories...)
	if found, err := r.w.resolve(r.host.Executable); err == nil {
		r.plan.at.executable = found.path
	}
}

// conflicts finds what of the host is wanted where the sandbox has something of its
// own. A harmless device is the same in both.
func (r *resolver) conflicts() {
	own := map[string]fs.FileMode{}
	for _, rule := range r.plan.rules {
		if rule.Private && rule.Access != mir.Deny {
			own[rule.Path] = rule.Identity.Type
		}
	}
	for i := range r.plan.rules {
		rule := &r.plan.rules[i]
		kind, ok := own[rule.Path]
		switch {
		case !ok || rule.Private || rule.Access == mir.Deny:
		case kind == 0 && rule.Access == mir.Write:
			r.fail(CodeConflict, rule.Policy, rule.Path, nil, "grant reading it, or leave the rule out",
				"expected no grant of changing a file that the sandbox has of its own, found one")
		case kind != fs.ModeDir:
			rule.Private, rule.Identity = true, Identity{Type: kind}
		case rule.Path == PrivateTemp:
			r.fail(CodeConflict, rule.Policy, rule.Path, nil, "name a directory for temporary files, this one or another",
				"expected no grant of the directory where the private temp is seen, found one")
		default:
			r.fail(CodeConflict, rule.Policy, rule.Path, nil, "grant what is needed beneath it",
				"expected no grant of a directory that the sandbox has of its own, found one")
		}
	}
}

// finish puts the rules in order and looks at all of them together.
func (r *resolver) finish() {
	p := r.plan
	slices.SortStableFunc(p.rules, compareRules)
	p.boundaries()
	p.tidy()
	r.warnAbsent()
	r.warnLinks()
	r.warnRuntime()
	p.warnings.sort()
}

// boundaries finds where the host's files and the sandbox's own meet. Grants above
// such a path do not reach it, unless they are of the same side again.
func (p *Plan) boundaries() {
	if !slices.ContainsFunc(p.rules, func(r Rule) bool { return r.Private && r.Access != mir.Deny }) {
		return
	}
	private := map[string]bool{} // of the paths that are granted
	for _, r := range p.rules {
		if r.Access != mir.Deny {
			private[r.Path] = r.Private
		}
	}
	var again []Rule
	for _, path := range slices.Sorted(maps.Keys(private)) {
		outer := false // what is around is the host
		for at := path; at != "/"; {
			at = parent(at)
			if side, ok := private[at]; ok {
				outer = side
				break
			}
		}
		if outer == private[path] {
			continue
		}
		p.fresh = append(p.fresh, path)
		if same := p.strongestAbove(path, private[path]); same != nil {
			rule := *same
			from, to := p.rulesAt(path)
			here := p.rules[from:to]
			rule.Path, rule.Identity = path, here[slices.IndexFunc(here, func(r Rule) bool { return r.Access != mir.Deny })].Identity
			again = append(again, rule)
		}
	}
	if len(again) > 0 {
		p.rules = append(p.rules, again...)
		slices.SortStableFunc(p.rules, compareRules)
	}
}

// strongestAbove returns the strongest grant of a tree above path on one side, the
// nearest of equal ones.
func (p *Plan) strongestAbove(path string, private bool) *Rule {
	var best *Rule
	for at := path; at != "/"; {
		at = parent(at)
		from, to := p.rulesAt(at)
		for i := from; i < to; i++ {
			r := &p.rules[i]
			if r.Access != mir.Deny && r.Scope == mir.Tree && r.Private == private && (best == nil || r.Access > best.Access) {
				best = r
			}
		}
	}
	return best
}

func (r *resolver) writable(path string) bool {
	return r.plan.Evaluate(path).Permission == mir.PermitReadWrite
}

func (r *resolver) warnAbsent() {
	for _, a := range r.absent {
		path := ""
		if i := slices.IndexFunc(a.paths, r.writable); i >= 0 {
			path = a.paths[i]
		} else if r.plan.Beneath(a.at) == mir.PermitReadWrite {
			path = a.at // ".." after it leads elsewhere once it is there
		}
		if path != "" {
			r.warn(CodeOmissibleDeny, a.rule, path, `create the path before the run, or write "missing": "error"`,
				"expected a denied path that exists, found none, in a directory that the command may write: it can create the path, which nothing denies then")
		}
	}
}

func (r *resolver) warnLinks() {
	for _, d := range r.passed {
		if i := slices.IndexFunc(d.way, r.writable); i >= 0 {
			r.warn(CodeReplaceableLink, d.rule, d.way[i], "deny the link's directory too, or name the target in the rule",
				"expected a denied path without links that the command can replace, found a link on the way to %q, or a directory that a link passes: what it leads to stays denied, what takes its place is not", d.path)
		}
	}
}

// warnRuntime looks at the files that the command is started from.
func (r *resolver) warnRuntime() {
	p := r.plan
	if p.at.executable == "" {
		return
	}
	needed := []string{p.at.executable}
	if r.closure != nil {
		needed = needed[:0]
		for _, f := range r.closure.files {
			needed = append(needed, f.path)
		}
	}
	rules := p.Policy().Rules()
	for _, path := range needed {
		switch d := p.Evaluate(path); {
		case d.Rule < 0:
			r.warn(CodeDeniedRuntime, aboutHost, path, "grant it, or minimal-runtime",
				"expected a grant of what is to be started, found none")
		case d.Permission == mir.PermitNone:
			r.warn(CodeDeniedRuntime, p.rules[d.Rule].Policy, path, "",
				"expected a grant of a file that the command is started from, found that the rule denies it")
		case d.Permission == mir.PermitReadWrite:
			if rule := p.rules[d.Rule].Policy; rules[rule].Path.Root() == mir.RootHost || rules[rule].Path.Root() == mir.RootRuntime {
				r.warn(CodeWritableRuntime, rule, path, "grant the directory for reading",
					"expected a file that the command is started from to be read-only, found that the rule lets the command change it")
			}
		}
	}
}
