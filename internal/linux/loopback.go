//go:build linux

package linux

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LoopbackUp turns on the loopback interface of this network namespace, which is off in
// a new one: programs talk to themselves by it (netdevice(7)).
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer CloseFd(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("the name lo: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("SIOCSIFFLAGS: %w", err)
	}
	return nil
}
