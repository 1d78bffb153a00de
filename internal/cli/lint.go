package cli

import (
	"math"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

func (a *app) lintVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE…",
		Short: "Point at what is wrong or probably not meant",
		Long: `Says everything that is wrong with each file, as compile does, and else what is valid
and probably not meant: rules that can never act, grants of the whole host, of homes,
of kernel files and of sockets of services outside, denies that protect only what
exists already, direct networking. Each with why it matters and what to write instead.`,
		Example: "  maelys lint policy.json",
		Args:    files(1, math.MaxInt),
		RunE:    a.verb(func(args []string) *result { return a.each(args, lint) }),
	}
}

func lint(in *input) *result {
	var findings []manifest.Finding
	var err error
	if in.isMIR() {
		var p *mir.Policy
		if p, err = mir.Decode(in.data); err == nil {
			findings = manifest.LintPolicy(p)
		}
	} else {
		findings, err = manifest.Lint(in.data)
	}
	if err != nil {
		return in.refused(err)
	}
	if len(findings) == 0 {
		return &result{Files: []fileResult{{File: in.name}}, text: passed(in)}
	}
	r := new(result)
	for _, f := range findings {
		d := placed(f.Place)
		d.File, d.Code, d.Message, d.Hint = in.name, string(f.Code), f.Message, f.Hint
		d.exit, d.in = exitNo, in
		r.Diagnostics = append(r.Diagnostics, d)
	}
	return r
}
