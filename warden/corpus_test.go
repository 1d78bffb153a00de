//go:build linux

package warden_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// TestMain makes the test binary the program that is confined, too: it is told apart by
// the name it is started by.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "probe":
		os.Exit(probe(os.Args[1:]))
	case "calls":
		os.Exit(printCalls())
	case "attack":
		os.Exit(attack(os.Args[1:]))
	case "launcher":
		os.Exit(launcher(os.Args[1:]))
	case "talk":
		os.Exit(talk(os.Args[1]))
	}
	os.Exit(m.Run())
}

// A tried is what the kernel let the probe do with one path.
type tried struct {
	Read, Write bool
	Rename      bool // to a name beside it, and back
	Link        bool // a hard link beside it
}

// kept returns what the corpus has an answer for.
func (t tried) kept() tried { return tried{Read: t.Read, Write: t.Write} }

// probe tries to read and to change each path, and prints what could be done.
func probe(paths []string) int {
	all := make([]tried, len(paths))
	for i, path := range paths {
		all[i] = tried{canRead(path), canWrite(path), canRename(path), canLink(path)}
	}
	if json.NewEncoder(os.Stdout).Encode(all) != nil {
		return 1
	}
	return 0
}

func canRead(path string) bool {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.IsDir() {
		_, err := file.ReadDir(-1)
		return err == nil
	}
	_, err = file.Read(make([]byte, 1))
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.EAGAIN)
}

// canWrite tries everything that changes a path, and takes it back.
func canWrite(path string) bool {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		inside := path + "/created-by-the-probe"
		if os.WriteFile(inside, nil, 0o600) == nil {
			return os.Remove(inside) == nil
		}
		return os.Chmod(path, info.Mode()) == nil
	case err == nil:
		if os.Chmod(path, info.Mode().Perm()) == nil && info.Mode().IsRegular() {
			return true
		}
		file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false
		}
		return file.Close() == nil
	}
	if _, err := os.Lstat(path); err == nil { // a link to nothing
		if os.WriteFile(path, nil, 0o600) != nil {
			return false
		}
		end, err := filepath.EvalSymlinks(path)
		return err == nil && os.Remove(end) == nil
	}
	first := path // that is missing
	for {
		above := filepath.Dir(first)
		if _, err := os.Lstat(above); err == nil || above == "/" {
			break
		}
		first = above
	}
	defer os.RemoveAll(first)
	return os.MkdirAll(filepath.Dir(path), 0o700) == nil && os.WriteFile(path, nil, 0o600) == nil
}

func canRename(path string) bool {
	to := path + ".renamed"
	return os.Rename(path, to) == nil && os.Rename(to, path) == nil
}

func canLink(path string) bool {
	to := path + ".linked"
	return os.Link(path, to) == nil && os.Remove(to) == nil
}

func available(t *testing.T) {
	t.Helper()
	for _, a := range host.Read().Abilities(host.Namespaces) {
		if !a.Holds() {
			if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
				t.Fatalf("MAELYS_REQUIRE_ALL=1: this host cannot hold %s: %s", a.Capability, a.Reason)
			}
			t.Skipf("this host cannot hold %s: %s", a.Capability, a.Reason)
		}
	}
}

// with returns a policy with one more rule, for the probe, and tree confinement or not.
func with(t *testing.T, p *mir.Policy, program string, tree mir.TreeConfinement) *mir.Policy {
	t.Helper()
	path, err := mir.NewPath(mir.RootHost, program)
	if err != nil {
		t.Fatal(err)
	}
	p, err = mir.Build(mir.Spec{
		Rules: append(p.Rules(), mir.Rule{Access: mir.Read, Path: path, Scope: mir.Exact, Missing: mir.MissingError}),
		Mode:  p.Mode(), TreeConfinement: tree,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// confined runs the probe under a plan.
func confined(t *testing.T, p *plan.Plan, program string, paths []string, by host.Backend) []tried {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	receipt, err := warden.Run(t.Context(), p, warden.Command{
		Path: program, Args: append([]string{"probe"}, paths...), Dir: "/", Stdout: in, Stderr: os.Stderr, Backend: by,
	})
	in.Close()
	if err != nil || receipt.Status != 0 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	var all []tried
	if err := json.NewDecoder(out).Decode(&all); err != nil || len(all) != len(paths) {
		t.Fatalf("%d answers for %d paths (%v)", len(all), len(paths), err)
	}
	return all
}

// TestCorpus tries the written cases on the kernel: each path is permitted what the
// evaluator says, or the plan is refused before the launch.
func TestCorpus(t *testing.T) {
	available(t)
	cases, err := corpus.Load(corpus.Folder())
	if err != nil || len(cases) < 60 {
		t.Fatalf("%d cases (%v), want at least 60", len(cases), err)
	}
	program := corpus.CopyOfTests(t, "probe")
	enforced := map[host.Backend]int{}
	for _, c := range cases {
		locked := slices.ContainsFunc(c.Tree, func(n corpus.Node) bool { return n.Kind == "locked" })
		if len(c.Refused) > 0 || locked && os.Geteuid() == 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			root := corpus.Scratch(t)
			corpus.Plant(t, c, root)
			policy, err := c.Policy(root)
			if err != nil {
				t.Fatal(err)
			}
			h := plan.Host{Filesystem: host.Filesystem()}
			if c.Workspace != "" {
				h.Workspace = corpus.At(root, c.Workspace)
			}
			if c.Temp != "" {
				h.Temp = corpus.At(root, c.Temp)
			}
			for _, by := range host.Backends() {
				tree := mir.Required
				if by == host.Landlock {
					tree = mir.Disabled // which it never holds
				}
				p, err := plan.Resolve(with(t, policy, program, tree), h)
				if err != nil {
					t.Fatal(err)
				}
				_, err = warden.Run(t.Context(), p, warden.Command{Path: "/none", Args: []string{"none"}, Dir: "/", Backend: by})
				refused, ok := errors.AsType[*warden.RefusedError](err)
				if ok && by == host.Namespaces {
					kernel := p.Evaluate("/sys").Permission == mir.PermitReadWrite
					if slices.ContainsFunc(refused.Unmet, func(u warden.Unmet) bool { return !u.Unenforceable }) || len(refused.Changed) > 0 || len(refused.Reasons) > 0 != kernel {
						t.Errorf("%v, and only what nothing can hold is refused", err)
					}
				}
				if ok || p.Evaluate(program).Permission == mir.PermitNone { // the policy denies the probe
					continue
				}
				enforce(t, c, root, p, program, by)
				enforced[by]++
			}
		})
	}
	if enforced[host.Namespaces] < 50 || enforced[host.Landlock] < 5 {
		t.Errorf("only %v cases were enforced", enforced)
	}
}

func enforce(t *testing.T, c corpus.Case, root string, p *plan.Plan, program string, by host.Backend) {
	t.Helper()
	var paths []string
	for _, a := range c.Answers {
		paths = append(paths, corpus.At(root, a.Name))
	}
	for i, got := range confined(t, p, program, paths, by) {
		at, err := p.Locate(host.Filesystem(), paths[i])
		if err != nil {
			t.Fatal(err)
		}
		d := p.Evaluate(at.Path)
		if strings.HasPrefix(at.Path, "/proc/") || strings.HasPrefix(at.Path, "/dev/") {
			continue // of the sandbox's own, each entry has its own rights
		}
		want := tried{
			Read:  d.Permission != mir.PermitNone && (at.Exists || d.Private && at.Path == plan.PrivateTemp),
			Write: d.Permission == mir.PermitReadWrite,
		}
		if got.kept() != want {
			t.Errorf("%s: %q, which is %q: the kernel says %+v, want %+v", by, c.Answers[i].Name, at.Path, got, want)
		}
	}
}

func TestAsOrdinaryUser(t *testing.T) {
	available(t)
	corpus.AsOrdinaryUser(t, "TestCorpus/deny-inside-write", "TestCorpus/private-temp", "TestRandomPolicies", "TestKilledLauncher", "TestMissingCalls",
		"TestOpenDescriptors", "TestInitIsOutOfReach", "TestSocketsOfTheHost", "TestPrivileges", "TestProcessGroup", "TestTerminal",
		"TestReopenedDescriptors", "TestIPCOfTheHost", "TestDaemons", "TestZombies", "TestMediated", "TestMediatedAnswers", "TestManyDestinations",
		"TestSandboxesApart", "TestFirstConnection", "TestMediationLeavesNothing", "TestTooManyConnections", "TestNameFilesInside/all_of_it")
}
