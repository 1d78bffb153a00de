package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"maelys.dev/maelys/mir"
)

var ownNames = []string{"dev", "null", "shm", "proc", "tmp", "a"}

// ownTree has directories everywhere but where a host has devices, and a few links into
// what the sandbox has of its own.
func ownTree(random *rand.Rand) tree {
	t := tree{"/": "dir"}
	for _, path := range pathsOf(ownNames, 3)[1:] {
		switch {
		case t[parent(path)] != "dir" || random.IntN(8) == 0 && path != "/a":
		case path == "/dev/null":
			t[path] = "device"
		case path != "/a" && random.IntN(10) == 0:
			t[path] = "-> " + []string{"/dev", "/dev/null", "/dev/shm/a", "/proc/a", "/tmp", "..", "/a/dev"}[random.IntN(7)]
		default:
			t[path] = "dir"
		}
	}
	return t
}

// ownPolicy nearly always has minimal-runtime among its rules, and the private temp.
func ownPolicy(t testing.TB, random *rand.Rand) *mir.Policy {
	t.Helper()
	var lines []string
	for _, root := range []string{"runtime:", "temp:"} {
		if random.IntN(6) > 0 {
			access := []string{"read", "write", "read", "write", "read", "write", "deny"}[random.IntN(7)]
			lines = append(lines, access+" "+[]string{"tree", "exact"}[min(1, random.IntN(4)/3)]+" "+root)
		}
	}
	paths := pathsOf(ownNames, 3)
	for range random.IntN(6) {
		path := paths[random.IntN(len(paths))]
		if random.IntN(3) == 0 {
			path = "workspace:" + path[1:]
		}
		lines = append(lines, fmt.Sprint([]string{"read", "write", "deny"}[random.IntN(3)], " ", []string{"tree", "exact"}[random.IntN(2)], " ", path, " skip"))
	}
	return policyOf(t, lines...)
}

// TestContractOfOwnFiles has policies with minimal-runtime and a private temp, and
// grants of the host's files in the directories that the sandbox has of its own.
func TestContractOfOwnFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(43, 44))
	paths := pathsOf(append([]string{"other"}, ownNames...), 3)
	seen := map[string]int{}
	for evaluated := 0; evaluated < rounds(3000); {
		if contractOf(t, ownPolicy(t, random), ownTree(random), []string{"/a", "/"}[random.IntN(2)], "", paths, seen) {
			evaluated++
		}
	}
	for _, kind := range []string{"none", "read", "read-write", "private", "re-entry", "omitted", string(CodeConflict)} {
		if !testing.Short() && seen[kind] < 100 {
			t.Errorf("only %d of %q: the test does not see that", seen[kind], kind)
		}
	}
}

// TestAlgebraOfOwnFiles does the same with pairs of them.
func TestAlgebraOfOwnFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(45, 46))
	paths := pathsOf(append([]string{"other"}, ownNames...), 4) // also beneath what rules name
	seen := map[[2]mir.Permission]int{}
	for pairs := 0; pairs < rounds(400); {
		h := Host{Filesystem: ownTree(random), Workspace: "/a"}
		a, aErr := Resolve(ownPolicy(t, random), h)
		b, bErr := Resolve(ownPolicy(t, random), h)
		if aErr == nil && bErr == nil {
			algebra(t, a, b, paths, seen)
			pairs++
		}
	}
	if kinds := slices.Collect(maps.Keys(seen)); len(kinds) != 9 && !testing.Short() {
		t.Errorf("the test has seen only %v", kinds)
	}
}

// TestContainsTellsWhoseFiles has a boundary that permits as much, but not of the
// host's files.
func TestContainsTellsWhoseFiles(t *testing.T) {
	files := tree{"/dev": "dir", "/dev/sda": "device", "/tmp": "dir", "/tmp/agent": "dir", "/ws": "dir", "/proc": "dir"}
	resolve := func(lines ...string) *Plan {
		t.Helper()
		p, err := Resolve(policyOf(t, lines...), Host{Filesystem: files, Workspace: "/ws"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	own := resolve("write tree runtime:", "write tree temp:")
	for _, line := range []string{"read exact /dev/sda", "write tree /tmp/agent", "read tree /tmp", "read tree /"} {
		ok, excess := Contains(own, resolve(line))
		if ok || len(excess) != 1 {
			t.Errorf("%s is within the sandbox's own files: %+v", line, excess)
		}
	}
	for _, line := range []string{"write tree temp:", "deny tree /tmp/agent", "read exact temp:"} {
		if ok, excess := Contains(own, resolve(line)); !ok {
			t.Errorf("%s goes beyond the sandbox's own files: %+v", line, excess)
		}
	}
	if ok, excess := Contains(resolve("write tree /"), own); !ok {
		t.Errorf("the sandbox's own files are more than all of the host's: %+v", excess)
	}
	closed := resolve("read tree /tmp/agent", "deny tree temp:")
	if ok, excess := Contains(own, closed); !ok {
		t.Errorf("what a deny of the temp closes goes beyond: %+v", excess)
	}
	said := func(list []mir.Change) (all []string) {
		for _, change := range list {
			if c, ok := change.(mir.PathChange); ok {
				all = append(all, fmt.Sprint(c.Region.Path.Text(), " ", c.Before, " ", c.After))
			}
		}
		return all
	}
	diff := Diff(resolve("write tree temp:"), resolve("write tree temp:", "read tree /tmp/agent", "read tree /ws"))
	if got, want := said(diff.Widened), []string{"/ws none read", "/tmp/agent none read"}; !slices.Equal(got, want) {
		t.Errorf("widened %q, want %q: each once", got, want)
	}
	if got, want := said(diff.Narrowed), []string{"/tmp/agent read-write read"}; !slices.Equal(got, want) {
		t.Errorf("narrowed %q, want %q", got, want)
	}
	if diff := Diff(own, own); len(diff.Widened)+len(diff.Narrowed) != 0 {
		t.Errorf("a plan differs from itself: %+v", diff)
	}
}
