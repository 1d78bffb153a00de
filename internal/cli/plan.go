package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

func (a *app) planVerb() *cobra.Command {
	var at hostContext
	cmd := &cobra.Command{
		Use:   "plan [flags] FILE [-- COMMAND [ARG…]]",
		Short: "Show what a policy means on this host",
		Long: `Resolves a manifest or MIR on this host as a run would, and changes nothing: every rule
by its absolute path without symbolic links, what is left out because it is missing, and
what the rules ask of the kernel. With COMMAND, also the files that are needed to load
and start it, which is what minimal-runtime grants.

A path that leads out of its symbolic root is refused, and so is everything that cannot
be looked at. What cannot be held to the end, or not by this host, is a warning, and
refused with --strict.`,
		Example: "  maelys plan policy.json -- make test\n  maelys plan -w ~/src/project --json policy.mir",
		Args:    filesBeforeDash(1, 1),
		RunE: a.verbOn(func(args, command []string) *result {
			in, resolved, failed := a.readPlan(args[0], &at, command)
			if failed != nil {
				return failed
			}
			lacks := in.lacks(resolved, host.Read())
			if at.strict && len(lacks) > 0 {
				return failure(lacks...)
			}
			return &result{
				Plan:     resolved.Inspect(),
				Warnings: append(in.about(resolved.Warnings()), lacks...),
				text:     planTable(resolved, painter{color: colorful(a.stdout.w)}),
			}
		}),
	}
	at.register(cmd)
	return cmd
}

// What is said of a rule that nothing can hold.
const (
	unenforceable     = "an exact rule that makes a directory writable without its entries, or its entries without it, cannot be held by anything: whoever changes a directory changes its entries"
	unenforceableHint = "write rules for the tree, or for the entries one by one"
)

// lacks returns what p needs and a host with these facts cannot hold by its better
// backend, at the rules that need it.
func (in *input) lacks(p *plan.Plan, f host.Facts) []diagnostic {
	why := map[plan.Capability]host.Ability{}
	for _, a := range f.Abilities(host.Namespaces) {
		why[a.Capability] = a
	}
	rules := p.Rules()
	var list []diagnostic
	for _, r := range p.Requirements() {
		policy := -1
		if r.Rule >= 0 {
			policy = rules[r.Rule].Policy
		}
		d := in.atRule(policy)
		d.Code, d.exit = codeCapability, exitNo
		switch a := why[r.Capability]; {
		case r.Unenforceable:
			d.Message, d.Hint = unenforceable, unenforceableHint
		case !a.Holds():
			d.Message, d.Hint = fmt.Sprintf("this host cannot hold %s: %s", r.Capability, a.Reason), a.Fix
		default:
			continue
		}
		list = append(list, d)
	}
	return list
}

// planTable shows p for people.
func planTable(p *plan.Plan, paint painter) string {
	var b strings.Builder
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", paint.bold(fmt.Sprintf("%-9s", name)), fmt.Sprintf(format, args...))
	}
	field("decision", "%s", p.Policy().Digest())
	field("plan", "%s", p.Digest())
	if dir := p.Workspace(); dir != "" {
		field("workspace", "%s", printable(dir))
	}
	temp, own := p.Temp()
	if own {
		temp += ", private"
	}
	field("temp", "%s", printable(temp))
	switch command := p.Executable(); {
	case command != "":
		field("command", "%s", printable(command))
	case needs(p.Policy(), mir.RootRuntime):
		field("command", "none is named: minimal-runtime has more with one")
	}
	field("network", "%s", p.Mode())
	pins, private := p.Pins(), p.AllowPrivate()
	for _, d := range p.Destinations() {
		more := ""
		if i := slices.IndexFunc(pins, func(pin plan.Pin) bool { return pin.Destination == d }); i >= 0 {
			more = ", pinned to " + pins[i].Address.String()
		} else if slices.Contains(private, d.Host) {
			more = ", also at a private address"
		}
		field("", "  tcp %s%s", d, more)
	}
	field("process", "tree confinement %s", p.TreeConfinement())
	rules := p.Rules()
	for i, r := range p.Requirements() {
		name := ""
		if i == 0 {
			name = "needs"
		}
		text := string(r.Capability)
		if r.Rule >= 0 {
			text += ", for " + printable(rules[r.Rule].Path)
		}
		if r.Unenforceable {
			text += ", which nothing can hold"
		}
		field(name, "%s", text)
	}
	if len(rules) == 0 {
		field("rules", "none: no file may be touched")
	} else {
		field("rules", "%d, by number in the policy; what none applies to is denied", len(rules))
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rules {
		why := r.Why
		if r.Private && why == "" {
			why = "the sandbox's own"
		}
		number := "-" // the network brings it
		if r.Policy >= 0 {
			number = strconv.Itoa(r.Policy)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", number, r.Access, r.Scope, printable(r.Path), printable(why))
	}
	if omitted := p.Omitted(); len(omitted) > 0 {
		_ = w.Flush() // a strings.Builder takes everything
		field("omitted", "%d, because there is nothing at their paths", len(omitted))
		policy := p.Policy().Rules()
		for _, o := range omitted {
			r := policy[o.Rule]
			fmt.Fprintf(w, "  %d\t%s\t%s\t%s\n", o.Rule, r.Access, r.Scope, printable(o.Path))
		}
	}
	if links := p.Links(); len(links) > 0 {
		_ = w.Flush()
		field("links", "%d", len(links))
		for _, l := range links {
			fmt.Fprintf(w, "  %s\t→ %s\n", printable(l.Path), printable(l.Target))
		}
	}
	_ = w.Flush()
	return trimLines(b.String())
}
