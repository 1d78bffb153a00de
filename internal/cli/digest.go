package cli

import (
	"math"

	"github.com/spf13/cobra"
)

func (a *app) digestVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "digest FILE…",
		Short: "Print the decision digest of MIR or manifests",
		Long: `Prints the SHA-256 of the canonical MIR of each file, a manifest or MIR. Manifests
that say the same have the same digest, however they are spelled.`,
		Example: "  maelys digest policy.json policy.mir",
		Args:    files(1, math.MaxInt),
		RunE: a.verb(func(args []string) *result {
			return a.each(args, func(in *input) *result {
				p, failed := in.policy()
				if failed != nil {
					return failed
				}
				return &result{
					Files: []fileResult{{File: in.name, Digest: p.Digest().String()}},
					text:  checksum(p.Digest(), in.name),
				}
			})
		}),
	}
}
