//go:build linux && (amd64 || arm64)

package linux

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// listening returns a socket that listens at an address, and where that is. As many as queue may
// wait there, and one more.
func listening(t *testing.T, at string, queue int) (Socket, netip.AddrPort) {
	t.Helper()
	s := bound(t, at)
	if err := unix.Listen(int(s), queue); err != nil {
		t.Fatal(err)
	}
	return s, s.Address()
}

// bound returns a socket that has an address, where nobody listens. An address of IPv6 is one of
// both families.
func bound(t *testing.T, at string) Socket {
	t.Helper()
	where := netip.MustParseAddr(at)
	family, address := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: where.As16()})
	if where.Is4() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Addr: where.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { CloseFd(fd) })
		if family == unix.AF_INET6 {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
		}
		err = errors.Join(err, unix.Bind(fd, address))
	}
	if err != nil && family == unix.AF_INET6 {
		unavailable(t, "there is no IPv6: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Socket(fd)
}

// happens reports whether something (poll(2)) happens to a socket within a time in milliseconds,
// negative for as long as a test may take.
func happens(t *testing.T, s Socket, what int16, within int) bool {
	t.Helper()
	if within < 0 {
		within = 20_000
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s), Events: what}}, within)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
}

// await waits until something happens to a socket.
func await(t *testing.T, s Socket, what int16) {
	t.Helper()
	if !happens(t, s, what, -1) {
		t.Fatalf("nothing of %#x has happened to a socket", what)
	}
}

// connected connects to an address and returns both ends. Only the second is closed with the test.
func connected(t *testing.T, l Socket, at netip.AddrPort) (client, server Socket) {
	t.Helper()
	client, done, err := Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	if !done {
		await(t, client, unix.POLLOUT)
	}
	await(t, l, unix.POLLIN)
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return client, server
}

// pair returns both ends of a connection, of which the second is closed with the test.
func pair(t *testing.T) (Socket, Socket) {
	t.Helper()
	l, at := listening(t, "127.0.0.1", 1)
	return connected(t, l, at)
}

// withDescriptors does something while no descriptor can be had but so many.
func withDescriptors(t *testing.T, free int, do func()) {
	t.Helper()
	lowest, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	CloseFd(lowest)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = uint64(lowest + free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	do()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}

// open returns how many descriptors there are.
func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// option is a number that a socket has been told.
type option struct {
	name        string
	level, what int
	want        int
}

func (o option) check(t *testing.T, who string, s Socket) {
	t.Helper()
	if got, err := unix.GetsockoptInt(int(s), o.level, o.what); err != nil || got != o.want {
		t.Errorf("%s: %s is %d (%v), want %d", who, o.name, got, err, o.want)
	}
}

// TestConnect connects to addresses of both families, however they are written.
func TestConnect(t *testing.T) {
	for name, test := range map[string]struct{ listens, connects string }{
		"IPv4":                {"127.0.0.1", "127.0.0.1"},
		"IPv4 as IPv6":        {"127.0.0.1", "::ffff:127.0.0.1"},
		"IPv6":                {"::1", "::1"},
		"IPv4 at both":        {"::", "127.0.0.1"},
		"another IPv4 at all": {"0.0.0.0", "127.0.0.7"},
	} {
		t.Run(name, func(t *testing.T) {
			l, at := listening(t, test.listens, 1)
			to := netip.AddrPortFrom(netip.MustParseAddr(test.connects), at.Port())
			client, server := connected(t, l, to)
			defer client.Close()
			if err := client.Failure(); err != nil {
				t.Errorf("a connection that there is: %v", err)
			}
			// Where one address of a listener at all is meant, that of what it accepts says which.
			if got, want := server.Address(), netip.AddrPortFrom(to.Addr().Unmap(), to.Port()); got != want {
				t.Errorf("it came to %s, want %s", got, want)
			}
			peer, err := unix.Getpeername(int(server))
			if err != nil {
				t.Fatal(err)
			}
			from := client.Address()
			if from.Addr().Is4() != to.Addr().Unmap().Is4() {
				t.Errorf("it comes from %s", from)
			}
			switch peer := peer.(type) {
			case *unix.SockaddrInet4:
				if got := netip.AddrPortFrom(netip.AddrFrom4(peer.Addr), uint16(peer.Port)); got != from {
					t.Errorf("it comes from %s, and says %s", got, from)
				}
			case *unix.SockaddrInet6:
				if got := netip.AddrPortFrom(netip.AddrFrom16(peer.Addr).Unmap(), uint16(peer.Port)); got != from {
					t.Errorf("it comes from %s, and says %s", got, from)
				}
			}
			for who, s := range map[string]Socket{"what connects": client, "what is accepted": server} {
				option{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}.check(t, who, s)
				if flags, err := unix.FcntlInt(uintptr(s), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("%s is inherited: %v", who, err)
				}
				if flags, err := unix.FcntlInt(uintptr(s), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
					t.Errorf("%s waits: %v", who, err)
				}
			}
			for _, o := range []option{
				{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
				{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
				{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
			} {
				o.check(t, "what connects", client)
			}
			domain := unix.AF_INET6 // a machine without IPv6 has no sockets for it
			if to.Addr().Unmap().Is4() {
				domain = unix.AF_INET
			}
			option{"SO_DOMAIN", unix.SOL_SOCKET, unix.SO_DOMAIN, domain}.check(t, "what connects", client)
		})
	}
}

// TestConnectAtOnce connects on this machine, where that has been done when it is looked at for
// the first time, unless the machine is busy.
func TestConnectAtOnce(t *testing.T) {
	l, at := listening(t, "127.0.0.1", 1)
	for range 1000 {
		s, done, err := Connect(at)
		if err != nil {
			t.Fatal(err)
		}
		await(t, s, unix.POLLOUT)
		s.Close()
		await(t, l, unix.POLLIN)
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted.Close()
		if done {
			return
		}
	}
	t.Error("no connection was made at once")
}

// TestConnectFails connects to where it is known at once that nobody is: nothing is left of it.
func TestConnectFails(t *testing.T) {
	here := bound(t, "127.0.0.1").Address() // nobody else listens there meanwhile
	for name, test := range map[string]struct {
		at   netip.AddrPort
		want error
	}{
		"nobody listens": {here, unix.ECONNREFUSED},
		"everybody":      {netip.MustParseAddrPort("255.255.255.255:80"), unix.ENETUNREACH},
	} {
		t.Run(name, func(t *testing.T) {
			before := open(t)
			s, done, err := Connect(test.at)
			if err == nil && !done { // the machine is busy
				await(t, s, unix.POLLOUT)
				err = s.Failure()
				s.Close()
			} else if s != -1 || done {
				t.Errorf("socket %d, %t", s, done)
			}
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if after := open(t); after != before {
				t.Errorf("%d descriptors, before there were %d", after, before)
			}
		})
	}
	t.Run("no descriptor", func(t *testing.T) {
		var err error
		withDescriptors(t, 0, func() { _, _, err = Connect(here) })
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("%v, want %v", err, unix.EMFILE)
		}
	})
}

// TestConnectLater connects to listeners whose queues are full: the answer comes when what was
// asked is asked again, after a second.
func TestConnectLater(t *testing.T) {
	type waiting struct {
		listener Socket
		at       netip.AddrPort
		s        Socket
	}
	begin := func() (w waiting) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.listener = Socket(fd)
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
			t.Fatal(err)
		}
		w.at = w.listener.Address()
		first, _, err := Connect(w.at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(first.Close)
		await(t, first, unix.POLLOUT)
		var done bool
		if w.s, done, err = Connect(w.at); err != nil || done {
			t.Fatalf("behind a full queue: %t, %v", done, err)
		}
		t.Cleanup(w.s.Close)
		if happens(t, w.s, unix.POLLOUT, 0) {
			t.Error("a connection that there is not can be written to")
		}
		if err := w.s.Failure(); err != nil {
			t.Errorf("while nothing has happened: %v", err)
		}
		return w
	}
	made, refused := begin(), begin()
	defer made.listener.Close()
	accepted, err := made.listener.Accept() // there is room for another
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	refused.listener.Close() // there is nobody
	await(t, made.s, unix.POLLOUT)
	if err := made.s.Failure(); err != nil {
		t.Errorf("it was made: %v", err)
	}
	if n, err := made.s.Write([]byte("hello")); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	await(t, refused.s, unix.POLLOUT)
	if err := refused.s.Failure(); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%v, want %v", err, unix.ECONNREFUSED)
	}
	if err := refused.s.Failure(); err != nil {
		t.Errorf("it is told twice: %v", err)
	}
}

// TestAccept takes connections when there are some, and when there is no room for one.
func TestAccept(t *testing.T) {
	l, at := listening(t, "127.0.0.1", 8)
	if s, err := l.Accept(); !Later(err) || s != -1 {
		t.Errorf("nobody: %d, %v", s, err)
	}
	client, _, err := Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	await(t, l, unix.POLLIN)
	withDescriptors(t, 0, func() { _, err = l.Accept() })
	if !errors.Is(err, unix.EMFILE) || Later(err) {
		t.Errorf("without a descriptor: %v, later %t", err, Later(err))
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatalf("what has waited is gone: %v", err)
	}
	defer server.Close()
	// One that has been reset before is no error, unless it is read from.
	gone, _, err := Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	await(t, gone, unix.POLLOUT)
	gone.Reset()
	await(t, l, unix.POLLIN)
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("%v, want %v", err, unix.ECONNRESET)
	}
}

// TestLater tells what has come to nothing for now from what is an error.
func TestLater(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, unix.EAGAIN: true, unix.EINTR: true, unix.ECONNABORTED: true,
		unix.ECONNRESET: false, unix.EPIPE: false, unix.EMFILE: false, unix.ENFILE: false, io.EOF: false,
	} {
		if Later(err) != want {
			t.Errorf("%v is later: %t", err, !want)
		}
	}
}

// TestRead reads nothing, something, and ends of both kinds.
func TestRead(t *testing.T) {
	t.Run("in order", func(t *testing.T) {
		client, server := pair(t)
		b := make([]byte, 8)
		if n, err := server.Read(b); n != 0 || !Later(err) {
			t.Errorf("nothing: %d, %v", n, err)
		}
		if _, err := client.Write([]byte("hello there")); err != nil {
			t.Fatal(err)
		}
		await(t, server, unix.POLLIN)
		if n, err := server.Read(nil); n != 0 || err != nil {
			t.Errorf("into nothing: %d, %v", n, err)
		}
		if n, err := server.Read(b); string(b[:n]) != "hello th" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
		client.Close()
		if n, err := server.Read(b); string(b[:n]) != "ere" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
		await(t, server, unix.POLLIN)
		for range 2 {
			if n, err := server.Read(b); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%d, %v, want %v", n, err, io.EOF)
			}
		}
	})
	t.Run("a reset", func(t *testing.T) {
		client, server := pair(t)
		client.Reset()
		await(t, server, unix.POLLERR)
		if n, err := server.Read(make([]byte, 8)); n != 0 || !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%d, %v, want %v", n, err, unix.ECONNRESET)
		}
	})
	t.Run("words before a reset", func(t *testing.T) {
		client, server := pair(t)
		if _, err := client.Write([]byte("no")); err != nil {
			t.Fatal(err)
		}
		await(t, server, unix.POLLIN)
		client.Reset()
		await(t, server, unix.POLLERR)
		b := make([]byte, 8)
		if n, err := server.Read(b); string(b[:n]) != "no" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
		if _, err := server.Read(b); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%v, want %v", err, unix.ECONNRESET)
		}
	})
}

// TestWrite writes more than there is room for, and where nobody listens.
func TestWrite(t *testing.T) {
	t.Run("as much as there is room for", func(t *testing.T) {
		client, server := pair(t)
		all := make([]byte, 32<<20)
		for i := range all {
			all[i] = byte(i % 251)
		}
		n, err := client.Write(all)
		if n == 0 || n == len(all) || err != nil {
			t.Fatalf("%d of %d, %v", n, len(all), err)
		}
		for full := 0; full < 3; full++ { // the other end takes some meanwhile
			more, err := client.Write(all[n:])
			if err != nil {
				t.Fatal(err)
			}
			if n += more; more > 0 {
				full = 0
			}
			runtime.Gosched()
		}
		got := make([]byte, n)
		for read := 0; read < n; {
			await(t, server, unix.POLLIN)
			more, err := server.Read(got[read:])
			if err != nil && !Later(err) {
				t.Fatalf("%d of %d: %v", read, n, err)
			}
			read += more
		}
		if !bytes.Equal(got, all[:n]) {
			t.Error("something else came")
		}
		if _, err := server.Read(got); !Later(err) {
			t.Errorf("after all of it: %v", err)
		}
		client.Close()
	})
	t.Run("after the own end", func(t *testing.T) {
		client, _ := pair(t)
		defer client.Close()
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Write([]byte("more")); n != 0 || !errors.Is(err, unix.EPIPE) {
			t.Errorf("%d, %v, want %v", n, err, unix.EPIPE)
		}
	})
	t.Run("after a reset", func(t *testing.T) {
		client, server := pair(t)
		client.Reset()
		await(t, server, unix.POLLERR)
		for _, want := range []error{unix.ECONNRESET, unix.EPIPE} {
			if n, err := server.Write([]byte("more")); n != 0 || !errors.Is(err, want) {
				t.Errorf("%d, %v, want %v", n, err, want)
			}
		}
	})
}

// TestCloseWrite ends one direction.
func TestCloseWrite(t *testing.T) {
	client, server := pair(t)
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	await(t, server, unix.POLLIN)
	b := make([]byte, 8)
	if _, err := server.Read(b); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want %v", err, io.EOF)
	}
	if _, err := server.Write([]byte("still")); err != nil {
		t.Error(err)
	}
	await(t, client, unix.POLLIN)
	if n, err := client.Read(b); string(b[:n]) != "still" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	client.Reset()
	await(t, server, unix.POLLERR)
	if err := server.CloseWrite(); err == nil {
		t.Error("an end was told to nobody")
	}
}

// TestSocketEnds tells a reset from an end.
func TestSocketEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(Socket)
		want error
	}{
		"close": {Socket.Close, io.EOF},
		"reset": {Socket.Reset, unix.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			before := open(t)
			client, server := pair(t)
			test.end(client)
			await(t, server, unix.POLLIN)
			if _, err := server.Read(make([]byte, 1)); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if after := open(t); after != before+2 { // the server and its listener
				t.Errorf("%d descriptors, before there were %d", after, before)
			}
		})
	}
}

// TestSocketOf takes sockets from package net, which has closed its own.
func TestSocketOf(t *testing.T) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := SocketOf(l)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var own Socket
	if err := raw.Control(func(fd uintptr) { own = Socket(fd) }); err != nil || own == listener {
		t.Errorf("the descriptor is that of package net: %d, %v", own, err)
	}
	if got, want := listener.Address().String(), l.Addr().String(); got != want {
		t.Errorf("it is at %s, want %s", got, want)
	}
	if flags, err := unix.FcntlInt(uintptr(listener), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("it is inherited: %v", err)
	}
	var full error
	withDescriptors(t, 0, func() { _, full = SocketOf(l) })
	if !errors.Is(full, unix.EMFILE) {
		t.Errorf("%v, want %v", full, unix.EMFILE)
	}
	l.Close()
	if s, err := SocketOf(l); err == nil || s != -1 {
		t.Errorf("of a closed one: %d, %v", s, err)
	}
	client, _ := connected(t, listener, listener.Address()) // it listens still
	client.Close()
}

// TestAddressUnknown asks for the addresses of what has none.
func TestAddressUnknown(t *testing.T) {
	var both [2]int
	if err := unix.Pipe2(both[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	local, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, fd := range map[string]int{"a pipe": both[0], "a pipe's other end": both[1], "no TCP": local[0], "no TCP either": local[1]} {
		if got := Socket(fd).Address(); got.IsValid() {
			t.Errorf("%s is at %s", name, got)
		}
		CloseFd(fd)
	}
	if got := Socket(-1).Address(); got.IsValid() {
		t.Errorf("nothing is at %s", got)
	}
}
