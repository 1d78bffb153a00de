//go:build linux && (amd64 || arm64)

package linux

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A supervisor is the state of the init of a command, which is all that the process does
// after [Program.StayBehind]: it waits for the command and for orphans, passes signals on, and
// tells the launcher. It runs where nothing may be allocated; all signals are blocked, so
// that they are read from a descriptor, and the kernel drops none of them for want of a
// handler (signalfd(2); pid_namespaces(7) on the signals of an init).
type supervisor struct {
	infos  [16]unix.SignalfdSiginfo
	mask   uint64
	polled [2]unix.PollFd
	status int32
	word   [8]byte
	rest   unix.Timespec

	// When a signal that the launcher wants passed on is due, and when one has reached this
	// process itself. See [Program.Send].
	wanted, came [65]int64
}

// patience is how long a signal of the launcher waits for the same one to come here:
// the kernel sends it to a process group at once.
const patience = 20e6 // ns

// supervise is the init of the command. It never returns.
//
//go:nosplit
//go:norace
func (m *memory) supervise(command uintptr) {
	s := &m.init
	control := uintptr(m.control)
	// The command has what it needs; kept open here, a pipe would not end when it is closed there.
	if control > 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, control-1, 0)
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, control+1, 1<<32-1, 0)
	s.mask = ^uint64(0)
	signals, _, errno := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&s.mask)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 {
		exitGroup(1) // and the command with it
	}
	s.polled[0] = unix.PollFd{Fd: int32(control), Events: unix.POLLIN}
	s.polled[1] = unix.PollFd{Fd: int32(signals), Events: unix.POLLIN}
	for {
		m.collectChildren(command)
		wait := s.pass(command)
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.polled)), 2, uintptr(unsafe.Pointer(wait)), 0, 8, 0)
		if s.polled[1].Revents != 0 {
			s.collect(signals)
		}
		if s.polled[0].Revents != 0 {
			n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, control, uintptr(unsafe.Pointer(&s.word)), 8, unix.MSG_DONTWAIT, 0, 0)
			switch {
			case errno == unix.EAGAIN:
			case errno != 0 || n == 0:
				exitGroup(1) // the launcher is gone
			case s.word[0] < 65:
				s.wanted[s.word[0]] = now() + patience
			}
		}
	}
}

//go:nosplit
//go:norace
func exitGroup(status uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// collect reads the signals that have come here.
//
//go:nosplit
//go:norace
func (s *supervisor) collect(signals uintptr) {
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, signals, uintptr(unsafe.Pointer(&s.infos)), unsafe.Sizeof(s.infos))
		if errno != 0 {
			return
		}
		for i := range n / unsafe.Sizeof(s.infos[0]) {
			if signal := s.infos[i&15].Signo; signal < 65 {
				s.came[signal] = now()
			}
		}
	}
}

// pass sends the command the signals that it has not had, and returns how long to wait
// for the rest, nil for as long as it takes.
//
//go:nosplit
//go:norace
func (s *supervisor) pass(command uintptr) *unix.Timespec {
	next := int64(0)
	for signal := range s.wanted {
		if s.wanted[signal] == 0 {
			continue
		}
		at := now()
		group, _, _ := syscall.RawSyscall(unix.SYS_GETPGID, command, 0, 0)
		own, _, _ := syscall.RawSyscall(unix.SYS_GETPGID, 0, 0, 0)
		came := s.came[signal] >= at-patience
		if signal == int(unix.SIGTSTP) {
			came = s.came[signal] != 0 // the launcher may have been stopped before it could pass it on
		}
		switch {
		case came && group == own: // a shell, for one, has a group of its own
			s.wanted[signal], s.came[signal] = 0, 0
		case s.wanted[signal] <= at:
			s.wanted[signal] = 0
			_, _, _ = syscall.RawSyscall(unix.SYS_KILL, command, uintptr(signal), 0)
		case next == 0 || s.wanted[signal] < next:
			next = s.wanted[signal]
		}
	}
	if next == 0 {
		return nil
	}
	rest := max(0, next-now())
	s.rest.Sec, s.rest.Nsec = rest/1e9, rest%1e9
	return &s.rest
}

// collectChildren waits for the children that have ended or stopped: the command, and all orphans.
//
//go:nosplit
//go:norace
func (m *memory) collectChildren(command uintptr) {
	s := &m.init
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s.status)), unix.WNOHANG|unix.WUNTRACED|unix.WCONTINUED|unix.WALL, 0, 0, 0)
		if errno != 0 || pid == 0 {
			return
		}
		if pid != command {
			continue
		}
		status := uint32(s.status)
		switch {
		case status == 0xffff:
			m.say(reportContinued, 0, 0, 3)
		case status&0xff == 0x7f:
			m.say(reportStopped, int64(status>>8&0xff), 0, 3)
		default:
			// With the times of the steps, which the command's process has noted in this memory.
			m.say(reportEnded, int64(status), 0, len(m.report))
			exitGroup(0)
		}
	}
}
