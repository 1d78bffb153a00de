//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// nobody is a user and a group that own nothing.
const nobody = 65534

// setUmask makes the modes of new files the same wherever the tests run.
func setUmask() { syscall.Umask(0o022) }

// ordinary becomes the program that args name, which root runs as nobody and
// everyone else as they are. It returns only when that fails.
func ordinary(args []string) int {
	err := func() error {
		if os.Geteuid() == 0 {
			if err := syscall.Setgroups(nil); err != nil {
				return err
			}
			if err := syscall.Setgid(nobody); err != nil {
				return err
			}
			if err := syscall.Setuid(nobody); err != nil {
				return err
			}
		}
		program, err := exec.LookPath(args[0])
		if err != nil {
			return err
		}
		return syscall.Exec(program, args, os.Environ())
	}()
	fmt.Fprintf(os.Stderr, "ordinary: %v\n", err)
	return 125
}
