package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) containsVerb() *cobra.Command {
	var at hostContext
	cmd := &cobra.Command{
		Use:   "contains [flags] BOUNDARY CANDIDATE [-- COMMAND [ARG…]]",
		Short: "Say whether one policy stays within another",
		Long: `Answers whether CANDIDATE permits nothing that BOUNDARY does not; both are manifests or
MIR. Where it does, one witness is named for each of paths, network mode, destinations
and tree confinement.

` + symbolicNote + resolvedNote,
		Example: "  maelys contains company.mir project.json",
		Args:    filesBeforeDash(2, 2),
		RunE: a.verbOn(func(args, command []string) *result {
			pair, failed := a.readPair(args, &at, command)
			if failed != nil {
				return failed
			}
			r := &result{Warnings: pair.warnings, Excess: changes(pair.compare().Excess(), true)}
			if len(r.Excess) == 0 {
				r.Files = []fileResult{{File: args[1], Digest: pair.second.Digest().String()}}
				r.text = fmt.Sprintf("%s: within %s\n", printable(args[1]), printable(args[0]))
			}
			for _, c := range r.Excess {
				r.Diagnostics = append(r.Diagnostics, widened(args[1], c))
			}
			return r
		}),
	}
	at.register(cmd)
	return cmd
}
