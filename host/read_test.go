//go:build linux && (amd64 || arm64)

package host_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/linux"
)

const childVariable = "MAELYS_HOST_CHILD" // what a copy of these tests is to do

func TestMain(m *testing.M) {
	what := os.Getenv(childVariable)
	if what == "" {
		os.Exit(m.Run())
	}
	if err := beChild(what); err != nil {
		fmt.Println("child:", err)
		os.Exit(1)
	}
}

// beChild does one thing to this process, and prints what Read then finds.
func beChild(what string) error {
	what, argument, _ := strings.Cut(what, " ")
	switch what {
	case "limit": // in a user namespace the setting is that namespace's own
		if err := os.WriteFile("/proc/sys/user/"+argument, []byte("0"), 0); err != nil {
			return err
		}
	case "filter":
		return perform("facts", func(p *linux.Program) error {
			err := p.Renounce(os.Geteuid() == 0)
			p.StayBehind()
			return errors.Join(err, p.RefuseCalls(linux.Surroundings{Scoped: true}))
		})
	case "cover":
		if argument != "" {
			if err := syscall.Mount("none", argument, "tmpfs", 0, ""); err != nil {
				return err
			}
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childVariable+"=mount")
		cmd.SysProcAttr = inside(syscall.CLONE_NEWNS | syscall.CLONE_NEWPID)
		out, err := cmd.CombinedOutput()
		fmt.Printf("mounted: %v\n", err == nil)
		fmt.Printf("expected: %v\n%s", host.Read().Proc == nil, out)
	case "mount":
		return perform("nothing", func(p *linux.Program) error {
			p.New("proc", linux.ReadOnly)
			p.StayBehind()
			return nil
		})
	case "nothing":
		return nil
	}
	f := host.Read()
	fmt.Printf("mount calls: %v\n", f.MountCalls)
	for _, a := range f.Abilities(host.Namespaces) {
		fmt.Printf("%s: %s; %s\n", a.Capability, a.Reason, a.Fix)
	}
	return nil
}

// perform has a child make calls and become these tests again, to do one thing.
func perform(what string, calls func(*linux.Program) error) error {
	if err := os.Setenv(childVariable, what); err != nil {
		return err
	}
	p, err := linux.NewProgram()
	if err != nil {
		return err
	}
	p.Step("preparing")
	if err := calls(p); err != nil {
		return err
	}
	p.Exec("/proc/self/exe", os.Args[:1], os.Environ())
	runtime.LockOSThread()
	if err := errors.Join(p.Start(0, nil), p.Go()); err != nil {
		return err
	}
	for {
		switch event, err := p.Next(); e := event.(type) {
		case linux.Failed:
			return e.Err
		case linux.Ended:
			_, err := p.Wait()
			if e.Status != 0 {
				err = errors.Join(err, fmt.Errorf("status %d", e.Status))
			}
			return err
		case linux.Stopped, linux.Continued:
		case nil:
			return err
		}
	}
}

// inside returns how to start a program in a user namespace of its own, and in others.
func inside(others uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | others,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
}

// child returns what a copy of these tests prints.
func child(t *testing.T, what string, attr *syscall.SysProcAttr) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"="+what)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// mustBeAble skips a test that this host cannot run, and fails it where nothing may be
// skipped.
func mustBeAble(t *testing.T) {
	t.Helper()
	for _, a := range host.Read().Abilities(host.Namespaces) {
		if a.Holds() {
			continue
		}
		if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
			t.Fatalf("MAELYS_REQUIRE_ALL=1: nothing to take away: %s", a.Reason)
		}
		t.Skipf("nothing to take away: %s", a.Reason)
	}
}

// TestReadNamesDenials takes from a child what namespaces need, one thing at a time.
func TestReadNamesDenials(t *testing.T) {
	mustBeAble(t)
	private := inside(syscall.CLONE_NEWNS)
	for _, tt := range []struct {
		what  string
		attr  *syscall.SysProcAttr
		lines []string
	}{
		{"facts", inside(0), []string{"mount calls: <nil>\n", "fs-read: ; \n", "process-tree: ; \n"}},
		{"limit max_user_namespaces", inside(0), []string{"fs-read: user namespaces are turned off by user.max_user_namespaces; sysctl -w user.max_user_namespaces=15000\n"}},
		{"limit max_net_namespaces", inside(0), []string{"fs-read: ; \n", "network-none: network namespaces cannot be made: no space left on device; sysctl -w user.max_net_namespaces="}},
		{"limit max_pid_namespaces", inside(0), []string{"fs-read: ; \n", "process-tree: process ID namespaces cannot be made: no space left on device; sysctl -w user.max_pid_namespaces="}},
		{"limit max_mnt_namespaces", inside(0), []string{"fs-read: mounts in a namespace cannot be changed: no space left on device; sysctl -w user.max_mnt_namespaces="}},
		{"limit max_uts_namespaces", inside(0), []string{"fs-read: IPC, UTS and cgroup namespaces cannot be made: no space left on device; sysctl -w user.max_ipc_namespaces="}},
		{"filter", nil, []string{"mount calls: operation not permitted\n", "fs-read: user namespaces cannot be made: operation not permitted; a seccomp filter is around this process"}},
		{"cover /proc/sys", private, []string{"fs-read: a /proc of the command's own cannot be mounted: something is mounted over /proc/sys; unmount"}},
	} {
		out := child(t, tt.what, tt.attr)
		for _, line := range tt.lines {
			if !strings.Contains(out, line) {
				t.Errorf("%s: %q is not in\n%s", tt.what, line, out)
			}
		}
	}
}

// TestProcAgrees compares what Read says of a procfs with mounting one.
func TestProcAgrees(t *testing.T) {
	mustBeAble(t)
	answers := map[bool]int{}
	for _, over := range []string{"", "/proc/sys", "/proc/sys/fs", "/proc/sys/fs/binfmt_misc", "/proc/fs", "/proc/fs/nfsd", "/proc/xen", "/sys", "/tmp"} {
		if _, err := os.Lstat(over); over != "" && err != nil {
			continue // not in every kernel
		}
		out := child(t, "cover "+over, inside(syscall.CLONE_NEWNS))
		mounted := strings.Contains(out, "mounted: true")
		answers[mounted]++
		if !strings.Contains(out, fmt.Sprintf("expected: %v", mounted)) {
			t.Errorf("covered at %q:\n%s", over, out)
		}
	}
	if answers[true] == 0 || answers[false] == 0 {
		t.Errorf("only one of the answers was seen: %v", answers)
	}
}
