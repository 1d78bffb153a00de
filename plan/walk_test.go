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
	files := listing{
		"/a/b/c": "", "/a/f": "", "/w/x/": "", "/bin": "-> usr/bin", "/usr/bin/sh": "-> dash", "/usr/bin/dash": "",
		"/abs": "-> /a/b", "/up": "-> ../../a", "/a/self": "-> .", "/a/root": "-> /",
		"/w/out": "-> /a", "/w/in": "-> x", "/w/dangling": "-> /nowhere/at/all", "/w/tofile": "-> ../a/f",
		"/w/twice": "-> out/b", "/w/x/back": "-> ../../w/in",
		"/loop": "-> loop", "/l1": "-> l2", "/l2": "-> l1", "/empty": "-> ",
		"/shut/": "(0)", "/bad": "<error>", "/w/shut": "-> /shut/in",
		"/sp ace/": "", "/new\nline/": "", "/\xff\xfe/l": "-> ../\xff\xfe",
		"/" + strings.Repeat("n", 255): "",
	}
	for i := range 42 {
		files[fmt.Sprintf("/chain%d", i)] = fmt.Sprintf("-> chain%d", i+1)
	}
	files["/chain42"] = ""
	host := newDisk(files)
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
		{path: "/shut/in/x", err: fs.ErrPermission, at: "/shut/in"},
		{path: "/w/shut", err: fs.ErrPermission, at: "/shut/in", links: "/w/shut"},
		{path: "/bad", err: errIO, at: "/bad"},
		{path: "/a/" + strings.Repeat("n", 256), err: ErrNameTooLong, at: "/a/" + strings.Repeat("n", 256)},
		{path: strings.Repeat("/a", 2048), err: ErrNameTooLong, at: strings.Repeat("/a", 2048)},
	} {
		t.Run(fmt.Sprintf("%.40q", tt.path), func(t *testing.T) {
			got, err := newWalker(host).resolve(tt.path)
			var links []string
			for _, l := range got.links {
				links = append(links, l.Path)
				if files[l.Path] != "-> "+l.Target {
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
		files := listing{}
		var fill func(dir string, depth int)
		fill = func(dir string, depth int) {
			for _, name := range names {
				at := below(dir, name)
				switch n := random.IntN(6); {
				case n < 2 && depth > 0:
					files[at+"/"] = ""
					fill(at, depth-1)
				case n == 2:
					files[at] = ""
				case n == 3:
					files[at] = "-> " + strings.TrimPrefix(path(3), "/")
				case n == 4:
					files[at] = "-> " + path(3)
				}
			}
		}
		fill("/", 2)
		host := newDisk(files)
		shared := newWalker(host)
		for range 20 {
			p := path(5)
			got, err := shared.resolve(p)
			fresh, freshErr := newWalker(host).resolve(p)
			if got.path != fresh.path || fmt.Sprint(err) != fmt.Sprint(freshErr) || !slices.Equal(got.links, fresh.links) {
				t.Fatalf("%v: %s resolves to %v, %v, then to %v, %v", files, p, got, err, fresh, freshErr)
			}
			if err != nil {
				continue
			}
			found++
			again, err := shared.resolve(got.path)
			if err != nil || again.path != got.path || len(again.links) != 0 || again.entry != got.entry {
				t.Fatalf("%v: %s resolves to %s, and that to %v, %v", files, p, got.path, again, err)
			}
		}
	}
	if found < 5000 {
		t.Errorf("only %d paths were found", found)
	}
}

// TestResolveRest breaks paths off: what is left must be what was not followed, so
// that At and Rest together are where the path would lead.
func TestResolveRest(t *testing.T) {
	host := newDisk(listing{
		"/a/b/": "", "/a/f": "", "/shut/": "(0)", "/bad": "<error>",
		"/abs": "-> /a/none/deep", "/rel": "-> a/./none//deep/", "/end": "-> a/none", "/up": "-> a/b/../none/../x", "/tofile": "-> a/f/x",
		"/one": "-> two/1", "/two": "-> three/2/22", "/three": "-> a/3", "/good": "-> a/b", "/dot": "-> .", "/empty": "-> ", "/loop": "-> loop/l",
		"/in": "-> shut/in/it", "/a/back": "-> ../good/none",
	})
	for _, tt := range []struct {
		path, at, rest string
		err            error
	}{
		{"/none", "/none", "", fs.ErrNotExist},
		{"/none/", "/none", "", fs.ErrNotExist},
		{"//none//", "/none", "", fs.ErrNotExist},
		{"/none/x", "/none", "x", fs.ErrNotExist},
		{"/a/none/x/y", "/a/none", "x/y", fs.ErrNotExist},
		{"/a/none//x//y/", "/a/none", "x//y", fs.ErrNotExist},
		{"/a/none/../x/./..", "/a/none", "../x/./..", fs.ErrNotExist},
		{"/a/b/../none/..", "/a/none", "..", fs.ErrNotExist},
		{"/abs", "/a/none", "deep", fs.ErrNotExist},
		{"/abs/x", "/a/none", "deep/x", fs.ErrNotExist},
		{"/abs/../x/", "/a/none", "deep/../x", fs.ErrNotExist},
		{"/rel", "/a/none", "deep", fs.ErrNotExist},
		{"/rel/x", "/a/none", "deep//x", fs.ErrNotExist},
		{"/end", "/a/none", "", fs.ErrNotExist},
		{"/end/x", "/a/none", "x", fs.ErrNotExist},
		{"/up/y", "/a/none", "../x/y", fs.ErrNotExist},
		{"/one/0", "/a/3", "2/22/1/0", fs.ErrNotExist},
		{"/good/none/good", "/a/b/none", "good", fs.ErrNotExist},
		{"/dot/dot/none/dot", "/none", "dot", fs.ErrNotExist},
		{"/a/back/abs", "/a/b/none", "abs", fs.ErrNotExist},
		{"/empty/x", "/empty", "x", fs.ErrNotExist},
		{"/a/f/x/y", "/a/f", "x/y", ErrNotDirectory},
		{"/a/f/", "/a/f", "", ErrNotDirectory},
		{"/a/f/../b", "/a/f", "../b", ErrNotDirectory},
		{"/tofile/y", "/a/f", "x/y", ErrNotDirectory},
		{"/shut/x/y", "/shut/x", "y", fs.ErrPermission},
		{"/in/x", "/shut/in", "it/x", fs.ErrPermission},
		{"/bad/x", "/bad", "x", errIO},
		{"/loop/x", "/loop", strings.Repeat("l/", 40) + "x", ErrLoop},
		{"/a/" + strings.Repeat("n", 256) + "/x", "/a/" + strings.Repeat("n", 256), "x", ErrNameTooLong},
		{strings.Repeat("/a", 2048), strings.Repeat("/a", 2048), "", ErrNameTooLong},
	} {
		_, err := newWalker(host).resolve(tt.path)
		fault, ok := errors.AsType[*PathError](err)
		if !ok || fault.At != tt.at || fault.Rest != tt.rest || !errors.Is(err, tt.err) {
			t.Errorf("%.40q: got %+v, want %v at %q with the rest %q", tt.path, fault, tt.err, tt.at, tt.rest)
		}
	}
	host = newDisk(listing{"/": "<error>"})
	if _, err := newWalker(host).resolve("/a/b"); !errors.Is(err, errIO) {
		t.Errorf("a root that cannot be looked at: %v", err)
	} else if fault, _ := errors.AsType[*PathError](err); fault.At != "/" || fault.Rest != "a/b" {
		t.Errorf("a root that cannot be looked at: %+v", fault)
	}
}

// TestResolveThrough leaves directories again. Each must be there for the path to
// work, and no other need be but those of the result.
func TestResolveThrough(t *testing.T) {
	files := listing{
		"/a/b/f": "", "/a/c/": "", "/d/e/g/": "", "/l": "-> a/b/../c", "/abs": "-> /d/e", "/a/up": "-> ../d/e/g/../..", "/m": "-> l/../b",
	}
	for _, tt := range []struct{ path, end, through string }{
		{"/", "/", ""},
		{"/../..", "/", ""},
		{"/a/b", "/a/b", ""},
		{"/a/./b/.", "/a/b", ""},
		{"/a/b/..", "/a", "/a/b"},
		{"/a/b/../c", "/a/c", "/a/b"},
		{"/a/../a/../d", "/d", "/a"},
		{"/a/b/../../d/e/..", "/d", "/a/b /a /d/e"},
		{"/l", "/a/c", "/a/b"},
		{"/l/../b/f", "/a/b/f", "/a/b /a/c"},
		{"/m/f", "/a/b/f", "/a/b /a/c"},
		{"/abs/..", "/d", "/d/e"},
		{"/abs/g/../../e", "/d/e", "/d/e/g /d/e"},
		{"/a/up", "/d", "/a /d/e/g /d/e"},
		{"/a/up/../a/up", "/d", "/a /d/e/g /d/e /d"},
		{"/a/b/../none", "", "/a/b"},
	} {
		got, err := newWalker(newDisk(files)).resolve(tt.path)
		if got.path != tt.end || (err == nil) != (tt.end != "") || strings.Join(got.through, " ") != tt.through {
			t.Errorf("%s: got %q through %q, %v; want %q through %s", tt.path, got.path, got.through, err, tt.end, tt.through)
		}
		if err != nil {
			continue
		}
		// With nothing but the links, what was left and the result, the path works.
		least := listing{got.path + "/": ""}
		if got.entry.Type == 0 {
			least = listing{got.path: ""}
		}
		for _, l := range got.links {
			least[l.Path] = "-> " + l.Target
		}
		for _, dir := range got.through {
			least[dir+"/"] = ""
		}
		if again, err := newWalker(newDisk(least)).resolve(tt.path); err != nil || again.path != got.path {
			t.Errorf("%s: with nothing but %q it leads to %q, %v", tt.path, least, again.path, err)
		}
		for _, dir := range got.through {
			if strings.HasPrefix(got.path, dir) {
				continue // there in any case
			}
			gone := newDisk(least)
			gone.remove(dir)
			if again, err := newWalker(gone).resolve(tt.path); err == nil {
				t.Errorf("%s: without %s it leads to %q all the same", tt.path, dir, again.path)
			}
		}
	}
}
