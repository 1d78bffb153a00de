package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/mir"
)

func (a *app) restrictVerb() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "restrict BASE CEILING -o FILE",
		Short: "Make the policy that permits what two others both permit",
		Long: `Writes the MIR of what BASE and CEILING both permit, manifests or MIR: every deny of
both, the weaker access where grants meet, the narrower network mode with the common
destinations, and tree confinement when either requires it. Prints the digest and the
file's name. Neither policy can be widened by it: the result is within both.

` + symbolicNote,
		Example: "  maelys restrict project.json company.mir -o effective.mir",
		Args:    files(2, 2),
		RunE:    a.verb(func(args []string) *result { return a.restrict(args[0], args[1], out) }),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `FILE` to write, - for standard output")
	return cmd
}

func (a *app) restrict(base, ceiling, out string) *result {
	if out == "" {
		return usagef("say where with -o", "the output has no name")
	}
	b, c, failed := a.readPolicies(base, ceiling)
	if failed != nil {
		return failed
	}
	p, err := mir.Restrict(b, c)
	if err != nil {
		message := err.Error()
		if fault, ok := errors.AsType[*mir.SpecError](err); ok {
			message = fault.Message
		}
		return failure(diagnostic{
			File: base, Code: codeTooLarge, exit: exitNo,
			Message: fmt.Sprintf("what this and %s both permit is no policy: %s", ceiling, message),
			Hint:    "remove denies that can never act; maelys lint names them",
		})
	}
	if out == "-" {
		return a.raw(p.Bytes())
	}
	if failed := output(out, p.Bytes(), base, ceiling); failed != nil {
		return failed
	}
	return &result{
		Files: []fileResult{{File: base, Output: out, Digest: p.Digest().String()}},
		text:  checksum(p.Digest(), out),
	}
}
