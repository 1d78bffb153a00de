package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A versionInfo says which build this is.
type versionInfo struct {
	Maelys   string `json:"maelys"`
	Manifest int    `json:"manifestFormat"`
	MIR      int    `json:"mirFormat"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of the command and of its formats",
		Example: "  maelys version --json",
		Args:    files(0, 0),
		RunE: a.verb(func([]string) *result {
			v := &versionInfo{
				Maelys: "(devel)", Manifest: 2, MIR: 2,
				Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				v.Maelys = info.Main.Version
			}
			return &result{
				Version: v,
				text:    fmt.Sprintf("maelys %s (manifest format %d, MIR format %d, %s, %s)\n", v.Maelys, v.Manifest, v.MIR, v.Go, v.Platform),
			}
		}),
	}
}
