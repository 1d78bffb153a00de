package plan

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
)

// TestChanged changes one thing at a time between resolution and use. Package host does
// it on real directories.
func TestChanged(t *testing.T) {
	files := listing{
		"/ws/f": "f", "/ws/d/x": "x", "/ws/l": "-> d", "/ws/up": "-> d/../f", "/ws/late": "-> later", "/ws/hard": "=> /ws/f",
		"/other": "f", "/spare/": "", "/elsewhere/": "", "/tmp/": "", "/ws/unnamed": "u", "/dev/fd": "-> /proc/self/fd", "/proc/": "",
	}
	rules := []string{
		"read exact workspace:f", "deny tree workspace:l", "deny exact workspace:up", "deny exact workspace:late skip",
		"read tree workspace:absent/x skip", "read exact temp:x skip", "write tree temp:", "read tree runtime:",
	}
	for _, tt := range []struct {
		name   string
		change func(d *disk)
		want   []string // paths that are no longer what they were, by rule
	}{
		{"nothing", func(*disk) {}, nil},
		{"content and mode", func(d *disk) { d.at("/ws/f").content, d.at("/ws/f").Mode = "g", 0o400 }, nil},
		{"what no rule is about", func(d *disk) { d.remove("/ws/unnamed"); d.put("/new", "n") }, nil},
		{"a file of the same content renamed over it", func(d *disk) { d.rename("/other", "/ws/f") }, []string{"/ws/f"}},
		{"the same inode number on another device", func(d *disk) {
			inode := d.at("/ws/f").Inode
			d.put("/ws/f", "f")
			d.at("/ws/f").Device, d.at("/ws/f").Inode = 2, inode
		}, []string{"/ws/f"}},
		{"another type with the same numbers", func(d *disk) { d.at("/ws/f").Type = 1 << 25 }, []string{"/ws/f"}},
		{"gone", func(d *disk) { d.remove("/ws/f") }, []string{"/ws/f"}},
		{"a directory renamed over it", func(d *disk) { d.rename("/spare", "/ws/d") }, []string{"/ws/d"}},
		{"a link to the same file in its place", func(d *disk) { d.rename("/ws/f", "/moved"); d.put("/ws/f", "-> ../moved") }, []string{"/ws/f"}},
		{"a link to the same directory above it", func(d *disk) { d.rename("/ws", "/moved"); d.put("/ws", "-> moved") }, []string{"/ws/d", "/ws/d", "/ws/f", "/ws/l", "/ws/up"}},
		{"a link that leads elsewhere", func(d *disk) { d.put("/ws/l", "-> f") }, []string{"/ws/l"}},
		{"a link that leads to the same in other words", func(d *disk) { d.put("/ws/l", "-> ./d") }, []string{"/ws/l"}},
		{"a file in the place of a link", func(d *disk) { d.put("/ws/l", "text") }, []string{"/ws/l"}},
		{"no link any more", func(d *disk) { d.remove("/ws/up") }, []string{"/ws/up"}},
		{"a directory on the way is gone", func(d *disk) { d.remove("/ws/d") }, []string{"/ws/d", "/ws/d"}},
		{"what was missing is there", func(d *disk) { d.put("/ws/absent/x", "x") }, []string{"/ws/absent/x"}},
		{"the directory of what was missing is there", func(d *disk) { d.put("/ws/absent/y", "y") }, nil},
		{"the end of a dangling link is there", func(d *disk) { d.put("/ws/later", "x") }, []string{"/ws/late"}},
		{"no dangling link any more", func(d *disk) { d.remove("/ws/late") }, nil},
		{"what was missing cannot be looked at", func(d *disk) { d.fail("lstat", "/ws/absent", errIO) }, []string{"/ws/absent/x"}},
		{"what is missing in the private temp is in the host's", func(d *disk) { d.put("/tmp/x", "x") }, nil},
		{"the host's temp is gone", func(d *disk) { d.remove("/tmp") }, nil},
		{"the host's own devices", func(d *disk) { d.put("/dev/fd", "x"); d.remove("/proc") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := newDisk(files)
			p, err := Resolve(policyOf(t, rules...), Host{Filesystem: host, Workspace: "/ws"})
			if err != nil {
				t.Fatal(err)
			}
			tt.change(host)
			changed := p.Changed(host)
			got := make([]string, 0, len(changed))
			for _, e := range changed {
				got = append(got, e.Path)
				if e.Code != CodeChanged || e.Message == "" || e.Hint == "" {
					t.Errorf("%+v", e)
				}
			}
			if !slices.IsSortedFunc(changed, func(a, b *Error) int { return a.Rule - b.Rule }) {
				t.Errorf("not in order of the rules: %v", changed)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q: %v", got, tt.want, changed)
			}
			if tt.name == "gone" && !errors.Is(changed[0], fs.ErrNotExist) {
				t.Errorf("%v, want the cause", changed[0])
			}
		})
	}
}

// TestChangedDirectory takes away a directory that is only passed by "..".
func TestChangedDirectory(t *testing.T) {
	for name, change := range map[string]func(d *disk){
		"gone": func(d *disk) { d.remove("/d") },
		"a link to another": func(d *disk) {
			d.remove("/d")
			d.put("/d", "-> other/in")
		},
		"a file": func(d *disk) { d.remove("/d"); d.put("/d", "x") },
	} {
		host := newDisk(listing{"/d/": "", "/f": "f", "/other/in/": "", "/other/f": "f", "/l": "-> d/../f"})
		p, err := Resolve(policyOf(t, "deny exact /l"), Host{Filesystem: host})
		if err != nil {
			t.Fatal(err)
		}
		change(host)
		if changed := p.Changed(host); len(changed) != 1 || changed[0].Path != "/d" || changed[0].Rule != -1 {
			t.Errorf("%s: %v, want that /d has changed", name, changed)
		}
	}
}

// TestChangedRestricted has a deny of the ceiling come to be possible: the restricted
// plan must not be started without it.
func TestChangedRestricted(t *testing.T) {
	for _, first := range []bool{true, false} {
		host := newDisk(listing{"/ws/": "", "/t/": ""})
		h := Host{Filesystem: host, Workspace: "/ws", Temp: "/t"}
		write, err := Resolve(policyOf(t, "write tree workspace:"), h)
		if err != nil {
			t.Fatal(err)
		}
		deny, err := Resolve(policyOf(t, "write tree workspace:", "deny tree workspace:secret skip"), h)
		if err != nil {
			t.Fatal(err)
		}
		if !first {
			write, deny = deny, write
		}
		both, err := Restrict(write, deny)
		if err != nil {
			t.Fatal(err)
		}
		if changed := both.Changed(host); len(changed) > 0 {
			t.Errorf("nothing has changed, and %v", changed)
		}
		host.put("/ws/secret", "s")
		if changed := both.Changed(host); len(changed) != 1 || changed[0].Path != "/ws/secret" {
			t.Errorf("%v, want that the denied path is there", changed)
		}
	}
}
