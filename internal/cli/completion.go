package cli

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) completionVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a completion script for a shell",
		Example:   "  source <(maelys completion bash)",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
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
