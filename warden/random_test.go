//go:build linux

package warden_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
		enforceAll(t, policy, program, dir, paths, mir.Required, host.Namespaces)
		// By Landlock alone what can only be read, where nothing is denied.
		for i := range spec.Rules {
			spec.Rules[i].Access = mir.Read
		}
		if policy, err = mir.Build(spec); err != nil {
			t.Fatal(err)
		}
		enforceAll(t, policy, program, dir, paths, mir.Disabled, host.Landlock)
		accesses += 2 * len(paths)
		enforced++
	}
	t.Logf("%d policies, %d paths", enforced, accesses)
}

// enforceAll compares what the kernel permits on each path with what the evaluator says.
func enforceAll(t *testing.T, policy *mir.Policy, program, dir string, paths []string, tree mir.TreeConfinement, by host.Backend) {
	t.Helper()
	p, err := plan.Resolve(with(t, policy, program, tree), plan.Host{Filesystem: host.Filesystem(), Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	if by == host.Landlock && slices.ContainsFunc(p.Requirements(), func(r plan.Requirement) bool { return r.Capability == plan.FSExactDirectory }) {
		return
	}
	rules := p.Rules()
	for i, got := range confined(t, p, program, paths, by) {
		_, err := os.Lstat(paths[i])
		exists := err == nil
		permission := p.Evaluate(paths[i]).Permission
		writable := permission == mir.PermitReadWrite
		want := tried{Read: permission != mir.PermitNone && exists, Write: writable}
		if info, err := os.Stat(filepath.Dir(paths[i])); err == nil && !info.IsDir() {
			want = tried{} // beneath a file nothing can be
		}
		if got.kept() != want {
			t.Fatalf("%s: %s: the kernel says %+v, want %+v\n%s", by, paths[i], got, want, policy.Inspect())
		}
		// What may be renamed or linked is what may be written, with all that is in it, to
		// where it may be written. What a rule names may be a mount, which cannot be renamed.
		named := slices.ContainsFunc(rules, func(r plan.Rule) bool { return r.Path == paths[i] || strings.HasPrefix(r.Path, paths[i]+"/") })
		info, err := os.Lstat(paths[i])
		file := err == nil && info.Mode().IsRegular()
		beside := func(suffix string) bool { return p.Evaluate(paths[i]+suffix).Permission == mir.PermitReadWrite }
		may := exists && writable && beside(".renamed")
		if got.Rename && !may || !got.Rename && may && !named {
			t.Fatalf("%s: %s: renamed: %v\n%s", by, paths[i], got.Rename, policy.Inspect())
		}
		may = file && writable && beside(".linked")
		if got.Link && !may || !got.Link && may && !named {
			t.Fatalf("%s: %s: linked: %v\n%s", by, paths[i], got.Link, policy.Inspect())
		}
		for _, r := range rules {
			if got.Rename && strings.HasPrefix(r.Path, paths[i]+"/") && p.Evaluate(r.Path).Permission != mir.PermitReadWrite {
				t.Fatalf("%s: %s was renamed, and %s in it may not be written\n%s", by, paths[i], r.Path, policy.Inspect())
			}
		}
	}
}
