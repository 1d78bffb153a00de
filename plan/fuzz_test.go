package plan

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// FuzzRuntime has what an executable needs found out when the executable, a library, the
// loader's cache and a script are anything at all: they can come from whom nobody
// trusts. What comes of it is a closure of files that are there, or a RuntimeError.
func FuzzRuntime(f *testing.F) {
	program := elfSpec{interp: "/lib/ld.so", needed: []string{"liba.so", "$ORIGIN/../libb.so"}, runpath: "/lib:$ORIGIN/lib"}.make()
	library := elfSpec{soname: "liba.so", needed: []string{"libc.so.6"}, rpath: "$LIB:/x"}.make()
	other := elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, interp: "/lib/ld-musl-powerpc.so.1", needed: []string{"liba.so"}}.make()
	cache := string(makeCache(binary.LittleEndian, false, "liba.so /lib/liba.so x64", "libc.so.6 /lib/libc.so.6 x64 x86-64-v3"))
	for _, seed := range []string{program, library, other, "", "\x7fELF", "#!/bin/env -S -i A=b liba.so\n", "#!/x\n", "#! /lib/ld.so \x00y"} {
		f.Add([]byte(seed), []byte(library), []byte(cache))
	}
	f.Add([]byte(program), []byte("#!/bin/env x"), []byte("glibc-ld.so.cache1.1"))
	f.Add([]byte(program), []byte(other), []byte("ld.so-1.7.0\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, executable, library, cache []byte) {
		files := newDisk(listing{
			"/x": "", "/lib/liba.so": "", "/etc/ld.so.cache": "", "/lib/ld.so": program, "/bin/env": program, "/lib/libc.so.6": elfSpec{soname: "libc.so.6"}.make(),
		})
		files.at("/x").content, files.at("/lib/liba.so").content, files.at("/etc/ld.so.cache").content = string(executable), string(library), string(cache)
		w := newWalker(files)
		c, err := w.runtime("/x", runtimeOptions{searchPath: []string{"/bin", "/lib", ""}, hardware: func() []string { return []string{"x86-64-v3"} }})
		var fault *RuntimeError
		switch {
		case err != nil && (!errors.As(err, &fault) || fault.Message == ""):
			t.Fatalf("%v is no RuntimeError that says something", err)
		case err != nil:
			return
		}
		for i, file := range c.files {
			found, err := w.resolve(file.path)
			if err != nil || found.path != file.path || found.entry.Identity != file.entry.Identity || file.why == "" || strings.Contains(file.path, "..") {
				t.Fatalf("%+v is not a file without links that is there (%v)", file, err)
			}
			if i > 0 && c.files[i-1].path >= file.path {
				t.Fatalf("%q and %q are out of order", c.files[i-1].path, file.path)
			}
		}
	})
}
