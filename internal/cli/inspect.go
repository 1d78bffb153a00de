package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/mir"
)

func (a *app) inspectVerb() *cobra.Command {
	var text bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a decision says",
		Long: `Shows a manifest or MIR as JSON: the digest, every rule in canonical order with no
default left out, the network and the process policy. It is a view; nothing reads it
back. With --text it is a table for people.`,
		Example: "  maelys inspect policy.mir\n  maelys inspect --text policy.json",
		Args:    files(1, 1),
		RunE: a.verb(func(args []string) *result {
			p, failed := a.readPolicy(args[0])
			if failed != nil {
				return failed
			}
			r := &result{Inspection: p.Inspect(), text: string(p.Inspect())}
			if text {
				r.text = table(p, painter{color: colorful(a.stdout.w)})
			}
			return r
		}),
	}
	cmd.Flags().BoolVar(&text, "text", false, "print a table for people")
	return cmd
}

// table shows p for people: the rules by root, in the order of the policy.
func table(p *mir.Policy, paint painter) string {
	var b strings.Builder
	field := func(name, value string) { fmt.Fprintf(&b, "%s %s\n", paint.bold(fmt.Sprintf("%-9s", name)), value) }
	field("digest", p.Digest().String())
	network := p.Mode().String()
	switch n := len(p.Destinations()); n {
	case 0:
	case 1:
		network += ", one destination"
	default:
		network += fmt.Sprintf(", %d destinations", n)
	}
	field("network", network)
	for _, d := range p.Destinations() {
		field("", "  tcp "+d.String())
	}
	field("process", "tree confinement "+p.TreeConfinement().String())
	rules := p.Rules()
	if len(rules) == 0 {
		field("rules", "none: no file may be touched")
		return b.String()
	}
	field("rules", fmt.Sprintf("%d; what none applies to is denied", len(rules)))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, r := range rules {
		missing := ""
		if r.Missing == mir.MissingSkip {
			missing = "skipped if missing"
		}
		fmt.Fprintf(w, "  %d\t%s\t%s\t%s\t%s\n", i, r.Access, r.Scope, shown(r.Path), missing)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return trimLines(b.String())
}

// trimLines takes the spaces from the ends of lines, which a table leaves there.
func trimLines(s string) string {
	lines := strings.SplitAfter(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(strings.TrimSuffix(lines[i], "\n"), " ")
	}
	return strings.Join(lines, "\n")
}

// shown returns a path for people.
func shown(p mir.Path) string { return printable(p.String()) }
