//go:build linux && (amd64 || arm64)

package linux

import "golang.org/x/sys/unix"

// name returns what the manual calls a call of a program.
func (c *call) name() string {
	switch c.number {
	case unix.SYS_BIND:
		return "bind"
	case unix.SYS_CAPSET:
		return "capset"
	case unix.SYS_CHDIR:
		return "chdir"
	case unix.SYS_CLOSE:
		return "close"
	case unix.SYS_CLOSE_RANGE:
		return "close_range"
	case unix.SYS_DUP3:
		return "dup3"
	case unix.SYS_EXECVE:
		return "execve"
	case unix.SYS_FCHDIR:
		return "fchdir"
	case unix.SYS_FCNTL:
		return "fcntl"
	case unix.SYS_FSCONFIG:
		return "fsconfig"
	case unix.SYS_FSMOUNT:
		return "fsmount"
	case unix.SYS_FSOPEN:
		return "fsopen"
	case unix.SYS_FSTAT:
		return "fstat"
	case unix.SYS_IOCTL:
		return "ioctl"
	case unix.SYS_LANDLOCK_CREATE_RULESET:
		return "landlock_create_ruleset"
	case unix.SYS_LANDLOCK_RESTRICT_SELF:
		return "landlock_restrict_self"
	case unix.SYS_LISTEN:
		return "listen"
	case unix.SYS_MKDIRAT:
		return "mkdirat"
	case unix.SYS_MKNODAT:
		return "mknodat"
	case unix.SYS_MOUNT:
		return "mount"
	case unix.SYS_MOUNT_SETATTR:
		return "mount_setattr"
	case unix.SYS_MOVE_MOUNT:
		return "move_mount"
	case unix.SYS_OPENAT:
		return "openat"
	case unix.SYS_OPENAT2:
		return "openat2"
	case unix.SYS_OPEN_TREE:
		return "open_tree"
	case unix.SYS_PIVOT_ROOT:
		return "pivot_root"
	case unix.SYS_PRCTL:
		return "prctl"
	case unix.SYS_PRLIMIT64:
		return "prlimit64"
	case unix.SYS_RT_SIGPROCMASK:
		return "rt_sigprocmask"
	case unix.SYS_SECCOMP:
		return "seccomp"
	case unix.SYS_SOCKET:
		return "socket"
	case unix.SYS_SYMLINKAT:
		return "symlinkat"
	case unix.SYS_UMASK:
		return "umask"
	case unix.SYS_UMOUNT2:
		return "umount2"
	case unix.SYS_UNSHARE:
		return "unshare"
	case doMatch:
		return "comparing it with what was resolved"
	case doSame:
		return "comparing the root with what is above it"
	case doControl:
		return "moving the control socket"
	case doGrant:
		return "landlock_add_rule"
	case doWritten:
		return "write"
	case doStore:
		return "noting a descriptor"
	case doTell:
		return "sendmsg"
	case doFork:
		return "fork"
	}
	return "an unknown call"
}
