//go:build linux

package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// BenchmarkRatioResolve resolves a policy of 4096 paths that exist, some of them
// through links, against looking at each component of each path, and reading each
// link, with bare calls of the kernel.
func BenchmarkRatioResolve(b *testing.B) {
	root, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	var paths []string
	for i := range mir.MaxRules {
		dir := fmt.Sprintf("services/team-%02d/module-%03d", i%16, i/8)
		name := fmt.Sprintf("%s/file-%04d", dir, i)
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			b.Fatal(err)
		}
		if i%8 == 0 {
			err = os.Symlink("../../team-00/module-000", filepath.Join(root, name))
		} else {
			err = os.WriteFile(filepath.Join(root, name), nil, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
		path, err := mir.NewPath(mir.RootWorkspace, name)
		if err != nil {
			b.Fatal(err)
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Access(1 + i%3), Path: path, Scope: mir.Tree, Missing: mir.MissingError})
		paths = append(paths, root+"/"+name)
	}
	policy, err := mir.Build(spec)
	if err != nil {
		b.Fatal(err)
	}
	walk := func(path string) {
		var st syscall.Stat_t
		var target [4096]byte
		for at := 0; at >= 0; {
			next := strings.IndexByte(path[at+1:], '/')
			if at = at + 1 + next; next < 0 {
				at = -1
			}
			upTo := path
			if at > 0 {
				upTo = path[:at]
			}
			if err := syscall.Lstat(upTo, &st); err != nil {
				b.Fatal(err)
			}
			if st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
				if _, err := syscall.Readlink(upTo, target[:]); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	ratio.Measure(b, "resolve-4096/lstat-readlink", 2,
		func() {
			p, err := plan.Resolve(policy, plan.Host{Filesystem: host.Filesystem(), Workspace: root})
			if err != nil || len(p.Rules()) != mir.MaxRules {
				b.Fatal(len(p.Rules()), err)
			}
		},
		func() {
			for _, path := range paths {
				walk(path)
			}
		})
}
