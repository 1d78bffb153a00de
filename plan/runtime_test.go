package plan

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const glibcLoader = "/lib64/ld-linux-x86-64.so.2"

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
		files listing
		want  string // the files
		links string
		fails string
	}{
		{"static", listing{"/x": static}, "/x", "", ""},
		{"a link", listing{"/x": "-> b/y", "/b/y": static}, "/b/y", "/x", ""},
		{"absent", listing{"/y": static}, "", "", "/x: expected an executable, found none"},
		{"a directory", listing{"/x/y": static}, "", "", "/x: expected an executable, found a file of type d"},
		{"not executable", listing{"/x": "(0644)"}, "", "", "/x: expected an executable, found a file that nobody may execute"},
		{"not a program", listing{"/x": "hello"}, "", "", `/x: expected an ELF file or a #! line with an interpreter, found "hello"`},
		{"empty", listing{"/x": ""}, "", "", `/x: expected an ELF file or a #! line with an interpreter, found ""`},
		{"loop of links", listing{"/x": "-> x"}, "", "", "/x: expected an executable: /x: too many levels"},
		{"relocatable", listing{"/x": elfSpec{kind: elf.ET_REL}.make()}, "", "", "/x: expected an ELF file of an executable, found ET_REL"},
		{"script", listing{"/x": "#!/b/sh\n", "/b": "-> bin", "/bin/sh": "-> dash", "/bin/dash": static}, "/bin/dash /x", "/b /bin/sh", ""},
		{"script, blanks", listing{"/x": "#! \t /sh\t -e -u \n", "/sh": static}, "/sh /x", "", ""},
		{"script, no newline", listing{"/x": "#!/sh", "/sh": static}, "/sh /x", "", ""},
		{"script, carriage return", listing{"/x": "#!/sh\r\n", "/sh": static}, "", "", "/sh\r, needed by /x: expected the interpreter of a script, found none"},
		{"script without interpreter", listing{"/x": "#! \n/sh", "/sh": static}, "", "", "/x: expected an ELF file or a #! line"},
		{"script, absent interpreter", listing{"/x": "#!/sh\n"}, "", "", "/sh, needed by /x: expected the interpreter of a script, found none"},
		{"script, relative interpreter", listing{"/x": "#!sh\n"}, "", "", "sh, needed by /x: expected an absolute path"},
		{"script, long name", listing{"/x": "#!/" + long + "\n", "/" + long: static}, "/" + long + " /x", "", ""},
		{"script, name cut off", listing{"/x": "#!/" + long + "d\n", "/" + long: static}, "", "", "/x: expected an ELF file or a #! line"},
		{"script, long argument", listing{"/x": "#!/sh " + long + long + "\n", "/sh": static}, "/sh /x", "", ""},
		{"five scripts", listing{"/x": "#!/2\n", "/2": "#!/3\n", "/3": "#!/4\n", "/4": "#!/5\n", "/5": "#!/6\n", "/6": static}, "/2 /3 /4 /5 /6 /x", "", ""},
		{"six scripts", listing{"/x": "#!/2\n", "/2": "#!/3\n", "/3": "#!/4\n", "/4": "#!/5\n", "/5": "#!/6\n", "/6": "#!/7\n", "/7": static}, "", "", "/6, needed by /5: expected at most 5 scripts"},
		{"script of itself", listing{"/x": "#!/x\n"}, "", "", "/x, needed by /x: expected at most 5 scripts"},

		{"env", listing{"/x": "#!/usr/bin/env py\n", "/usr/bin/env": static, "/b2/py": "-> py3", "/b2/py3": static}, "/b2/py3 /usr/bin/env /x", "/b2/py", ""},
		{"env, first in PATH", listing{"/x": "#!/env py\n", "/env": static, "/b1/py": static, "/b2/py": static}, "/b1/py /env /x", "", ""},
		{"env, not executable", listing{"/x": "#!/env py\n", "/env": static, "/b1/py": "(0644)", "/b2/py": static}, "/b2/py /env /x", "", ""},
		{"env, path", listing{"/x": "#!/env /py\n", "/env": static, "/py": static}, "/env /py /x", "", ""},
		{"env, absent", listing{"/x": "#!/env py\n", "/env": static}, "", "", "py, needed by /x: expected a program in /b1::/b2, found none"},
		{"env without -S", listing{"/x": "#!/env py -u\n", "/env": static, "/b1/py": static}, "", "", "py -u, needed by /x: expected a program in /b1::/b2, found none; env takes apart"},
		{"env -S", listing{"/x": "#!/env -S py -u\n", "/env": static, "/b1/py": static}, "/b1/py /env /x", "", ""},
		{"env -vS", listing{"/x": "#!/env -vS -u HOME 'p'\\y\n", "/env": static, "/b1/py": static}, "", "", "env, needed by /x: expected a command line of env: expected an escape of env, found \"\\\\y\""},
		{"env --split-string", listing{"/x": "#!/env --split-string=-i A=b\"\\_c d\" PATH=/b9 'p'\"y\" #comment\n", "/env": static, "/b9/py": static}, "/b9/py /env /x", "", ""},
		{"env -i", listing{"/x": "#!/env -S -i py\n", "/env": static, "/b1/py": static, "/bin/py": static}, "/bin/py /env /x", "", ""},
		{"env -u PATH", listing{"/x": "#!/env -S -u PATH -C / -- py\n", "/env": static, "/b1/py": static, "/usr/bin/py": static}, "/env /usr/bin/py /x", "", ""},
		{"env VAR=x NAME", listing{"/x": "#!/env -S A=b C=d py\n", "/env": static, "/b1/py": static}, "/b1/py /env /x", "", ""},
		{"env VAR=x alone", listing{"/x": "#!/env A=b py\n", "/env": static, "/b1/py": static}, "", "", "/x, needed by /x: expected a program, found a script that starts itself"},
		{"env alone", listing{"/x": "#!/env\n", "/env": static}, "", "", "/x, needed by /x: expected a program, found a script that starts itself"},
		{"env, variable", listing{"/x": "#!/env -S ${PY}\n", "/env": static}, "", "", "env, needed by /x: expected a command line of env: expected words, found a variable"},
		{"env, option", listing{"/x": "#!/env --nonsense\n", "/env": static}, "", "", `expected an option of env, found "nonsense"`},
		{"env, quote", listing{"/x": "#!/env -S 'py\n", "/env": static}, "", "", `expected a quote at the end`},
		{"env loop", listing{"/b1/a": "#!/env b\n", "/b1/b": "#!/env a\n", "/env": static, "/x": "#!/env a\n"}, "", "", "/b1/a, needed by /b1/b: expected a program, found a script that starts itself"},
		{"env, script", listing{"/x": "#!/env a\n", "/b1/a": "#!/env b\n", "/b1/b": static, "/env": static}, "/b1/a /b1/b /env /x", "", ""},
		{"env, no format", listing{"/x": "#!/env a\n", "/b1/a": "echo\n", "/bin/sh": static, "/env": static}, "/b1/a /bin/sh /env /x", "", ""},
		{"script of env script", listing{"/x": "#!/y -z\n", "/y": "#!/env py\n", "/b1/py": static, "/env": static}, "/b1/py /env /x /y", "", ""},
		{"a script called env", listing{"/x": "#!/env py\n", "/env": "#!/sh\n", "/sh": static, "/b1/py": static}, "/env /sh /x", "", ""},
		{"env starts nothing", listing{"/x": "#!/env -u\n", "/env": static}, "/env /x", "", ""},
		{"env, empty name", listing{"/x": "#!/env -S \"\" y\n", "/env": static}, "", "", "expected the name of a program, found an empty one"},

		{"no ELF interpreter", listing{"/x": elfSpec{interp: glibcLoader}.make()}, "", "", glibcLoader + ", needed by /x: expected an ELF interpreter, found none"},
		{"relative ELF interpreter", listing{"/x": elfSpec{interp: "ld.so"}.make()}, "", "", "ld.so, needed by /x: expected an absolute path"},
		{"wrong ELF interpreter", listing{"/x": elfSpec{interp: "/ld"}.make(), "/ld": elfSpec{class: elf.ELFCLASS32, machine: elf.EM_386}.make()}, "", "", "/ld, needed by /x: expected an ELF interpreter for 64-bit EM_X86_64, found one for 32-bit EM_386"},
		{
			"default directories", listing{
				"/x": elfSpec{interp: "/ld", needed: []string{"liba", "libb", "libc"}}.make(), "/ld": loader,
				"/lib/x86_64-linux-gnu/liba": lib, "/usr/lib/liba": lib, "/usr/lib64/glibc-hwcaps/v3/libb": lib, "/usr/lib64/libb": lib, "/usr/lib/libc": lib,
			}, "/ld /lib/x86_64-linux-gnu/liba /usr/lib/libc /usr/lib64/glibc-hwcaps/v3/libb /x", "", "",
		},
		{
			"the loader's own directories", listing{
				"/x": elfSpec{interp: "/ld", needed: []string{"liba"}, rpath: "/opt/$LIB"}.make(), "/ld": loader + "\x00/lib64/\x00/usr/lib64/\x00",
				"/lib/x86_64-linux-gnu/liba": lib, "/usr/lib64/liba": elfSpec{needed: []string{"libb"}}.make(), "/opt/lib64/libb": lib, "/opt/lib/x86_64-linux-gnu/libb": lib,
			}, "/ld /opt/lib64/libb /usr/lib64/liba /x", "", "",
		},
		{
			"a loader in a store", listing{
				"/x": elfSpec{interp: "/nix/store/h-glibc/lib/ld", needed: []string{"liba", "libb"}, rpath: "/opt/$LIB"}.make(), "/nix/store/h-glibc/lib/ld": loader + "\x00/nix/store/h-glibc/lib/\x00/nix/store/h-glibc/etc/ld.so.cache\x00/etc/ld-nix.so.preload\x00",
				"/nix/store/h-glibc/lib/liba": lib, "/lib/liba": lib, "/opt/lib/libb": lib, "/etc/ld.so.cache": string(makeCache(binary.LittleEndian, false, "liba /lib/liba x64")), "/etc/ld.so.preload": "/lib/libp", "/lib/libp": lib,
				"/nix/store/h-glibc/etc/ld.so.cache": string(makeCache(binary.LittleEndian, false, "libz /lib/libz x64")), "/etc/ld-nix.so.preload": "/lib/libq", "/lib/libq": lib,
			}, "/etc/ld-nix.so.preload /lib/libq /nix/store/h-glibc/etc/ld.so.cache /nix/store/h-glibc/lib/ld /nix/store/h-glibc/lib/liba /opt/lib/libb /x", "", "",
		},
		{
			"a loader in a store, behind a link", listing{
				"/x": elfSpec{interp: "/lib64/ld", needed: []string{"liba"}}.make(), "/lib64/ld": "-> /gnu/store/h/lib/ld", "/gnu/store/h/lib/ld": loader + "\x00/gnu/store/h/lib/\x00",
				"/gnu/store/h/lib/liba": lib, "/lib/liba": lib,
			}, "/gnu/store/h/lib/ld /gnu/store/h/lib/liba /x", "/lib64/ld", "",
		},
		{
			"a loader in a store has no other directories", listing{
				"/x": elfSpec{interp: "/gnu/store/h/lib/ld", needed: []string{"liba"}}.make(), "/gnu/store/h/lib/ld": loader + "\x00/gnu/store/h/lib/\x00", "/lib/liba": lib,
			}, "", "", "liba, needed by /x: expected a library in /gnu/store/h/lib, found none",
		},
		{
			"a loader that was moved", listing{
				"/x": elfSpec{interp: "/moved/lib/ld", needed: []string{"liba"}}.make(), "/moved/lib/ld": loader + "\x00/other/lib/\x00\x01/etc/ld.so.cache\x00", "/moved/lib/liba": lib, "/lib/liba": lib, "/etc/ld.so.cache": "x",
			}, "/etc/ld.so.cache /lib/liba /moved/lib/ld /x", "", "",
		},
		{
			"audit", listing{
				"/x": elfSpec{interp: "/ld", needed: []string{"libb"}, runpath: "/r", audit: "liba:libnone::/p/libc", depaudit: "libd"}.make(), "/ld": loader,
				"/r/liba": elfSpec{needed: []string{"libb", "libe"}, rpath: "/q"}.make(), "/q/libb": lib, "/r/libb": lib, "/r/libe": lib, "/p/libc": elfSpec{needed: []string{"libnone"}}.make(),
				"/lib/libd": elfSpec{audit: "libf", needed: []string{"ld-linux-x86-64.so.2"}}.make(), "/lib/libf": lib,
			}, "/ld /lib/libd /q/libb /r/liba /r/libb /r/libe /x", "", "",
		},
		{
			"audit, musl", listing{
				"/x": elfSpec{interp: musl, audit: "liba"}.make(), musl: lib, "/lib/liba": lib,
			}, "/lib/ld-musl-x86_64.so.1 /x", "", "",
		},
		{
			"preload", listing{
				"/x": elfSpec{interp: "/ld"}.make(), "/ld": loader, "/etc/ld.so.preload": "/p/a:libb # /p/c\n\tabsent /p/x86", "/p/a": elfSpec{needed: []string{"libd"}}.make(),
				"/lib/libb": lib, "/p/c": lib, "/lib/libd": lib, "/p/x86": elfSpec{machine: elf.EM_386}.make(), "/etc/ld.so.cache": "garbage",
			}, "/etc/ld.so.cache /etc/ld.so.preload /ld /lib/libb /lib/libd /p/a /x", "", "",
		},
		{
			"big endian, 32 bits", listing{
				"/x":  elfSpec{interp: "/ld", needed: []string{"liba"}, runpath: "$ORIGIN/l", class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, kind: elf.ET_EXEC}.make(),
				"/ld": elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC}.make(), "/l/liba": elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC}.make(),
			}, "/l/liba /ld /x", "", "",
		},
		{
			"libraries in a circle", listing{
				"/x": elfSpec{interp: "/ld", needed: []string{"liba"}}.make(), "/ld": loader,
				"/lib/liba": elfSpec{needed: []string{"libb", "ld-linux-x86-64.so.2"}}.make(), "/lib/libb": elfSpec{needed: []string{"liba"}}.make(),
			}, "/ld /lib/liba /lib/libb /x", "", "",
		},
		{
			"musl", listing{
				"/x": elfSpec{interp: musl, needed: []string{"liba", "libc.so", "libc.musl-x86_64.so.1"}, runpath: "$ORIGIN/r"}.make(), musl: "-> libc.so", "/lib/libc.so": lib,
				"/r/liba": elfSpec{needed: []string{"libb", "libm.so.6", "libz"}}.make(), "/r/libb": lib, "/usr/local/lib/libz": lib, "/etc/ld.so.preload": "/nowhere", "/etc/ld.so.cache": "x", "/lib64/libz": lib,
			}, "/lib/libc.so /r/liba /r/libb /usr/local/lib/libz /x", musl, "",
		},
		{
			"musl with a path file", listing{
				"/x": elfSpec{interp: musl, needed: []string{"liba"}}.make(), musl: lib, "/etc/ld-musl-x86_64.path": "/one\n/two:/three\n", "/lib/liba": lib, "/three/liba": lib,
			}, "/etc/ld-musl-x86_64.path /lib/ld-musl-x86_64.so.1 /three/liba /x", "", "",
		},
		{
			"musl, absent", listing{
				"/x": elfSpec{interp: musl, needed: []string{"liba"}}.make(), musl: lib, "/lib64/liba": lib,
			}, "", "", "liba, needed by /x: expected a library in /lib:/usr/local/lib:/usr/lib, found none",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := newWalker(newDisk(tt.files)).runtime("/x", runtimeOptions{searchPath: []string{"/b1", "", "/b2"}, hardware: func() []string { return []string{"v4", "v3"} }})
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

// TestRuntimeHardware counts how often the processor is asked about.
func TestRuntimeHardware(t *testing.T) {
	static, lib := elfSpec{kind: elf.ET_EXEC}.make(), elfSpec{}.make()
	program := elfSpec{interp: "/ld", needed: []string{"liba", "libb"}, rpath: "/r:/q"}.make()
	cache := func(lines ...string) string { return string(makeCache(binary.LittleEndian, false, lines...)) }
	for _, tt := range []struct {
		name  string
		files listing
		calls int
		want  string // the libraries
	}{
		{"static", listing{"/x": static, "/lib/glibc-hwcaps/v3/liba": lib}, 0, ""},
		{"none", listing{"/x": program, "/ld": lib, "/r/liba": lib, "/lib/libb": lib}, 0, "/lib/libb /r/liba"},
		{"elsewhere", listing{"/x": program, "/ld": lib, "/r/liba": lib, "/r/libb": lib, "/q/glibc-hwcaps/v3/liba": lib, "/usr/lib/glibc-hwcaps/v3/libb": lib}, 0, "/r/liba /r/libb"},
		{"once", listing{"/x": program, "/ld": lib, "/r/glibc-hwcaps/v3/liba": lib, "/r/glibc-hwcaps/v3/libb": lib, "/r/libb": lib}, 1, "/r/glibc-hwcaps/v3/liba /r/glibc-hwcaps/v3/libb"},
		{"another processor's", listing{"/x": program, "/ld": lib, "/r/glibc-hwcaps/v9/liba": lib, "/r/liba": lib, "/r/libb": lib}, 1, "/r/liba /r/libb"},
		{"through a link", listing{"/x": program, "/ld": lib, "/r/glibc-hwcaps": "-> ../h", "/h/v3/liba": lib, "/r/libb": lib}, 1, "/h/v3/liba /r/libb"},
		{"a link to nothing", listing{"/x": program, "/ld": lib, "/r/glibc-hwcaps": "-> none", "/r/liba": lib, "/r/libb": lib}, 0, "/r/liba /r/libb"},
		{"a file of the name", listing{"/x": program, "/ld": lib, "/r/glibc-hwcaps": "", "/r/liba": lib, "/r/libb": lib}, 0, "/r/liba /r/libb"},
		{"in a directory that nobody may search", listing{"/x": program, "/ld": lib, "/r/": "(0)", "/r/glibc-hwcaps/v3/liba": lib, "/q/liba": lib, "/q/libb": lib}, 0, "/q/liba /q/libb"},
		{"the cache", listing{"/x": program, "/ld": lib, "/etc/ld.so.cache": cache("liba /c/v3/liba x64 v3", "liba /c/liba x64", "libb /c/libb x64"), "/c/v3/liba": lib, "/c/liba": lib, "/c/libb": lib}, 1, "/c/libb /c/v3/liba"},
		{"the cache, for other names", listing{"/x": program, "/ld": lib, "/etc/ld.so.cache": cache("libz /c/v3/libz x64 v3", "liba /c/liba x64", "libb /c/libb x64"), "/c/liba": lib, "/c/libb": lib}, 0, "/c/liba /c/libb"},
		{"the cache and a directory", listing{"/x": program, "/ld": lib, "/etc/ld.so.cache": cache("liba /c/v3/liba x64 v3"), "/c/v3/liba": lib, "/lib/glibc-hwcaps/v4/libb": lib}, 1, "/c/v3/liba /lib/glibc-hwcaps/v4/libb"},
		{"musl", listing{"/x": elfSpec{interp: "/lib/ld-musl-x86_64.so.1", needed: []string{"liba"}}.make(), "/lib/ld-musl-x86_64.so.1": lib, "/lib/glibc-hwcaps/v3/liba": lib, "/lib/liba": lib}, 0, "/lib/liba"},
	} {
		calls := 0
		c, err := newWalker(newDisk(tt.files)).runtime("/x", runtimeOptions{hardware: func() []string { calls++; return []string{"v4", "v3"} }})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var libraries []string
		for _, f := range c.files {
			if strings.HasPrefix(base(f.path), "lib") {
				libraries = append(libraries, f.path)
			}
		}
		if got := strings.Join(libraries, " "); got != tt.want || calls != tt.calls {
			t.Errorf("%s: got %s after %d calls, want %s after %d", tt.name, got, calls, tt.want, tt.calls)
		}
		if _, err := newWalker(newDisk(tt.files)).runtime("/x", runtimeOptions{}); err != nil && tt.calls == 0 {
			t.Errorf("%s: without a function: %v", tt.name, err)
		}
	}
}

// TestRuntimeDirectories follows paths that leave directories again.
func TestRuntimeDirectories(t *testing.T) {
	lib := elfSpec{}.make()
	c, err := newWalker(newDisk(listing{
		"/b/x": "#!/s/t/../env -S y\n", "/s/t/": "", "/s/env": "-> ../e/f/../env", "/e/f/": "", "/e/env": elfSpec{kind: elf.ET_EXEC}.make(),
		"/p/bin/y":  elfSpec{interp: "/ld", needed: []string{"liba", "libb"}, runpath: "$ORIGIN/../none/../lib:$ORIGIN/z/../../lib:/q/../lib"}.make(),
		"/p/bin/z/": "", "/p/lib/liba": lib, "/q/": "", "/lib/libb": lib, "/ld": lib,
	})).runtime("/b/x", runtimeOptions{searchPath: []string{"/p/lib/../bin"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(c.directories, " "), "/e/f /p/bin /p/bin/z /p/lib /q /s /s/t"; got != want {
		t.Errorf("got the directories %s\nwant %s", got, want)
	}
}

// TestRuntimeFlipped lets bits of every file flip: each failure is told as one.
func TestRuntimeFlipped(t *testing.T) {
	whole := listing{
		"/x": "#!/env -S A=b y z\n", "/env": elfSpec{kind: elf.ET_EXEC}.make(),
		"/b/y": elfSpec{interp: "/ld", needed: []string{"liba", "libb"}, rpath: "$ORIGIN/${LIB}:/r"}.make(),
		"/ld":  elfSpec{soname: "ld"}.make(), "/r/liba": elfSpec{needed: []string{"libb", "ld"}, runpath: "/r"}.make(), "/c/libb": elfSpec{}.make(),
		"/etc/ld.so.cache": string(makeCache(binary.LittleEndian, false, "libb /c/libb x64 v3")), "/etc/ld.so.preload": "/c/libb liba",
	}
	random := rand.New(rand.NewPCG(3, 4))
	paths := slices.Sorted(maps.Keys(whole))
	good, bad := 0, 0
	for range 20000 {
		files := newDisk(whole)
		for range 1 + random.IntN(3) {
			file := files.at(paths[random.IntN(len(paths))])
			b := []byte(file.content)
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			file.content = string(b)
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

func ExampleRuntimeError() {
	fmt.Println(&RuntimeError{Path: "libz.so.1", Needed: "/usr/bin/git", Message: "expected a library in /lib:/usr/lib, found none"})
	// Output: libz.so.1, needed by /usr/bin/git: expected a library in /lib:/usr/lib, found none
}
