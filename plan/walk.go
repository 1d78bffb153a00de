package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// The limits that Linux puts on following a path (path_resolution(7)).
const (
	maxLinks     = 40   // symbolic links in one resolution, then ELOOP
	maxComponent = 255  // bytes in one component, then ENAMETOOLONG
	maxTarget    = 4095 // bytes in a path or the target of a link
)

// What can keep a path from being followed, beside the errors of a [Filesystem].
var (
	ErrNotDirectory = errors.New("not a directory")
	ErrLoop         = errors.New("too many levels of symbolic links")
	ErrNameTooLong  = errors.New("file name too long")
)

// A Link is a symbolic link that was passed on the way to a path.
type Link struct {
	Path   string // of the link itself, without a link above it
	Target string // what it holds, as it stands there
}

// A resolved path names an entry without passing any symbolic link.
type resolved struct {
	path  string
	entry Entry
	links []Link // passed on the way, in the order they were met

	// Directories that were left again by "..", as b was in "/a/b/../c"; without
	// links, in the order they were left, each once. The kernel enters them, so that
	// they must be there for a path to work as it is spelled.
	through []string
}

// A walker follows paths as the kernel does, and remembers what it has seen so
// that many paths below one directory cost one look at it. What it has seen is
// what it answers, even if the host changes meanwhile: one plan is one view.
type walker struct {
	fs   Filesystem
	seen map[string]look
}

// A look is one answer of the filesystem about one path.
type look struct {
	entry  Entry
	target string // of a symbolic link
	err    error
}

func newWalker(fs Filesystem) *walker { return &walker{fs: fs, seen: map[string]look{}} }

// look asks the filesystem about a path without links above its last component.
func (w *walker) look(path string) look {
	if l, ok := w.seen[path]; ok {
		return l
	}
	var l look
	l.entry, l.err = w.fs.Lstat(path)
	if l.err == nil && l.entry.Type == fs.ModeSymlink {
		l.target, l.err = w.fs.Readlink(path)
	}
	w.seen[path] = l
	return l
}

// A PathError is why a path could not be followed to its end.
type PathError struct {
	Path string // that was being followed
	At   string // the component that failed, without links above it

	// Rest is what was still to be followed after At: what is left of the targets of
	// links that were passed, and then what came after each of these links. It is as
	// it was spelled, but for slashes at its two ends, which are gone: it may hold
	// ".", ".." and the names of links that nobody has looked at. It is empty when At
	// is the end. Where At is a link, its own target is not part of it.
	Rest string

	Err error
}

func (e *PathError) Error() string { return e.Path + ": " + e.reason() }

// reason is the error without the path that it is about.
func (e *PathError) reason() string {
	if e.At == e.Path {
		return e.Err.Error()
	}
	return fmt.Sprintf("at %s: %v", e.At, e.Err)
}

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

// isMissing reports whether err means that a path does not exist: ENOENT, or
// ENOTDIR for a path through a file. Nothing else does.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotDirectory)
}

// resolve follows an absolute path to its end, a link there included, as the
// kernel would: link by link, with ".." taken where the links have led. Every
// failure is a *[PathError].
func (w *walker) resolve(path string) (resolved, error) {
	r := resolved{path: "/"}
	rest := path
	fail := func(at string, err error) (resolved, error) {
		failed := &PathError{Path: path, At: at, Rest: strings.Trim(rest, "/"), Err: err}
		return resolved{links: r.links, through: r.through}, failed
	}
	here := w.look("/")
	if here.err != nil {
		return fail("/", here.err)
	}
	if len(rest) > maxTarget {
		rest = ""
		return fail(path, ErrNameTooLong)
	}
	for {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			r.entry = here.entry
			return r, nil
		}
		if here.entry.Type != fs.ModeDir {
			return fail(r.path, ErrNotDirectory)
		}
		component, after, slash := strings.Cut(rest, "/")
		rest = after
		switch component {
		case ".":
			continue
		case "..":
			if r.path != "/" && !slices.Contains(r.through, r.path) {
				r.through = append(r.through, r.path)
			}
			r.path = parent(r.path)
			here = w.look(r.path)
			if here.err != nil {
				return fail(r.path, here.err)
			}
			continue
		}
		next := below(r.path, component)
		if len(component) > maxComponent {
			return fail(next, ErrNameTooLong)
		}
		found := w.look(next)
		if found.err != nil {
			return fail(next, found.err)
		}
		if found.entry.Type != fs.ModeSymlink {
			r.path, here = next, found
			if slash && here.entry.Type != fs.ModeDir {
				return fail(next, ErrNotDirectory) // also for a slash at the very end
			}
			continue
		}
		if len(r.links) == maxLinks {
			return fail(next, ErrLoop)
		}
		r.links = append(r.links, Link{next, found.target})
		if found.target == "" {
			return fail(next, fs.ErrNotExist) // Linux makes no such link; others may
		}
		if found.target[0] == '/' {
			r.path, here = "/", w.look("/")
		}
		// What follows a link to a file must be nothing: "link/" needs a directory.
		if rest = found.target; slash {
			rest += "/" + after
		}
	}
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// below returns the path of the entry called name in the directory dir.
func below(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
