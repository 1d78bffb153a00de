//go:build linux

package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capabilities are all that the kernel knows, for a process that needs every one of
// them in a user namespace of its own.
func Capabilities() ([]uintptr, error) {
	text, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return nil, fmt.Errorf("the capabilities of the kernel cannot be counted: %w", err)
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("the capabilities of the kernel cannot be counted: %w", err)
	}
	all := make([]uintptr, last+1)
	for i := range all {
		all[i] = uintptr(i)
	}
	return all, nil
}

// Renounce takes all the given capabilities from this thread for good, from the bounding
// set too, and has no program that it starts gain any (capabilities(7), prctl(2)). What
// other threads of the process have stays theirs.
func Renounce(all []uintptr) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_CAP_AMBIENT_CLEAR_ALL: %w", err)
	}
	for _, c := range all {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("PR_CAPBSET_DROP of %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_NO_NEW_PRIVS: %w", err)
	}
	return nil
}

// Undumpable keeps this process from being traced, and its files in procfs from being
// opened, by processes of the same user.
func Undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// CloseAbove closes every descriptor above the given one when a program is started
// (close_range(2), Linux 5.11).
func CloseAbove(fd uint) error {
	if err := unix.CloseRange(fd+1, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return nil
}
