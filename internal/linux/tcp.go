//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Socket is one for TCP that never waits. What cannot be done now fails with an error that
// is [Later]. Since no call waits, Go's scheduler is not told of those that have much to do: it
// would give the place of the goroutine to others meanwhile, see [Poller.Wait].
type Socket int

// result is that of a call that the scheduler is not told of.
func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Later reports whether nothing is wrong but that there is nothing yet, or was and has gone.
func Later(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED)
}

// SocketOf returns a socket of its own for a connection or a listener of package net, which is
// still to be closed.
func SocketOf(c syscall.Conn) (Socket, error) {
	var fd int
	var failed error
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(from uintptr) { fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	}
	if err == nil {
		err = failed
	}
	if err != nil {
		return -1, fmt.Errorf("another descriptor for a socket: %w", err)
	}
	return Socket(fd), nil
}

// Accept takes a connection from a socket that listens.
func (s Socket) Accept() (Socket, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(s), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	fd, err := result(n, errno)
	if err != nil {
		return -1, err
	}
	Socket(fd).atOnce()
	return Socket(fd), nil
}

// Address returns where the socket itself is. It is the zero AddrPort where that is not known.
func (s Socket) Address() netip.AddrPort {
	switch a, _ := unix.Getsockname(int(s)); a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// Connect begins to connect to an address without a zone, and reports whether that is done
// already. If not, the socket can be written to when it is, and [Socket.Failure] says how it
// went. What is silent for long is asked whether it is there still.
func Connect(at netip.AddrPort) (s Socket, done bool, err error) {
	family := unix.AF_INET6
	if at.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("socket: %w", err)
	}
	s = Socket(fd)
	s.atOnce()
	s.alive()
	errno := s.connect(at)
	if errno == unix.EINPROGRESS {
		// Where the address is on this machine, the answer has come meanwhile: it is looked at when connect(2)
		// lets go of the socket.
		errno = s.connect(at)
	}
	if later := errno == unix.EINPROGRESS || errno == unix.EALREADY || errno == unix.EINTR; later || errno == 0 || errno == unix.EISCONN {
		return s, !later, nil
	}
	s.Close()
	return -1, false, fmt.Errorf("connect: %w", errno)
}

func (s Socket) connect(at netip.AddrPort) (errno syscall.Errno) {
	port := at.Port()<<8 | at.Port()>>8 // as the network has it: both architectures are little-endian
	if a := at.Addr().Unmap(); a.Is4() {
		to := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: a.As4()}
		_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, uintptr(s), uintptr(unsafe.Pointer(&to)), unsafe.Sizeof(to))
	} else {
		to := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: a.As16()}
		_, _, errno = unix.RawSyscall(unix.SYS_CONNECT, uintptr(s), uintptr(unsafe.Pointer(&to)), unsafe.Sizeof(to))
	}
	return errno
}

// atOnce has small writes go out without waiting for others. A socket that has been reset
// meanwhile need not.
func (s Socket) atOnce() { _ = unix.SetsockoptInt(int(s), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

// alive has the other machine asked whether it is there, as package net does: after 15
// seconds of silence, and nine times.
func (s Socket) alive() {
	for _, option := range [...]struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		_ = unix.SetsockoptInt(int(s), option.level, option.name, option.value) // a new socket takes it
	}
}

// Failure returns what has happened to a socket, once.
func (s Socket) Failure() error {
	code, err := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}

// Read reads what is there, or returns io.EOF.
func (s Socket) Read(b []byte) (int, error) {
	r, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(s), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	n, err := result(r, errno)
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes as much as the socket takes, which is no error.
func (s Socket) Write(b []byte) (int, error) {
	r, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(s), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno == unix.EAGAIN || errno == unix.EINTR {
		return 0, nil
	}
	return result(r, errno)
}

// CloseWrite tells the other side that nothing more will be said.
func (s Socket) CloseWrite() error {
	n, _, errno := unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(s), unix.SHUT_WR, 0)
	_, err := result(n, errno)
	return err
}

// Reset closes the socket so that the other side sees a reset.
func (s Socket) Reset() {
	_ = unix.SetsockoptLinger(int(s), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // it takes that
	s.Close()
}

// Close closes the socket.
func (s Socket) Close() { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(s), 0, 0) } // it is closed in any case
