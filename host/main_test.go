//go:build linux

package host_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user and a group that own nothing.
const nobody = 65534

// unavailable skips a test that this host cannot run, and fails it where nothing may
// be skipped.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatalf("MAELYS_REQUIRE_ALL=1: "+format, args...)
	}
	t.Skipf(format, args...)
}

// scratch returns an empty directory without links in its path, and not below /tmp,
// where the sandbox may have a directory of its own.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "maelys-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil && entry != nil && entry.IsDir() {
				_ = os.Chmod(path, 0o700) // what a test has locked
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// TestAsOrdinaryUser runs the other tests again as a user who owns nothing, when they
// run as root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // they do so already
	}
	dir := scratch(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	copied, err := os.OpenFile(dir+"/host.test", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(copied, exe); err != nil {
		t.Fatal(err)
	}
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir+"/corpus", os.DirFS(corpusFolder())); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/host.test", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), corpusVariable+"="+dir+"/corpus")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, name := range []string{"TestCorpus/locked-parent", "TestFilesystem", "TestChanged"} {
		if !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			t.Errorf("%s did not run\n%s", name, &out)
		}
	}
}
