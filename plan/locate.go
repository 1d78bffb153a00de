package plan

import (
	"errors"
	"fmt"
	"io/fs"
	pathpkg "path"
	"slices"
	"strings"
)

// A Location is where a path leads.
type Location struct {
	Path     string   // absolute and without links, for [Plan.Evaluate]
	Exists   bool     // false: something could be created there
	Identity Identity // of what is there; in a directory of the sandbox's own, its type alone
	Links    []Link   // passed on the way
}

// Locate follows an absolute path as it would be followed inside the sandbox: through
// the links of the host, and where the sandbox has directories of its own, through
// what the plan puts there. A path that does not exist leads to where it would be
// created. Any other failure is a *[PathError].
func (p *Plan) Locate(host Filesystem, path string) (Location, error) {
	found, err := newWalker(&view{host, p}).resolve(path)
	if err == nil {
		return Location{found.path, true, found.entry.Identity, found.links}, nil
	}
	if broken, ok := errors.AsType[*PathError](err); ok && isMissing(err) {
		return Location{Path: broken.end(), Links: found.links}, nil
	}
	return Location{Links: found.links}, err
}

// end returns where the path that e is about would be, if what is missing were
// there: a ".." after that is taken as if it led back.
func (e *PathError) end() string { return pathpkg.Join(e.At, e.Rest) }

// A view is the host as a sandbox sees it.
type view struct {
	Filesystem
	plan *Plan
}

// Lstat implements [Filesystem].
func (v *view) Lstat(path string) (Entry, error) {
	if !v.plan.isPrivate(path) {
		return v.Filesystem.Lstat(path)
	}
	if _, ok := v.link(path); ok {
		return Entry{Identity: Identity{Type: fs.ModeSymlink}}, nil
	}
	if isProcess(path) {
		return Entry{Identity: Identity{Type: fs.ModeDir}}, nil
	}
	if from, to := v.plan.rulesAt(path); from < to {
		return Entry{Identity: v.plan.rules[from].Identity}, nil
	}
	if _, ok := slices.BinarySearch(v.plan.directories, path); ok || v.holds(path) {
		return Entry{Identity: Identity{Type: fs.ModeDir}}, nil
	}
	return Entry{}, fmt.Errorf("in the sandbox: %w", fs.ErrNotExist)
}

// Readlink implements [Filesystem].
func (v *view) Readlink(path string) (string, error) {
	if v.plan.isPrivate(path) {
		target, _ := v.link(path)
		return target, nil
	}
	return v.Filesystem.Readlink(path)
}

// link returns the target of a link that the sandbox has of its own.
func (v *view) link(path string) (target string, ok bool) {
	switch dir, name := pathpkg.Split(path); {
	case name == "root" && isProcess(pathpkg.Clean(dir)):
		return "/", true // of the sandbox
	case name == "cwd" && isProcess(pathpkg.Clean(dir)) && v.plan.at.workspace != "":
		return v.plan.at.workspace, true // where it starts
	}
	i, ok := slices.BinarySearchFunc(v.plan.links, path, func(l Link, path string) int { return strings.Compare(l.Path, path) })
	if !ok {
		return "", false
	}
	return v.plan.links[i].Target, true
}

// isProcess reports whether path is a directory of procfs for a process or a thread, or
// one on the way to it. Which there are is not known; all look alike.
func isProcess(path string) bool {
	segments := strings.Split(path, "/")[1:]
	numbered := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	switch {
	case len(segments) < 2 || segments[0] != "proc":
		return false
	case segments[1] != "self" && segments[1] != "thread-self" && !numbered(segments[1]):
		return false
	case len(segments) == 2:
		return true
	}
	return segments[2] == "task" && (len(segments) == 3 || len(segments) == 4 && numbered(segments[3]))
}

// holds reports whether something of the plan lies beneath path.
func (v *view) holds(path string) bool {
	prefix := below(path, "")
	i, _ := slices.BinarySearchFunc(v.plan.rules, prefix, func(r Rule, prefix string) int { return strings.Compare(r.Path, prefix) })
	if i < len(v.plan.rules) && strings.HasPrefix(v.plan.rules[i].Path, prefix) {
		return true
	}
	i, _ = slices.BinarySearchFunc(v.plan.links, prefix, func(l Link, prefix string) int { return strings.Compare(l.Path, prefix) })
	if i < len(v.plan.links) && strings.HasPrefix(v.plan.links[i].Path, prefix) {
		return true
	}
	i, _ = slices.BinarySearch(v.plan.directories, prefix)
	return i < len(v.plan.directories) && strings.HasPrefix(v.plan.directories[i], prefix)
}
