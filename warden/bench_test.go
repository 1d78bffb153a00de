//go:build linux

package warden_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// BenchmarkRatioLaunch prints how long it takes to run true, with a workspace, the
// runtime and a private temp, against running it with nothing around it.
func BenchmarkRatioLaunch(b *testing.B) {
	const program = "/bin/true"
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for _, root := range []mir.Root{mir.RootRuntime, mir.RootWorkspace, mir.RootTemp} {
		path, err := mir.NewPath(root, "")
		if err != nil {
			b.Fatal(err)
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Write, Path: path, Scope: mir.Tree, Missing: mir.MissingError})
	}
	spec.Rules[0].Access = mir.Read
	policy, err := mir.Build(spec)
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("TMPDIR", "/var/tmp")
	h := plan.Host{Filesystem: host.Filesystem(), Workspace: b.TempDir(), Executable: program, Hardware: host.Hardware}
	ratio.Measure(b, "launch-true/bare-true", 20,
		func() {
			p, err := plan.Resolve(policy, h)
			if err != nil {
				b.Fatal(err)
			}
			receipt, err := warden.Run(context.Background(), p, warden.Command{Path: program, Args: []string{"true"}, Dir: "/", Stderr: os.Stderr})
			if err != nil || receipt.Status != 0 {
				b.Fatal(receipt, err)
			}
		},
		func() {
			if err := exec.Command(program).Run(); err != nil {
				b.Fatal(err)
			}
		})
}
