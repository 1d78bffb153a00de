package plan

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// withNames gives a host in memory the files that say how names are resolved.
func withNames(h *Host) {
	files := tree{"/etc/hosts": "file", "/etc/resolv.conf": "file"}
	if old, ok := h.Filesystem.(tree); ok {
		maps.Copy(files, old)
	}
	h.Filesystem = files
}

// ofMode makes a policy of lines with a network.
func ofMode(t testing.TB, mode mir.Mode, lines ...string) *mir.Policy {
	t.Helper()
	spec := mir.Spec{Rules: policyOf(t, lines...).Rules(), Mode: mode, TreeConfinement: mir.Required}
	if mode == mir.ModeMediated {
		return mediated(t, lines...)
	}
	p, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNameFiles asks which files say how names are resolved, and whose they are.
func TestNameFiles(t *testing.T) {
	usual := tree{
		"/etc": "dir", "/etc/hosts": "file", "/etc/resolv.conf": "file", "/etc/nsswitch.conf": "file", "/etc/host.conf": "file", "/etc/gai.conf": "file",
		"/etc/services": "file", "/etc/passwd": "file",
	}
	with := func(more tree) tree {
		files := maps.Clone(usual)
		for path, what := range more {
			if files[path] = what; what == "" {
				delete(files, path)
			}
		}
		return files
	}
	linked := with(tree{"/etc/resolv.conf": "-> ../run/resolve/stub.conf", "/run": "dir", "/run/resolve": "dir", "/run/resolve/stub.conf": "file"})
	dangling := with(tree{"/etc/resolv.conf": "-> ../run/resolve/stub.conf", "/run": "dir"})
	const all = "/etc/gai.conf /etc/host.conf /etc/hosts /etc/nsswitch.conf /etc/resolv.conf"
	for _, tt := range []struct {
		name  string
		mode  mir.Mode
		files tree
		rules []string
		want  string // the paths that can be read, those of the sandbox's own with a star
		links string
		fails string
	}{
		{"none", mir.ModeNone, usual, nil, "", "", ""},
		{"direct", mir.ModeDirect, usual, nil, all, "", ""},
		{"direct, a link", mir.ModeDirect, linked, nil, strings.Replace(all, "/etc/resolv.conf", "/run/resolve/stub.conf", 1), "/etc/resolv.conf", ""},
		{"direct, a dangling link", mir.ModeDirect, dangling, nil, strings.Replace(all, " /etc/resolv.conf", "", 1), "", ""},
		{"direct, few", mir.ModeDirect, tree{"/etc": "dir", "/etc/hosts": "file", "/etc/nsswitch.conf": "dir", "/etc/gai.conf": "! access", "/etc/host.conf": "fifo"}, nil, "/etc/hosts", "", ""},
		{"direct, none", mir.ModeDirect, tree{}, nil, "", "", ""},
		{"direct, denied", mir.ModeDirect, usual, []string{"deny exact /etc/hosts"}, strings.Replace(all, "/etc/hosts ", "", 1), "", ""},
		{"mediated", mir.ModeMediated, usual, nil, "*/etc/hosts */etc/resolv.conf", "", ""},
		{"mediated, denied", mir.ModeMediated, usual, []string{"deny tree /etc"}, "", "", ""},
		{"mediated, in a tree", mir.ModeMediated, usual, []string{"read tree /etc"}, "/etc /etc/gai.conf /etc/host.conf */etc/hosts /etc/nsswitch.conf /etc/passwd */etc/resolv.conf /etc/services", "", ""},
		{"mediated, granted too", mir.ModeMediated, usual, []string{"read exact /etc/hosts"}, "*/etc/hosts */etc/resolv.conf", "", ""},
		{"mediated, for writing", mir.ModeMediated, usual, []string{"write exact /etc/hosts"}, "", "", "expected no grant of changing a file that the sandbox has of its own, found one"},
		{"mediated, in a tree for writing", mir.ModeMediated, tree{"/etc": "dir", "/etc/hosts": "file", "/etc/resolv.conf": "file"}, []string{"write tree /etc"}, "/etc */etc/hosts */etc/resolv.conf", "", ""},
		{"mediated, a link", mir.ModeMediated, linked, nil, "*/etc/hosts */run/resolve/stub.conf", "/etc/resolv.conf", ""},
		{"mediated, a dangling link", mir.ModeMediated, dangling, []string{"read exact /etc/passwd"}, "*/etc/hosts /etc/passwd */run/resolve/stub.conf", "/etc/resolv.conf", ""},
		{"mediated, a dangling link into a tree", mir.ModeMediated, dangling, []string{"read tree /run"}, "", "", `"/run/resolve/stub.conf": expected a file, in place of which the sandbox has one of its own, found none in a directory that is granted`},
		{"mediated, nothing there", mir.ModeMediated, tree{}, nil, "*/etc/hosts */etc/resolv.conf", "", ""},
		{"mediated, nothing there in a tree", mir.ModeMediated, tree{"/etc": "dir"}, []string{"read tree /"}, "", "", `"/etc/hosts": expected a file, in place of which the sandbox has one of its own, found none in a directory that is granted`},
		{"mediated, a directory", mir.ModeMediated, with(tree{"/etc/hosts": "dir"}), nil, "", "", `"/etc/hosts": expected a file, in place of which the sandbox has one of its own, found a directory`},
		{"mediated, a loop", mir.ModeMediated, with(tree{"/etc/hosts": "-> hosts"}), nil, "", "", `"/etc/hosts": expected a file, in place of which the sandbox has one of its own, found: too many levels`},
		{"mediated, a link through nothing", mir.ModeMediated, with(tree{"/etc/hosts": "-> /none/../hosts"}), nil, "", "", `"/etc/hosts": expected a file, in place of which the sandbox has one of its own, found: at /none: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Resolve(ofMode(t, tt.mode, tt.rules...), Host{Filesystem: tt.files})
			if tt.fails != "" {
				faults, ok := errors.AsType[Errors](err)
				if !ok || faults[0].Code != CodeConflict || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("%v, want %s", err, tt.fails)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			paths := slices.Collect(maps.Keys(tt.files))
			for _, r := range p.Rules() {
				paths = append(paths, r.Path)
			}
			slices.Sort(paths)
			var got []string
			for _, path := range slices.Compact(paths) {
				switch d := p.Evaluate(path); {
				case d.Permission == mir.PermitNone || tt.files[path][:min(2, len(tt.files[path]))] == "->":
				case d.Private:
					got = append(got, "*"+path)
				default:
					got = append(got, path)
				}
			}
			slices.SortFunc(got, func(a, b string) int { return strings.Compare(strings.TrimPrefix(a, "*"), strings.TrimPrefix(b, "*")) })
			var links []string
			for _, l := range p.Links() {
				links = append(links, l.Path)
			}
			if fmt.Sprint(got) != fmt.Sprint(strings.Fields(tt.want)) || fmt.Sprint(links) != fmt.Sprint(strings.Fields(tt.links)) {
				t.Errorf("%v, links %v\nwant %s, links %s", got, links, tt.want, tt.links)
			}
			hosts, resolver := p.NameFiles()
			if mediated := tt.mode == mir.ModeMediated; mediated != (hosts != "") || mediated != (resolver != "") {
				t.Errorf("files of the sandbox's own: %q, %q", hosts, resolver)
			}
			for _, path := range []string{hosts, resolver} {
				if _, to := p.rulesAt(path); path != "" && (to == 0 || p.rules[to-1].Path != path) {
					t.Errorf("%q is the sandbox's own, for which there is no rule", path)
				}
			}
		})
	}
}

// TestNameServices resolves a program of glibc with libraries of several services.
func TestNameServices(t *testing.T) {
	const old, first, other = 0x0d696914, glibc234, 0x0d696915
	lib := func(name string, needed ...string) string { return elfSpec{soname: name, needed: needed}.make() }
	listed := func(versions []uint32, more listing) listing {
		files := listing{
			"/x": elfSpec{interp: "/ld", needed: []string{"libc.so.6"}}.make(), "/ld": lib("ld"), "/lib/libc.so.6": elfSpec{soname: "libc.so.6", versions: versions}.make(),
			"/lib/libnss_files.so.2": lib("libnss_files.so.2", "libc.so.6"), "/lib/libnss_dns.so.2": lib("libnss_dns.so.2", "libresolv.so.2", "libc.so.6"), "/lib/libresolv.so.2": lib("libresolv.so.2"),
			"/lib/libnss_resolve.so.2": lib("libnss_resolve.so.2", "libcap"), "/lib/libcap": lib("libcap"),
			"/lib/libnss_broken.so.2": lib("libnss_broken.so.2", "libnone"), "/lib/libnss_later.so.2": lib("libnss_later.so.2"), "/lib/evil.so": lib("evil.so"),
			"/etc/hosts": "", "/etc/resolv.conf": "",
		}
		maps.Copy(files, more)
		return files
	}
	for _, tt := range []struct {
		name     string
		mode     mir.Mode
		versions []uint32
		text     string // of nsswitch.conf
		want     string // the libraries, beside libc
	}{
		{"no network", mir.ModeNone, []uint32{old}, "hosts: files resolve", ""},
		{"mediated", mir.ModeMediated, []uint32{old, first}, "hosts: files resolve", ""},
		{"mediated, an old glibc", mir.ModeMediated, []uint32{old, other}, "hosts: files resolve", "libnss_dns.so.2 libnss_files.so.2 libresolv.so.2"},
		{"direct", mir.ModeDirect, []uint32{old, first, other}, "passwd: later\nhosts: files dns\n", ""},
		{"direct, an old glibc", mir.ModeDirect, nil, "hosts: files dns\n", "libnss_dns.so.2 libnss_files.so.2 libresolv.so.2"},
		{"another service", mir.ModeDirect, []uint32{first}, "# hosts: later\n hosts:\tfiles resolve [!UNAVAIL=return] dns # later\n", "libcap libnss_resolve.so.2"},
		{"actions without blanks", mir.ModeDirect, []uint32{first}, "hosts:resolve[NOTFOUND=return later]files", "libcap libnss_resolve.so.2"},
		{"an action without end", mir.ModeDirect, []uint32{first}, "hosts:resolve [NOTFOUND later", "libcap libnss_resolve.so.2"},
		{"what is not there", mir.ModeDirect, []uint32{first}, "hosts: none broken later ../evil /lib/evil", "libnss_later.so.2"},
		{"nothing", mir.ModeDirect, []uint32{first}, "hosts:\n", ""},
		{"no such line", mir.ModeDirect, nil, "passwd: later", "libnss_dns.so.2 libnss_files.so.2 libresolv.so.2"},
		{"no such file", mir.ModeDirect, nil, "", "libnss_dns.so.2 libnss_files.so.2 libresolv.so.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := listed(tt.versions, nil)
			if tt.text != "" {
				files["/etc/nsswitch.conf"] = tt.text
			}
			p, err := Resolve(ofMode(t, tt.mode, "read tree runtime:"), Host{Filesystem: newDisk(files), Executable: "/x"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range p.Rules() {
				if name, ok := strings.CutPrefix(r.Path, "/lib/"); ok && name != "libc.so.6" {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%v, want %s", got, tt.want)
			}
		})
	}
}

// TestVersionsMalformed reads definitions of versions that lead nowhere.
func TestVersionsMalformed(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"without end": func(b []byte) { b[16] = 0 },
		"beyond":      func(b []byte) { b[19] = 0xff },
	} {
		file := []byte(elfSpec{soname: "libc.so.6", versions: []uint32{1, 2, glibc234}}.make())
		at := strings.Index(string(file), "\x01\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00") // the first hash, and how far it is to the next
		if m, err := readELF(strings.NewReader(string(file))); err != nil || !m.resolvesNames(strings.NewReader(string(file))) || at < 0 {
			t.Fatalf("%+v, %v, %d", m, err, at)
		}
		change(file[at-8:])
		if m, err := readELF(strings.NewReader(string(file))); err != nil || m.resolvesNames(strings.NewReader(string(file))) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	many := elfSpec{soname: "libc.so.6", versions: append(slices.Repeat([]uint32{5}, maxVersions), glibc234)}.make()
	m, err := readELF(strings.NewReader(many))
	if err != nil || m.resolvesNames(strings.NewReader(many)) || m.kind != elf.ET_DYN {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestRestrictNameFiles has plans of different modes in common.
func TestRestrictNameFiles(t *testing.T) {
	files := tree{"/etc": "dir", "/etc/hosts": "file", "/etc/resolv.conf": "-> resolve", "/etc/resolve": "file", "/etc/gai.conf": "file"}
	plans := map[mir.Mode]*Plan{}
	for _, mode := range []mir.Mode{mir.ModeNone, mir.ModeDirect, mir.ModeMediated} {
		p, err := Resolve(ofMode(t, mode, "read exact /etc/gai.conf"), Host{Filesystem: files})
		if err != nil {
			t.Fatal(err)
		}
		plans[mode] = p
	}
	for _, tt := range []struct{ a, b, mode mir.Mode }{
		{mir.ModeDirect, mir.ModeMediated, mir.ModeMediated},
		{mir.ModeMediated, mir.ModeDirect, mir.ModeMediated},
		{mir.ModeMediated, mir.ModeMediated, mir.ModeMediated},
		{mir.ModeNone, mir.ModeMediated, mir.ModeNone},
		{mir.ModeMediated, mir.ModeNone, mir.ModeNone},
		{mir.ModeDirect, mir.ModeDirect, mir.ModeDirect},
	} {
		p, err := Restrict(plans[tt.a], plans[tt.b])
		if err != nil {
			t.Fatal(err)
		}
		hosts, resolver := p.NameFiles()
		d := p.Evaluate("/etc/hosts")
		switch tt.mode {
		case mir.ModeMediated:
			if hosts != "/etc/hosts" || resolver != "/etc/resolve" || d.Permission != mir.PermitRead || !d.Private || !p.Evaluate(resolver).Private {
				t.Errorf("%s and %s: %q, %q, %+v", tt.a, tt.b, hosts, resolver, d)
			}
		case mir.ModeDirect:
			if hosts+resolver != "" || d.Permission != mir.PermitRead || d.Private {
				t.Errorf("%s and %s: %q, %q, %+v", tt.a, tt.b, hosts, resolver, d)
			}
		case mir.ModeNone:
			if hosts+resolver != "" || d.Permission != mir.PermitNone {
				t.Errorf("%s and %s: %q, %q, %+v", tt.a, tt.b, hosts, resolver, d)
			}
		}
	}
}
