//go:build linux

package linux

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Grant is what Landlock permits at a path, and beneath it when it is a directory.
type Grant struct {
	Path      string
	Writable  bool
	Directory bool
}

// Rights on files (landlock(7)); those of later versions are left out on kernels that do
// not know them.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights  = readRights&^unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	firstRights = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
)

// handled returns the rights that a version of Landlock knows.
func handled(abi int) (files, scopes uint64) {
	files = firstRights
	for _, right := range []struct {
		since int
		right uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi >= right.since {
			files |= right.right
		}
	}
	if abi >= 6 {
		scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return files, scopes
}

// Confine has Landlock permit, for this thread and what it starts, the grants and nothing
// else on files; from version 6 on also no signals to and no abstract sockets of
// processes that are not confined along with it. The thread must be unable to gain
// rights, as after [Renounce].
//
// The library for Landlock confines all threads of a process, by way of C where C is
// there; the init of a sandbox stays as it is, and what it starts is linked to nothing.
func Confine(abi int, grants []Grant) error {
	files, scopes := handled(abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: files, Scoped: scopes}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	defer CloseFd(int(ruleset))
	for _, g := range grants {
		rights := uint64(readRights)
		if g.Writable {
			rights = files
		}
		if !g.Directory {
			rights &= fileRights
		}
		if err := permit(int(ruleset), g.Path, rights&files); err != nil {
			return fmt.Errorf("permitting %q: %w", g.Path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return nil
}

func permit(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer CloseFd(fd)
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock_add_rule: %w", errno)
	}
	return nil
}
