package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
			} else if strings.HasSuffix(tt.name, "platform") {
				// The name depends on the processor. This one is older than all doubt.
				c, err = newWalker(machineFS{}).runtime(dir+"/exe", runtimeOptions{hardware: func() []string { return []string{"x86-64-v2"} }})
				if _, err := newWalker(machineFS{}).runtime(dir+"/exe", runtimeOptions{hardware: func() []string { return []string{"x86-64-v3"} }}); err == nil {
					t.Error("expected a doubt about the name of the processor, found none")
				}
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
			if got, want := runIn(alone(t, c), path), runIn("/", path); got != want {
				t.Errorf("got %s\nwant %s\nwith %v", got, want, c)
			}
		})
	}
}

// alone makes a root in which there is nothing but a closure.
func alone(t *testing.T, c *runtimeClosure) (root string) {
	t.Helper()
	root = t.TempDir()
	put := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(root+path), 0o777); err != nil {
			t.Fatal(err)
		}
		return root + path
	}
	for _, dir := range c.directories {
		if err := os.MkdirAll(root+dir, 0o777); err != nil {
			t.Fatal(err)
		}
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
	return root
}

// runIn starts a program below a root, and returns what it says and how it ends.
func runIn(root, path string) string {
	cmd := exec.Command("chroot", root, path, "--version")
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}

// TestRuntimeBuiltSuffices does so with programs that are made for it.
func TestRuntimeBuiltSuffices(t *testing.T) {
	requireLoader(t)
	if os.Geteuid() != 0 {
		unavailable(t, "only root may chroot")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		unavailable(t, "no gcc")
	}
	const watch = "gcc -shared -fPIC -o lib2/libb.so b.c; gcc -shared -fPIC -o lib/libwatch.so watch.c -Llib2 -lb"
	// $PWD, since there is no /proc by which the loader finds out what $ORIGIN is.
	for _, tt := range []struct{ name, script, says string }{
		{"directories that are left again", "mkdir -p x/y; gcc -shared -fPIC -o lib/libb.so b.c; gcc -o exe main.c -Llib -lb -Wl,--enable-new-dtags,-rpath,$PWD/x/y/../../lib", "b"},
		{"audit and rpath", watch + "; cp lib2/libb.so lib; gcc -o exe main.c -Llib -lb -Wl,--audit,libwatch.so -Wl,--disable-new-dtags,-rpath,$PWD/lib:$PWD/lib2", "watched"},
		{"audit and runpath", watch + "; gcc -o exe main.c -Llib2 -lb -Wl,--audit,$PWD/lib/libwatch.so -Wl,--enable-new-dtags,-rpath,$PWD/lib2", "watched"},
		{"depaudit", watch + "; gcc -o exe main.c -Llib2 -lb -Wl,--depaudit,libnone.so:libwatch.so -Wl,-rpath,$PWD/lib:$PWD/lib2", "watched"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"main.c": "int b(void); int main(void) { return b(); }\n", "b.c": "#include <unistd.h>\nint b(void) { return write(1, \"b\", 1) != 1; }\n",
				"watch.c": "#include <unistd.h>\nint b(void); unsigned la_version(unsigned v) { b(); return write(1, \"watched\", 7) == 7 ? v : 0; }\n",
			} {
				if err := os.WriteFile(dir+"/"+name, []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("/bin/sh", "-c", "set -e; mkdir lib lib2; "+tt.script)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				unavailable(t, "%v\n%s", err, out)
			}
			c, err := newWalker(machineFS{}).runtime(dir+"/exe", runtimeOptions{hardware: machineHardware})
			if err != nil {
				t.Fatal(err)
			}
			want := runIn("/", dir+"/exe")
			if !strings.Contains(want, tt.says) {
				unavailable(t, "the loader does not do this: %s", want)
			}
			if got := runIn(alone(t, c), dir+"/exe"); got != want {
				t.Errorf("got %s\nwant %s\nwith %v", got, want, c)
			}
		})
	}
}
