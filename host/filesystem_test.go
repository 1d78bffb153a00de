//go:build linux

package host_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/plan"
)

func TestFilesystem(t *testing.T) {
	dir := corpus.Scratch(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	odd := "a\n\xff b"
	long := strings.Repeat("/nowhere", 500)
	must(os.WriteFile(dir+"/file", []byte("content"), 0o640))
	must(os.Link(dir+"/file", dir+"/hard"))
	must(os.WriteFile(dir+"/"+odd, nil, 0o600))
	must(os.Mkdir(dir+"/dir", 0o755))
	must(os.Mkdir(dir+"/sticky", 0o755))
	must(os.Chmod(dir+"/sticky", 0o755|fs.ModeSticky|fs.ModeSetgid|fs.ModeSetuid))
	must(os.Mkdir(dir+"/locked", 0))
	must(os.Symlink("file", dir+"/link"))
	must(os.Symlink(long, dir+"/long"))
	must(syscall.Mkfifo(dir+"/fifo", 0o600))
	t.Chdir(dir) // the address of a socket is short
	listener, err := net.Listen("unix", "socket")
	must(err)
	defer listener.Close()

	files := host.Filesystem()
	for _, tt := range []struct {
		name  string
		mode  fs.FileMode
		links uint64
		size  int64
	}{
		{"/file", 0o640, 2, 7},
		{"/hard", 0o640, 2, 7},
		{"/" + odd, 0o600, 1, 0},
		{"/dir", fs.ModeDir | 0o755, 2, -1},
		{"/sticky", fs.ModeDir | fs.ModeSticky | fs.ModeSetgid | fs.ModeSetuid | 0o755, 2, -1},
		{"/link", fs.ModeSymlink | 0o777, 1, 4},
		{"/fifo", fs.ModeNamedPipe | 0o600, 1, 0},
	} {
		entry, err := files.Lstat(dir + tt.name)
		must(err)
		info, err := os.Lstat(dir + tt.name)
		must(err)
		st := info.Sys().(*syscall.Stat_t)
		if entry.Mode != tt.mode || entry.Type != tt.mode.Type() || entry.Device != st.Dev || entry.Inode != st.Ino || tt.size >= 0 && entry.Size != tt.size {
			t.Errorf("%q: %+v, want mode %v and size %d", tt.name, entry, tt.mode, tt.size)
		}
		if tt.mode.IsRegular() && entry.Links != tt.links {
			t.Errorf("%q: %d links, want %d", tt.name, entry.Links, tt.links)
		}
	}
	for path, kind := range map[string]fs.FileMode{dir + "/socket": fs.ModeSocket, "/dev/null": fs.ModeDevice | fs.ModeCharDevice} {
		if entry, err := files.Lstat(path); err != nil || entry.Type != kind {
			t.Errorf("%s: %+v, %v, want type %v", path, entry, err, kind)
		}
	}

	for name, want := range map[string]string{"/link": "file", "/long": long} {
		if target, err := files.Readlink(dir + name); err != nil || target != want {
			t.Errorf("%s: %q, %v", name, target, err)
		}
	}
	if _, err := files.Readlink(dir + "/file"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a file as a link: %v", err)
	}

	file, err := files.Open(dir + "/hard")
	must(err)
	content, err := io.ReadAll(io.NewSectionReader(file, 0, 100))
	if err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	must(file.Close())
	done := make(chan bool)
	go func() {
		defer close(done)
		before := descriptors(t)
		defer func() {
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors are open, and before what is no file was opened %d", after, before)
			}
		}()
		for _, name := range []string{"/fifo", "/socket", "/dir", "/link"} {
			if _, err := files.Open(dir + name); err == nil {
				t.Errorf("%s was opened as a file", name)
			}
		}
		if _, err := files.Open("/dev/zero"); err == nil || !strings.Contains(err.Error(), "regular file") {
			t.Errorf("/dev/zero: %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("opening what is no file waits")
	}

	for _, tt := range []struct {
		path  string
		is    error
		isNot []error
	}{
		{dir + "/absent", fs.ErrNotExist, []error{plan.ErrNotDirectory, fs.ErrPermission}},
		{dir + "/absent/x", fs.ErrNotExist, nil},
		{dir + "/file/x", plan.ErrNotDirectory, []error{fs.ErrNotExist}},
		{dir + "/" + strings.Repeat("n", 256), plan.ErrNameTooLong, []error{fs.ErrNotExist}},
		{dir + strings.Repeat("/n", 2100), plan.ErrNameTooLong, []error{fs.ErrNotExist}},
		{dir + "/locked/x", fs.ErrPermission, []error{fs.ErrNotExist}},
	} {
		if os.Geteuid() == 0 && errors.Is(tt.is, fs.ErrPermission) {
			continue // nothing is locked to root
		}
		for call, f := range map[string]func() error{
			"Lstat":    func() error { _, err := files.Lstat(tt.path); return err },
			"Readlink": func() error { _, err := files.Readlink(tt.path); return err },
			"Open":     func() error { _, err := files.Open(tt.path); return err },
		} {
			err := f()
			if !errors.Is(err, tt.is) {
				t.Errorf("%s %.40q…: %v, want %v", call, tt.path, err, tt.is)
			}
			for _, not := range tt.isNot {
				if errors.Is(err, not) {
					t.Errorf("%s %.40q…: %v is also %v", call, tt.path, err, not)
				}
			}
		}
	}
	must(os.Symlink("loop", dir+"/loop"))
	if _, err := files.Lstat(dir + "/loop/x"); !errors.Is(err, plan.ErrLoop) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a loop: %v", err)
	}
}

// descriptors counts those of this process that are open.
func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	return len(entries)
}

func TestLookPath(t *testing.T) {
	dir := corpus.Scratch(t)
	for _, one := range []struct {
		name string
		mode fs.FileMode
	}{{"a/tool", 0o755}, {"b/tool", 0o755}, {"a/plain", 0o644}, {"b/plain", 0o644}, {"a/first", 0o644}, {"b/first", 0o755}} {
		if err := os.MkdirAll(dir+"/"+one.name[:1], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+one.name, nil, one.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"/a/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"tool", dir + "/a/tool", nil},
		{"first", dir + "/b/first", nil},
		{"plain", "", fs.ErrPermission},
		{"absent", "", fs.ErrNotExist},
		{"folder", "", fs.ErrNotExist},
	} {
		got, err := host.LookPath(tt.name, []string{"", "b", ".", dir + "/a/", dir + "/b"})
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}
