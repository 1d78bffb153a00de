package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// rounds is how often a property is tried. With -short, which is meant for slow
// machines such as a WebAssembly interpreter, it is tried less often.
func rounds(n int) int {
	if testing.Short() {
		return n / 50
	}
	return n
}

// slowRule is a rule on a host, as the brute force knows it.
type slowRule struct {
	access  mir.Access
	path    string
	scope   mir.Scope
	policy  int
	private bool
}

// slowPermission is the permission contract, said as plainly as can be. Whose a path
// is, the host's or the sandbox's own, is decided by the deepest grant around it;
// grants of the other side do not count.
func slowPermission(rules []slowRule, path string) mir.Permission {
	around := func(r slowRule) bool { return strings.HasPrefix(path+"/", strings.TrimSuffix(r.path, "/")+"/") }
	private, deepest := false, -1
	for _, r := range rules {
		if r.access != mir.Deny && around(r) && len(r.path) > deepest {
			private, deepest = r.private, len(r.path)
		}
	}
	granted := mir.PermitNone
	for _, r := range rules {
		switch {
		case !around(r) || r.scope == mir.Exact && r.path != path:
		case r.access == mir.Deny:
			return mir.PermitNone
		case r.private == private:
			granted = max(granted, mir.Permission(r.access))
		}
	}
	return granted
}

// slowFollow follows a path on a tree, by recursion over the first component.
func slowFollow(t tree, at, rest string, left int) (path string, missing, failed bool) {
	if rest != "" && t[at] == "file" {
		return at, true, false
	}
	if rest = strings.TrimLeft(rest, "/"); rest == "" {
		return at, false, false
	}
	name, rest, slash := strings.Cut(rest, "/")
	if slash {
		rest = "/" + rest // which asks for a directory before it
	}
	switch name {
	case ".":
		return slowFollow(t, at, rest, left)
	case "..":
		return slowFollow(t, at[:max(1, strings.LastIndexByte(at, '/'))], rest, left)
	}
	next := strings.TrimSuffix(at, "/") + "/" + name
	what, ok := t[next]
	target, link := strings.CutPrefix(what, "-> ")
	switch {
	case !ok:
		return next, true, false
	case strings.HasPrefix(what, "! "):
		return next, false, true
	case !link:
		return slowFollow(t, next, rest, left)
	case left == 0:
		return next, false, true
	case target[0] == '/':
		return slowFollow(t, "/", target+rest, left-1)
	}
	return slowFollow(t, at, target+rest, left-1)
}

// slowResolve resolves a policy, or says which rules are at fault.
func slowResolve(p *mir.Policy, t tree, workspace, temp string) (rules []slowRule, faults map[int]Code) {
	faults = map[int]Code{}
	for i, r := range p.Rules() {
		root, path := "", ""
		switch r.Path.Root() {
		case mir.RootWorkspace:
			root, path = workspace, workspace+"/"+r.Path.Text()
		case mir.RootTemp:
			root, path = temp, temp+"/"+r.Path.Text()
		case mir.RootHost, mir.RootRuntime:
			path = r.Path.Text()
		}
		if r.Path.Root() == mir.RootRuntime {
			for _, own := range slowOwn {
				own.policy = i
				if r.Access == mir.Deny {
					own.access = mir.Deny
				}
				rules = append(rules, own)
			}
			continue
		}
		if r.Path.Root() == mir.RootTemp && temp == "" {
			if r.Path.Text() == "" {
				rules = append(rules, slowRule{r.Access, "/tmp", r.Scope, i, true})
			} else if r.Missing == mir.MissingError {
				faults[i] = CodeMissing
			}
			continue
		}
		end, missing, failed := slowFollow(t, "/", path, maxLinks)
		switch {
		case root != "" && !strings.HasPrefix(end+"/", strings.TrimSuffix(root, "/")+"/"):
			faults[i] = CodeEscape
		case failed:
			faults[i] = CodeUnresolvable
		case missing && r.Missing == mir.MissingError:
			faults[i] = CodeMissing
		case !missing:
			rules = append(rules, slowRule{r.Access, end, r.Scope, i, false})
		}
	}
	own := map[string]bool{}
	for _, r := range rules {
		own[r.path] = own[r.path] || r.private && r.access != mir.Deny
	}
	for i, r := range rules {
		switch {
		case r.private || r.access == mir.Deny || !own[r.path]:
		case slices.Contains([]string{"/tmp", "/dev", "/dev/pts", "/dev/shm", "/proc"}, r.path):
			faults[r.policy] = CodeConflict
		default:
			rules[i].private = true // a device is the same in both
		}
	}
	return rules, faults
}

// slowOwn is what minimal-runtime has of its own.
var slowOwn = []slowRule{
	{mir.Read, "/dev", mir.Tree, 0, true},
	{mir.Write, "/dev/full", mir.Exact, 0, true},
	{mir.Write, "/dev/null", mir.Exact, 0, true},
	{mir.Write, "/dev/pts", mir.Tree, 0, true},
	{mir.Write, "/dev/random", mir.Exact, 0, true},
	{mir.Write, "/dev/shm", mir.Tree, 0, true},
	{mir.Write, "/dev/tty", mir.Exact, 0, true},
	{mir.Write, "/dev/urandom", mir.Exact, 0, true},
	{mir.Write, "/dev/zero", mir.Exact, 0, true},
	{mir.Read, "/proc", mir.Tree, 0, true},
}

var (
	someNames = []string{"a", "b", "a-b", "tmp"}
	somePaths = pathsOf(someNames, 3)
)

// pathsOf returns every absolute path of at most depth segments.
func pathsOf(names []string, depth int) []string {
	all := []string{"/"}
	from := []string{""}
	for range depth {
		var next []string
		for _, above := range from {
			for _, name := range names {
				next = append(next, above+"/"+name)
			}
		}
		all, from = append(all, next...), next
	}
	return all
}

// randomTree has directories nearly everywhere, and files, links and faults. What is
// beneath what is no directory is not there.
func randomTree(random *rand.Rand) tree {
	t := tree{"/": "dir"}
	for _, path := range somePaths[1:] {
		if t[parent(path)] != "dir" {
			continue
		}
		switch random.IntN(12) {
		case 0:
		case 1, 2:
			t[path] = "file"
		case 3:
			t[path] = "-> " + somePaths[random.IntN(len(somePaths))]
		case 4:
			t[path] = "-> " + []string{".", "..", "../a", "b", "../b/./a", "../../tmp/a", "tmp/../b", "a-b/"}[random.IntN(8)]
		case 5:
			if random.IntN(8) == 0 {
				t[path] = []string{"! access", "! io"}[random.IntN(2)]
				continue
			}
			t[path] = "dir"
		default:
			t[path] = "dir"
		}
	}
	return t
}

func randomPolicy(t testing.TB, random *rand.Rand) *mir.Policy {
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for range random.IntN(7) {
		root := []mir.Root{mir.RootHost, mir.RootHost, mir.RootWorkspace, mir.RootTemp}[random.IntN(4)]
		var segments []string
		for range random.IntN(4) {
			segments = append(segments, someNames[random.IntN(len(someNames))])
		}
		text := strings.Join(segments, "/")
		switch {
		case root == mir.RootHost:
			text = "/" + text
		case root == mir.RootTemp && random.IntN(2) == 0:
			text = ""
		}
		path, err := mir.NewPath(root, text)
		if err != nil {
			t.Fatal(err)
		}
		missing := mir.MissingSkip
		if random.IntN(4) == 0 {
			missing = mir.MissingError
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Access(1 + random.IntN(3)), Path: path, Scope: mir.Scope(1 + random.IntN(2)), Missing: missing})
	}
	p, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// randomDirectory returns a directory of the tree.
func randomDirectory(random *rand.Rand, t tree) string {
	for {
		if path := somePaths[random.IntN(len(somePaths))]; t[path] == "dir" {
			return path
		}
	}
}

// TestContract resolves and evaluates random policies on random trees, and has the
// same done by brute force.
func TestContract(t *testing.T) {
	const policies, workers = 100_000, 4
	for worker := range workers {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(41, uint64(worker)))
			seen := map[string]int{}
			for evaluated := 0; evaluated < rounds(policies)/workers; {
				if contract(t, random, seen) {
					evaluated++
				}
			}
			for _, kind := range []string{
				"none", "read", "read-write", "private", "re-entry", "omitted",
				string(CodeEscape), string(CodeMissing), string(CodeUnresolvable), string(CodeConflict),
			} {
				if !testing.Short() && seen[kind] < policies/workers/200 {
					t.Errorf("only %d of %q: the test does not see that", seen[kind], kind)
				}
			}
		})
	}
}

// contract tries one policy, and reports whether it could be resolved.
func contract(t *testing.T, random *rand.Rand, seen map[string]int) bool {
	t.Helper()
	files, policy := randomTree(random), randomPolicy(t, random)
	workspace, temp := randomDirectory(random, files), ""
	if random.IntN(2) == 0 {
		temp = randomDirectory(random, files)
	}
	return contractOf(t, policy, files, workspace, temp, somePaths, seen)
}

// contractOf tries a policy on every path of a small world.
func contractOf(t *testing.T, policy *mir.Policy, files tree, workspace, temp string, paths []string, seen map[string]int) bool {
	t.Helper()
	said := func() string {
		return fmt.Sprintf("workspace %q, temp %q\n%s%v", workspace, temp, policy.Inspect(), files)
	}
	p, err := Resolve(policy, Host{Filesystem: files, Workspace: workspace, Temp: temp})
	rules, faults := slowResolve(policy, files, workspace, temp)
	if err != nil {
		var all Errors
		if !errors.As(err, &all) {
			t.Fatalf("%v is not Errors", err)
		}
		got := map[int]Code{}
		for _, e := range all {
			got[e.Rule] = e.Code
			seen[string(e.Code)]++
		}
		for i, code := range faults {
			// Who grants the place of the private temp is not told while something else is wrong.
			if got[i] != code && (code != CodeConflict || len(faults) == 1) {
				t.Fatalf("rule %d: %q, want %q\n%v\n%s", i, got[i], code, all, said())
			}
		}
		if len(got) > len(faults) {
			t.Fatalf("%v, want %v\n%s", all, faults, said())
		}
		return false
	}
	if len(faults) > 0 {
		t.Fatalf("resolved, want the faults %v\n%s", faults, said())
	}
	if len(p.Omitted()) > 0 {
		seen["omitted"]++
	}
	for _, path := range paths {
		d, want := p.Evaluate(path), slowPermission(rules, path)
		if d.Permission != want {
			t.Fatalf("%s: %s, want %s\n%+v\n%+v\n%s", path, d.Permission, want, d, p.Rules(), said())
		}
		seen[want.String()]++
		if d.Private {
			seen["private"]++
		} else if want != mir.PermitNone && slices.ContainsFunc(p.rules, func(r Rule) bool {
			return r.Private && r.Access != mir.Deny && r.Scope == mir.Tree && inside(r.Path, path)
		}) {
			seen["re-entry"]++
		}
		if p.isPrivate(path) != d.Private {
			t.Fatalf("%s: private %v, and Evaluate says %v", path, p.isPrivate(path), d.Private)
		}
		checkDecision(t, p, path, d)
	}
	return true
}

// checkDecision checks that a decision names a rule that decides.
func checkDecision(t *testing.T, p *Plan, path string, d Decision) {
	t.Helper()
	if d.Rule < 0 {
		if d.Permission != mir.PermitNone || len(d.Applicable) > 0 {
			t.Fatalf("%s: %+v has no rule", path, d)
		}
		return
	}
	rule := p.rules[d.Rule]
	if rule.Access.Grants() != d.Permission || !slices.Contains(d.Applicable, d.Rule) {
		t.Fatalf("%s: %+v is not decided by %+v", path, d, rule)
	}
	deepest := len(path) + 1
	for _, i := range d.Applicable {
		r := p.rules[i]
		if !inside(r.Path, path) || r.Scope == mir.Exact && r.Path != path || r.Access > rule.Access {
			t.Fatalf("%s: %+v does not apply, or is stronger than %+v", path, r, rule)
		}
		if len(r.Path) > deepest {
			t.Fatalf("%s: applicable rules are not in order: %v", path, d.Applicable)
		}
		deepest = len(r.Path)
		if r.Access == rule.Access && len(r.Path) > len(rule.Path) {
			t.Fatalf("%s: %+v is deeper than the deciding %+v", path, r, rule)
		}
	}
}
