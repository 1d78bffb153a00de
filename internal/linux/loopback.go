//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LoopbackUp turns on the loopback interface of the network namespace, which is off in a
// new one: programs talk to themselves by it (netdevice(7)).
func (p *Program) LoopbackUp() error {
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("the name lo: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	socket := p.value(unix.SYS_SOCKET, number(unix.AF_INET), number(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), zero())
	p.call(unix.SYS_IOCTL, socket.argument(), number(unix.SIOCSIFFLAGS), pointer(p, request))
	p.Close(socket)
	return nil
}
