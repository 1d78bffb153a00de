package mediator_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// inside is set where the tests run in a network namespace of their own.
const inside = "MAELYS_TEST_INSIDE"

// TestMain has the tests run again in a user and a network namespace, in which the synthetic
// addresses are local as they are for a command. What is beyond the mediator, the servers,
// is on the loopback addresses of the same one.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" && !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz") }) {
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		if cmd.Start() == nil { // else the tests say what is missing
			if err := cmd.Wait(); err != nil {
				os.Exit(max(1, cmd.ProcessState.ExitCode()))
			}
			return
		}
	} else if os.Getenv(inside) != "" {
		if err := makeLocal(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// makeLocal turns lo on and gives it the synthetic addresses (netdevice(7)).
func makeLocal() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	for _, r := range []struct {
		call uintptr
		name string
		data []byte
	}{
		{syscall.SIOCSIFFLAGS, "lo", []byte{syscall.IFF_UP | syscall.IFF_RUNNING, 0}},
		{syscall.SIOCSIFADDR, "lo:m", []byte{syscall.AF_INET, 0, 0, 0, 198, 18, 0, 1}},
		{syscall.SIOCSIFNETMASK, "lo:m", []byte{syscall.AF_INET, 0, 0, 0, 255, 254, 0, 0}},
	} {
		var request [40]byte // struct ifreq
		copy(request[:], r.name)
		copy(request[16:], r.data)
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), r.call, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return fmt.Errorf("ioctl %#x: %w", r.call, errno)
		}
	}
	return nil
}

// needsInside skips a test where there is no namespace to run it in.
func needsInside(t testing.TB) {
	t.Helper()
	if os.Getenv(inside) != "" {
		return
	}
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatal("no network namespace can be made here, and MAELYS_REQUIRE_ALL is set")
	}
	t.Skip("no network namespace can be made here")
}

// listenTCP listens at an address.
func listenTCP(t testing.TB, at netip.AddrPort) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	return l
}
