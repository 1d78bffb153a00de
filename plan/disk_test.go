package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A listing says what is on a filesystem: a path, and what is there. The directories
// above come by themselves, with mode 0755; names and contents are any bytes.
//
//	"/d/": ""            a directory
//	"/f":  "content"     a file, with mode 0755
//	"/l":  "-> ../f"     a symbolic link and its target
//	"/h":  "=> /f"       one more name of the file /f, which is listed as such: one inode
//	"/p":  "<fifo>"      also <socket>, <char> and <block>
//	"/e":  "<error>"     errIO for whoever looks at it
//
// A mode in octal may come first, as in "(0600)content" or "(0)" for a directory:
// beneath one that nobody may search, and in a file that nobody may read, all is
// [fs.ErrPermission].
type listing map[string]string

// A disk is a [Filesystem] in memory, which [newDisk] makes of a listing. What follows
// can be told from one that follows links by itself: being asked for a path with a
// link above its last component is an error of its own.
type disk struct {
	root   *node
	inodes uint64
	faults map[string]error // by operation and path, as "lstat /a"
}

// A node is one inode.
type node struct {
	Entry
	content string // of a file; the target of a link
	entries map[string]*node
}

func newDisk(l listing) *disk {
	d := &disk{faults: map[string]error{}}
	d.root = d.directory()
	// Names of files that are there already come last.
	paths := slices.SortedFunc(maps.Keys(l), func(a, b string) int {
		hard := func(path string) int { return len(l[path]) - len(strings.TrimPrefix(l[path], "=> ")) }
		return cmp.Or(cmp.Compare(hard(a), hard(b)), cmp.Compare(a, b))
	})
	for _, path := range paths {
		d.put(path, l[path])
	}
	return d
}

func (d *disk) make(kind, mode fs.FileMode, content string) *node {
	d.inodes++
	e := Entry{Identity: Identity{Device: 1, Inode: d.inodes, Type: kind}, Mode: kind | mode, Links: 1}
	if kind == 0 {
		e.Size = int64(len(content))
	}
	return &node{Entry: e, content: content}
}

func (d *disk) directory() *node {
	n := d.make(fs.ModeDir, 0o755, "")
	n.entries = map[string]*node{}
	return n
}

// put places what a line of a listing says, in place of what was there: a directory
// at a path with a directory stays the same one, everything else is a new inode. It
// panics when the line is wrong.
func (d *disk) put(path, what string) {
	if what == "<error>" {
		d.fail("lstat", path, errIO)
		return
	}
	mode := fs.FileMode(0o755)
	if text, rest, ok := strings.Cut(what, ")"); ok && strings.HasPrefix(text, "(0") {
		if bits, err := strconv.ParseUint(text[1:], 8, 9); err == nil {
			mode, what = fs.FileMode(bits), rest
		}
	}
	if path == "/" || strings.HasSuffix(path, "/") {
		n := d.root
		if path != "/" {
			n = d.above(path + "x")
		}
		n.Mode = fs.ModeDir | mode
		return
	}
	var n *node
	if target, ok := strings.CutPrefix(what, "-> "); ok {
		n = d.make(fs.ModeSymlink, 0o777, target)
	} else if other, ok := strings.CutPrefix(what, "=> "); ok {
		n = d.at(other)
		n.Links++
	} else {
		switch what {
		case "<fifo>":
			n = d.make(fs.ModeNamedPipe, mode, "")
		case "<socket>":
			n = d.make(fs.ModeSocket, mode, "")
		case "<char>":
			n = d.make(fs.ModeDevice|fs.ModeCharDevice, mode, "")
		case "<block>":
			n = d.make(fs.ModeDevice, mode, "")
		default:
			n = d.make(0, mode, what)
		}
	}
	d.set(path, n)
}

// above returns the directory that holds the last component of a path. It makes those
// that are missing.
func (d *disk) above(path string) *node {
	n := d.root
	components := strings.Split(path, "/")
	for _, name := range components[1 : len(components)-1] {
		next := n.entries[name]
		if next == nil {
			next = d.directory()
			n.entries[name] = next
		}
		if n = next; n.Type != fs.ModeDir {
			panic(fmt.Sprintf("%q: a directory on the way is none", path))
		}
	}
	return n
}

// set lets a path be a name of n.
func (d *disk) set(path string, n *node) {
	dir, name := d.above(path), base(path)
	if old := dir.entries[name]; old != nil {
		old.Links--
	}
	delete(dir.entries, name)
	if n != nil {
		dir.entries[name] = n
	}
}

// at returns the inode of a path, to be changed in place. It panics when there is
// none.
func (d *disk) at(path string) *node {
	n := d.root
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' }) {
		if n = n.entries[name]; n == nil {
			panic(fmt.Sprintf("%q: not on the disk", path))
		}
	}
	return n
}

// remove takes a name away, and everything beneath.
func (d *disk) remove(path string) { d.set(path, nil) }

// rename moves an inode, with everything beneath, in place of what is there.
func (d *disk) rename(from, to string) {
	n := d.at(from)
	n.Links++
	d.set(from, nil)
	d.set(to, n)
}

// fail lets an operation on a path fail: "lstat", "readlink", "open" or "read".
func (d *disk) fail(operation, path string, err error) { d.faults[operation+" "+path] = err }

// find returns the inode of a path for one who may do what its directories permit.
func (d *disk) find(operation, path string) (*node, error) {
	if err := d.faults[operation+" "+path]; err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	if !strings.HasPrefix(path, "/") || path != "/" && strings.HasSuffix(path, "/") {
		return nil, fmt.Errorf("%s %q: not a path as a disk is asked for", operation, path)
	}
	n := d.root
	for rest := path[1:]; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if n.Type != fs.ModeDir {
			return nil, fmt.Errorf("%s %q: asked through what is no directory", operation, path)
		}
		if n.Mode&0o111 == 0 {
			return nil, fmt.Errorf("%s: %w", operation, fs.ErrPermission)
		}
		if n = n.entries[name]; n == nil {
			return nil, fmt.Errorf("%s: %w", operation, fs.ErrNotExist)
		}
	}
	return n, nil
}

// Lstat implements [Filesystem].
func (d *disk) Lstat(path string) (Entry, error) {
	n, err := d.find("lstat", path)
	if err != nil {
		return Entry{}, err
	}
	return n.Entry, nil
}

// Readlink implements [Filesystem].
func (d *disk) Readlink(path string) (string, error) {
	n, err := d.find("readlink", path)
	if err != nil {
		return "", err
	}
	if n.Type != fs.ModeSymlink {
		return "", fmt.Errorf("readlink %q: asked for what is no link", path)
	}
	return n.content, nil
}

// Open implements [Filesystem].
func (d *disk) Open(path string) (File, error) {
	n, err := d.find("open", path)
	if err != nil {
		return nil, err
	}
	if n.Type != 0 {
		return nil, fmt.Errorf("open %q: asked for what is no file", path)
	}
	if n.Mode&0o444 == 0 {
		return nil, fmt.Errorf("open: %w", fs.ErrPermission)
	}
	return &content{strings.NewReader(n.content), d.faults["read "+path]}, nil
}

// A content is an open file of a disk.
type content struct {
	io.ReaderAt
	fault error
}

func (c *content) ReadAt(b []byte, at int64) (int, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	return c.ReaderAt.ReadAt(b, at)
}

func (c *content) Close() error { return nil }

func TestDisk(t *testing.T) {
	host := newDisk(listing{
		"/a/": "(0700)", "/a/b/c": "text", "/a/b/secret": "(0)hidden", "/a/private": "(0600)x", "/l": "-> a/b", "/h": "=> /a/b/c", "/a/h": "=> /a/b/c",
		"/shut/": "(0)", "/shut/in": "x", "/p": "<fifo>", "/s": "<socket>", "/c": "(0666)<char>", "/k": "<block>", "/e": "<error>", "/\xff\n/ ": "\x00\xff",
		"/odd": "(12)", "/empty": "", "/open": "x", "/read": "x", "/link": "-> ",
	})
	host.fail("open", "/open", errIO)
	host.fail("read", "/read", errIO)
	host.fail("readlink", "/link", errIO)
	same := func(a, b string) bool { return host.at(a).Identity == host.at(b).Identity }
	describe := func(path string) string {
		e, err := host.Lstat(path)
		switch {
		case errors.Is(err, errIO):
			return "error"
		case errors.Is(err, fs.ErrPermission):
			return "permission"
		case errors.Is(err, fs.ErrNotExist):
			return "none"
		case err != nil:
			return "misuse"
		}
		if e.Type != e.Mode.Type() || e.Inode == 0 {
			t.Errorf("%q: %+v", path, e)
		}
		text := fmt.Sprintf("%s %d %d", e.Mode, e.Links, e.Size)
		switch e.Type { //nolint:exhaustive // the others hold nothing
		case fs.ModeSymlink:
			target, err := host.Readlink(path)
			return fmt.Sprintf("%s %v", target, err)
		case 0:
			f, err := host.Open(path)
			if err != nil {
				return text + " " + err.Error()
			}
			defer f.Close()
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 99))
			text += fmt.Sprintf(" %s %v", b, err)
		}
		return text
	}
	check := func(want map[string]string) {
		t.Helper()
		for path, want := range want {
			if got := describe(path); got != want {
				t.Errorf("%q is %q, want %q", path, got, want)
			}
		}
	}
	check(map[string]string{
		"/": "drwxr-xr-x 1 0", "/a": "drwx------ 1 0", "/a/b": "drwxr-xr-x 1 0", "/a/b/c": "-rwxr-xr-x 3 4 text <nil>", "/h": "-rwxr-xr-x 3 4 text <nil>",
		"/a/b/secret": "---------- 1 6 open: permission denied", "/a/private": "-rw------- 1 1 x <nil>", "/l": "a/b <nil>", "/l/c": "misuse", "/a/b/c/d": "misuse", "a": "misuse", "/a/": "misuse",
		"/shut": "d--------- 1 0", "/shut/in": "permission", "/shut/none": "permission", "/none": "none", "/none/x": "none", "/e": "error", "/\xff\n": "drwxr-xr-x 1 0", "/\xff\n/ ": "-rwxr-xr-x 1 2 \x00\xff <nil>",
		"/p": "prwxr-xr-x 1 0", "/s": "Srwxr-xr-x 1 0", "/c": "Dcrw-rw-rw- 1 0", "/k": "Drwxr-xr-x 1 0", "/odd": "-rwxr-xr-x 1 4 (12) <nil>", "/empty": "-rwxr-xr-x 1 0  <nil>",
		"/open": "-rwxr-xr-x 1 1 open: input/output error", "/read": "-rwxr-xr-x 1 1  input/output error", "/link": " readlink: input/output error",
	})
	if !same("/h", "/a/b/c") || !same("/h", "/a/h") || same("/h", "/a/private") {
		t.Error("hard links are not one file, or others are")
	}

	before := host.at("/a/b").Identity
	host.rename("/a/b", "/moved")
	host.put("/h", "new")
	host.remove("/a/h")
	host.put("/p", "now a file")
	host.rename("/s", "/p")
	check(map[string]string{"/a/b": "none", "/moved/c": "-rwxr-xr-x 1 4 text <nil>", "/h": "-rwxr-xr-x 1 3 new <nil>", "/a/h": "none", "/p": "Srwxr-xr-x 1 0", "/s": "none", "/moved": "drwxr-xr-x 1 0"})
	if host.at("/moved").Identity != before || same("/h", "/moved/c") {
		t.Error("a rename makes a new inode, or a replacement makes none")
	}
	old := host.at("/h").Identity
	host.put("/h", "new")
	if host.at("/h").Identity == old {
		t.Error("the same content again is the same inode")
	}
}
