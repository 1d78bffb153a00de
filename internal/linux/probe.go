//go:build linux

package linux

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Release returns what uname(2) says of the kernel's release, such as 6.12.1.
func Release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// LandlockABI returns the version of Landlock that is in force, at least 1. The error
// is ENOSYS where the kernel has none, and EOPNOTSUPP where it was not turned on at
// boot (landlock_create_ruleset(2), Linux 5.13).
func LandlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// SeccompFilter returns why seccomp(2) could not kill a process for a system call, if
// it could not (SECCOMP_GET_ACTION_AVAIL, Linux 4.14).
func SeccompFilter() error {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errno
	}
	return nil
}

// MountCalls returns why the calls that make and change mounts by descriptors cannot be
// used, if they cannot. mount_setattr(2), Linux 5.12, came last of them: it looks at its
// flags first, so that wrong ones are refused with EINVAL where nothing else is wrong.
func MountCalls() error {
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 1<<31, 0, 0, 0)
	if errno != unix.EINVAL {
		return errno
	}
	return nil
}

// The kinds of namespaces (namespaces(7)).
const (
	NamespaceUser   = syscall.CLONE_NEWUSER
	NamespaceMount  = syscall.CLONE_NEWNS
	NamespacePID    = syscall.CLONE_NEWPID
	NamespaceNet    = syscall.CLONE_NEWNET
	NamespaceIPC    = syscall.CLONE_NEWIPC
	NamespaceUTS    = syscall.CLONE_NEWUTS
	NamespaceCgroup = syscall.CLONE_NEWCGROUP
)

// notAProgram can be started by nobody, since a file is no directory: ENOTDIR says that
// a child came as far as execve(2).
const notAProgram = "/proc/self/exe/"

// ProbeNamespaces returns why a child could not be put into new namespaces of some
// kinds beneath a user namespace of its own, with root mapped to this process's user,
// if it could not. With NamespaceMount it also makes a change to the mounts of its own,
// which some hosts forbid although the namespace can be made. The child starts no
// program and is gone when ProbeNamespaces returns.
func ProbeNamespaces(kinds uintptr) error {
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  NamespaceUser | kinds&^NamespaceMount,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		// The standard library makes / private after it has unshared the mounts.
		Unshareflags: kinds & NamespaceMount,
	}}
	_, err := syscall.ForkExec(notAProgram, []string{"probe"}, attr)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}
