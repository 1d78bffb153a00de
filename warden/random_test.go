//go:build linux

package warden_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// TestRandomPolicies enforces random policies on a tree of directories and files, and
// tries every path of it, and one beside each that is not there.
func TestRandomPolicies(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "probe")
	random := rand.New(rand.NewPCG(71, uint64(os.Geteuid())))
	names := []string{"a", "b", "a-b"}
	dir := corpus.Scratch(t)
	var below []string // paths below the workspace
	var grow func(path string, depth int)
	grow = func(path string, depth int) {
		below = append(below, path)
		if depth == 0 {
			if err := os.WriteFile(filepath.Join(dir, path), []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			grow(filepath.Join(path, name), depth-1)
		}
	}
	grow("", 3)
	var paths []string
	for _, path := range below {
		paths = append(paths, filepath.Join(dir, path), filepath.Join(dir, path, "other"))
	}
	enforced, accesses := 0, 0
	for range 60 {
		spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
		for range 1 + random.IntN(6) {
			root, text := mir.RootWorkspace, below[random.IntN(len(below))]
			if random.IntN(3) == 0 {
				root, text = mir.RootHost, filepath.Join(dir, text)
			}
			path, err := mir.NewPath(root, text)
			if err != nil {
				t.Fatal(err)
			}
			scope := mir.Tree
			if info, err := os.Stat(filepath.Join(dir, below[0], path.Text())); err == nil && !info.IsDir() {
				scope = mir.Scope(1 + random.IntN(2))
			}
			spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Access(1 + random.IntN(3)), Path: path, Scope: scope, Missing: mir.MissingError})
		}
		policy, err := mir.Build(spec)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Resolve(with(t, policy, program), plan.Host{Filesystem: host.Filesystem(), Workspace: dir})
		if err != nil {
			t.Fatal(err)
		}
		said := string(policy.Inspect())
		for i, got := range confined(t, p, program, paths) {
			_, err := os.Lstat(paths[i])
			permission := p.Evaluate(paths[i]).Permission
			want := tried{Read: permission != mir.PermitNone && err == nil, Write: permission == mir.PermitReadWrite}
			if info, err := os.Stat(filepath.Dir(paths[i])); err == nil && !info.IsDir() {
				want = tried{} // beneath a file nothing can be
			}
			if got != want {
				t.Fatalf("%s: the kernel says %+v, want %+v\n%s", paths[i], got, want, said)
			}
			accesses++
		}
		enforced++
	}
	t.Logf("%d policies, %d paths", enforced, accesses)
}
