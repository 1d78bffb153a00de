package mediator_test

import (
	"errors"
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

	"maelys.dev/maelys/internal/corpus"
)

// inside is set where the tests run in a network namespace of their own.
const inside = "MAELYS_TEST_INSIDE"

// TestMain has the tests run again in user, network and mount namespaces, in which the synthetic
// addresses are local as they are for a command. What is beyond the mediator, the servers,
// is on the loopback addresses of the same one, and so is the resolver of the host.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" && !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz") }) {
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		if cmd.Start() == nil { // else the tests say what is missing
			if err := cmd.Wait(); err != nil {
				os.Exit(max(1, cmd.ProcessState.ExitCode()))
			}
			if err := asOrdinaryUser(); err != nil {
				fmt.Fprintln(os.Stderr, "as an ordinary user:", err)
				os.Exit(1)
			}
			return
		}
	} else if os.Getenv(inside) != "" {
		if err := errors.Join(makeLocal(), makeResolver()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// asOrdinaryUser runs the tests once more as somebody who owns nothing, when they run as root and
// nothing is measured: as anybody they make the namespaces themselves.
func asOrdinaryUser() error {
	if os.Geteuid() != 0 || slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.bench=") }) {
		return nil
	}
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/var/tmp", "mediator")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := dir + "/mediator.test"
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, text, 0o755)); err != nil {
		return err
	}
	var args []string // without the files that the first run writes to
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-test.run=") || strings.HasPrefix(arg, "-test.v") {
			args = append(args, arg)
		}
	}
	cmd := exec.Command(program, append(args, "-test.short")...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: corpus.Nobody, Gid: corpus.Nobody}}
	return cmd.Run()
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

// makeResolver says that names are asked for at 127.0.0.53, where no test but one answers, and
// searched in a domain.
func makeResolver() error {
	file, err := os.CreateTemp("", "resolv.conf")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("nameserver 127.0.0.53\nsearch corp.example.com\noptions timeout:1 attempts:1\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return syscall.Mount(file.Name(), "/etc/resolv.conf", "", syscall.MS_BIND, "")
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
