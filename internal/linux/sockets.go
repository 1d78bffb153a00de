//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LocalRange makes all addresses of an IPv4 prefix those of this machine, as those of
// 127.0.0.0/8 are, in the network namespace of the child: for a loopback interface the kernel
// takes the whole network of an address for its own (netdevice(7), fib_add_ifaddr of the
// kernel). Loopback must be up.
func (p *Program) LocalRange(prefix netip.Prefix) error {
	mask := ^uint32(0) << (32 - prefix.Bits())
	socket := p.value(unix.SYS_SOCKET, number(unix.AF_INET), number(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), zero())
	for _, set := range []struct {
		call    uintptr
		address [4]byte
	}{
		{unix.SIOCSIFADDR, prefix.Masked().Addr().Next().As4()},
		{unix.SIOCSIFNETMASK, [4]byte{byte(mask >> 24), byte(mask >> 16), byte(mask >> 8), byte(mask)}},
	} {
		request, err := unix.NewIfreq("lo:m") // a second address of lo
		if err != nil {
			return fmt.Errorf("the name lo:m: %w", err)
		}
		if err := request.SetInet4Addr(set.address[:]); err != nil {
			return fmt.Errorf("the address of lo: %w", err)
		}
		p.call(unix.SYS_IOCTL, socket.argument(), number(set.call), pointer(p, request))
	}
	p.Close(socket)
	return nil
}

// Listen makes a socket that listens for TCP connections at an IPv4 address of the child's
// network.
func (p *Program) Listen(at netip.AddrPort) Value {
	socket := p.bound(unix.SOCK_STREAM, at)
	p.call(unix.SYS_LISTEN, socket.argument(), number(unix.SOMAXCONN))
	return socket
}

// Datagrams makes a socket for UDP at an IPv4 address of the child's network.
func (p *Program) Datagrams(at netip.AddrPort) Value { return p.bound(unix.SOCK_DGRAM, at) }

func (p *Program) bound(kind int, at netip.AddrPort) Value {
	address := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: at.Port()<<8 | at.Port()>>8, Addr: at.Addr().As4()}
	socket := p.value(unix.SYS_SOCKET, number(unix.AF_INET), number(kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), zero())
	p.call(unix.SYS_BIND, socket.argument(), pointer(p, &address), number(unsafe.Sizeof(address)))
	return socket
}

// maxHanded is how many descriptors a message carries at most (SCM_MAX_FD, unix(7)).
const maxHanded = 253

// HandOut hands descriptors to the launcher, which gets them as [Handed] events in this
// order, and closes them in the child.
func (p *Program) HandOut(fds []Value) {
	for some := range slices.Chunk(fds, maxHanded) {
		p.handing = true
		rights := make([]int32, unix.CmsgSpace(4*len(some))/4)
		header := (*unix.Cmsghdr)(unsafe.Pointer(&rights[0]))
		header.Level, header.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
		header.SetLen(unix.CmsgLen(4 * len(some)))
		control := elements(p, rights)
		at := control.value - uintptr(unsafe.Pointer(&p.bytes))
		for i, fd := range some {
			p.call(doStore, number(at+uintptr(unix.CmsgLen(4*i))), fd.argument())
		}
		what := elements(p, []int64{reportHanded, 0, 0})
		data := elements(p, []uintptr{what.value, 24}) // struct iovec
		message := elements(p, []uintptr{0, 0, data.value, 1, control.value, uintptr(unix.CmsgSpace(4 * len(some))), 0})
		p.call(doTell, message)
		for _, fd := range some {
			p.Close(fd)
		}
	}
}
