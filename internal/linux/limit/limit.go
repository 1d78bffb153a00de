//go:build linux

package limit

import "syscall"

var files, known = read()

func read() (files syscall.Rlimit, known bool) {
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return files, err == nil
}

// Files returns the limit, if it is known.
func Files() (syscall.Rlimit, bool) { return files, known }
