//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects to addresses and says there what they are. What cannot be reached is told
// apart by its error. It is what a command does in these tests.
func dial(addresses []string) {
	for _, at := range addresses {
		network, at, _ := strings.Cut(at, "/")
		c, err := net.DialTimeout(network, at, 10*time.Second)
		if err == nil {
			_, err = io.WriteString(c, at+"\n")
		}
		if err != nil {
			errno, _ := errors.AsType[syscall.Errno](err)
			fmt.Println(network, at, unix.ErrnoName(errno))
			continue
		}
		fmt.Println(network, at, "sent")
	}
}

// self is a user namespace in which there is only the own user.
func self() (Mapping, error) {
	line := func(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }
	return Mapping{Users: line(os.Geteuid()), Groups: line(os.Getegid())}, nil
}

// TestSockets has a child listen at more addresses than a message can bring, and at one for
// datagrams, and a command reach those that are listened at and no others.
func TestSockets(t *testing.T) {
	if err := ProbeNamespaces(NamespaceNet); err != nil {
		unavailable(t, "there are no network namespaces: %v", err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := newProgram(t)
	p.Unshare(NamespaceNet)
	if err := errors.Join(p.LoopbackUp(), p.LocalRange(netip.MustParsePrefix("198.18.0.0/15"))); err != nil {
		t.Fatal(err)
	}
	const streams = maxHanded + 10
	var fds []Value
	var want []string
	for i := range streams {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(1 + i%3), 2}), uint16(80+i))
		fds, want = append(fds, p.Listen(at)), append(want, at.String())
	}
	at := netip.MustParseAddrPort("198.19.255.254:53")
	fds, want = append(fds, p.Datagrams(at)), append(want, at.String())
	p.HandOut(fds)
	p.Files([]File{{-1, 0}, {int(in.Fd()), 1}, {int(os.Stderr.Fd()), 2}})
	p.StayBehind()
	last := want[streams-1]
	p.Exec("/proc/self/exe", []string{"dialing", "tcp4/" + want[0], "tcp4/" + last, "udp4/" + at.String(), "tcp4/198.18.0.9:80", "tcp4/198.20.0.1:80", "tcp4/192.0.2.1:80", "tcp6/[2001:db8::1]:80"},
		[]string{child + "=dialing"})
	if err := errors.Join(p.Start(NamespaceUser, self), p.Go()); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var handed []int
	var ended Ended
	for {
		event, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case Handed:
			handed = append(handed, e.Fds...)
		case Ended:
			ended = e
		default:
			t.Fatalf("%+v", event)
		}
	}
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil || ended.Status != 0 {
		t.Errorf("%v, %+v", err, ended)
	}
	if got, want := string(said), "tcp4 "+want[0]+" sent\ntcp4 "+last+" sent\nudp4 "+at.String()+" sent\ntcp4 198.18.0.9:80 ECONNREFUSED\n"+
		"tcp4 198.20.0.1:80 ENETUNREACH\ntcp4 192.0.2.1:80 ENETUNREACH\ntcp6 [2001:db8::1]:80 ENETUNREACH\n"; got != want {
		t.Errorf("the command said\n%swant\n%s", got, want)
	}
	var got []string
	for _, fd := range handed {
		name, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		in4, ok := name.(*unix.SockaddrInet4)
		if !ok {
			t.Fatalf("%T", name)
		}
		got = append(got, netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port)).String())
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d is inherited: %v", fd, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("handed out: %v\nwant %v", got, want)
	}
	// What the command has sent waits here.
	for i, n := range []int{0, streams - 1, streams} {
		from := handed[n]
		if n < streams {
			if from, _, err = unix.Accept4(handed[n], unix.SOCK_CLOEXEC); err != nil {
				t.Fatal(err)
			}
		}
		b := make([]byte, 64)
		if m, err := unix.Read(from, b); err != nil || string(b[:m]) != want[n]+"\n" {
			t.Errorf("%d: %q, %v", i, b[:max(m, 0)], err)
		}
		if n < streams {
			CloseFd(from)
		}
	}
	for _, fd := range handed {
		CloseFd(fd)
	}
}

// TestSocketTaken listens twice at one address.
func TestSocketTaken(t *testing.T) {
	p := newProgram(t)
	at := netip.MustParseAddrPort("127.0.0.1:0")
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(l.Addr())
	}
	p.HandOut([]Value{p.Listen(taken.AddrPort())})
	if got, want := ended(t, p), (Failed{"trying", "", "bind", unix.EADDRINUSE}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestHandedTooMany has a child hand out more than this process may have open.
func TestHandedTooMany(t *testing.T) {
	if err := ProbeNamespaces(NamespaceNet); err != nil {
		unavailable(t, "there are no network namespaces: %v", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := open()
	p := newProgram(t)
	p.Unshare(NamespaceNet)
	if err := p.LoopbackUp(); err != nil {
		t.Fatal(err)
	}
	var fds []Value
	for i := range 40 {
		fds = append(fds, p.Listen(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(80+i))))
	}
	p.HandOut(fds)
	if err := p.Start(NamespaceUser, self); err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = uint64(before) + 20
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	goErr := p.Go()
	event, err := p.Next()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if goErr != nil || !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v, %+v, %v, want %v", goErr, event, err, unix.EMFILE)
	}
	p.Kill()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors, before there were %d", after, before)
	}
}

// TestFullFile writes more to a filesystem than it has room for.
func TestFullFile(t *testing.T) {
	if err := ProbeNamespaces(NamespaceMount); err != nil {
		unavailable(t, "there are no mount namespaces: %v", err)
	}
	for size, want := range map[int]Event{4000: nil, 9000: Failed{"trying", "", "write", unix.ENOSPC}} {
		p := newProgram(t)
		p.Unshare(NamespaceMount)
		full := p.New("tmpfs", 0, [2]string{"size", "8192"})
		p.WriteFile(full, "text", 0o444, make([]byte, size))
		p.WriteFile(full, "empty", 0o444, nil)
		p.StayBehind()
		p.Exec("/proc/self/exe", []string{"dialing"}, []string{child + "=dialing"})
		runtime.LockOSThread()
		if err := errors.Join(p.Start(NamespaceUser, self), p.Go()); err != nil {
			t.Fatal(err)
		}
		event, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := event.(Ended); ok && want == nil {
			event = nil
		}
		if event != want {
			t.Errorf("%d bytes: %+v, want %+v", size, event, want)
		}
		p.Kill()
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	}
}
