package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) completionVerb() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	cmd := &cobra.Command{
		Use:     "completion bash|zsh|fish|powershell",
		Short:   "Print a completion script for a shell",
		Example: "  source <(maelys completion bash)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return &usageError{fmt.Sprintf("expected the name of a shell, found %q", strings.Join(args, " ")), "write " + strings.Join(shells, ", ")}
			}
			return nil
		},
		ValidArgs: shells,
	}
	cmd.RunE = a.verb(func(args []string) *result {
		var out bytes.Buffer
		var err error
		switch root := cmd.Root(); args[0] {
		case "bash":
			err = root.GenBashCompletionV2(&out, true)
		case "zsh":
			err = root.GenZshCompletion(&out)
		case "fish":
			err = root.GenFishCompletion(&out, true)
		case "powershell":
			err = root.GenPowerShellCompletionWithDesc(&out)
		}
		if err != nil {
			return usageResult(fmt.Errorf("making the script: %w", err))
		}
		return &result{Script: out.String(), text: out.String()}
	})
	return cmd
}
