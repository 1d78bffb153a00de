package plan

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

var update = flag.Bool("update", false, "write what the tests get into the golden files of testdata")

// policyOf makes a policy of lines such as "read tree workspace:src skip".
func policyOf(t testing.TB, lines ...string) *mir.Policy {
	t.Helper()
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for _, line := range lines {
		f := strings.Split(line, " ")
		r := mir.Rule{Missing: mir.MissingError}
		r.Access = map[string]mir.Access{"read": mir.Read, "write": mir.Write, "deny": mir.Deny}[f[0]]
		r.Scope = map[string]mir.Scope{"exact": mir.Exact, "tree": mir.Tree}[f[1]]
		if len(f) > 3 {
			r.Missing = mir.MissingSkip
		}
		root, text, colon := strings.Cut(f[2], ":")
		var err error
		switch {
		case root == "workspace":
			r.Path, err = mir.NewPath(mir.RootWorkspace, text)
		case root == "temp":
			r.Path, err = mir.NewPath(mir.RootTemp, text)
		case root == "runtime":
			r.Path, err = mir.NewPath(mir.RootRuntime, text)
		case !colon:
			r.Path, err = mir.NewPath(mir.RootHost, f[2])
		}
		if err != nil {
			t.Fatal(err)
		}
		spec.Rules = append(spec.Rules, r)
	}
	p, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mediated makes a policy of lines that allows one destination.
func mediated(t testing.TB, lines ...string) *mir.Policy {
	t.Helper()
	p, err := mir.Build(mir.Spec{
		Rules: policyOf(t, lines...).Rules(), Mode: mir.ModeMediated, TreeConfinement: mir.Required,
		Destinations: []mir.Destination{{Host: hostname(t, "a.example.com"), Port: 443}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// someHost has a workspace with a file, a directory, links and faults.
func someHost() Host {
	return Host{Workspace: "/home/ws", Temp: "/t", Filesystem: tree{
		"/home": "dir", "/home/ws": "dir", "/home/ws/f": "file", "/home/ws/d": "dir", "/home/ws/d/x": "file", "/t": "dir", "/etc": "dir", "/etc/passwd": "file",
		"/home/ws/out": "-> /etc", "/home/ws/in": "-> d", "/home/ws/loop": "-> loop", "/home/ws/locked": "locked", "/home/ws/bad": "! io",
		"/home/ws/late": "-> later", "/home/ws/gone": "-> ../../nowhere/x", "/home/ws/hard": "= /home/ws/f", "/elsewhere": "dir", "/link": "-> home/ws",
		"/home/ws/far": "-> /near", "/near": "-> home/ws2/f", "/home/ws2": "dir", "/home/ws2/f": "file", "/bin": "dir", "/bin/tool": "file", "/home/ws/up": "-> d/../f", "/dev": "dir", "/proc": "dir", "/tmp": "dir",
	}}
}

func TestResolveFaults(t *testing.T) {
	long := strings.Repeat("n", 256)
	for _, tt := range []struct {
		name    string
		change  func(*Host)
		rules   []string
		code    Code
		rule    int
		path    string
		message string // a part of it
		hint    string // a part of it
		is      error
	}{
		{"missing", nil, []string{"read tree workspace:absent"}, CodeMissing, 0, "/home/ws/absent", "found none: lstat: file does not exist", `"missing": "skip"`, fs.ErrNotExist},
		{"missing in the middle", nil, []string{"deny tree workspace:absent/a/b"}, CodeMissing, 0, "/home/ws/absent/a/b", "found none: at /home/ws/absent: ", "create it", fs.ErrNotExist},
		{"through a file", nil, []string{"read tree workspace:f/x"}, CodeMissing, 0, "/home/ws/f/x", "at /home/ws/f: not a directory", "create it", ErrNotDirectory},
		{"dangling", nil, []string{"read tree workspace:late"}, CodeMissing, 0, "/home/ws/late", "at /home/ws/later: ", "create it", fs.ErrNotExist},
		{"escape", nil, []string{"read tree workspace:out/passwd"}, CodeEscape, 0, "/home/ws/out/passwd", `expected a path in the workspace "/home/ws", found that the link "/home/ws/out" leads out of it, to "/etc/passwd"`, "absolute path", nil},
		{"escape through a link outside", nil, []string{"read tree workspace:far"}, CodeEscape, 0, "/home/ws/far", `found that the link "/home/ws/far" leads out of it, to "/home/ws2/f"`, "absolute path", nil},
		{"escape of a deny", nil, []string{"deny exact workspace:out skip"}, CodeEscape, 0, "/home/ws/out", `to "/etc"`, "absolute path", nil},
		{"escape to nothing", nil, []string{"read tree workspace:gone skip"}, CodeEscape, 0, "/home/ws/gone", `to "/nowhere"`, "", nil},
		{"escape of temp", func(h *Host) { h.Temp = "/home/ws" }, []string{"read tree temp:out"}, CodeEscape, 0, "/home/ws/out", "in the directory for temporary files", "", nil},
		{"loop", nil, []string{"read tree workspace:loop skip"}, CodeUnresolvable, 0, "/home/ws/loop", "found: too many levels of symbolic links", "does not cover it", ErrLoop},
		{"no access", nil, []string{"deny tree workspace:locked/x skip"}, CodeUnresolvable, 0, "/home/ws/locked/x", "found: no access", "does not cover it", fs.ErrPermission},
		{"input and output", nil, []string{"deny tree workspace:bad skip"}, CodeUnresolvable, 0, "/home/ws/bad", "found: input/output error", "does not cover it", errIO},
		{"name too long", nil, []string{"deny tree workspace:" + long + " skip"}, CodeUnresolvable, 0, "/home/ws/" + long, "file name too long", "", ErrNameTooLong},
		{"below minimal-runtime", nil, []string{"read tree runtime:lib"}, CodeUnsupported, 0, "", `expected minimal-runtime as a whole, found the path "lib" below it`, "absolute path", nil},
		{"own directory", nil, []string{"read tree runtime:", "read tree /dev"}, CodeConflict, 1, "/dev", "that the sandbox has of its own", "beneath", nil},
		{"private temp", func(h *Host) { h.Temp = "" }, []string{"read tree temp:", "read exact /tmp"}, CodeConflict, 1, "/tmp", "where the private temp is seen", "name a directory", nil},
		{"below a private temp", func(h *Host) { h.Temp = "" }, []string{"read tree temp:a"}, CodeMissing, 0, "/tmp/a", "the private temp is empty", "", fs.ErrNotExist},
		{"no workspace", func(h *Host) { h.Workspace = "" }, []string{"read tree workspace:", "deny tree workspace:f"}, CodeHostContext, -1, "", "expected a workspace", "name the directory", nil},
		{"relative workspace", func(h *Host) { h.Workspace = "ws" }, nil, CodeHostContext, -1, "ws", "a relative path", "", nil},
		{"workspace is a file", func(h *Host) { h.Workspace = "/etc/passwd" }, nil, CodeHostContext, -1, "/etc/passwd", "expected the workspace, found a file", "", nil},
		{"workspace is missing", func(h *Host) { h.Workspace = "/nowhere" }, nil, CodeHostContext, -1, "/nowhere", "file does not exist", "", fs.ErrNotExist},
		{"temp is a file", func(h *Host) { h.Temp = "/etc/passwd" }, nil, CodeHostContext, -1, "/etc/passwd", "expected the directory for temporary files, found a file", "", nil},
		{"runtime root is missing", func(h *Host) { h.RuntimeRoots = []string{"/etc", "/nowhere"} }, nil, CodeHostContext, -1, "/nowhere", "expected a runtime root", "", fs.ErrNotExist},
		{"runtime root is relative", func(h *Host) { h.RuntimeRoots = []string{"usr"} }, nil, CodeHostContext, -1, "usr", "a relative path", "", nil},
		{"executable is missing", func(h *Host) { h.Executable = "/bin/none" }, nil, CodeRuntime, -1, "/bin/none", "expected an executable, found", "", fs.ErrNotExist},
		{"executable of the runtime is missing", func(h *Host) { h.Executable = "/bin/none" }, []string{"read tree runtime:"}, CodeRuntime, 0, "/bin/none", "expected an executable", "", fs.ErrNotExist},
		{"private addresses of no host", func(h *Host) { h.AllowPrivate = []mir.Hostname{hostname(t, "a.example.com")} }, nil, CodeHostContext, -1, "", "found a.example.com", "network.allow", nil},
		{"pin of nothing", func(h *Host) {
			h.Pins = map[mir.Destination]netip.AddrPort{{Host: hostname(t, "a.example.com"), Port: 443}: pinOne}
		}, nil, CodeHostContext, -1, "", "found a.example.com:443, which is to be pinned", "network.allow", nil},
		{"no filesystem", func(h *Host) { h.Filesystem = nil }, nil, CodeHostContext, -1, "", "expected a filesystem", "", nil},
		{"pin to no address", nil, nil, CodeHostContext, -1, "", "expected an address and a port to pin a.example.com:443 to", "ADDRESS:PORT", nil},
		{"pin to port 0", nil, nil, CodeHostContext, -1, "", "expected an address and a port to pin a.example.com:443 to", "ADDRESS:PORT", nil},
		{"no root of the filesystem", func(h *Host) { h.Filesystem = tree{"/": "! io"} }, []string{"read tree /etc"}, CodeHostContext, -1, "/home/ws", "at /: input/output error", "", errIO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := someHost()
			if tt.change != nil {
				tt.change(&h)
			}
			policy := policyOf(t, tt.rules...)
			if address, ok := map[string]netip.AddrPort{
				"pin to port 0": netip.MustParseAddrPort("192.0.2.1:0"), "pin to no address": netip.AddrPortFrom(netip.Addr{}, 443),
			}[tt.name]; ok {
				policy = mediated(t)
				h.Pins = map[mir.Destination]netip.AddrPort{policy.Destinations()[0]: address}
			}
			_, err := Resolve(policy, h)
			var faults Errors
			if !errors.As(err, &faults) {
				t.Fatalf("%v, want %s", err, tt.code)
			}
			e := faults[0]
			if len(faults) != 1 && tt.name != "no root of the filesystem" {
				t.Errorf("%v, want one fault", faults)
			}
			if e.Code != tt.code || e.Rule != tt.rule || e.Path != tt.path || !strings.Contains(e.Message, tt.message) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("%+v\nwant %+v", e, tt)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			if text := e.Error(); !strings.HasSuffix(text, "["+string(tt.code)+"]") || tt.rule >= 0 != strings.HasPrefix(text, fmt.Sprintf("rule %d", tt.rule)) {
				t.Errorf("it reads %q", text)
			}
		})
	}
}

// TestResolveSaysEverything has many faults in one policy.
func TestResolveSaysEverything(t *testing.T) {
	h := someHost()
	h.Temp, h.RuntimeRoots = "/nowhere", []string{"/nowhere/either"}
	_, err := Resolve(policyOf(t, "read tree workspace:absent", "read tree workspace:bad", "read tree workspace:d", "deny tree workspace:loop", "read tree workspace:out", "read tree /nowhere"), h)
	var faults Errors
	if !errors.As(err, &faults) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range faults {
		got = append(got, fmt.Sprint(e.Rule, " ", e.Code))
	}
	want := []string{"-1 host-context", "-1 host-context", "0 missing", "1 unresolvable", "3 unresolvable", "4 escape", "5 missing"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	_, err = Resolve(policyOf(t, "read tree runtime:", "read tree /dev", "read tree /nowhere"), someHost())
	var ordered Errors
	if !errors.As(err, &ordered) || len(ordered) != 2 || ordered[0].Code != CodeConflict || ordered[1].Code != CodeMissing {
		t.Errorf("%v, want a conflict of rule 1 and then a missing path of rule 2", err)
	}
	if text := faults.Error(); !strings.HasSuffix(text, "(and 6 more)") || len(faults.Unwrap()) != 7 {
		t.Errorf("it reads %q", text)
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Host)
		rules  []string
		code   Code // empty for no warning
		rule   int
		path   string
	}{
		{"deny of nothing in a writable tree", nil, []string{"write tree workspace:", "deny tree workspace:absent skip"}, CodeOmissibleDeny, 1, "/home/ws/absent"},
		{"deny of nothing in a readable tree", nil, []string{"read tree workspace:", "deny tree workspace:absent skip"}, "", 0, ""},
		{"grant of nothing", nil, []string{"write tree workspace:", "read tree workspace:absent skip"}, "", 0, ""},
		{"deny through a dangling link", nil, []string{"write tree workspace:", "deny exact workspace:late skip"}, CodeOmissibleDeny, 1, "/home/ws/late"},
		{"deny through a dangling link into a writable tree", nil, []string{"write tree workspace:d", "deny exact /home/ws/in/new skip"}, CodeOmissibleDeny, 1, "/home/ws/d/new"},
		{"deny through a link", nil, []string{"write tree workspace:", "deny tree workspace:in"}, CodeReplaceableLink, 1, "/home/ws/in"},
		{"deny through a link that is only read", nil, []string{"read tree workspace:", "deny tree workspace:in"}, "", 0, ""},
		{"grant through a link", nil, []string{"write tree workspace:", "read tree workspace:in"}, "", 0, ""},
		{"deny through a link that a link in a writable tree leads to nothing", nil, []string{"write tree /w", "deny exact /a/l skip"}, CodeOmissibleDeny, 0, "/w/m"},
		{"deny through a directory that can be made, and ..", nil, []string{"write tree /w", "deny exact /a/back skip"}, CodeOmissibleDeny, 0, "/w/made"},
		{"deny through a file that can be replaced, and ..", nil, []string{"write tree /w", "deny exact /a/file skip"}, CodeOmissibleDeny, 0, "/w/f"},
		{"deny through a file that can be written, and ..", nil, []string{"write exact /w/f", "deny exact /a/file skip"}, "", 0, ""},
		{"deny of nothing through a directory that can be replaced, and ..", nil, []string{"write tree /w/d", "deny exact /a/none skip"}, CodeOmissibleDeny, 0, "/w/d"},
		{"deny through a directory that can be replaced, and ..", nil, []string{"write tree /w/d", "deny exact /a/dots"}, CodeReplaceableLink, 0, "/w/d"},
		{"deny through a directory that is only read, and ..", nil, []string{"read tree /w", "deny exact /a/dots"}, "", 0, ""},
		{"deny of nothing through what cannot be replaced", nil, []string{"read tree /w", "deny exact /a/l skip", "deny exact /a/back skip"}, "", 0, ""},
		{"deny of a file with two names", nil, []string{"deny exact workspace:f", "read tree workspace:"}, CodeHardLinkedDeny, 1, "/home/ws/f"},
		{"deny of a directory", nil, []string{"deny exact workspace:d", "read tree workspace:"}, "", 0, ""},
		{"executable that nothing grants", func(h *Host) { h.Executable = "/bin/tool" }, []string{"read tree workspace:"}, CodeDeniedRuntime, -1, "/bin/tool"},
		{"executable that is denied", func(h *Host) { h.Executable = "/bin/tool" }, []string{"read tree workspace:", "deny tree /bin"}, CodeDeniedRuntime, 1, "/bin/tool"},
		{"executable that is granted", func(h *Host) { h.Executable = "/bin/tool" }, []string{"read exact /bin/tool"}, "", 0, ""},
		{"executable of the host that can be changed", func(h *Host) { h.Executable = "/bin/tool" }, []string{"write tree /bin"}, CodeWritableRuntime, 0, "/bin/tool"},
		{"executable of the workspace that can be changed", func(h *Host) { h.Executable = "/home/ws/d/x" }, []string{"write tree workspace:"}, "", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := someHost()
			maps.Copy(h.Filesystem.(tree), tree{
				"/a": "dir", "/w": "dir", "/w/m": "-> ../ro", "/w/d": "dir", "/w/f": "file", "/ro": "dir", "/s": "file",
				"/a/l": "-> /w/m/x", "/a/back": "-> /w/made/../../ro/x", "/a/file": "-> /w/f/../../ro/x", "/a/none": "-> /w/d/../../ro/x", "/a/dots": "-> /w/d/../../s",
			})
			if tt.change != nil {
				tt.change(&h)
			}
			p, err := Resolve(policyOf(t, tt.rules...), h)
			if err != nil {
				t.Fatal(err)
			}
			warnings := p.Warnings()
			if tt.code == "" {
				if len(warnings) != 0 {
					t.Errorf("%v, want none", warnings)
				}
				return
			}
			if len(warnings) != 1 || warnings[0].Code != tt.code || warnings[0].Rule != tt.rule || warnings[0].Path != tt.path || warnings[0].Hint == "" && tt.rule < 0 {
				t.Errorf("%v, want one: %s of rule %d at %s", warnings, tt.code, tt.rule, tt.path)
			}
		})
	}
}

// TestResolveRecords looks at what a plan keeps beside its rules.
func TestResolveRecords(t *testing.T) {
	h := someHost()
	h.Workspace = "/link"
	p, err := Resolve(policyOf(t, "read tree workspace:in", "read exact workspace:up", "deny exact workspace:absent/x skip", "read tree temp:"), h)
	if err != nil {
		t.Fatal(err)
	}
	if p.Workspace() != "/home/ws" {
		t.Errorf("workspace %q", p.Workspace())
	}
	if dir, private := p.Temp(); dir != "/t" || private {
		t.Errorf("temp %q, %v", dir, private)
	}
	links := []Link{{"/home/ws/in", "d"}, {"/home/ws/up", "d/../f"}, {"/link", "home/ws"}}
	if !slices.Equal(p.Links(), links) {
		t.Errorf("links %v, want %v", p.Links(), links)
	}
	if !slices.Equal(p.Directories(), []string{"/home/ws/d"}) {
		t.Errorf("directories %v", p.Directories())
	}
	omitted := p.Omitted()
	if len(omitted) != 1 || omitted[0].Rule != 0 || omitted[0].Path != "/home/ws/absent/x" || omitted[0].At != "/home/ws/absent" || !errors.Is(omitted[0].Err, fs.ErrNotExist) {
		t.Errorf("omitted %+v", omitted)
	}
	for _, r := range p.Rules() {
		entry, err := h.Filesystem.Lstat(r.Path)
		if err != nil || entry.Identity != r.Identity {
			t.Errorf("%+v, want the identity %v (%v)", r, entry.Identity, err)
		}
	}
	// What is handed out is the caller's own.
	p.Rules()[0].Path, p.Links()[0].Path, p.Directories()[0], p.Omitted()[0].Path = "x", "x", "x", "x"
	if p.Rules()[0].Path == "x" || p.Links()[0].Path == "x" || p.Directories()[0] == "x" || p.Omitted()[0].Path == "x" {
		t.Error("a plan can be changed from outside")
	}
}

// TestResolvePutsInOrder names what the host context holds in any order, and twice.
func TestResolvePutsInOrder(t *testing.T) {
	spec := mir.Spec{Rules: policyOf(t, "read tree runtime:").Rules(), Mode: mir.ModeMediated, TreeConfinement: mir.Required}
	h := someHost()
	h.Pins = map[mir.Destination]netip.AddrPort{}
	for i := range 9 {
		d := mir.Destination{Host: hostname(t, fmt.Sprintf("h%d.example.com", i)), Port: 443}
		spec.Destinations = append(spec.Destinations, d)
		h.Pins[d] = pinOne
		h.AllowPrivate = append([]mir.Hostname{d.Host, d.Host}, h.AllowPrivate...)
	}
	h.RuntimeRoots = []string{"/home/ws", "/bin", "/etc", "/link", "/bin"}
	withNames(&h)
	policy, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		name := fmt.Sprintf("h%d.example.com", i)
		if len(p.Pins()) != 9 || p.Pins()[i].Destination.Host.String() != name || len(p.AllowPrivate()) != 9 || p.AllowPrivate()[i].String() != name {
			t.Fatalf("pins %v, private addresses %v: not in order, or not each once", p.Pins(), p.AllowPrivate())
		}
	}
	if want := []string{"/bin", "/etc", "/home/ws"}; !slices.Equal(p.at.runtimeRoots, want) {
		t.Errorf("runtime roots %q, want %q", p.at.runtimeRoots, want)
	}
	if !slices.Contains(p.Links(), Link{"/link", "home/ws"}) {
		t.Errorf("links %v, want that on the way to a runtime root", p.Links())
	}
	for i, r := range p.Rules() {
		if r.Why == "a runtime root" && (r.Scope != mir.Tree || r.Access != mir.Read || r.Identity.Type != fs.ModeDir || i > 0 && p.Rules()[i-1].Path == r.Path) {
			t.Errorf("%+v is no runtime root, or there twice", r)
		}
	}
	p.Pins()[0].Address, p.AllowPrivate()[0] = pinTwo, mir.Hostname{}
	if p.Pins()[0].Address != pinOne || p.AllowPrivate()[0] == (mir.Hostname{}) {
		t.Error("a plan can be changed from outside")
	}
	h.AllowPrivate[0], h.RuntimeRoots[0] = mir.Hostname{}, "/"
	clear(h.Pins)
	if len(p.Pins()) != 9 || p.AllowPrivate()[8] == (mir.Hostname{}) || p.at.runtimeRoots[2] != "/home/ws" {
		t.Error("a plan changes with the host context that it was resolved in")
	}
}

// TestDirectoriesHaveManyNames has a denied directory with as many links as it has on a
// disk.
func TestDirectoriesHaveManyNames(t *testing.T) {
	host := newDisk(listing{"/d/e/": ""})
	host.at("/d").Links = 3
	p, err := Resolve(policyOf(t, "deny tree /d"), Host{Filesystem: host})
	if err != nil || len(p.Warnings()) != 0 {
		t.Errorf("%v, warnings %v, want none", err, p.Warnings())
	}
}

// TestWarningsInOrder has warnings of two kinds.
func TestWarningsInOrder(t *testing.T) {
	p, err := Resolve(policyOf(t, "write tree workspace:", "deny tree workspace:in", "deny exact workspace:f", "deny tree workspace:zzz skip"), someHost())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range p.Warnings() {
		got = append(got, fmt.Sprint(w.Rule, " ", w.Code))
	}
	if want := []string{"1 hard-linked-deny", "2 replaceable-link", "3 omissible-deny"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	p.Warnings()[0] = nil
	if p.Warnings()[0] == nil {
		t.Error("a plan can be changed from outside")
	}
}

// TestResolveRuntime has an executable that needs other files.
func TestResolveRuntime(t *testing.T) {
	static := elfSpec{kind: elf.ET_EXEC}.make()
	host := newDisk(listing{
		"/bin": "-> usr/bin", "/usr/bin/sh": static, "/usr/lib/": "", "/ws/tool": "#!/bin/up\n", "/usr/bin/up": "-> ../lib/../bin/sh", "/run": "-> ws/tool",
		"/broken": "#!/none\n", "/etc/alternatives/": "", "/tmp/": "",
	})
	opened := &opening{Filesystem: host}
	h := Host{Filesystem: opened, Workspace: "/ws", Executable: "/run"}
	p, err := Resolve(policyOf(t, "read tree runtime:", "write exact runtime:"), h)
	if err != nil {
		t.Fatal(err)
	}
	once := opened.times
	if _, err := Resolve(policyOf(t, "read tree runtime:"), h); err != nil || once == 0 || opened.times != 2*once {
		t.Errorf("%v: %d files were opened for two rules, %d for one", err, once, opened.times-once)
	}
	if p.Executable() != "/ws/tool" {
		t.Errorf("executable %q, want what the link leads to", p.Executable())
	}
	for _, path := range []string{"/usr/bin/sh", "/ws/tool"} {
		from, to := p.rulesAt(path)
		if to-from != 2 {
			t.Fatalf("%d rules for %s, want one of each", to-from, path)
		}
		for i, r := range p.rules[from:to] {
			if r.Scope != mir.Exact || r.Access != mir.Access(1+i) || r.Private || r.Why == "" || r.Identity != host.at(path).Identity || r.Policy != 1-i {
				t.Errorf("%+v", r)
			}
		}
	}
	for _, l := range []Link{{"/bin", "usr/bin"}, {"/run", "ws/tool"}, {"/usr/bin/up", "../lib/../bin/sh"}} {
		if !slices.Contains(p.Links(), l) {
			t.Errorf("links %v, want %v too", p.Links(), l)
		}
	}
	if !slices.Contains(p.Directories(), "/usr/lib") {
		t.Errorf("directories %v, want what the interpreter's link passes", p.Directories())
	}
	if changed := p.Changed(host); len(changed) > 0 {
		t.Errorf("nothing has changed, and %v", changed)
	}

	h.Executable = "/broken"
	_, err = Resolve(policyOf(t, "read tree runtime:"), h)
	var faults Errors
	if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Code != CodeRuntime || faults[0].Path != "/none" || !strings.HasPrefix(faults[0].Message, "needed by /broken: expected the interpreter") {
		t.Errorf("%+v, want that the interpreter is missing", faults)
	}
	h.Executable = "/run" // and without minimal-runtime the link on the way is there all the same
	if p, err = Resolve(policyOf(t, "read tree workspace:"), h); err != nil || !slices.Contains(p.Links(), Link{"/run", "ws/tool"}) || p.Executable() != "/ws/tool" {
		t.Errorf("%v, links %v, executable %q", err, p.Links(), p.Executable())
	}
	for _, tt := range []struct {
		rules []string
		want  string
	}{
		{[]string{"read tree runtime:"}, ""},
		{[]string{"read tree runtime:", "deny tree /usr"}, "1 denied-runtime /usr/bin/sh"},
		{[]string{"deny tree runtime:", "read tree /"}, "0 denied-runtime /usr/bin/sh, 0 denied-runtime /ws/tool"},
		{[]string{"read tree runtime:", "write tree /usr"}, "1 writable-runtime /usr/bin/sh"},
		{[]string{"write tree runtime:"}, "0 writable-runtime /usr/bin/sh, 0 writable-runtime /ws/tool"},
		{[]string{"read tree runtime:", "write tree workspace:"}, ""}, // it may be what is worked on
	} {
		p, err := Resolve(policyOf(t, tt.rules...), h)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range p.Warnings() {
			got = append(got, fmt.Sprint(w.Rule, " ", w.Code, " ", w.Path))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%q: warnings %q, want %q", tt.rules, got, tt.want)
		}
	}
}

// An opening filesystem counts the files that are opened.
type opening struct {
	Filesystem
	times int
}

func (o *opening) Open(path string) (File, error) {
	o.times++
	return o.Filesystem.Open(path)
}

// TestPins has an address in two spellings.
func TestPins(t *testing.T) {
	policy := mediated(t)
	h := someHost()
	h.Pins = map[mir.Destination]netip.AddrPort{policy.Destinations()[0]: netip.MustParseAddrPort("[::ffff:192.0.2.1]:443")}
	p, err := Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	if pins := p.Pins(); len(pins) != 1 || pins[0].Address != pinOne {
		t.Errorf("pins %v, want one to %s", pins, pinOne)
	}
}

// TestOwnDevices grants a device of the host that the sandbox has of its own.
func TestOwnDevices(t *testing.T) {
	h := someHost()
	h.Filesystem.(tree)["/dev/null"] = "device"
	p, err := Resolve(policyOf(t, "read tree runtime:", "read exact /dev/null"), h)
	if err != nil {
		t.Fatal(err)
	}
	from, to := p.rulesAt("/dev/null")
	if to-from != 2 {
		t.Fatalf("%d rules for /dev/null, want 2", to-from)
	}
	for _, r := range p.rules[from:to] {
		if !r.Private || r.Identity.Inode != 0 {
			t.Errorf("%+v is about the host's device", r)
		}
	}
}

// A counting filesystem counts what it is asked.
type counting struct {
	Filesystem
	looks int
}

func (c *counting) Lstat(path string) (Entry, error) {
	c.looks++
	return c.Filesystem.Lstat(path)
}

// TestResolveLooksAtNamedPathsOnly has a workspace with many files: what a run costs to
// start must not depend on them.
func TestResolveLooksAtNamedPathsOnly(t *testing.T) {
	h := someHost()
	files := h.Filesystem.(tree)
	for i := range rounds(100_000) {
		files[fmt.Sprintf("/home/ws/d/%d", i)] = "file"
	}
	counted := &counting{Filesystem: files}
	h.Filesystem = counted
	if _, err := Resolve(policyOf(t, "write tree workspace:", "read tree workspace:d", "deny tree workspace:in", "deny exact workspace:absent skip"), h); err != nil {
		t.Fatal(err)
	}
	if counted.looks > 10 { // each component once
		t.Errorf("%d paths were looked at", counted.looks)
	}
}

// TestDigest changes one thing at a time.
func TestDigest(t *testing.T) {
	rules := []string{"read tree workspace:d", "deny exact workspace:absent skip", "read exact workspace:up"}
	base := mediated(t, rules...)
	of := func(p *mir.Policy, change func(*Host, tree)) mir.Digest {
		t.Helper()
		h := someHost()
		files := h.Filesystem.(tree)
		if change != nil {
			change(&h, files)
		}
		resolved, err := Resolve(p, h)
		if err != nil {
			t.Fatal(err)
		}
		return resolved.Digest()
	}
	want := of(base, nil)
	destination := base.Destinations()[0]
	seen := map[mir.Digest]string{want: "the base"}
	for name, digest := range map[string]mir.Digest{
		"another rule": of(mediated(t, append([]string{"read exact /etc"}, rules...)...), nil),
		"another workspace": of(base, func(h *Host, f tree) {
			f["/home/ws/d/d"], f["/home/ws/d/up"], h.Workspace = "dir", "-> x", "/home/ws/d"
		}),
		"temp":                of(base, func(h *Host, _ tree) { h.Temp = "/etc" }),
		"private temp":        of(base, func(h *Host, _ tree) { h.Temp = "" }),
		"temp at /tmp":        of(base, func(h *Host, _ tree) { h.Temp = "/tmp" }),
		"runtime root":        of(base, func(h *Host, _ tree) { h.RuntimeRoots = []string{"/etc"} }),
		"executable":          of(base, func(h *Host, _ tree) { h.Executable = "/bin/tool" }),
		"private addresses":   of(base, func(h *Host, _ tree) { h.AllowPrivate = []mir.Hostname{destination.Host} }),
		"pin":                 of(base, func(h *Host, _ tree) { h.Pins = map[mir.Destination]netip.AddrPort{destination: pinOne} }),
		"another pin":         of(base, func(h *Host, _ tree) { h.Pins = map[mir.Destination]netip.AddrPort{destination: pinTwo} }),
		"what was missing":    of(base, func(_ *Host, f tree) { f["/home/ws/absent"] = "file" }),
		"type":                of(base, func(_ *Host, f tree) { delete(f, "/home/ws/d/x"); f["/home/ws/d"] = "file"; f["/home/ws/up"] = "-> f" }),
		"link":                of(base, func(_ *Host, f tree) { f["/home/ws/up"] = "-> f" }),
		"link, other target":  of(base, func(_ *Host, f tree) { f["/home/ws/up"] = "-> ./d/../f" }),
		"a directory on them": of(base, func(_ *Host, f tree) { f["/home/ws/e"], f["/home/ws/up"] = "dir", "-> e/../f" }),
	} {
		if other, ok := seen[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
	if got := of(base, func(h *Host, f tree) { h.Filesystem = renumbered{f} }); got != want {
		t.Error("other device and inode numbers give another digest")
	}
	if got := of(base, func(h *Host, f tree) { f["/elsewhere/new"] = "file" }); got != want {
		t.Error("what no rule is about changes the digest")
	}
}

// A renumbered tree is on another disk.
type renumbered struct{ tree }

func (r renumbered) Lstat(path string) (Entry, error) {
	e, err := r.tree.Lstat(path)
	e.Device, e.Inode = e.Device+7, e.Inode+7
	return e, err
}

func TestLocate(t *testing.T) {
	h := someHost()
	h.Temp = ""
	files := h.Filesystem.(tree)
	files["/tmp/l"], files["/tmp/ws"], files["/tmp/ws/f"] = "-> /etc", "dir", "file"
	files["/tmp/deep"], files["/tmp/deep/er"], files["/tmp/deep/er/f"] = "dir", "dir", "file"
	files["/tmp/by"], files["/tmp/by/way"], files["/tmp/by/other"], files["/tmp/dots"], files["/tmp/z"], files["/tmp/z/l"] = "dir", "dir", "dir", "-> by/way/../../ws", "dir", "-> /tmp/ws"
	p, err := Resolve(policyOf(t, "read tree runtime:", "read tree workspace:", "write tree temp:", "read tree /tmp/ws", "read exact /tmp/deep/er", "read tree /tmp/dots", "read tree /tmp/z/l"), h)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, want string
		exists     bool
	}{
		{"/home/ws/in/x", "/home/ws/d/x", true},
		{"/link/in/x", "/home/ws/d/x", true},
		{"/link/../etc", "/home/etc", false},
		{"/home/ws/./d//x", "/home/ws/d/x", true},
		{"/home/ws/new/deep", "/home/ws/new/deep", false},
		{"/home/ws/late", "/home/ws/later", false},
		{"/home/ws/late/x", "/home/ws/later/x", false},
		{"/home/ws/f/x", "/home/ws/f/x", false},
		{"/home/ws/new/../f", "/home/ws/f", false},
		{"/tmp/l", "/tmp/l", false}, // the host's link is not there
		{"/tmp/l/passwd", "/tmp/l/passwd", false},
		{"/tmp", "/tmp", true},
		{"/tmp/ws/f", "/tmp/ws/f", true},
		{"/tmp/deep", "/tmp/deep", true}, // to hold what a rule names
		{"/tmp/deep/er/f", "/tmp/deep/er/f", true},
		{"/tmp/deep/other", "/tmp/deep/other", false},
		{"/tmp/dots/f", "/tmp/ws/f", true},
		{"/tmp/by/way", "/tmp/by/way", true}, // links pass by there
		{"/tmp/by", "/tmp/by", true},
		{"/tmp/by/other", "/tmp/by/other", false},
		{"/tmp/by/way/x", "/tmp/by/way/x", false},
		{"/tmp/z", "/tmp/z", true}, // to hold a link
		{"/tmp/z/l/f", "/tmp/ws/f", true},
		{"/tmp/z/x", "/tmp/z/x", false},
		{"/dev/stdin", "/proc/self/fd/0", false},
		{"/dev/ptmx", "/dev/pts/ptmx", false},
		{"/dev/null", "/dev/null", true},
		{"/dev/sda", "/dev/sda", false},
		{"/proc", "/proc", true},
		{"/proc/self/root/etc/passwd", "/etc/passwd", true},
		{"/proc/17/root", "/", true},
		{"/proc/self/task/17/root/home/ws/in", "/home/ws/d", true},
		{"/proc/thread-self/cwd/f", "/home/ws/f", true},
		{"/proc/self/status", "/proc/self/status", false},
		{"/proc/other/root/etc", "/proc/other/root/etc", false},
		{"/proc/self/task/other/root/etc", "/proc/self/task/other/root/etc", false},
		{"/proc/self/task/17/fd/root", "/proc/self/task/17/fd/root", false},
		{"/proc/self/task/17/17/cwd/f", "/proc/self/task/17/17/cwd/f", false},
		{"/proc/self/fd/17/root/etc", "/proc/self/fd/17/root/etc", false},
		{"/proc/self/task/17", "/proc/self/task/17", true},
		{"/proc/self/task", "/proc/self/task", true},
		{"/proc/self/cwd/../link/f", "/home/link/f", false},
		{"/proc/root/etc", "/proc/root/etc", false},
		{"/proc/cwd/f", "/proc/cwd/f", false},
		{"/dev/self/root/etc", "/dev/self/root/etc", false},
		{"/tmp/root/etc", "/tmp/root/etc", false},
		{"/proc/self/fd/root", "/proc/self/fd/root", false},
	} {
		at, err := p.Locate(files, tt.path)
		if err != nil || at.Path != tt.want || at.Exists != tt.exists {
			t.Errorf("%s leads to %+v (%v), want %s, %v", tt.path, at, err, tt.want, tt.exists)
		}
	}
	for path, is := range map[string]error{"/home/ws/loop": ErrLoop, "/home/ws/locked/x": fs.ErrPermission, "/home/ws/bad": errIO} {
		_, err := p.Locate(files, path)
		var broken *PathError
		if !errors.Is(err, is) || !errors.As(err, &broken) {
			t.Errorf("%s: %v, want %v", path, err, is)
		}
	}
}

// TestEvaluateTakesCleanPaths asks about paths that resolution does not leave.
func TestEvaluateTakesCleanPaths(t *testing.T) {
	p, err := Resolve(policyOf(t, "write tree /"), someHost())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "home", "./home", "/home/", "//", "/home//ws", "/home/.", "/home/../etc", "/a\x00b"} {
		if d := p.Evaluate(path); d.Permission != mir.PermitNone || d.Rule != -1 {
			t.Errorf("%q: %+v, want nothing", path, d)
		}
	}
	if d := p.Evaluate("/home/\xff\n"); d.Permission != mir.PermitReadWrite {
		t.Errorf("%+v", d)
	}
}

// TestInspect shows a plan with something of everything.
func TestInspect(t *testing.T) {
	h := someHost()
	files := h.Filesystem.(tree)
	files["/home/ws/odd"], files["/home/ws/\xff"] = "-> \xff", "dir"
	destination := mir.Destination{Host: hostname(t, "a.example.com"), Port: 443}
	h.Pins = map[mir.Destination]netip.AddrPort{destination: pinOne}
	h.AllowPrivate = []mir.Hostname{destination.Host}
	h.RuntimeRoots, h.Temp = []string{"/etc"}, ""
	withNames(&h)
	policy, err := mir.Build(mir.Spec{
		Rules: policyOf(t, "read tree runtime:", "read exact workspace:odd", "write exact workspace:d", "deny exact workspace:absent skip", "read exact workspace:up", "write tree temp:").Rules(),
		Mode:  mir.ModeMediated, TreeConfinement: mir.Disabled, Destinations: []mir.Destination{destination},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Inspect()
	const golden = "testdata/inspect.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
	}
}
