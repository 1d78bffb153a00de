//go:build linux && (amd64 || arm64)

package linux

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// installFilter puts a seccomp filter on this thread, which the caller keeps.
func installFilter(filter []unix.SockFilter) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
