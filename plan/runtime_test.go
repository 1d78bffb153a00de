//go:build linux

package plan

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// machineFS is the filesystem of the machine that the test runs on.
type machineFS struct{}

func (machineFS) Lstat(path string) (Entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Entry{}, err
	}
	s := info.Sys().(*syscall.Stat_t)
	return Entry{
		Identity: Identity{Device: s.Dev, Inode: s.Ino, Type: info.Mode().Type()},
		Mode:     info.Mode(), Size: info.Size(),
		Links: uint64(s.Nlink), //nolint:unconvert // it has 32 bits on other machines
	}, nil
}

func (machineFS) Readlink(path string) (string, error) { return os.Readlink(path) }

func (machineFS) Open(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// memoryFS is a filesystem in memory: what each file holds, where a link goes
// ("-> TARGET"), and the directories that this takes. "!x" before the content of a
// file makes it one that nobody may execute.
type memoryFS map[string]string

func (m memoryFS) Lstat(path string) (Entry, error) {
	inode := uint64(14695981039346656037)
	for _, c := range []byte(path) {
		inode = (inode ^ uint64(c)) * 1099511628211
	}
	e := Entry{Identity: Identity{Device: 1, Inode: inode}, Links: 1, Mode: 0o755}
	content, ok := m[path]
	switch {
	case strings.HasPrefix(content, "-> "):
		e.Type = fs.ModeSymlink
	case strings.HasPrefix(content, "!x"):
		e.Mode = 0o644
	case ok:
	default:
		for p := range m {
			if path == "/" || strings.HasPrefix(p, path+"/") {
				e.Type = fs.ModeDir
				return e, nil
			}
		}
		return Entry{}, fs.ErrNotExist
	}
	return e, nil
}

func (m memoryFS) Readlink(path string) (string, error) { return m[path][3:], nil }

func (m memoryFS) Open(path string) (File, error) {
	return struct {
		io.ReaderAt
		io.Closer
	}{strings.NewReader(m[path]), io.NopCloser(nil)}, nil
}

const glibcLoader = "/lib64/ld-linux-x86-64.so.2"

var machineHardware = sync.OnceValue(func() []string {
	out, _ := exec.Command(glibcLoader, "--help").Output()
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " (supported, searched)"); ok && strings.HasPrefix(name, "x86-64-") {
			names = append(names, name)
		}
	}
	return names
})

// unavailable skips a test that this host cannot run, and fails it where nothing may
// be skipped.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatalf("MAELYS_REQUIRE_ALL=1: "+format, args...)
	}
	t.Skipf(format, args...)
}

func requireLoader(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		unavailable(t, "no loader of amd64 to compare with")
	}
	if err := exec.Command(glibcLoader, "--version").Run(); err != nil {
		unavailable(t, "no loader to compare with: %v", err)
	}
}

// loaderSays returns the files, without links, that the loader would load for an
// executable, and whether it misses some.
func loaderSays(t *testing.T, executable string) (files []string, missing string) {
	t.Helper()
	cmd := exec.Command(glibcLoader, "--list", executable)
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("not found")) {
		return nil, string(out)
	}
	for line := range strings.Lines(string(out)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " (0x")
		if _, path, ok := strings.Cut(line, " => "); ok {
			line = path
		}
		if !strings.HasPrefix(line, "/") {
			continue // linux-vdso, statically linked
		}
		path, err := filepath.EvalSymlinks(line)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	return files, ""
}

// asLoader compares a closure with what the loader says. It returns the closure, or
// why there is none when the loader finds none either.
func asLoader(t *testing.T, executable string) (*runtimeClosure, error) {
	t.Helper()
	executable, err := filepath.EvalSymlinks(executable)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newWalker(machineFS{}).runtime(executable, runtimeOptions{hardware: machineHardware})
	want, missing := loaderSays(t, executable)
	if missing != "" {
		if err == nil {
			t.Errorf("%s: expected an error, as the loader says\n%s", executable, missing)
		}
		return nil, err
	}
	if err != nil {
		t.Errorf("%s: %v; the loader finds %q", executable, err, want)
		return nil, err
	}
	own := map[string]bool{executable: true}
	for _, path := range []string{"/etc/ld.so.cache", "/etc/ld.so.preload"} {
		if path, err := filepath.EvalSymlinks(path); err == nil {
			own[path] = true
		}
	}
	loader, err := filepath.EvalSymlinks(glibcLoader)
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, loader) // not listed when nothing names it
	var got []string
	for _, f := range c.files {
		if !own[f.path] {
			got = append(got, f.path)
		}
		if f.why == "" {
			t.Errorf("%s: %s has no reason", executable, f.path)
		}
		delete(own, f.path)
	}
	want = slices.DeleteFunc(want, func(path string) bool { return path == executable })
	slices.Sort(want)
	want = slices.Compact(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", executable, got, want)
	}
	if len(own) > 0 {
		t.Errorf("%s: expected these too: %v", executable, slices.Collect(maps.Keys(own)))
	}
	return c, nil
}

func TestRuntimeOfThisMachine(t *testing.T) {
	requireLoader(t)
	home, _ := os.UserHomeDir()
	var found []string
	seen := map[Identity]bool{}
	for _, root := range []string{
		"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local", "/usr/libexec", "/opt",
		home + "/.cargo", home + "/.rustup", home + "/go/bin", "/usr/lib",
	} {
		if root, err := filepath.EvalSymlinks(root); err == nil {
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return nil
				}
				e, err := machineFS{}.Lstat(path)
				if err != nil || e.Mode&0o111 == 0 || seen[e.Identity] {
					return nil
				}
				f, err := os.Open(path)
				if err != nil {
					return nil
				}
				defer f.Close()
				m, err := readELF(f)
				if err != nil || m.interpreter != glibcLoader {
					return nil
				}
				seen[e.Identity] = true
				if found = append(found, path); len(found) == 1500 {
					return fs.SkipAll
				}
				return nil
			})
		}
	}
	if len(found) < 200 && os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatalf("expected at least 200 dynamic executables, found %d", len(found))
	}
	if len(found) < 20 {
		unavailable(t, "expected at least 20 dynamic executables, found %d", len(found))
	}
	var same, lacking, files atomic.Int64
	var group sync.WaitGroup
	work := make(chan string)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for path := range work {
				if c, err := asLoader(t, path); err == nil {
					same.Add(1)
					files.Add(int64(len(c.files)))
				} else {
					lacking.Add(1)
					t.Log(err)
				}
			}
		})
	}
	for _, path := range found {
		work <- path
	}
	close(work)
	group.Wait()
	t.Logf("%d executables with %d files as the loader says, %d that lack a library for both, hwcaps %q", same.Load(), files.Load(), lacking.Load(), machineHardware())
}

func TestRuntimeBuilt(t *testing.T) {
	requireLoader(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		unavailable(t, "no gcc")
	}
	// build runs gcc line by line in a new directory.
	build := func(t *testing.T, lines ...string) string {
		t.Helper()
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"main.c": "int a(void); int main(void) { return a(); }\n", "a.c": "int b(void); int a(void) { return b(); }\n",
			"b.c": "int b(void) { return 0; }\n", "none.c": "int main(void) { return 0; }\n",
		} {
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		script := "set -e; mkdir lib lib2\n" + strings.Join(lines, "\n")
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			unavailable(t, "%v\n%s", err, out)
		}
		return dir
	}
	const (
		libb    = "gcc -shared -o lib2/libb.so b.c"
		liba    = "gcc -shared -o lib/liba.so a.c -Llib2 -lb"
		rpath   = "gcc -o exe main.c -Llib -la -Wl,-rpath-link,lib2 -Wl,--disable-new-dtags,-rpath,"
		runpath = "gcc -o exe main.c -Llib -la -Wl,-rpath-link,lib2 -Wl,--enable-new-dtags,-rpath,"
		both    = "'$ORIGIN/lib:$ORIGIN/lib2'"
	)
	for _, tt := range []struct {
		name  string
		lines []string
		has   string // files of the closure, below the directory
		fails string // the error, without the directory
	}{
		{"rpath is inherited", []string{libb, liba, rpath + both}, "exe lib/liba.so lib2/libb.so", ""},
		{"runpath is not", []string{libb, liba, runpath + both}, "", "libb.so, needed by DIR/lib/liba.so: expected a library in"},
		{"runpath of each", []string{libb, liba + " -Wl,--enable-new-dtags,-rpath,'${ORIGIN}/../lib2'", runpath + "'$ORIGIN/lib'"}, "exe lib/liba.so lib2/libb.so", ""},
		{"runpath of a library hides the rpath above", []string{libb, liba + " -Wl,--enable-new-dtags,-rpath,/nowhere", rpath + both}, "", "libb.so, needed by DIR/lib/liba.so:"},
		{"rpath of a library", []string{libb, liba + " -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib2'", rpath + "'$ORIGIN/lib'"}, "exe lib/liba.so lib2/libb.so", ""},
		{"missing", []string{libb, liba, rpath + both, "rm lib2/libb.so"}, "", "libb.so, needed by DIR/lib/liba.so:"},
		{"missing at once", []string{libb, liba, rpath + both, "rm lib/liba.so"}, "", "liba.so, needed by DIR/exe:"},
		{"nodefaultlib", []string{"gcc -o exe none.c -Wl,-z,nodefaultlib"}, "", "libc.so.6, needed by DIR/exe:"},
		{"nodefaultlib with a path", []string{"gcc -o exe none.c -Wl,-z,nodefaultlib -Wl,-rpath,/lib/x86_64-linux-gnu:/lib64"}, "exe", ""},
		{"static", []string{"gcc -static -o exe none.c"}, "exe", ""},
		{"static-pie", []string{"gcc -static-pie -o exe none.c"}, "exe", ""},
		{"no pie", []string{libb, liba, rpath + both + " -no-pie"}, "exe lib/liba.so lib2/libb.so", ""},
		{"links", []string{
			libb, liba, rpath + "'$ORIGIN/link'", "mkdir real; mv lib/liba.so real/liba.so.1.2; ln -s liba.so.1.2 real/liba.so.1",
			"ln -s ../real/liba.so.1 lib/liba.so; ln -s lib link; cp lib2/libb.so lib/libb.so",
		}, "exe lib/libb.so real/liba.so.1.2", ""},
		{"origin is where a library was found, not where links lead", []string{
			libb, liba + " -Wl,--enable-new-dtags,-rpath,'$ORIGIN'", runpath + "'$ORIGIN/lib'",
			"mkdir real; mv lib/liba.so real; ln -s ../real/liba.so lib/liba.so; mv lib2/libb.so lib",
		}, "exe lib/libb.so real/liba.so", ""},
		{"lib and platform", []string{
			libb, liba, "mkdir -p x86_64 lib/x86_64-linux-gnu lib64; mv lib2/libb.so x86_64; mv lib/liba.so lib/x86_64-linux-gnu; cp lib/x86_64-linux-gnu/* lib64",
			"gcc -o exe main.c -Llib64 -la -Wl,-rpath-link,x86_64 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/$LIB:$ORIGIN/${PLATFORM}:$ORIGIN/$LIBX'",
		}, "exe x86_64/libb.so ", ""},
		{"hwcaps", []string{libb, liba, rpath + both, "for v in 2 3 4; do mkdir -p lib2/glibc-hwcaps/x86-64-v$v; cp lib2/libb.so lib2/glibc-hwcaps/x86-64-v$v; done"}, "exe lib/liba.so", ""},
		{"other machine first", []string{libb, liba, rpath + "'$ORIGIN/wrong:$ORIGIN/lib:$ORIGIN/lib2'", "mkdir wrong; cp lib2/libb.so wrong; printf '\\267' | dd of=wrong/libb.so bs=1 seek=18 conv=notrunc"}, "exe lib/liba.so lib2/libb.so", ""},
		{"other machine only", []string{libb, liba, rpath + both, "printf '\\267' | dd of=lib2/libb.so bs=1 seek=18 conv=notrunc"}, "", "libb.so, needed by DIR/lib/liba.so: expected a library for 64-bit EM_X86_64, found only DIR/lib2/libb.so for 64-bit EM_AARCH64"},
		{"garbage for a library", []string{libb, liba, rpath + both, "echo INPUT > lib2/libb.so"}, "", "DIR/lib2/libb.so, needed by DIR/lib/liba.so: expected a library: expected "},
		{"a path with a slash", []string{"gcc -shared -o lib2/libb.so b.c; gcc -shared -o lib/liba.so a.c $PWD/lib2/libb.so; gcc -o exe main.c $PWD/lib/liba.so"}, "exe lib/liba.so lib2/libb.so", ""},
		{"soname is loaded already", []string{
			"gcc -shared -o lib2/libb.so b.c -Wl,-soname,libother.so; cp lib2/libb.so lib/libb-2.so; ln -s libb.so lib2/libother.so",
			"gcc -shared -o lib/liba.so a.c -Llib2 -lb", "gcc -o exe main.c -Wl,--no-as-needed -Llib2 -Llib -lb -la -Wl,--disable-new-dtags,-rpath," + both,
		}, "exe lib/liba.so lib2/libb.so", ""},
		{"one file, two names", []string{libb, "ln lib2/libb.so lib2/libc2.so", "gcc -shared -o lib/liba.so a.c -Llib2 -lb", "gcc -o exe main.c -Wl,--no-as-needed -Llib -Llib2 -la -lc2 -lb -Wl,--disable-new-dtags,-rpath," + both}, "exe lib/liba.so lib2/libb.so lib2/libc2.so", ""},
		{"filter", []string{libb, "gcc -shared -o lib/liba.so a.c -Llib2 -lb -Wl,-f,libb.so -Wl,-f,libnone.so", rpath + both}, "exe lib/liba.so lib2/libb.so", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := build(t, tt.lines...)
			var c *runtimeClosure
			var err error
			if strings.HasPrefix(tt.name, "static") || strings.HasPrefix(tt.name, "one file") {
				// The loader lists nothing here, or not the second name, which it opens too.
				c, err = newWalker(machineFS{}).runtime(dir+"/exe", runtimeOptions{})
			} else {
				c, err = asLoader(t, dir+"/exe")
			}
			if tt.fails != "" {
				var re *RuntimeError
				if !errors.As(err, &re) || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), tt.fails) {
					t.Errorf("got the error %v\nwant %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range c.files {
				got = append(got, strings.TrimPrefix(f.path, dir+"/"))
			}
			for file := range strings.FieldsSeq(tt.has) {
				if !slices.Contains(got, file) {
					t.Errorf("expected %s, found %q", file, got)
				}
			}
			if strings.HasPrefix(tt.name, "static") && len(got) != 1 {
				t.Errorf("expected the executable alone, found %q", got)
			}
			if tt.name == "links" {
				for _, link := range []Link{{dir + "/lib/liba.so", "../real/liba.so.1"}, {dir + "/link", "lib"}, {dir + "/real/liba.so.1", "liba.so.1.2"}} {
					if !slices.Contains(c.links, link) {
						t.Errorf("expected the link %v, found %v", link, c.links)
					}
				}
			}
		})
	}
}

// An elfSpec is an ELF file to be made for a test.
type elfSpec struct {
	class   elf.Class
	order   binary.ByteOrder
	machine elf.Machine
	kind    elf.Type
	interp  string
	soname  string
	needed  []string
	rpath   string
	runpath string
}

// make lays the file out as one loaded segment at 0x10000.
func (s elfSpec) make() string {
	if s.class == 0 {
		s.class = elf.ELFCLASS64
	}
	if s.order == nil {
		s.order = binary.LittleEndian
	}
	if s.machine == 0 {
		s.machine = elf.EM_X86_64
	}
	if s.kind == 0 {
		s.kind = elf.ET_DYN
	}
	const base = 0x10000
	wide := s.class == elf.ELFCLASS64
	header, phentsize, word := 52, 32, 4
	if wide {
		header, phentsize, word = 64, 56, 8
	}
	number := func(b []byte, v uint64) {
		if wide {
			s.order.PutUint64(b, v)
		} else {
			s.order.PutUint32(b, uint32(v))
		}
	}
	strings := []byte{0}
	var dynamic []byte
	entry := func(tag elf.DynTag, v uint64) {
		b := make([]byte, 2*word)
		number(b, uint64(tag))
		number(b[word:], v)
		dynamic = append(dynamic, b...)
	}
	text := func(tag elf.DynTag, v string) {
		if v != "" {
			entry(tag, uint64(len(strings)))
			strings = append(append(strings, v...), 0)
		}
	}
	for _, n := range s.needed {
		text(elf.DT_NEEDED, n)
	}
	text(elf.DT_SONAME, s.soname)
	text(elf.DT_RPATH, s.rpath)
	text(elf.DT_RUNPATH, s.runpath)
	at := header + 3*phentsize // the interpreter, the strings, the dynamic section
	interp := append([]byte(s.interp), 0)
	entry(elf.DT_STRTAB, uint64(base+at+len(interp)))
	entry(elf.DT_NULL, 0)
	end := at + len(interp) + len(strings) + len(dynamic)
	b := make([]byte, at, end)
	copy(b, elf.ELFMAG)
	b[4], b[5], b[6] = byte(s.class), 1, 1
	if s.order == binary.ByteOrder(binary.BigEndian) {
		b[5] = 2
	}
	s.order.PutUint16(b[16:], uint16(s.kind))
	s.order.PutUint16(b[18:], uint16(s.machine))
	s.order.PutUint32(b[20:], 1)
	number(b[24+word:], uint64(header))
	counts := b[24+3*word+4:]
	s.order.PutUint16(counts, uint16(header))
	s.order.PutUint16(counts[2:], uint16(phentsize))
	s.order.PutUint16(counts[4:], 3)
	segment := func(n int, kind elf.ProgType, from, size int) {
		p := b[header+n*phentsize:]
		s.order.PutUint32(p, uint32(kind))
		if p = p[4:]; wide {
			p = p[4:]
		}
		for i, v := range []int{from, base + from, base + from, size, size} {
			number(p[i*word:], uint64(v))
		}
	}
	segment(0, elf.PT_LOAD, 0, end)
	if s.interp != "" {
		segment(1, elf.PT_INTERP, at, len(interp))
	}
	segment(2, elf.PT_DYNAMIC, at+len(interp)+len(strings), len(dynamic))
	return string(slices.Concat(b, interp, strings, dynamic))
}

func TestRuntimeInMemory(t *testing.T) {
	var (
		static = elfSpec{kind: elf.ET_EXEC}.make()
		loader = elfSpec{soname: "ld-linux-x86-64.so.2"}.make()
		lib    = elfSpec{}.make()
		musl   = "/lib/ld-musl-x86_64.so.1"
	)
	long := strings.Repeat("d", 252)
	for _, tt := range []struct {
		name  string
		files memoryFS
		want  string // the files
		links string
		fails string
	}{
		{"static", memoryFS{"/x": static}, "/x", "", ""},
		{"a link", memoryFS{"/x": "-> b/y", "/b/y": static}, "/b/y", "/x", ""},
		{"absent", memoryFS{"/y": static}, "", "", "/x: expected an executable, found none"},
		{"a directory", memoryFS{"/x/y": static}, "", "", "/x: expected an executable, found a file of type d"},
		{"not executable", memoryFS{"/x": "!x"}, "", "", "/x: expected an executable, found a file that nobody may execute"},
		{"not a program", memoryFS{"/x": "hello"}, "", "", `/x: expected an ELF file or a #! line with an interpreter, found "hello"`},
		{"empty", memoryFS{"/x": ""}, "", "", `/x: expected an ELF file or a #! line with an interpreter, found ""`},
		{"loop of links", memoryFS{"/x": "-> x"}, "", "", "/x: expected an executable: /x: too many levels"},
		{"relocatable", memoryFS{"/x": elfSpec{kind: elf.ET_REL}.make()}, "", "", "/x: expected an ELF file of an executable, found ET_REL"},
		{"script", memoryFS{"/x": "#!/b/sh\n", "/b": "-> bin", "/bin/sh": "-> dash", "/bin/dash": static}, "/bin/dash /x", "/b /bin/sh", ""},
		{"script, blanks", memoryFS{"/x": "#! \t /sh\t -e -u \n", "/sh": static}, "/sh /x", "", ""},
		{"script, no newline", memoryFS{"/x": "#!/sh", "/sh": static}, "/sh /x", "", ""},
		{"script, carriage return", memoryFS{"/x": "#!/sh\r\n", "/sh": static}, "", "", "/sh\r, needed by /x: expected the interpreter of a script, found none"},
		{"script without interpreter", memoryFS{"/x": "#! \n/sh", "/sh": static}, "", "", "/x: expected an ELF file or a #! line"},
		{"script, absent interpreter", memoryFS{"/x": "#!/sh\n"}, "", "", "/sh, needed by /x: expected the interpreter of a script, found none"},
		{"script, relative interpreter", memoryFS{"/x": "#!sh\n"}, "", "", "sh, needed by /x: expected an absolute path"},
		{"script, long name", memoryFS{"/x": "#!/" + long + "\n", "/" + long: static}, "/" + long + " /x", "", ""},
		{"script, name cut off", memoryFS{"/x": "#!/" + long + "d\n", "/" + long: static}, "", "", "/x: expected an ELF file or a #! line"},
		{"script, long argument", memoryFS{"/x": "#!/sh " + long + long + "\n", "/sh": static}, "/sh /x", "", ""},
		{"five scripts", memoryFS{"/x": "#!/2\n", "/2": "#!/3\n", "/3": "#!/4\n", "/4": "#!/5\n", "/5": "#!/6\n", "/6": static}, "/2 /3 /4 /5 /6 /x", "", ""},
		{"six scripts", memoryFS{"/x": "#!/2\n", "/2": "#!/3\n", "/3": "#!/4\n", "/4": "#!/5\n", "/5": "#!/6\n", "/6": "#!/7\n", "/7": static}, "", "", "/6, needed by /5: expected at most 5 scripts"},
		{"script of itself", memoryFS{"/x": "#!/x\n"}, "", "", "/x, needed by /x: expected at most 5 scripts"},

		{"env", memoryFS{"/x": "#!/usr/bin/env py\n", "/usr/bin/env": static, "/b2/py": "-> py3", "/b2/py3": static}, "/b2/py3 /usr/bin/env /x", "/b2/py", ""},
		{"env, first in PATH", memoryFS{"/x": "#!/env py\n", "/env": static, "/b1/py": static, "/b2/py": static}, "/b1/py /env /x", "", ""},
		{"env, not executable", memoryFS{"/x": "#!/env py\n", "/env": static, "/b1/py": "!x", "/b2/py": static}, "/b2/py /env /x", "", ""},
		{"env, path", memoryFS{"/x": "#!/env /py\n", "/env": static, "/py": static}, "/env /py /x", "", ""},
		{"env, absent", memoryFS{"/x": "#!/env py\n", "/env": static}, "", "", "py, needed by /x: expected a program in /b1::/b2, found none"},
		{"env without -S", memoryFS{"/x": "#!/env py -u\n", "/env": static, "/b1/py": static}, "", "", "py -u, needed by /x: expected a program in /b1::/b2, found none; env takes apart"},
		{"env -S", memoryFS{"/x": "#!/env -S py -u\n", "/env": static, "/b1/py": static}, "/b1/py /env /x", "", ""},
		{"env -vS", memoryFS{"/x": "#!/env -vS -u HOME 'p'\\y\n", "/env": static, "/b1/py": static}, "", "", "env, needed by /x: expected a command line of env: expected an escape of env, found \"\\\\y\""},
		{"env --split-string", memoryFS{"/x": "#!/env --split-string=-i A=b\"\\_c d\" PATH=/b9 'p'\"y\" #comment\n", "/env": static, "/b9/py": static}, "/b9/py /env /x", "", ""},
		{"env -i", memoryFS{"/x": "#!/env -S -i py\n", "/env": static, "/b1/py": static, "/bin/py": static}, "/bin/py /env /x", "", ""},
		{"env -u PATH", memoryFS{"/x": "#!/env -S -u PATH -C / -- py\n", "/env": static, "/b1/py": static, "/usr/bin/py": static}, "/env /usr/bin/py /x", "", ""},
		{"env VAR=x NAME", memoryFS{"/x": "#!/env -S A=b C=d py\n", "/env": static, "/b1/py": static}, "/b1/py /env /x", "", ""},
		{"env VAR=x alone", memoryFS{"/x": "#!/env A=b py\n", "/env": static, "/b1/py": static}, "", "", "/x, needed by /x: expected a program, found a script that starts itself"},
		{"env alone", memoryFS{"/x": "#!/env\n", "/env": static}, "", "", "/x, needed by /x: expected a program, found a script that starts itself"},
		{"env, variable", memoryFS{"/x": "#!/env -S ${PY}\n", "/env": static}, "", "", "env, needed by /x: expected a command line of env: expected words, found a variable"},
		{"env, option", memoryFS{"/x": "#!/env --nonsense\n", "/env": static}, "", "", `expected an option of env, found "nonsense"`},
		{"env, quote", memoryFS{"/x": "#!/env -S 'py\n", "/env": static}, "", "", `expected a quote at the end`},
		{"env loop", memoryFS{"/b1/a": "#!/env b\n", "/b1/b": "#!/env a\n", "/env": static, "/x": "#!/env a\n"}, "", "", "/b1/a, needed by /b1/b: expected a program, found a script that starts itself"},
		{"env, script", memoryFS{"/x": "#!/env a\n", "/b1/a": "#!/env b\n", "/b1/b": static, "/env": static}, "/b1/a /b1/b /env /x", "", ""},
		{"env, no format", memoryFS{"/x": "#!/env a\n", "/b1/a": "echo\n", "/bin/sh": static, "/env": static}, "/b1/a /bin/sh /env /x", "", ""},
		{"script of env script", memoryFS{"/x": "#!/y -z\n", "/y": "#!/env py\n", "/b1/py": static, "/env": static}, "/b1/py /env /x /y", "", ""},
		{"a script called env", memoryFS{"/x": "#!/env py\n", "/env": "#!/sh\n", "/sh": static, "/b1/py": static}, "/env /sh /x", "", ""},
		{"env starts nothing", memoryFS{"/x": "#!/env -u\n", "/env": static}, "/env /x", "", ""},
		{"env, empty name", memoryFS{"/x": "#!/env -S \"\" y\n", "/env": static}, "", "", "expected the name of a program, found an empty one"},

		{"no ELF interpreter", memoryFS{"/x": elfSpec{interp: glibcLoader}.make()}, "", "", glibcLoader + ", needed by /x: expected an ELF interpreter, found none"},
		{"relative ELF interpreter", memoryFS{"/x": elfSpec{interp: "ld.so"}.make()}, "", "", "ld.so, needed by /x: expected an absolute path"},
		{"wrong ELF interpreter", memoryFS{"/x": elfSpec{interp: "/ld"}.make(), "/ld": elfSpec{class: elf.ELFCLASS32, machine: elf.EM_386}.make()}, "", "", "/ld, needed by /x: expected an ELF interpreter for 64-bit EM_X86_64, found one for 32-bit EM_386"},
		{
			"default directories", memoryFS{
				"/x": elfSpec{interp: "/ld", needed: []string{"liba", "libb", "libc"}}.make(), "/ld": loader,
				"/lib/x86_64-linux-gnu/liba": lib, "/usr/lib/liba": lib, "/usr/lib64/glibc-hwcaps/v3/libb": lib, "/usr/lib64/libb": lib, "/usr/lib/libc": lib,
			}, "/ld /lib/x86_64-linux-gnu/liba /usr/lib/libc /usr/lib64/glibc-hwcaps/v3/libb /x", "", "",
		},
		{
			"the loader's own directories", memoryFS{
				"/x": elfSpec{interp: "/ld", needed: []string{"liba"}, rpath: "/opt/$LIB"}.make(), "/ld": loader + "\x00/lib64/\x00/usr/lib64/\x00",
				"/lib/x86_64-linux-gnu/liba": lib, "/usr/lib64/liba": elfSpec{needed: []string{"libb"}}.make(), "/opt/lib64/libb": lib, "/opt/lib/x86_64-linux-gnu/libb": lib,
			}, "/ld /opt/lib64/libb /usr/lib64/liba /x", "", "",
		},
		{
			"preload", memoryFS{
				"/x": elfSpec{interp: "/ld"}.make(), "/ld": loader, "/etc/ld.so.preload": "/p/a:libb # /p/c\n\tabsent /p/x86", "/p/a": elfSpec{needed: []string{"libd"}}.make(),
				"/lib/libb": lib, "/p/c": lib, "/lib/libd": lib, "/p/x86": elfSpec{machine: elf.EM_386}.make(), "/etc/ld.so.cache": "garbage",
			}, "/etc/ld.so.cache /etc/ld.so.preload /ld /lib/libb /lib/libd /p/a /x", "", "",
		},
		{
			"big endian, 32 bits", memoryFS{
				"/x":  elfSpec{interp: "/ld", needed: []string{"liba"}, runpath: "$ORIGIN/l", class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, kind: elf.ET_EXEC}.make(),
				"/ld": elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC}.make(), "/l/liba": elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC}.make(),
			}, "/l/liba /ld /x", "", "",
		},
		{
			"libraries in a circle", memoryFS{
				"/x": elfSpec{interp: "/ld", needed: []string{"liba"}}.make(), "/ld": loader,
				"/lib/liba": elfSpec{needed: []string{"libb", "ld-linux-x86-64.so.2"}}.make(), "/lib/libb": elfSpec{needed: []string{"liba"}}.make(),
			}, "/ld /lib/liba /lib/libb /x", "", "",
		},
		{
			"musl", memoryFS{
				"/x": elfSpec{interp: musl, needed: []string{"liba", "libc.so", "libc.musl-x86_64.so.1"}, runpath: "$ORIGIN/r"}.make(), musl: "-> libc.so", "/lib/libc.so": lib,
				"/r/liba": elfSpec{needed: []string{"libb", "libm.so.6", "libz"}}.make(), "/r/libb": lib, "/usr/local/lib/libz": lib, "/etc/ld.so.preload": "/nowhere", "/etc/ld.so.cache": "x", "/lib64/libz": lib,
			}, "/lib/libc.so /r/liba /r/libb /usr/local/lib/libz /x", musl, "",
		},
		{
			"musl with a path file", memoryFS{
				"/x": elfSpec{interp: musl, needed: []string{"liba"}}.make(), musl: lib, "/etc/ld-musl-x86_64.path": "/one\n/two:/three\n", "/lib/liba": lib, "/three/liba": lib,
			}, "/etc/ld-musl-x86_64.path /lib/ld-musl-x86_64.so.1 /three/liba /x", "", "",
		},
		{
			"musl, absent", memoryFS{
				"/x": elfSpec{interp: musl, needed: []string{"liba"}}.make(), musl: lib, "/lib64/liba": lib,
			}, "", "", "liba, needed by /x: expected a library in /lib:/usr/local/lib:/usr/lib, found none",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := newWalker(tt.files).runtime("/x", runtimeOptions{searchPath: []string{"/b1", "", "/b2"}, hardware: func() []string { return []string{"v4", "v3"} }})
			if tt.fails != "" {
				var re *RuntimeError
				if !errors.As(err, &re) || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("got the error %v\nwant %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var files, links []string
			for _, f := range c.files {
				files = append(files, f.path)
			}
			for _, l := range c.links {
				links = append(links, l.Path)
			}
			if got := strings.Join(files, " "); got != tt.want {
				t.Errorf("got the files %s\nwant %s", got, tt.want)
			}
			if got := strings.Join(links, " "); got != tt.links {
				t.Errorf("got the links %s\nwant %s", got, tt.links)
			}
		})
	}
}

// TestEnvLine compares with the env of this machine.
func TestEnvLine(t *testing.T) {
	if out, _ := exec.Command("/usr/bin/env", "--version").Output(); !bytes.HasPrefix(out, []byte("env (GNU coreutils)")) {
		unavailable(t, "no GNU env")
	}
	for _, arg := range []string{
		"py", "py -u", "-S py -u", `-S A=b\_C=d py -u`, `-vS -u HOME p\_y`, `-S "a b" c`, `-S 'a\'b' c`, `-S 'a\xb' c`, "-S a#b", "-S #c", "-S a #c",
		`-S -i A=b\tC py`, `-S a\cb`, `-S py\#`, "-S A= -u", "-iS py", "-S - py", "-S -- -x", "-S-i -u A -uB -C/ py", `-S "a\_b"`, `-S a\"b`, "-S\tx\vy",
		"A=b py", "-S --unset=A --unset B --ignore-environment --chdir=/ py", "-S -S 'a b' c", "-S x''y", "-S 'a", `-S \q`, `-S a\`, "-S --nope", "-Z", `-S "$`,
		`-S "a\c"`, "-S A=1 =b py", "-S  ", "--split-string=a b", "--debug", "-i", "-v",
	} {
		cmd := exec.Command("/usr/bin/env", "-v", arg, "/nonexistent/script")
		cmd.Env = []string{"LC_ALL=C", "PATH=/nonexistent"}
		out, _ := cmd.CombinedOutput()
		want := ""
		if _, after, ok := strings.Cut(string(out), "executing: "); ok {
			want, _, _ = strings.Cut(after, "\n")
		}
		got, _, err := envLine([]string{arg, "/nonexistent/script"}, []string{"/nonexistent"})
		if got != want || err == nil && want == "" {
			t.Errorf("%q: got %q, %v; env says\n%s", arg, got, err, out)
		}
	}
}

// A meter counts the bytes that are asked for.
type meter struct {
	io.ReaderAt
	bytes int
}

func (m *meter) ReadAt(b []byte, at int64) (int, error) {
	m.bytes += len(b)
	return m.ReaderAt.ReadAt(b, at)
}

func TestELFMalformed(t *testing.T) {
	samples := map[string][]byte{
		"64": []byte(elfSpec{interp: "/ld", soname: "s", needed: []string{"liba", "libb"}, rpath: "/r", runpath: "/rr"}.make()),
		"32": []byte(elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, interp: "/ld", needed: []string{"liba"}}.make()),
	}
	if b, err := os.ReadFile("/bin/true"); err == nil && bytes.HasPrefix(b, []byte(elf.ELFMAG)) && len(b) < 1<<20 {
		samples["true"] = b
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, sample := range samples {
		read := func(b []byte) (*image, error) {
			m := &meter{ReaderAt: bytes.NewReader(b)}
			image, err := readELF(m)
			if m.bytes > maxELFRead+maxELFHeaders {
				t.Fatalf("%s: expected at most %d bytes read, found %d", name, maxELFRead, m.bytes)
			}
			return image, err
		}
		whole, err := read(sample)
		if err != nil || whole.interpreter == "" || len(whole.needed) == 0 {
			t.Fatalf("%s: %+v, %v", name, whole, err)
		}
		for end := 0; end < len(sample); end += 1 + end/512 {
			_, _ = read(sample[:end])
			if end < 52 {
				if _, err := read(sample[:end]); err == nil {
					t.Errorf("%s: expected an error for %d bytes", name, end)
				}
			}
		}
		failed := 0
		for range 50000 {
			b := slices.Clone(sample[:min(len(sample), 64<<10)])
			for range 1 + random.IntN(4) {
				// Mostly in the headers, where it matters.
				at := random.IntN(min(len(b), 1<<(6+random.IntN(11))))
				b[at] ^= 1 << random.IntN(8)
			}
			if _, err := read(b); err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("%s: expected some flips to be noticed", name)
		}
	}
}

// TestRuntimeFlipped lets bits of every file flip: each failure is told as one.
func TestRuntimeFlipped(t *testing.T) {
	whole := memoryFS{
		"/x": "#!/env -S A=b y z\n", "/env": elfSpec{kind: elf.ET_EXEC}.make(),
		"/b/y": elfSpec{interp: "/ld", needed: []string{"liba", "libb"}, rpath: "$ORIGIN/${LIB}:/r"}.make(),
		"/ld":  elfSpec{soname: "ld"}.make(), "/r/liba": elfSpec{needed: []string{"libb", "ld"}, runpath: "/r"}.make(), "/c/libb": elfSpec{}.make(),
		"/etc/ld.so.cache": string(makeCache(binary.LittleEndian, false, "libb /c/libb x64 v3")), "/etc/ld.so.preload": "/c/libb liba",
	}
	random := rand.New(rand.NewPCG(3, 4))
	paths := slices.Sorted(maps.Keys(whole))
	good, bad := 0, 0
	for range 20000 {
		files := maps.Clone(whole)
		for range 1 + random.IntN(3) {
			path := paths[random.IntN(len(paths))]
			b := []byte(files[path])
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			files[path] = string(b)
		}
		_, err := newWalker(files).runtime("/x", runtimeOptions{searchPath: []string{"/b"}, hardware: func() []string { return []string{"v3"} }})
		if err == nil {
			good++
			continue
		}
		bad++
		var re *RuntimeError
		if !errors.As(err, &re) || re.Message == "" || re.Path == "" {
			t.Fatalf("expected an error that names a file, found %#v", err)
		}
	}
	if good == 0 || bad == 0 {
		t.Errorf("expected some of each, found %d good and %d bad", good, bad)
	}
}

// TestELFGreedy gives readELF headers that claim as much as they can.
func TestELFGreedy(t *testing.T) {
	for name, make := range map[string]func() elfSpec{
		"needed": func() elfSpec { return elfSpec{needed: slices.Repeat([]string{"l"}, maxNeeded+1)} },
		"rpath":  func() elfSpec { return elfSpec{rpath: strings.Repeat("r", maxSearchList+1)} },
		"name":   func() elfSpec { return elfSpec{needed: []string{strings.Repeat("n", maxNeededName+1)}} },
		"interp": func() elfSpec { return elfSpec{interp: "/" + strings.Repeat("n", maxInterpreter)} },
		"all":    func() elfSpec { return elfSpec{needed: slices.Repeat([]string{strings.Repeat("l", 4000)}, 2000)} },
	} {
		if _, err := readELF(strings.NewReader(make().make())); err == nil {
			t.Errorf("%s: expected an error", name)
		} else if !strings.HasPrefix(err.Error(), "expected ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRuntimeSuffices starts programs where there is nothing but their closure.
func TestRuntimeSuffices(t *testing.T) {
	requireLoader(t)
	if os.Geteuid() != 0 {
		unavailable(t, "only root may chroot")
	}
	scripts := t.TempDir()
	for name, text := range map[string]string{
		"sh": "#!/bin/sh -u\necho sh $#\n", "env": "#!/usr/bin/env bash\necho env $#\n",
		"chain": "#!" + scripts + "/env x\n", "split": "#!/usr/bin/env -S A=b\\_'C=d' bash -eu # that is all\necho $A $C\n",
		"perl": "#!/usr/bin/perl -l\nprint 1;\n",
	} {
		if err := os.WriteFile(scripts+"/"+name, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		scripts + "/sh", scripts + "/env", scripts + "/chain", scripts + "/split", scripts + "/perl",
		"/bin/ls", "/bin/bash", "/usr/bin/git", "/usr/bin/python3", "/usr/bin/perl", "/usr/bin/gcc", "/usr/bin/curl",
	} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, err := newWalker(machineFS{}).runtime(path, runtimeOptions{searchPath: []string{"/usr/bin", "/bin"}, hardware: machineHardware})
			if err != nil {
				unavailable(t, "%v", err)
			}
			root := t.TempDir()
			put := func(path string) string {
				if err := os.MkdirAll(filepath.Dir(root+path), 0o777); err != nil {
					t.Fatal(err)
				}
				return root + path
			}
			for _, f := range c.files {
				data, err := os.ReadFile(f.path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(put(f.path), data, f.entry.Mode.Perm()); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range c.links {
				if err := os.Symlink(l.Target, put(l.Path)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(put("/dev/null"), nil, 0o666); err != nil { // a runtime has a /dev, too
				t.Fatal(err)
			}
			run := func(root string) string {
				cmd := exec.Command("chroot", root, path, "--version")
				cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
				out, err := cmd.CombinedOutput()
				return fmt.Sprintf("%s%v", out, err)
			}
			if got, want := run(root), run("/"); got != want {
				t.Errorf("got %s\nwant %s\nwith %v", got, want, c)
			}
		})
	}
}

func ExampleRuntimeError() {
	fmt.Println(&RuntimeError{Path: "libz.so.1", Needed: "/usr/bin/git", Message: "expected a library in /lib:/usr/lib, found none"})
	// Output: libz.so.1, needed by /usr/bin/git: expected a library in /lib:/usr/lib, found none
}
