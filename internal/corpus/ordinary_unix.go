//go:build unix

package corpus

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Nobody is a user and a group that own nothing.
const Nobody = 65534

// folderVariable says where the cases are, for a copy of tests elsewhere.
const folderVariable = "MAELYS_CORPUS"

// Folder returns where the cases are, as seen from a folder beside that of plan.
func Folder() string { return cmp.Or(os.Getenv(folderVariable), "../plan/testdata/corpus") }

// Scratch returns an empty directory without links in its path, and not below /tmp,
// where the sandbox may have a directory of its own.
func Scratch(t testing.TB) string {
	t.Helper()
	t.Setenv("TMPDIR", "/var/tmp")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// CopyOfTests copies the program that runs these tests, under another name, to a
// directory that everybody may enter. The copy needs no other file to be started: where this
// one does, because package net is linked to the resolver of C, another is built.
func CopyOfTests(t testing.TB, name string) string {
	t.Helper()
	dir := Scratch(t)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := static()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + "/" + name
}

// static returns a program that runs these tests and needs no other file.
var static = sync.OnceValues(func() ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(exe)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return os.ReadFile(exe)
	}
	dir, err := os.MkdirTemp("", "maelys-static")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	built := exec.Command("go", "test", "-c", "-o", dir+"/static.test", ".")
	built.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := built.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the tests without C: %w\n%s", err, out)
	}
	return os.ReadFile(dir + "/static.test")
})

// AsOrdinaryUser runs the tests of this program again as a user who owns nothing, when
// they run as root, and looks whether those of some names have passed.
func AsOrdinaryUser(t *testing.T, passed ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return // they run so already
	}
	program := CopyOfTests(t, "copy.test")
	dir := filepath.Dir(program)
	if err := os.CopyFS(dir+"/corpus", os.DirFS(Folder())); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), folderVariable+"="+dir+"/corpus")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Nobody, Gid: Nobody}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, name := range passed {
		if !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			t.Errorf("%s did not run\n%s", name, &out)
		}
	}
}
