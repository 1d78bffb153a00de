package cli

import (
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

func (a *app) explainVerb() *cobra.Command {
	var at hostContext
	cmd := &cobra.Command{
		Use:   "explain [flags] FILE PATH|HOST:PORT… [-- COMMAND [ARG…]]",
		Short: "Say what a policy permits, which rule decides, and what would change it",
		Long: `Answers for each PATH whether it may be read or written, and for each HOST:PORT whether
it may be reached, under a manifest or MIR on this host. Then follow the rule that
decides, its line in the manifest, and what to write to change the answer.

A PATH that is not absolute is below the workspace; symbolic links in it are followed
first. Write ./NAME for a file whose name looks like HOST:PORT. What minimal-runtime
grants depends on COMMAND. A path that the policy needs and that is missing is a warning:
the answers are those that hold once it exists. The exit status is 0 once all is answered.`,
		Example: "  maelys explain policy.json src/main.go .env example.com:443",
		Args:    filesBeforeDash(2, math.MaxInt),
		RunE: a.verbOn(func(args, command []string) *result {
			in, p, failed := a.readSource(args[0])
			if failed != nil {
				return failed
			}
			resolved, wanting, failed := at.suppose(in, p, command)
			if failed != nil {
				return failed
			}
			e := explainer{
				in: in, plan: resolved, rules: resolved.Rules(), policy: p.Rules(),
				base: resolved.Workspace(), paint: painter{color: colorful(a.stdout.w)},
			}
			if e.base == "" {
				here, err := os.Getwd()
				if err != nil {
					return usagef("name the workspace with -w", "the current directory cannot be found out: %v", err)
				}
				e.base = filepath.ToSlash(here)
			}
			r := &result{Warnings: in.about(append(wanting, resolved.Warnings()...))}
			for _, query := range args[1:] {
				e.query(query, r)
			}
			return r
		}),
	}
	at.register(cmd)
	return cmd
}

// An answer is what a policy permits of one query, as JSON.
type answer struct {
	Query      string `json:"query"`
	Permission string `json:"permission"` // none, read or read-write of a path; allowed or refused of HOST:PORT
	Reason     string `json:"reason"`
	Rule       *int   `json:"rule"` // of filesystem.rules or network.allow, as inspect shows them

	Path    string  `json:"path,omitempty"` // where the query leads
	Exists  *bool   `json:"exists,omitempty"`
	Pointer *string `json:"pointer,omitempty"` // of the rule in the manifest
	Line    int     `json:"line,omitempty"`
	Column  int     `json:"column,omitempty"`
	Change  string  `json:"change,omitempty"` // what to write to change the answer
}

// An explainer answers queries about one policy.
type explainer struct {
	in     *input
	plan   *plan.Plan
	rules  []plan.Rule // of the plan
	policy []mir.Rule  // as they are written
	base   string      // of paths that are not absolute
	paint  painter
}

// query answers one query.
func (e *explainer) query(query string, r *result) {
	if host, port, ok := destinationOf(query); ok {
		e.destination(query, host, port, r)
		return
	}
	name := filepath.ToSlash(query)
	if !strings.HasPrefix(name, "/") {
		name = strings.TrimSuffix(e.base, "/") + "/" + name
	}
	at, err := e.plan.Locate(host.Filesystem(), name)
	if err != nil {
		// Whoever cannot follow a path can do nothing with what it leads to.
		ans := answer{Query: query, Permission: mir.PermitNone.String(), Reason: fmt.Sprintf("the path cannot be followed: %v", err)}
		r.Answers = append(r.Answers, ans)
		r.text += fmt.Sprintf("%s: %s\n  %s\n", printable(query), e.paint.bold(ans.Permission), printable(ans.Reason))
		return
	}
	e.path(query, path.Clean(name), at, r)
}

// destinationOf takes apart HOST:PORT. Everything with a slash is a path.
func destinationOf(query string) (host string, port uint16, ok bool) {
	i := strings.LastIndexByte(query, ':')
	if i < 1 || strings.Contains(query, "/") {
		return "", 0, false
	}
	n, err := strconv.ParseUint(query[i+1:], 10, 16)
	return query[:i], uint16(n), err == nil
}

// path answers for what a path, spelled in full as name, leads to.
func (e *explainer) path(query, name string, at plan.Location, r *result) {
	d := e.plan.Evaluate(at.Path)
	ans := answer{Query: query, Permission: d.Permission.String(), Path: at.Path, Exists: &at.Exists}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", printable(query), e.paint.bold(ans.Permission))
	if name != at.Path {
		fmt.Fprintf(&b, "  it leads to %s\n", printable(at.Path))
	}
	var shownRule string
	if d.Rule < 0 {
		ans.Reason = "no rule applies, and what none applies to is denied"
		if e.plan.Executable() == "" && needs(e.plan.Policy(), mir.RootRuntime) {
			ans.Reason += "; what minimal-runtime grants depends on the command, and none was named"
		}
	} else {
		rule := e.rules[d.Rule]
		ans.Reason = e.because(at.Path, rule, d)
		if rule.Policy >= 0 {
			ans.Rule = &rule.Policy
		}
	}
	for _, o := range e.plan.Omitted() {
		if covers(o.Path, at.Path) {
			ans.Reason += fmt.Sprintf("; rule %d is left out, because %s is missing", o.Rule, o.At)
		}
	}
	if !at.Exists {
		ans.Reason += "; nothing is there now"
	}
	if ans.Rule != nil {
		place := e.in.atRule(*ans.Rule)
		ans.Pointer, ans.Line, ans.Column = place.Pointer, place.Line, place.Column
		shownRule = e.where(place)
	}
	ans.Change = e.change(at, d)
	fmt.Fprintf(&b, "  %s\n%s", printable(ans.Reason), shownRule)
	fmt.Fprintf(&b, "  %s %s\n", e.paint.blue("to change it:"), printable(ans.Change))
	r.Answers = append(r.Answers, ans)
	r.text += b.String()
}

// covers reports whether path is outer or beneath it.
func covers(outer, path string) bool {
	_, ok := relative(outer, path)
	return ok
}

// because says which rule decides.
func (e *explainer) because(path string, rule plan.Rule, d plan.Decision) string {
	verb := map[mir.Access]string{mir.Read: "grants reading", mir.Write: "grants reading and writing", mir.Deny: "denies"}[rule.Access]
	where := "this path"
	if rule.Path != path {
		where = "everything beneath " + rule.Path
	} else if rule.Scope == mir.Tree {
		where = "this path and everything beneath"
	}
	if rule.Policy < 0 {
		return fmt.Sprintf("network %s %s %s: %s", e.plan.Mode(), verb, where, rule.Why)
	}
	written := e.policy[rule.Policy]
	reason := fmt.Sprintf("rule %d (%s %s %s) %s %s", rule.Policy, written.Access, written.Scope, written.Path, verb, where)
	if rule.Why != "" {
		reason += ": " + rule.Why
	} else if d.Private {
		reason += ": the sandbox's own"
	}
	grants := 0
	for _, i := range d.Applicable {
		if e.rules[i].Access != mir.Deny {
			grants++
		}
	}
	if rule.Access == mir.Deny && grants > 0 {
		reason += "; a deny is absolute, whatever else is granted"
	}
	return reason
}

// where shows the place of a rule.
func (e *explainer) where(d diagnostic) string {
	if d.in == nil || d.Line == 0 {
		return ""
	}
	text := "  " + d.place()
	if d.Pointer != nil {
		text += printable(*d.Pointer)
	}
	return text + "\n" + sourceLine(d.in.data, d.Line, d.Column, e.paint)
}

// change says what to write in the policy so that the answer is another.
func (e *explainer) change(at plan.Location, d plan.Decision) string {
	var denies []string
	for _, i := range d.Applicable {
		if name := e.named(e.rules[i].Policy); e.rules[i].Access == mir.Deny && !slices.Contains(denies, name) {
			denies = append(denies, name)
		}
	}
	if len(denies) > 0 {
		text := "take out " + strings.Join(denies, " and ")
		if len(denies) == len(d.Applicable) {
			text += ", and grant the path"
		}
		return text
	}
	if d.Private {
		return "nothing of the host is there; without " + e.named(e.rules[d.Rule].Policy) + " there is nothing at all"
	}
	access, purpose := mir.Read, "to permit reading, add "
	switch d.Permission {
	case mir.PermitNone:
	case mir.PermitRead:
		access, purpose = mir.Write, "to permit writing too, add "
	case mir.PermitReadWrite:
		for _, o := range e.plan.Omitted() {
			if e.policy[o.Rule].Access == mir.Deny && covers(o.Path, at.Path) {
				return "create it before the run: then " + e.named(o.Rule) + " denies it"
			}
		}
		access, purpose = mir.Deny, "to deny it, add "
		if !at.Exists {
			purpose = "to deny it, create it before the run and add "
		}
	}
	for access != mir.Deny && !at.Exists && at.Path != "/" {
		// A rule for what is not there would be refused; whoever is to create it needs the
		// directory.
		above, err := e.plan.Locate(host.Filesystem(), path.Dir(at.Path))
		if err != nil {
			break
		}
		at = above
	}
	line, ok := e.ruleFor(at, access)
	if !ok {
		return "no manifest can name this path; grant or deny a directory above it"
	}
	return purpose + line + " to /filesystem/rules"
}

// named returns how a rule of the policy is found where it is written.
func (e *explainer) named(i int) string {
	if i < 0 {
		return fmt.Sprintf("network %s", e.plan.Mode())
	}
	var places []string
	for _, p := range e.in.places(i) {
		places = append(places, p.Pointer)
	}
	if len(places) == 0 {
		return fmt.Sprintf("rule %d", i)
	}
	return strings.Join(places, " and ")
}

// ruleFor returns a rule for one path as it is written in a manifest.
func (e *explainer) ruleFor(at plan.Location, access mir.Access) (string, bool) {
	if !utf8.ValidString(at.Path) {
		return "", false
	}
	root, text := mir.RootHost, at.Path
	temp, private := e.plan.Temp()
	if below, ok := relative(e.plan.Workspace(), at.Path); ok {
		root, text = mir.RootWorkspace, below
	} else if below, ok := relative(temp, at.Path); ok && !private {
		root, text = mir.RootTemp, below
	}
	named, err := mir.NewPath(root, text)
	if err != nil {
		return "", false
	}
	rule := mir.Rule{Access: access, Path: named, Scope: mir.Exact, Missing: mir.MissingError}
	if at.Identity.Type == fs.ModeDir {
		rule.Scope = mir.Tree
	}
	line, err := manifest.FormatRule(rule)
	return line, err == nil
}

// relative returns path below dir, when it is there.
func relative(dir, path string) (string, bool) {
	switch {
	case dir == "":
		return "", false
	case path == dir:
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// destination answers for HOST:PORT.
func (e *explainer) destination(query, name string, port uint16, r *result) {
	ans := answer{Query: query, Permission: "refused"}
	host, err := mir.NewHostname(name)
	d := mir.Destination{Host: host, Port: port}
	mode := e.plan.Mode()
	_, literal := netip.ParseAddr(strings.Trim(name, "[]"))
	index := -1
	for i, allowed := range e.plan.Destinations() {
		if err == nil && allowed == d {
			index = i
		}
	}
	add := ""
	if err == nil && port > 0 {
		add = "add " + manifest.FormatDestination(d) + " to /network/allow"
	}
	var place diagnostic
	point := func(p manifest.Place) {
		place = placed(p)
		place.File, place.in = e.in.name, e.in
		ans.Pointer, ans.Line, ans.Column = place.Pointer, place.Line, place.Column
	}
	if e.in.source != nil && mode != mir.ModeMediated {
		point(e.in.source.Mode())
	}
	switch {
	case mode == mir.ModeDirect:
		ans.Permission = "allowed"
		ans.Reason = "the network mode is direct: everything that the host can reach"
		ans.Change = `write "mode": "mediated" with the destinations that are needed in "allow"`
	case port == 0:
		ans.Reason, ans.Change = "there is no port 0", "name a port from 1 to 65535"
	case literal == nil:
		ans.Reason, ans.Change = "a policy allows names, and never addresses", "name the host"
	case err != nil:
		ans.Reason, ans.Change = "this is not a hostname", "name a host by letters, digits, hyphens and dots"
	case index >= 0:
		ans.Permission, ans.Rule = "allowed", &index
		ans.Reason = fmt.Sprintf("destination %d allows it", index)
		ans.Change = "take it out of /network/allow"
		if e.in.source != nil {
			point(e.in.source.Destination(index))
		}
	case mode == mir.ModeNone:
		ans.Reason, ans.Change = "the network mode is none", `write "mode": "mediated", and `+add
	default:
		ans.Reason, ans.Change = "no destination allows it", add
	}
	r.Answers = append(r.Answers, ans)
	r.text += fmt.Sprintf("%s: %s\n  %s\n%s  %s %s\n", printable(query), e.paint.bold(ans.Permission), printable(ans.Reason), e.where(place),
		e.paint.blue("to change it:"), printable(ans.Change))
}
