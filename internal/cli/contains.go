package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/mir"
)

func (a *app) containsVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "contains BOUNDARY CANDIDATE",
		Short: "Say whether one policy stays within another",
		Long: `Answers whether CANDIDATE permits nothing that BOUNDARY does not; both are manifests or
MIR. Where it does, one witness is named for each of paths, network mode, destinations
and tree confinement.

` + symbolicNote,
		Example: "  maelys contains company.mir project.json",
		Args:    files(2, 2),
		RunE: a.verb(func(args []string) *result {
			boundary, candidate, failed := a.readPolicies(args[0], args[1])
			if failed != nil {
				return failed
			}
			contained, excess := mir.Contains(boundary, candidate)
			if contained {
				return &result{
					Files: []fileResult{{File: args[1], Digest: candidate.Digest().String()}},
					text:  fmt.Sprintf("%s: within %s\n", printable(args[1]), printable(args[0])),
				}
			}
			r := &result{Excess: changes(excess, true)}
			for _, c := range r.Excess {
				r.Diagnostics = append(r.Diagnostics, widened(args[1], c))
			}
			return r
		}),
	}
}
