package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	host := tree{
		"/a": "dir", "/a/b": "dir", "/a/b/c": "file", "/a/f": "file", "/w": "dir", "/w/x": "dir",
		"/bin": "-> usr/bin", "/usr": "dir", "/usr/bin": "dir", "/usr/bin/sh": "-> dash", "/usr/bin/dash": "file",
		"/abs": "-> /a/b", "/up": "-> ../../a", "/a/self": "-> .", "/a/root": "-> /",
		"/w/out": "-> /a", "/w/in": "-> x", "/w/dangling": "-> /nowhere/at/all", "/w/tofile": "-> ../a/f",
		"/w/twice": "-> out/b", "/w/x/back": "-> ../../w/in",
		"/loop": "-> loop", "/l1": "-> l2", "/l2": "-> l1", "/empty": "-> ",
		"/shut": "dir", "/shut/in": "! access", "/bad": "! io", "/w/shut": "-> /shut/in",
		"/sp ace": "dir", "/new\nline": "dir", "/\xff\xfe": "dir", "/\xff\xfe/l": "-> ../\xff\xfe",
		"/" + strings.Repeat("n", 255): "file",
	}
	for i := range 42 {
		host[fmt.Sprintf("/chain%d", i)] = fmt.Sprintf("-> chain%d", i+1)
	}
	host["/chain42"] = "file"
	for _, tt := range []struct {
		path, want string
		links      string // the paths of the links that are passed
		err        error
		at         string // where it fails
	}{
		{path: "/", want: "/"},
		{path: "//", want: "/"},
		{path: "/..", want: "/"},
		{path: "/a/b/c", want: "/a/b/c"},
		{path: "//a///b/./c", want: "/a/b/c"},
		{path: "/a/b/", want: "/a/b"},
		{path: "/a/b/..", want: "/a"},
		{path: "/a/../a/b/../f", want: "/a/f"},
		{path: "/bin", want: "/usr/bin", links: "/bin"},
		{path: "/bin/sh", want: "/usr/bin/dash", links: "/bin /usr/bin/sh"},
		{path: "/abs/c", want: "/a/b/c", links: "/abs"},
		{path: "/abs/..", want: "/a", links: "/abs"}, // as the kernel: the parent of where the link leads
		{path: "/up/f", want: "/a/f", links: "/up"},
		{path: "/a/self/self/f", want: "/a/f", links: "/a/self /a/self"},
		{path: "/a/root/a/root", want: "/", links: "/a/root /a/root"},
		{path: "/w/out/f", want: "/a/f", links: "/w/out"},
		{path: "/w/in", want: "/w/x", links: "/w/in"},
		{path: "/w/twice/c", want: "/a/b/c", links: "/w/twice /w/out"},
		{path: "/w/x/back/back", want: "/w/x", links: "/w/x/back /w/in /w/x/back /w/in"},
		{path: "/w/tofile", want: "/a/f", links: "/w/tofile"},
		{path: "/sp ace", want: "/sp ace"},
		{path: "/new\nline", want: "/new\nline"},
		{path: "/\xff\xfe/l/l", want: "/\xff\xfe", links: "/\xff\xfe/l /\xff\xfe/l"},
		{path: "/" + strings.Repeat("n", 255), want: "/" + strings.Repeat("n", 255)},
		{path: "/chain2", want: "/chain42", links: chain(2, 42)},

		{path: "/none", err: fs.ErrNotExist, at: "/none"},
		{path: "/none/x", err: fs.ErrNotExist, at: "/none"},
		{path: "/none/..", err: fs.ErrNotExist, at: "/none"},
		{path: "/w/dangling", err: fs.ErrNotExist, at: "/nowhere", links: "/w/dangling"},
		{path: "/empty", err: fs.ErrNotExist, at: "/empty", links: "/empty"},
		{path: "/a/f/x", err: ErrNotDirectory, at: "/a/f"},
		{path: "/a/f/", err: ErrNotDirectory, at: "/a/f"},
		{path: "/a/f/..", err: ErrNotDirectory, at: "/a/f"},
		{path: "/w/tofile/", err: ErrNotDirectory, at: "/a/f", links: "/w/tofile"},
		{path: "/loop", err: ErrLoop, at: "/loop", links: strings.TrimSpace(strings.Repeat("/loop ", 40))},
		{path: "/l1/x", err: ErrLoop, at: "/l1", links: strings.TrimSpace(strings.Repeat("/l1 /l2 ", 20))},
		{path: "/chain1", err: ErrLoop, at: "/chain41", links: chain(1, 41)},
		{path: "/shut/in/x", err: errAccess, at: "/shut/in"},
		{path: "/w/shut", err: errAccess, at: "/shut/in", links: "/w/shut"},
		{path: "/bad", err: errIO, at: "/bad"},
		{path: "/a/" + strings.Repeat("n", 256), err: ErrNameTooLong, at: "/a/" + strings.Repeat("n", 256)},
		{path: strings.Repeat("/a", 2048), err: ErrNameTooLong, at: strings.Repeat("/a", 2048)},
	} {
		t.Run(fmt.Sprintf("%.40q", tt.path), func(t *testing.T) {
			got, err := newWalker(host).resolve(tt.path)
			var links []string
			for _, l := range got.links {
				links = append(links, l.Path)
				if host[l.Path] != "-> "+l.Target {
					t.Errorf("the link %s is said to hold %q", l.Path, l.Target)
				}
			}
			if strings.Join(links, " ") != tt.links {
				t.Errorf("links %q, want %q", links, tt.links)
			}
			if tt.err != nil {
				fault, ok := errors.AsType[*PathError](err)
				if !ok || !errors.Is(err, tt.err) || fault.At != tt.at || fault.Path != tt.path {
					t.Errorf("resolve = %v, want %v at %s", err, tt.err, tt.at)
				}
				if want := errors.Is(tt.err, fs.ErrNotExist) || errors.Is(tt.err, ErrNotDirectory); isMissing(err) != want {
					t.Errorf("missing: %v, want %v", isMissing(err), want)
				}
				return
			}
			if err != nil || got.path != tt.want {
				t.Fatalf("resolve = %q, %v; want %q", got.path, err, tt.want)
			}
			if entry, err := host.Lstat(tt.want); err != nil || got.entry != entry {
				t.Errorf("entry %v, want %v", got.entry, entry)
			}
		})
	}
}

func chain(from, to int) string {
	var links []string
	for i := from; i < to; i++ {
		links = append(links, fmt.Sprintf("/chain%d", i))
	}
	return strings.Join(links, " ")
}

// TestResolveIsStable resolves random paths in random trees: the result has no
// link on it, resolves to itself, and one walker for all answers as a new one does.
func TestResolveIsStable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "d"}
	path := func(depth int) string {
		text := ""
		for range 1 + random.IntN(depth) {
			text += "/" + append(names, "..", ".")[random.IntN(len(names)+2)]
		}
		return text
	}
	found := 0
	for range 2000 {
		host := tree{}
		var fill func(dir string, depth int)
		fill = func(dir string, depth int) {
			for _, name := range names {
				at := below(dir, name)
				switch n := random.IntN(6); {
				case n < 2 && depth > 0:
					host[at] = "dir"
					fill(at, depth-1)
				case n == 2:
					host[at] = "file"
				case n == 3:
					host[at] = "-> " + strings.TrimPrefix(path(3), "/")
				case n == 4:
					host[at] = "-> " + path(3)
				}
			}
		}
		fill("/", 2)
		shared := newWalker(host)
		for range 20 {
			p := path(5)
			got, err := shared.resolve(p)
			fresh, freshErr := newWalker(host).resolve(p)
			if got.path != fresh.path || fmt.Sprint(err) != fmt.Sprint(freshErr) || !slices.Equal(got.links, fresh.links) {
				t.Fatalf("%v: %s resolves to %v, %v, then to %v, %v", host, p, got, err, fresh, freshErr)
			}
			if err != nil {
				continue
			}
			found++
			again, err := shared.resolve(got.path)
			if err != nil || again.path != got.path || len(again.links) != 0 || again.entry != got.entry {
				t.Fatalf("%v: %s resolves to %s, and that to %v, %v", host, p, got.path, again, err)
			}
		}
	}
	if found < 5000 {
		t.Errorf("only %d paths were found", found)
	}
}
