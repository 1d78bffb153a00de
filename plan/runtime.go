package plan

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// runtimeOptions are what the files alone do not say.
type runtimeOptions struct {
	searchPath []string // PATH, for env

	// hardware returns the names of glibc-hwcaps that fit the processor, the best
	// first; nil stands for none. It is called at most once, and only when a library
	// is there under such a name: to find out takes time at every start.
	hardware func() []string

	services []string // by which names are resolved, as nsswitch.conf(5) has them
}

// A runtimeFile is one file that a program cannot start without.
type runtimeFile struct {
	path  string // without links
	entry Entry
	why   string
}

// A runtimeClosure is what it takes to load and start a program.
type runtimeClosure struct {
	files       []runtimeFile // each once, by path
	links       []Link        // every symbolic link passed, each once, by path
	directories []string      // every directory left again by "..", each once, sorted
}

// A RuntimeError is why a program could not be started on this host.
type RuntimeError struct {
	Path    string // the file that is missing or unusable, or the name of a library
	Needed  string // the file that needs it, empty for the executable itself
	Message string
	Err     error
}

func (e *RuntimeError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Needed != "" {
		b.WriteString(", needed by " + e.Needed)
	}
	b.WriteString(": " + e.Message)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *RuntimeError) Unwrap() error { return e.Err }

// runtime computes what it takes to load and start the executable, going by what
// the kernel and the loader would do with an empty environment but PATH. Every
// failure is a *[RuntimeError].
func (w *walker) runtime(executable string, o runtimeOptions) (*runtimeClosure, error) {
	c := &closure{
		w: w, hardware: func() []string { return nil },
		files: map[string]runtimeFile{}, links: map[Link]bool{}, directories: map[string]bool{}, images: map[string]*image{},
	}
	if o.hardware != nil {
		c.hardware = sync.OnceValue(o.hardware)
	}
	c.services = o.services
	started := map[string]bool{}
	next := &program{path: executable, why: "the executable", search: o.searchPath}
	for next != nil {
		// What env starts is a matter of the file and PATH alone, so that the same
		// again is the same without end.
		p := next
		key := strings.Join(append([]string{p.path}, p.search...), ":")
		if started[key] {
			return nil, &RuntimeError{p.path, p.needed, "expected a program, found a script that starts itself again", ErrLoop}
		}
		started[key] = true
		var err error
		if next, err = c.start(p); err != nil {
			return nil, err
		}
	}
	links := slices.Collect(maps.Keys(c.links))
	slices.SortFunc(links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Target, b.Target))
	})
	files := slices.Collect(maps.Values(c.files))
	slices.SortFunc(files, func(a, b runtimeFile) int { return cmp.Compare(a.path, b.path) })
	return &runtimeClosure{files, links, slices.Sorted(maps.Keys(c.directories))}, nil
}

// A closure is a runtimeClosure that grows.
type closure struct {
	w           *walker
	hardware    func() []string // asks at most once
	services    []string
	files       map[string]runtimeFile
	links       map[Link]bool
	directories map[string]bool
	images      map[string]*image // by path without links
}

// join adds what a path led to.
func (c *closure) join(r resolved, why string) {
	if _, ok := c.files[r.path]; !ok {
		c.files[r.path] = runtimeFile{r.path, r.entry, why}
	}
	for _, l := range r.links {
		c.links[l] = true
	}
	for _, dir := range r.through {
		c.directories[dir] = true
	}
}

// head returns the first bytes of a file.
func (c *closure) head(r resolved, size int64) ([]byte, error) {
	f, err := c.w.fs.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}

// image reads the ELF file that a path led to.
func (c *closure) image(r resolved) (*image, error) {
	if m, ok := c.images[r.path]; ok {
		return m, nil
	}
	f, err := c.w.fs.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := readELF(f)
	if err != nil {
		return nil, err
	}
	c.images[r.path] = m
	return m, nil
}

// executable follows a path to a file that execve would start.
func (c *closure) executable(path, needed, what string) (resolved, error) {
	if !strings.HasPrefix(path, "/") {
		return resolved{}, &RuntimeError{path, needed, "expected an absolute path of " + what + ", found a relative one", nil}
	}
	r, err := c.w.resolve(path)
	if isMissing(err) {
		return r, &RuntimeError{path, needed, "expected " + what + ", found none", err}
	} else if err != nil {
		return r, &RuntimeError{path, needed, "expected " + what, err}
	}
	if r.entry.Type != 0 {
		return r, &RuntimeError{path, needed, fmt.Sprintf("expected %s, found a file of type %s", what, r.entry.Type), nil}
	}
	if r.entry.Mode&0o111 == 0 {
		return r, &RuntimeError{path, needed, "expected " + what + ", found a file that nobody may execute", fs.ErrPermission}
	}
	return r, nil
}
