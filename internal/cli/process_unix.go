//go:build unix

package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that somebody sends to run and means for the command.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT,
	}
}

// stopSelf stops this process as the command has been stopped, for the shell to see.
func stopSelf(os.Signal) { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// inherited reports whether a descriptor was open when this process was started: what has
// come through that is not closed by another, and what was opened since is.
func inherited(fd int) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
	return errno == 0 && flags&syscall.FD_CLOEXEC == 0
}
