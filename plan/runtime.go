package plan

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// The limits that Linux puts on #! lines (binfmt_script).
const (
	maxScriptLine  = 256 // bytes that are looked at
	maxScriptDepth = 5   // scripts that are the interpreter of one another, then ELOOP
)

const (
	maxObjects    = 4096    // libraries of one program
	maxLoader     = 8 << 20 // bytes of an ELF interpreter that are looked at
	maxLoaderText = 1 << 20 // bytes of /etc/ld.so.preload and the like
)

// runtimeOptions are what the files alone do not say.
type runtimeOptions struct {
	searchPath []string        // PATH, for env
	hardware   func() []string // names of glibc-hwcaps, the best first; nil for none
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
	directories []string      // left again by "..", each once, sorted
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
		w: w, o: o, hardware: func() []string { return nil },
		files: map[string]runtimeFile{}, links: map[Link]bool{}, directories: map[string]bool{}, images: map[string]*image{},
	}
	if o.hardware != nil {
		c.hardware = sync.OnceValue(o.hardware)
	}
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
	o           runtimeOptions
	hardware    func() []string // asks at most once, since finding out takes time at every start
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

// A program is what execve is called with.
type program struct {
	path   string
	needed string // the file that starts it
	why    string
	search []string // PATH
}

// start follows a program through its #! lines to what the kernel loads. When that
// is env, next is what env starts.
func (c *closure) start(p *program) (next *program, err error) {
	path, needed, why, what := p.path, p.needed, p.why, "an executable"
	argument := "" // of the interpreter at path, when it is one
	for depth := 0; ; depth++ {
		r, err := c.executable(path, needed, what)
		if err != nil {
			return nil, err
		}
		head, err := c.head(r, maxScriptLine)
		if err != nil {
			return nil, &RuntimeError{path, needed, "expected " + what + " that can be read", err}
		}
		c.join(r, why)
		if bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
			if err := c.load(path, needed, r); err != nil || depth == 0 || base(path) != "env" {
				return nil, err
			}
			return c.env(needed, argument, p.search)
		}
		interpreter, rest, ok := scriptLine(head)
		if !ok {
			if depth == 0 && p.needed != "" { // execvp lets the shell try
				return &program{"/bin/sh", path, "shell of " + path, p.search}, nil
			}
			return nil, &RuntimeError{path, needed, fmt.Sprintf("expected an ELF file or a #! line with an interpreter, found %q", head[:min(len(head), 16)]), nil}
		}
		if depth == maxScriptDepth {
			return nil, &RuntimeError{path, needed, fmt.Sprintf("expected at most %d scripts that interpret one another, found more", maxScriptDepth), ErrLoop}
		}
		argument = rest
		path, needed, why, what = interpreter, path, "interpreter of "+path, "the interpreter of a script"
	}
}

// scriptLine takes apart a #! line as Linux does: the interpreter, and all that
// follows as one argument.
func scriptLine(head []byte) (interpreter, argument string, ok bool) {
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", "", false
	}
	line, _, whole := bytes.Cut(line, []byte("\n"))
	if !whole && len(head) >= maxScriptLine {
		// Linux takes no name that may be cut off, and drops the last byte.
		if !bytes.ContainsAny(bytes.TrimLeft(line, " \t"), " \t\x00") {
			return "", "", false
		}
		line = line[:len(line)-1]
	}
	line = bytes.Trim(line, " \t")
	name := line
	if end := bytes.IndexAny(line, " \t\x00"); end >= 0 {
		name = line[:end]
		if line[end] != 0 {
			rest, _, _ := bytes.Cut(bytes.TrimLeft(line[end:], " \t"), []byte{0})
			argument = string(rest)
		}
	}
	return string(name), argument, len(name) > 0
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// env returns what "env ARGUMENT SCRIPT" starts, or nil when that is nothing.
func (c *closure) env(script, argument string, search []string) (*program, error) {
	var args []string
	if argument != "" {
		args = append(args, argument)
	}
	name, search, err := envLine(append(args, script), search)
	if err != nil {
		return nil, &RuntimeError{"env", script, "expected a command line of env", err}
	}
	if name == "" {
		return nil, nil
	}
	p := &program{name, script, "started by env for " + script, search}
	if strings.Contains(name, "/") {
		return p, nil
	}
	var refused error
	for _, dir := range search {
		if !strings.HasPrefix(dir, "/") {
			continue // which directory it means is not known
		}
		p.path = below(strings.TrimRight(dir, "/"), name)
		r, err := c.executable(p.path, script, "a program")
		if err == nil {
			return p, nil
		}
		if !isMissing(err) && r.entry.Type != fs.ModeDir {
			refused = cmp.Or(refused, err)
		}
	}
	if refused != nil {
		return nil, refused
	}
	message := "expected a program in " + strings.Join(search, ":") + ", found none"
	if strings.ContainsAny(name, " \t") {
		message += "; env takes apart what follows only after -S"
	}
	return nil, &RuntimeError{name, script, message, fs.ErrNotExist}
}

// envLine finds the program in the arguments of env, and the PATH it is looked for
// in. The name is empty when env starts nothing.
func envLine(args, search []string) (name string, path []string, err error) {
	clean := []string{"/bin", "/usr/bin"} // where execvp looks without a PATH
	take := func() (a string) {
		if len(args) > 0 {
			a, args = args[0], args[1:]
		}
		return a
	}
	// option does what the option called name with its value does.
	option := func(name, value string) error {
		switch name {
		case "i", "ignore-environment":
			search = clean
		case "u", "unset":
			if value == "PATH" {
				search = clean
			}
		case "P":
			search = strings.Split(value, ":")
		case "S", "split-string":
			words, err := splitEnv(value)
			args = append(words, args...)
			return err
		case "v", "0", "debug", "null", "C", "chdir", "a", "argv0", "block-signal", "default-signal", "ignore-signal", "list-signal-handling":
		default:
			return fmt.Errorf("expected an option of env, found %q", name)
		}
		return nil
	}
options:
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		arg := take()
		switch {
		case arg == "-":
			search = clean
			break options
		case arg == "--":
			break options
		case strings.HasPrefix(arg, "--"):
			name, value, ok := strings.Cut(arg[2:], "=")
			if !ok && slices.Contains([]string{"unset", "split-string", "chdir", "argv0"}, name) {
				value = take()
			}
			if err := option(name, value); err != nil {
				return "", nil, err
			}
		default:
			for i := 1; i < len(arg); i++ {
				value := ""
				if strings.IndexByte("uSCaP", arg[i]) >= 0 {
					if value = arg[i+1:]; value == "" {
						value = take()
					}
				}
				if err := option(arg[i:i+1], value); err != nil {
					return "", nil, err
				}
				if strings.IndexByte("uSCaP", arg[i]) >= 0 {
					break
				}
			}
		}
	}
	for len(args) > 0 {
		arg := take()
		name, value, ok := strings.Cut(arg, "=")
		if arg == "" {
			return "", nil, errors.New("expected the name of a program, found an empty one")
		}
		if !ok {
			return arg, search, nil
		}
		if name == "PATH" {
			search = strings.Split(value, ":")
		}
	}
	return "", search, nil
}

// splitEnv takes a string apart as env -S does.
func splitEnv(s string) ([]string, error) {
	var words []string
	var word []byte
	in := false // a word
	quote := byte(0)
	end := func() {
		if in {
			words = append(words, string(word))
		}
		word, in = nil, false
	}
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch {
		case b == quote && quote != 0:
			quote = 0
		case quote == 0 && (b == '\'' || b == '"'):
			quote, in = b, true
		case quote == 0 && strings.IndexByte(" \t\n\v\f\r", b) >= 0:
			end()
		case quote == 0 && b == '#' && !in:
			return words, nil
		case b == '$' && quote != '\'':
			return nil, errors.New("expected words, found a variable, whose value is not known here")
		case b == '\\':
			if i++; i == len(s) {
				return nil, errors.New("expected a character after a backslash, found the end")
			}
			b = s[i]
			if quote == '\'' && b != '\'' && b != '\\' {
				word = append(word, '\\', b)
				continue
			}
			switch b {
			case 'c':
				if quote != 0 {
					return nil, errors.New(`expected no \c in quotes, found one`)
				}
				end()
				return words, nil
			case '_':
				if quote == 0 {
					end()
					continue
				}
				b = ' '
			case '"', '#', '$', '\'', '\\':
			default:
				n := strings.IndexByte("fnrtv", b)
				if n < 0 {
					return nil, fmt.Errorf("expected an escape of env, found %q", s[i-1:i+1])
				}
				b = "\f\n\r\t\v"[n]
			}
			word, in = append(word, b), true
		default:
			word, in = append(word, b), true
		}
	}
	if quote != 0 {
		return nil, errors.New("expected a quote at the end, found none")
	}
	end()
	return words, nil
}

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
			c.join(o.real, fmt.Sprintf("needed by %s (%s)", o.loader.path, o.names[0]))
		}
	}
	return nil
}

func (m *image) runsWith(other *image) bool {
	return m.class == other.class && m.machine == other.machine
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
	if data := l.config("/etc/ld.so.cache", maxCache); data != nil {
		l.cache, _ = parseCache(data, m.order) // the loader does without one that it cannot use
	}
	// Which directories a loader searches was decided when it was built. It holds
	// their names, each with a slash and a zero at the end.
	text, err := l.c.head(l.self.real, maxLoader)
	if err != nil {
		return &RuntimeError{l.self.path, l.main.path, "expected an ELF interpreter that can be read", err}
	}
	all := defaultDirs(m)
	for _, dir := range all {
		if bytes.Contains(text, []byte("\x00"+dir+"/\x00")) {
			l.dirs = append(l.dirs, dir)
		}
	}
	if len(l.dirs) == 0 {
		l.dirs = all
	}
	l.lib = strings.TrimPrefix(l.dirs[0], "/")
	l.lib = strings.TrimPrefix(l.lib, "usr/")
	preload := string(l.config("/etc/ld.so.preload", maxLoaderText))
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

// searchList takes apart a list of directories. Relative ones are left out: what
// they mean depends on where a program happens to be started.
func searchList(s string) []string {
	var dirs []string
	for dir := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ':' || r == '\n' }) {
		if dir[0] == '/' {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// defaultDirs returns what loaders for m search in the end, on Debian and its kin
// and elsewhere.
func defaultDirs(m *image) []string {
	triplet := ""
	little := m.order.Uint16([]byte{1, 0}) == 1
	switch m.machine { //nolint:exhaustive // the others have no triplet in use
	case elf.EM_X86_64:
		if triplet = "x86_64-linux-gnu"; m.class == elf.ELFCLASS32 {
			triplet = "x86_64-linux-gnux32"
		}
	case elf.EM_386:
		triplet = "i386-linux-gnu"
	case elf.EM_AARCH64:
		triplet = "aarch64-linux-gnu"
	case elf.EM_ARM:
		if triplet = "arm-linux-gnueabi"; strings.HasSuffix(m.interpreter, "hf.so.3") {
			triplet = "arm-linux-gnueabihf"
		}
	case elf.EM_RISCV:
		triplet = "riscv64-linux-gnu"
	case elf.EM_PPC64:
		if triplet = "powerpc64-linux-gnu"; little {
			triplet = "powerpc64le-linux-gnu"
		}
	case elf.EM_S390:
		triplet = "s390x-linux-gnu"
	case elf.EM_LOONGARCH:
		triplet = "loongarch64-linux-gnu"
	case elf.EM_MIPS:
		if triplet = "mips64-linux-gnuabi64"; little {
			triplet = "mips64el-linux-gnuabi64"
		}
	}
	var dirs []string
	if triplet != "" {
		dirs = append(dirs, "/lib/"+triplet, "/usr/lib/"+triplet)
	}
	if m.machine == elf.EM_RISCV {
		dirs = append(dirs, "/lib64/lp64d", "/usr/lib64/lp64d")
	}
	if m.class == elf.ELFCLASS64 {
		dirs = append(dirs, "/lib64", "/usr/lib64")
	} else if m.machine == elf.EM_X86_64 {
		dirs = append(dirs, "/libx32", "/usr/libx32")
	}
	return append(dirs, "/lib", "/usr/lib")
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
			if !l.musl && l.hasHardware(dir) {
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

// hasHardware reports whether there may be libraries for some processors in dir.
func (l *loading) hasHardware(dir string) bool {
	_, err := l.c.w.resolve(dir + "/glibc-hwcaps")
	return !isMissing(err)
}

// searchPath returns the directories that files name for what by needs.
func (l *loading) searchPath(by *object) []string {
	var dirs []string
	list := func(o *object, s string) {
		for _, dir := range l.searchExpanded(o, s) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	if l.musl {
		for o := by; o != nil; o = o.loader {
			list(o, cmp.Or(o.image.runpath, o.image.rpath))
		}
		return dirs
	}
	if !by.image.hasRunpath {
		for o := by; o != nil; o = o.loader {
			list(o, o.image.rpath)
		}
		list(l.main, l.main.image.rpath)
	}
	list(by, by.image.runpath)
	return dirs
}

// searchExpanded takes apart a DT_RPATH or DT_RUNPATH of o. glibc drops a directory
// that it cannot expand, musl the whole list.
func (l *loading) searchExpanded(o *object, s string) []string {
	var dirs []string
	for dir := range strings.SplitSeq(s, ":") {
		dir, ok := l.expand(o, dir)
		if !ok && l.musl {
			return nil
		}
		if ok && strings.HasPrefix(dir, "/") {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// expand puts in what $ORIGIN, $LIB and $PLATFORM stand for in a string of o. It
// fails where the loader would not know either.
func (l *loading) expand(o *object, s string) (string, bool) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "$")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		name, rest := dollar(after)
		value := ""
		switch {
		case name == "ORIGIN":
			value = parent(o.path)
		case name == "LIB" && !l.musl:
			value = l.lib
		case name == "PLATFORM" && !l.musl:
			value = platform(l.main.image)
		case l.musl:
			return "", false
		default:
			b.WriteByte('$')
			s = after
			continue
		}
		if value == "" {
			return "", false
		}
		b.WriteString(value)
		s = rest
	}
}

// nameBytes are those that make a longer name of one after a dollar.
const nameBytes = "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// dollar returns the name at the beginning of s, in braces or not, and what
// follows. The name is empty when it is none that a loader knows.
func dollar(s string) (name, rest string) {
	for _, name := range []string{"ORIGIN", "LIB", "PLATFORM"} {
		if rest, ok := strings.CutPrefix(s, "{"+name+"}"); ok {
			return name, rest
		}
		rest, ok := strings.CutPrefix(s, name)
		if ok && (rest == "" || !strings.ContainsAny(rest[:1], nameBytes)) {
			return name, rest
		}
	}
	return "", s
}

// platform returns what the kernel calls the machine, where that is one name.
func platform(m *image) string {
	switch m.machine { //nolint:exhaustive // the others' depends on the processor
	case elf.EM_X86_64:
		return "x86_64"
	case elf.EM_386:
		return "i686"
	case elf.EM_AARCH64:
		if m.order.Uint16([]byte{1, 0}) == 1 {
			return "aarch64"
		}
		return "aarch64_be"
	}
	return ""
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
