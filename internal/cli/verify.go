package cli

import (
	"math"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/mir"
)

func (a *app) verifyVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE…",
		Short: "Say whether files are canonical MIR",
		Long: `Checks that each file is canonical MIR: valid, and the only spelling of what it
says. Prints FILE: OK for each that is, and for each other one the first fault with
its offset.`,
		Example: "  maelys verify policy.mir",
		Args:    files(1, math.MaxInt),
		RunE: a.verb(func(args []string) *result {
			return a.each(args, func(in *input) *result {
				digest, err := mir.Verify(in.data)
				if err != nil {
					return in.refused(err)
				}
				return &result{Files: []fileResult{{File: in.name, Digest: digest.String()}}, text: passed(in)}
			})
		}),
	}
}

// each does the same with every file and joins the results.
func (a *app) each(names []string, do func(in *input) *result) *result {
	all := new(result)
	for _, name := range names {
		in, one := a.read(name)
		if one == nil {
			one = do(in)
		}
		all.add(one)
	}
	return all
}

func passed(in *input) string { return printable(in.name) + ": OK\n" }
