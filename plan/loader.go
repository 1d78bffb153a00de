package plan

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

const (
	maxObjects    = 4096    // libraries of one program
	maxLoader     = 8 << 20 // bytes of an ELF interpreter that are looked at
	maxLoaderText = 1 << 20 // bytes of /etc/ld.so.preload and the like
)

// An object is a file that the loader has loaded.
type object struct {
	path   string // as the loader knows it, links and all: $ORIGIN goes by it
	real   resolved
	image  *image
	loader *object  // that needed it first
	names  []string // it was asked for by
}

// A loading is what the ELF interpreter does for one program.
type loading struct {
	c       *closure
	main    *object
	objects []*object // in the order they were loaded
	self    *object   // the ELF interpreter
	musl    bool
	cache   ldCache
	dirs    []string // the default ones
	lib     string   // what $LIB stands for

	auditing bool // these are a library that watches, and what it needs
}

// load adds what the ELF file of a program needs.
func (c *closure) load(path, needed string, r resolved) error {
	m, err := c.image(r)
	if err != nil {
		return &RuntimeError{path, needed, "malformed ELF file", err}
	}
	if m.kind != elf.ET_EXEC && m.kind != elf.ET_DYN {
		return &RuntimeError{path, needed, fmt.Sprintf("expected an ELF file of an executable, found %s", m.kind), nil}
	}
	if m.interpreter == "" {
		return nil // static: the kernel starts it, or it relocates itself
	}
	ir, err := c.executable(m.interpreter, path, "an ELF interpreter")
	if err != nil {
		return err
	}
	im, err := c.image(ir)
	if err != nil {
		return &RuntimeError{m.interpreter, path, "malformed ELF interpreter", err}
	}
	if !im.runsWith(m) {
		return &RuntimeError{m.interpreter, path, fmt.Sprintf("expected an ELF interpreter for %s, found one for %s", m.architecture(), im.architecture()), nil}
	}
	c.join(ir, "ELF interpreter of "+path)
	l := &loading{
		c:    c,
		main: &object{path: r.path, real: r, image: m},
		self: &object{path: m.interpreter, real: ir, image: im, names: []string{m.interpreter}},
	}
	l.objects = []*object{l.main, l.self}
	if arch, ok := strings.CutPrefix(base(m.interpreter), "ld-musl-"); ok {
		l.musl = true
		l.muslFiles(strings.TrimSuffix(arch, ".so.1"))
	} else if err := l.glibcFiles(); err != nil {
		return err
	}
	if !l.musl {
		for _, name := range m.audit {
			l.audit(name)
		}
	}
	if err := l.complete(); err != nil {
		return err
	}
	if !l.musl {
		l.services(c.services)
	}
	return nil
}

// complete loads what the objects need, and what that needs.
func (l *loading) complete() error {
	for i := 0; i < len(l.objects); i++ {
		o := l.objects[i]
		for _, d := range o.image.needed {
			if l.musl && d.optional {
				continue // it knows no filters
			}
			if err := l.need(o, d.name); err != nil && !d.optional {
				return err
			}
		}
	}
	for _, o := range l.objects {
		if o.loader != nil { // the others have joined
			l.c.join(o.real, fmt.Sprintf("needed by %s (%s)", o.loader.path, o.names[0]))
		}
	}
	return nil
}

// audit loads a library that the program wants to watch the loader, with what it
// needs, apart from all else. The loader complains when it cannot, and goes on.
func (l *loading) audit(name string) {
	apart := *l
	apart.objects, apart.auditing = []*object{l.self}, true
	if apart.need(l.main, name) == nil {
		_ = apart.complete()
	}
}

// config reads a file that the loader itself reads, and adds it when it is there.
// As the loader does, it goes on without one that it cannot read.
func (l *loading) config(path string, limit int64) []byte {
	r, err := l.c.w.resolve(path)
	if err != nil || r.entry.Type != 0 {
		return nil
	}
	data, err := l.c.head(r, limit)
	if err != nil {
		return nil
	}
	l.c.join(r, "read by "+l.main.image.interpreter)
	return data
}

func (l *loading) glibcFiles() error {
	m := l.main.image
	text, err := l.c.head(l.self.real, maxLoader)
	if err != nil {
		return &RuntimeError{l.self.path, l.main.path, "expected an ELF interpreter that can be read", err}
	}
	if data := l.config(loaderFile(text, "/etc/ld.so.cache"), maxCache); data != nil {
		l.cache, _ = parseCache(data, m.order) // the loader does without one that it cannot use
	}
	// Which directories a loader searches was decided when it was built. It holds
	// their names, each with a slash and a zero at the end.
	all := defaultDirs(m)
	var named []string
	for _, dir := range all {
		if bytes.Contains(text, []byte("\x00"+dir+"/\x00")) {
			named = append(named, dir)
		}
	}
	l.dirs = named
	if len(named) == 0 {
		l.dirs = all
	}
	l.lib = strings.TrimPrefix(l.dirs[0], "/")
	l.lib = strings.TrimPrefix(l.lib, "usr/")
	// One that was built to live elsewhere, as in /nix/store, searches there instead.
	for _, own := range []string{parent(l.self.path), parent(l.self.real.path)} {
		if base(own) == "lib" && !slices.Contains(all, own) && bytes.Contains(text, []byte("\x00"+own+"/\x00")) {
			l.dirs, l.lib = append([]string{own}, named...), "lib"
			break
		}
	}
	list := loaderFile(text, "/etc/ld.so.preload")
	if nix := "/etc/ld-nix.so.preload"; bytes.Contains(text, []byte(nix+"\x00")) {
		list = nix
	}
	preload := string(l.config(list, maxLoaderText))
	for line := range strings.Lines(preload) {
		line, _, _ = strings.Cut(line, "#")
		for _, name := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n:", r) }) {
			_ = l.need(l.main, name) // the loader complains, and goes on
		}
	}
	return nil
}

func (l *loading) muslFiles(arch string) {
	l.dirs = []string{"/lib", "/usr/local/lib", "/usr/lib"}
	if data := l.config("/etc/ld-musl-"+arch+".path", maxLoaderText); data != nil {
		l.dirs = searchList(string(data))
	}
}

// need loads the library that by calls name, unless it is there already.
func (l *loading) need(by *object, name string) error {
	asked := name
	if !l.musl {
		var ok bool
		if name, ok = l.expand(by, name); !ok {
			return &RuntimeError{asked, by.path, "expected a library, found a name that the loader cannot expand", nil}
		}
	} else if l.isMusl(name) {
		return nil
	}
	for _, o := range l.objects {
		if slices.Contains(o.names, name) || !l.musl && o.image.soname == name && name != "" {
			return nil
		}
	}
	o, err := l.find(by, name)
	if err != nil {
		return err
	}
	for _, old := range l.objects {
		if old.real.entry.Identity == o.real.entry.Identity {
			old.names = append(old.names, name)
			// The loader still opens it by this name.
			l.c.join(o.real, fmt.Sprintf("needed by %s (%s)", by.path, name))
			return nil
		}
	}
	if len(l.objects) == maxObjects {
		return &RuntimeError{name, by.path, fmt.Sprintf("expected at most %d libraries, found more", maxObjects), nil}
	}
	o.loader, o.names = by, []string{name}
	l.objects = append(l.objects, o)
	return nil
}

// isMusl reports whether name is a library that musl's loader is itself.
func (l *loading) isMusl(name string) bool {
	rest, ok := strings.CutPrefix(name, "lib")
	if first, _, dot := strings.Cut(rest, "."); ok && dot {
		switch first {
		case "c", "pthread", "rt", "m", "dl", "util", "xnet":
			return true
		}
	}
	return name == l.self.path || name == base(l.self.path)
}

// find looks for a library as the loader does.
func (l *loading) find(by *object, name string) (*object, error) {
	other := "" // a library of the name that is for another machine
	try := func(path string) (*object, error) {
		o, found, err := l.open(path)
		if err != nil {
			return nil, &RuntimeError{path, by.path, "expected a library", err}
		}
		if found != "" && other == "" {
			other = found
		}
		return o, nil
	}
	fail := func(message string) error {
		if other != "" {
			return &RuntimeError{name, by.path, fmt.Sprintf("expected a library for %s, found only %s", l.main.image.architecture(), other), nil}
		}
		return &RuntimeError{name, by.path, message, fs.ErrNotExist}
	}
	if strings.Contains(name, "/") {
		if name[0] != '/' {
			return nil, &RuntimeError{name, by.path, "expected an absolute path of a library, found a relative one", nil}
		}
		if o, err := try(name); o != nil || err != nil {
			return o, err
		}
		return nil, fail("expected a library, found none")
	}
	if name == "" {
		return nil, &RuntimeError{by.path, "", "expected the names of libraries, found an empty one", nil}
	}
	if len(name) > maxComponent {
		return nil, fail(fmt.Sprintf("expected the name of a library, found one of %d bytes", len(name)))
	}
	inDirs := func(dirs []string) (*object, error) {
		for _, dir := range dirs {
			dir = strings.TrimRight(dir, "/")
			if l.hasHardware(dir) {
				for _, h := range l.c.hardware() {
					if o, err := try(dir + "/glibc-hwcaps/" + h + "/" + name); o != nil || err != nil {
						return o, err
					}
				}
			}
			if o, err := try(dir + "/" + name); o != nil || err != nil {
				return o, err
			}
		}
		return nil, nil
	}
	searched := l.searchPath(by)
	if o, err := inDirs(searched); o != nil || err != nil {
		return o, err
	}
	var hardware []string
	if l.cache.hasHardware(name) {
		hardware = l.c.hardware()
	}
	for _, path := range l.cache.lookup(name, l.main.image, hardware) {
		if by.image.noDefault && slices.ContainsFunc(l.dirs, func(dir string) bool { return strings.HasPrefix(path, dir+"/") }) {
			continue
		}
		if o, err := try(path); o != nil || err != nil {
			return o, err
		}
	}
	if l.musl || !by.image.noDefault {
		if o, err := inDirs(l.dirs); o != nil || err != nil {
			return o, err
		}
		searched = append(searched, l.dirs...)
	}
	return nil, fail("expected a library in " + strings.Join(searched, ":") + ", found none")
}

// hasHardware reports whether dir has libraries for some processors only, where the
// loader looks first.
func (l *loading) hasHardware(dir string) bool {
	if l.musl {
		return false
	}
	r, err := l.c.w.resolve(dir + "/glibc-hwcaps")
	if err != nil { // the names beneath fail as this one does
		return !isMissing(err) && !errors.Is(err, fs.ErrPermission)
	}
	return r.entry.Type == fs.ModeDir
}

// open reads the library at path. It returns nothing when there is none that the
// program may read, and what other machine it is for when it is for another.
func (l *loading) open(path string) (o *object, other string, err error) {
	r, err := l.c.w.resolve(path)
	if isMissing(err) || errors.Is(err, fs.ErrPermission) || l.musl && errors.Is(err, ErrNameTooLong) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if r.entry.Type != 0 {
		return nil, "", fmt.Errorf("expected a regular file, found one of type %s", r.entry.Type)
	}
	m, err := l.c.image(r)
	if errors.Is(err, fs.ErrPermission) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if !m.runsWith(l.main.image) {
		return nil, fmt.Sprintf("%s for %s", path, m.architecture()), nil
	}
	if m.order != l.main.image.order {
		return nil, "", fmt.Errorf("expected %v data, found %v", l.main.image.order, m.order)
	}
	if m.kind != elf.ET_DYN {
		return nil, "", fmt.Errorf("expected an ELF file of a library, found %s", m.kind)
	}
	return &object{path: path, real: r, image: m}, "", nil
}
