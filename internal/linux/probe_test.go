//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"maelys.dev/maelys/internal/corpus"
)

const child = "MAELYS_PROBE_CHILD" // what a copy of these tests is to do

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
		os.Exit(m.Run())
	case "probe":
	case "program":
		report(program().Run())
	case "turned off":
		// In a user namespace the setting is that namespace's own.
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			report(err)
		}
	case "confined":
		confined()
	case "dialing":
		dial(os.Args[1:])
		return
	case "filtered":
		if err := refuse(unix.SYS_UNSHARE); err != nil {
			report(err)
		}
	case "mounts filtered":
		if err := refuse(unix.SYS_MOUNT_SETATTR); err != nil {
			report(err)
		}
		report(MountCalls())
	}
	report(ProbeNamespaces(NamespaceMount | NamespacePID | NamespaceNet | NamespaceIPC | NamespaceUTS | NamespaceCgroup))
}

// report ends a child with the number of an error, or with 0.
func report(err error) {
	if err == nil {
		os.Exit(0)
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		os.Exit(255)
	}
	os.Exit(int(errno))
}

// refuse makes one system call fail with EPERM in this thread and its children.
func refuse(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return installFilter(filter)
}

// as returns a copy of this test as a child that does one thing, as nobody where
// ordinary and in a user namespace of its own where inside.
func as(t *testing.T, what string, ordinary, inside bool) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), child+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if ordinary && os.Geteuid() == 0 {
		// The folder of the test binary may be root's alone.
		cmd.Path = corpus.CopyOfTests(t, "linux.test")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: corpus.Nobody, Gid: corpus.Nobody}
	}
	if inside {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func status(t *testing.T, cmd *exec.Cmd) syscall.Errno {
	t.Helper()
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return syscall.Errno(exit.ExitCode())
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// unavailable skips a test that this host cannot run, and fails it where nothing may
// be skipped.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatalf("MAELYS_REQUIRE_ALL=1: "+format, args...)
	}
	t.Skipf(format, args...)
}

// TestProbeAgrees compares the probe with a real program in such namespaces.
func TestProbeAgrees(t *testing.T) {
	for name, ordinary := range map[string]bool{"as we are": false, "as an ordinary user": true} {
		t.Run(name, func(t *testing.T) {
			want := status(t, as(t, "program", ordinary, false))
			if got := status(t, as(t, "probe", ordinary, false)); got != want {
				t.Errorf("the probe says %v, and starting a program %v", got, want)
			}
		})
	}
}

// program returns a program in namespaces of every kind.
func program() *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP,
		Unshareflags: syscall.CLONE_NEWNS,
		UidMappings:  []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings:  []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	return cmd
}

// TestProbeSeesRefusals turns namespaces off in a user namespace, and has seccomp
// refuse them.
func TestProbeSeesRefusals(t *testing.T) {
	if err := ProbeNamespaces(NamespaceMount); err != nil {
		unavailable(t, "there are no user namespaces to turn off: %v", err)
	}
	if got := status(t, as(t, "probe", false, true)); got != 0 {
		t.Errorf("in a user namespace: %v, want none", got)
	}
	if got := status(t, as(t, "turned off", false, true)); got != syscall.ENOSPC {
		t.Errorf("where they are turned off: %v, want %v", got, syscall.ENOSPC)
	}
	if got := status(t, as(t, "mounts filtered", false, false)); got != syscall.EPERM {
		t.Errorf("where seccomp refuses mounts: %v, want %v", got, syscall.EPERM)
	}
	if got := status(t, as(t, "filtered", false, false)); got != syscall.EPERM {
		t.Errorf("where seccomp refuses: %v, want %v", got, syscall.EPERM)
	}
}

// confined ends a confined child with a number for each thing that Landlock should forbid
// and does not, or does forbid and should not.
func confined() {
	abi, err := LandlockABI()
	if err != nil {
		report(err)
	}
	dir := os.Getenv("MAELYS_PROBE_DIR")
	open := func(name string, flags int) bool {
		file, err := os.OpenFile(dir+name, flags, 0o600)
		if err != nil {
			return false
		}
		return file.Close() == nil
	}
	for i, wrong := range []bool{
		open("/none", os.O_RDONLY), !open("/read/f", os.O_RDONLY), open("/read/f", os.O_WRONLY), open("/read/new", os.O_CREATE|os.O_WRONLY),
		!open("/write/f", os.O_RDWR|os.O_TRUNC), !open("/write/new", os.O_CREATE|os.O_WRONLY), !open("/file", os.O_RDWR), open("/new", os.O_CREATE|os.O_WRONLY),
		os.Rename(dir+"/read/f", dir+"/write/g") == nil, syscall.Kill(os.Getppid(), 0) == nil && abi >= LandlockScopes,
	} {
		if wrong {
			os.Exit(102 + i)
		}
	}
	os.Exit(0)
}

// perform runs a program that ends with this test as a child that does one thing, and
// returns its status.
func perform(t *testing.T, p *Program, what string, env ...string) syscall.WaitStatus {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.Step("starting")
	p.Exec(exe, []string{exe}, append(os.Environ(), append(env, child+"="+what)...))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := errors.Join(p.Start(0, nil), p.Go()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for {
		event, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case Failed:
			t.Fatalf("%+v", e)
		case Ended:
			return e.Status
		case Stopped, Continued:
		}
	}
}

// TestConfine grants a child some files.
func TestConfine(t *testing.T) {
	if _, err := LandlockABI(); err != nil {
		unavailable(t, "there is no Landlock: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"/read", "/write"} {
		if err := os.Mkdir(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/none", "/file", "/read/f", "/write/f"} {
		if err := os.WriteFile(dir+name, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	abi, _ := LandlockABI()
	p, err := NewProgram()
	if err != nil {
		t.Fatal(err)
	}
	p.Step("confining")
	rules := p.Ruleset(abi, true)
	for path, rights := range map[string]Rights{"/read": ReadBeneath, "/write": WriteBeneath, "/file": WriteFile} {
		p.PermitPath(rules, dir+path, identityOf(t, dir+path), rights)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{exe, "/proc", "/dev", "/usr", "/sys", "/etc"} {
		p.PermitPath(rules, path, identityOf(t, path), ReadFile)
	}
	if err := p.Renounce(os.Geteuid() == 0); err != nil {
		t.Fatal(err)
	}
	p.StayBehind()
	p.Restrict(rules)
	if got := perform(t, p, "confined", "MAELYS_PROBE_DIR="+dir); got != 0 {
		t.Errorf("the child ended with %d", got.ExitStatus())
	}
}

func identityOf(t *testing.T, path string) Identity {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return NewIdentity(st.Dev, st.Ino, info.Mode().Type())
}

// TestProbeLeavesNothing counts children and namespaces before and after.
func TestProbeLeavesNothing(t *testing.T) {
	before := mounts(t)
	for range 20 {
		_ = ProbeNamespaces(NamespaceMount | NamespacePID)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
	if after := mounts(t); after != before {
		t.Errorf("the mounts have changed:\n%s\n%s", before, after)
	}
}

func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFacts(t *testing.T) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || Release() != strings.TrimSpace(string(release)) {
		t.Errorf("release %q, want %q (%v)", Release(), release, err)
	}
	lsm, _ := os.ReadFile("/sys/kernel/security/lsm")
	abi, err := LandlockABI()
	if (abi > 0) != (err == nil) {
		t.Errorf("Landlock %d, %v", abi, err)
	}
	if len(lsm) > 0 && (abi > 0) != strings.Contains(string(lsm), "landlock") {
		t.Errorf("Landlock %d (%v), and the security modules are %s", abi, err, lsm)
	}
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err == nil && strings.Contains(string(actions), "kill_process") != (SeccompFilter() == nil) {
		t.Errorf("seccomp: %v, and the kernel has %s", SeccompFilter(), actions)
	}
	text, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if n, _ := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n == 0 && ProbeNamespaces(0) == nil {
		t.Error("user namespaces are turned off, and the probe has made one")
	}
}
