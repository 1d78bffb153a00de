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

// scratch returns an empty directory without links in its path, and not below /tmp,
// where the sandbox may have a directory of its own.
func scratch(t testing.TB) string {
	t.Helper()
	t.Setenv("TMPDIR", "/var/tmp")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAsOrdinaryUser runs the other tests again as a user who owns nothing, when they
// run as root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // they do so already
	}
	dir := scratch(t)
	for _, above := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
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
	for _, name := range []string{"TestCorpus/locked-parent", "TestFilesystem", "TestChanged", "TestReadNamesDenials", "TestProcAgrees"} {
		if !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			t.Errorf("%s did not run\n%s", name, &out)
		}
	}
}
