//go:build linux && (amd64 || arm64)

package warden_test

import (
	"encoding/json"
	"os"
	"syscall"
	"testing"

	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/warden"
)

// calls are system calls with arguments that do no harm where they are not refused, and
// what they answer where they are.
var calls = map[string]struct {
	number, a, b uintptr
	refused      syscall.Errno
}{
	"unshare":            {syscall.SYS_UNSHARE, syscall.CLONE_NEWUSER, 0, syscall.EPERM},
	"mount":              {syscall.SYS_MOUNT, 0, 0, syscall.EPERM},
	"umount2":            {syscall.SYS_UMOUNT2, 0, 0, syscall.EPERM},
	"pivot_root":         {syscall.SYS_PIVOT_ROOT, 0, 0, syscall.EPERM},
	"chroot":             {syscall.SYS_CHROOT, 0, 0, syscall.EPERM},
	"open_tree":          {428, ^uintptr(99), 0, syscall.EPERM},
	"move_mount":         {429, ^uintptr(99), 0, syscall.EPERM},
	"fsopen":             {430, 0, 0, syscall.EPERM},
	"mount_setattr":      {442, ^uintptr(99), 0, syscall.EPERM},
	"setns":              {setns, ^uintptr(99), 0, syscall.EPERM},
	"bpf":                {bpf, 999, 0, syscall.EPERM},
	"perf_event_open":    {syscall.SYS_PERF_EVENT_OPEN, 0, 0, syscall.EPERM},
	"userfaultfd":        {userfaultfd, 0xffff, 0, syscall.EPERM},
	"io_uring_setup":     {425, 0, 0, syscall.EPERM},
	"io_uring_enter":     {426, ^uintptr(99), 0, syscall.EPERM},
	"add_key":            {syscall.SYS_ADD_KEY, 0, 0, syscall.EPERM},
	"keyctl":             {syscall.SYS_KEYCTL, 999, 0, syscall.EPERM},
	"finit_module":       {finitModule, ^uintptr(99), 0, syscall.EPERM},
	"syslog":             {syscall.SYS_SYSLOG, 999, 0, syscall.EPERM},
	"open_by_handle_at":  {openByHandleAt, ^uintptr(99), 0, syscall.EPERM},
	"clone3":             {435, 0, 0, syscall.ENOSYS},
	"clone of namespace": {syscall.SYS_CLONE, syscall.CLONE_NEWUSER | syscall.CLONE_FS, 0, syscall.EPERM}, // a pair that is invalid
	"TIOCSTI":            {syscall.SYS_IOCTL, 0, syscall.TIOCSTI, syscall.EPERM},
	"TIOCSTI in 64 bits": {syscall.SYS_IOCTL, 0, 1<<40 | syscall.TIOCSTI, syscall.EPERM},
	"TIOCLINUX":          {syscall.SYS_IOCTL, 0, 0x541c, syscall.EPERM},
	"TIOCSETD":           {syscall.SYS_IOCTL, 0, 0x5423, syscall.EPERM},
	"AF_VSOCK":           {syscall.SYS_SOCKET, 40, 0xff, syscall.EAFNOSUPPORT},
	"AF_PACKET":          {syscall.SYS_SOCKET, syscall.AF_PACKET, 0xff, syscall.EAFNOSUPPORT},
	"AF_ALG":             {syscall.SYS_SOCKET, 38, 0xff, syscall.EAFNOSUPPORT},
	"AF_BLUETOOTH":       {syscall.SYS_SOCKET, 31, 0xff, syscall.EAFNOSUPPORT},
}

// permitted are system calls that go on working.
var permitted = map[string][3]uintptr{
	"AF_UNIX":    {syscall.SYS_SOCKET, syscall.AF_UNIX, syscall.SOCK_STREAM},
	"AF_INET":    {syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_STREAM},
	"AF_INET6":   {syscall.SYS_SOCKET, syscall.AF_INET6, syscall.SOCK_DGRAM},
	"AF_NETLINK": {syscall.SYS_SOCKET, syscall.AF_NETLINK, syscall.SOCK_RAW},
	"getpid":     {syscall.SYS_GETPID, 0, 0},
	"umask":      {syscall.SYS_UMASK, 0o22, 0},
}

// answers makes every call.
func answers() map[string]syscall.Errno {
	all := map[string]syscall.Errno{}
	for name, c := range calls {
		_, _, all[name] = syscall.Syscall(c.number, c.a, c.b, 0)
	}
	for name, c := range permitted {
		fd, _, errno := syscall.Syscall(c[0], c[1], c[2], 0)
		if all[name] = errno; errno == 0 && c[0] == syscall.SYS_SOCKET {
			syscall.Close(int(fd))
		}
	}
	return all
}

func printCalls() int {
	if json.NewEncoder(os.Stdout).Encode(answers()) != nil {
		return 1
	}
	return 0
}

// TestCalls makes system calls that reach around the other layers, inside and, as the
// control, outside.
func TestCalls(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "calls")
	b := newBox(t, project(t), "write tree workspace:", "read exact host:"+program)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	receipt, err := warden.Run(t.Context(), b.plan, warden.Command{Path: program, Args: []string{"calls"}, Dir: "/", Stdout: in, Stderr: os.Stderr})
	in.Close()
	if err != nil || receipt.Status != 0 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	var inside map[string]syscall.Errno
	if err := json.NewDecoder(out).Decode(&inside); err != nil {
		t.Fatal(err)
	}
	outside := answers()
	asRoot := os.Geteuid() == 0
	for name, c := range calls {
		if inside[name] != c.refused {
			t.Errorf("%s inside: %v, want %v", name, inside[name], c.refused)
		}
		if asRoot && outside[name] == c.refused {
			t.Errorf("%s outside: %v too: the test shows nothing", name, outside[name])
		}
	}
	for name := range permitted {
		if inside[name] != 0 {
			t.Errorf("%s inside: %v", name, inside[name])
		}
	}
}
