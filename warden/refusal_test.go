//go:build linux && (amd64 || arm64)

package warden_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/internal/corpus"
)

// TestMissingCalls takes from a launch each system call that it makes, as an old kernel, a
// container or another sandbox does: it says which, runs nothing and leaves nothing.
func TestMissingCalls(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "launcher")
	dir := project(t, "secret=hidden")
	before := look(t, dir, program)
	const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID // that the child is forked into
	for _, tt := range []struct {
		name  string
		call  uintptr
		errno syscall.Errno
		where []uint32 // argument, value
		said  string
	}{
		{"clone of namespaces", syscall.SYS_CLONE, syscall.EPERM, []uint32{0, namespaces | uint32(syscall.SIGCHLD)}, "failed: making namespaces: clone: operation not permitted"},
		{"clone when there are too many processes", syscall.SYS_CLONE, syscall.EAGAIN, []uint32{0, namespaces | uint32(syscall.SIGCHLD)}, "failed: making namespaces: clone: resource temporarily unavailable"},
		{"unshare", syscall.SYS_UNSHARE, syscall.EPERM, nil, "failed: making namespaces: unshare: operation not permitted"},
		{"close_range", 436, syscall.ENOSYS, nil, "failed: handing over descriptors: close_range: function not implemented"},
		{"dup3", syscall.SYS_DUP3, syscall.EBADF, nil, "failed: handing over descriptors: dup3: bad file descriptor"},
		{"socket", syscall.SYS_SOCKET, syscall.EAFNOSUPPORT, nil, "failed: preparing the namespaces: socket: "},
		{"ioctl", syscall.SYS_IOCTL, syscall.EPERM, nil, "failed: preparing the namespaces: ioctl: "},
		{"the address of a range", syscall.SYS_IOCTL, syscall.EPERM, []uint32{1, syscall.SIOCSIFADDR}, "failed: listening for destinations: ioctl: operation not permitted"},
		{"bind", syscall.SYS_BIND, syscall.EADDRINUSE, nil, "failed: listening for destinations: bind: address already in use"},
		{"listen", syscall.SYS_LISTEN, syscall.EADDRINUSE, nil, "failed: listening for destinations: listen: address already in use"},
		{"sendmsg", syscall.SYS_SENDMSG, syscall.ENOBUFS, nil, "failed: listening for destinations: sendmsg: no buffer space available"},
		{"a file of names", syscall.SYS_OPENAT, syscall.ENOSPC, []uint32{2, syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_CLOEXEC}, "failed: making the root: openat: no space left on device"},
		{"ppoll", sysPpoll, syscall.ENOMEM, nil, "failed: running the init of the command: : ppoll: cannot allocate memory"},
		{"landlock_create_ruleset", 444, syscall.ENOSYS, nil, "refused: warden: refused before the launch: fs-read: the kernel has no Landlock"},
		{"Landlock turned off", 444, syscall.EOPNOTSUPP, nil, "refused: warden: refused before the launch: fs-read: Landlock is built into the kernel and not turned on"},
		{"a ruleset", 444, syscall.ENOMEM, []uint32{2, 0}, "failed: making the root: landlock_create_ruleset: cannot allocate memory"},
		{"mount", syscall.SYS_MOUNT, syscall.EACCES, nil, "failed: preparing the namespaces: mount: permission denied"},
		{"fsopen", 430, syscall.ENOSYS, nil, "failed: making the root: fsopen: function not implemented"},
		{"fsconfig", 431, syscall.EPERM, nil, "failed: making the root: fsconfig: operation not permitted"},
		{"fsmount", 432, syscall.ENOSPC, nil, "failed: making the root: fsmount: no space left on device"},
		{"open_tree", 428, syscall.ENOSYS, nil, "failed: making the root: open_tree: function not implemented"},
		{"mount_setattr", 442, syscall.ENOSYS, nil, "failed: making the root: mount_setattr: function not implemented"},
		{"move_mount", 429, syscall.ENOSPC, nil, "failed: making the root: move_mount: no space left on device"},
		{"openat2", 437, syscall.ENOSYS, nil, "failed: making the root: openat2: function not implemented"},
		{"mkdirat", syscall.SYS_MKDIRAT, syscall.ENOSPC, nil, "failed: making the root: mkdirat: no space left on device"},
		{"mknodat", syscall.SYS_MKNODAT, syscall.ENOSPC, nil, "failed: making the root: mknodat: no space left on device"},
		{"symlinkat", syscall.SYS_SYMLINKAT, syscall.ENOSPC, nil, "failed: making the root: symlinkat: no space left on device"},
		{"landlock_add_rule", 445, syscall.ENOMEM, nil, "failed: making the root: landlock_add_rule: cannot allocate memory"},
		{"pivot_root", syscall.SYS_PIVOT_ROOT, syscall.EINVAL, nil, "failed: entering the root: pivot_root: invalid argument"},
		{"umount2", syscall.SYS_UMOUNT2, syscall.EPERM, nil, "failed: entering the root: umount2: operation not permitted"},
		{"PR_SET_DUMPABLE", syscall.SYS_PRCTL, syscall.EPERM, []uint32{0, 4}, "failed: giving up capabilities: prctl: "},
		{"PR_CAPBSET_DROP", syscall.SYS_PRCTL, syscall.EPERM, []uint32{0, 24}, "failed: giving up capabilities: prctl: "},
		{"PR_SET_NO_NEW_PRIVS", syscall.SYS_PRCTL, syscall.EPERM, []uint32{0, 38}, "failed: giving up capabilities: prctl: "},
		{"capset", syscall.SYS_CAPSET, syscall.EPERM, nil, "failed: giving up capabilities: capset: "},
		{"fork", syscall.SYS_CLONE, syscall.EAGAIN, []uint32{0, syscall.CLONE_VFORK | syscall.CLONE_VM | uint32(syscall.SIGCHLD)}, "failed: becoming the init: fork: resource temporarily unavailable"},
		{"signalfd4", syscall.SYS_SIGNALFD4, syscall.EMFILE, nil, "failed: running the init of the command: "},
		{"landlock_restrict_self", 446, syscall.E2BIG, nil, "failed: confining by Landlock: landlock_restrict_self: argument list too long"},
		{"chdir", syscall.SYS_CHDIR, syscall.EACCES, nil, "failed: entering the root: chdir: permission denied"},
		{"prlimit64", syscall.SYS_PRLIMIT64, syscall.EPERM, nil, "failed: going to the directory: prlimit64: "},
		{"seccomp", sysSeccomp, syscall.ENOMEM, nil, "failed: refusing system calls: seccomp: cannot allocate memory"},
		{"execve", syscall.SYS_EXECVE, syscall.EACCES, nil, "failed: starting the command: execve: permission denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			what := fmt.Sprintf("fail=%d,%d", tt.call, tt.errno)
			if tt.where != nil {
				what += fmt.Sprintf(",%d,%d", tt.where[0], tt.where[1])
			}
			said := limited(t, program, dir, nil, what, "destinations=3")
			// The init may be gone before or after the command has said something.
			ran := strings.Contains(said, "ran\n") && tt.name != "signalfd4" && tt.name != "ppoll"
			if !strings.Contains(said, tt.said) || ran {
				t.Errorf("it said %q, want %q", said, tt.said)
			}
			before.same(t, dir, program, tt.name)
		})
	}
	if said := limited(t, program, dir, nil, "destinations=3"); said != "ran\nexited: 0\n" { // the control
		t.Errorf("with everything it said %q", said)
	}
	if text, err := os.ReadFile(dir + "/secret"); err != nil || string(text) != "hidden" {
		t.Errorf("the denied file holds %q (%v)", text, err)
	}
}
