//go:build linux && (amd64 || arm64)

package warden_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mediator"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// connects tries ways out: NETWORK/ADDRESS asks whoever is there to answer, "names/NAME" looks a name up,
// and the rest are single calls.
func connects(ways []string) string {
	var told strings.Builder
	for _, way := range ways {
		kind, at, _ := strings.Cut(way, "/")
		told.WriteString(tell(way, connect(kind, at)))
	}
	return told.String()
}

func connect(kind, at string) error {
	switch kind {
	case "names":
		found, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", at)
		if err == nil && len(found) == 0 {
			err = errors.New("nothing")
		}
		return err
	case "socket": // DOMAIN,TYPE,PROTOCOL
		var n [3]int
		if _, err := fmt.Sscanf(at, "%d,%d,%d", &n[0], &n[1], &n[2]); err != nil {
			return err
		}
		fd, err := syscall.Socket(n[0], n[1], n[2])
		if err == nil {
			_ = syscall.Close(fd)
		}
		return err
	case "pair":
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = errors.Join(syscall.Close(fds[0]), syscall.Close(fds[1]))
		}
		return err
	case "route": // a default route by way of lo (rtnetlink(7))
		return addRoute()
	case "listen":
		l, err := net.Listen("tcp", at)
		if err == nil {
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					_, _ = io.WriteString(c, "hello")
					_ = c.Close()
				}
			}()
			return connect("tcp", l.Addr().String())
		}
		return err
	case "dns", "dnstcp": // a question for TXT records, by hand
		return ask(strings.TrimPrefix(kind, "dns"), at)
	}
	c, err := net.DialTimeout(kind, at, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 5))
	return err
}

// ask asks the resolver for the TXT records of a name, and fails when it says anything but that
// there are some or none.
func ask(network, name string) error {
	if network == "" {
		network = "udp"
	}
	c, err := net.DialTimeout(network, "198.18.0.1:53", 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	query := []byte{1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		query = append(append(query, byte(len(label))), label...)
	}
	query = append(query, 0, 0, 16, 0, 1)
	if network == "tcp" {
		query = append([]byte{byte(len(query) >> 8), byte(len(query))}, query...)
	}
	if _, err := c.Write(query); err != nil {
		return err
	}
	reply := make([]byte, 1024)
	n, err := c.Read(reply)
	if network == "tcp" && err == nil {
		if n == 2 { // the length alone
			n, err = c.Read(reply)
		} else {
			reply, n = reply[2:], n-2
		}
	}
	switch {
	case err != nil:
		return err
	case n < 12:
		return fmt.Errorf("%d bytes", n)
	case reply[3]&15 != 0:
		return fmt.Errorf("code %d", reply[3]&15)
	}
	return nil
}

// addRoute asks the kernel for a default route by way of lo.
func addRoute() error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	message := []byte{
		36, 0, 0, 0, syscall.RTM_NEWROUTE, 0, syscall.NLM_F_REQUEST | syscall.NLM_F_ACK, syscall.NLM_F_CREATE >> 8, 1, 0, 0, 0, 0, 0, 0, 0,
		syscall.AF_INET, 0, 0, 0, syscall.RT_TABLE_MAIN, syscall.RTPROT_BOOT, syscall.RT_SCOPE_LINK, syscall.RTN_UNICAST, 0, 0, 0, 0,
		8, 0, syscall.RTA_OIF, 0, 1, 0, 0, 0,
	}
	if err := syscall.Sendto(fd, message, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, reply, 0)
	if err != nil || n < 20 {
		return errors.Join(err, errors.New("no answer"))
	}
	if code := int32(uint32(reply[16]) | uint32(reply[17])<<8 | uint32(reply[18])<<16 | uint32(reply[19])<<24); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}

// A server answers each that connects, and counts them.
type server struct {
	net.Listener
	asked atomic.Int64
}

func (s *server) at() netip.AddrPort { return netip.MustParseAddrPort(s.Addr().String()) }

func serve(t testing.TB) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &server{Listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.asked.Add(1)
			go func() {
				defer c.Close()
				b := make([]byte, 4)
				for {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					if _, err := io.WriteString(c, "hello"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return s
}

// A context of the host, for the destinations of a test.
type destinations struct {
	at      []string                  // HOST:PORT
	pins    map[string]netip.AddrPort // of these
	private []string
}

func hostname(t testing.TB, name string) mir.Hostname {
	t.Helper()
	h, err := mir.NewHostname(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func destinationOf(t testing.TB, text string) mir.Destination {
	t.Helper()
	name, port, _ := strings.Cut(text, ":")
	d := mir.Destination{Host: hostname(t, name)}
	if _, err := fmt.Sscan(port, &d.Port); err != nil {
		t.Fatal(err)
	}
	return d
}

// newMediated is a copy of these tests under a plan that lets it reach destinations.
func newMediated(t testing.TB, program string, to destinations, lines ...string) attacker {
	t.Helper()
	spec := mir.Spec{Mode: mir.ModeMediated, TreeConfinement: mir.Required}
	for _, at := range to.at {
		spec.Destinations = append(spec.Destinations, destinationOf(t, at))
	}
	for _, line := range append([]string{"read " + program}, lines...) {
		access, text, _ := strings.Cut(line, " ")
		path, err := mir.NewPath(mir.RootHost, text)
		if err != nil {
			t.Fatal(err)
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: map[string]mir.Access{"read": mir.Read, "deny": mir.Deny}[access], Path: path, Scope: mir.Tree, Missing: mir.MissingError})
	}
	policy, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := plan.Host{Filesystem: host.Filesystem(), Pins: map[mir.Destination]netip.AddrPort{}}
	for from, at := range to.pins {
		h.Pins[destinationOf(t, from)] = at
	}
	for _, name := range to.private {
		h.AllowPrivate = append(h.AllowPrivate, hostname(t, name))
	}
	p, err := plan.Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	return attacker{box{"/", p}, program}
}

// TestMediated reaches what is listed, in all ways that there are to say so, and nothing else.
func TestMediated(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	listed, other := serve(t), serve(t)
	six, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer six.Close()
	datagrams, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	go func() {
		b := make([]byte, 16)
		for {
			_, from, err := datagrams.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo([]byte("hello"), from)
		}
	}()
	a := newMediated(t, program, destinations{
		at: []string{"a.example.com:80", "a.example.com:8443", "b.example.com:80"}, pins: map[string]netip.AddrPort{"a.example.com:80": listed.at(), "b.example.com:80": other.at()},
	})
	var asked sync.Map
	network := warden.Network{Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
		asked.Store(name, true)
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}}
	works := []string{
		"tcp/a.example.com:80", "tcp4/A.EXAMPLE.com:80", "tcp/a.example.com.:80", "tcp/198.18.0.2:80", "tcp/b.example.com:80", "names/a.example.com", "names/localhost",
		"listen/127.0.0.1:0", "listen/[::1]:0", "listen/:0", "dns/a.example.com", "dnstcp/a.example.com", "pair/",
	}
	long := strings.Repeat("x", 63)
	reachable := []string{ // outside, as a control; not all of it is for everybody
		"tcp/" + listed.Addr().String(), "tcp/" + other.Addr().String(), "udp/" + datagrams.LocalAddr().String(),
	}
	refused := append([]string{
		"tcp/a.example.com:81", "tcp/a.example.com:443", "tcp/b.example.com:8443", "tcp/198.18.0.3:8443", "tcp/198.18.0.4:80", "tcp/198.18.0.1:80", "tcp/198.19.255.254:80",
		"tcp/c.example.com:80", "names/c.example.com", "names/example.com", "names/secret.a.example.com", "names/" + long + "." + long + ".a.example.com",
		"tcp/192.0.2.1:80", "tcp/[2001:db8::1]:80", "tcp/[::ffff:192.0.2.1]:80", "tcp/[64:ff9b::c000:201]:80", "tcp/169.254.169.254:80", "tcp/[fe80::1%lo]:80", "tcp/0.0.0.0:80",
		"tcp/" + six.Addr().String(), "udp/192.0.2.1:53", "udp/a.example.com:80", "udp/[2001:db8::1]:53",
		"dns/c.example.com", "dnstcp/c.example.com", "dns/" + long + "." + long + ".example.net", "dns/version.bind",
		"socket/2,3,1", "socket/2,3,255", "socket/10,3,58", "socket/2,2,1", "socket/17,3,3", "socket/40,1,0", "socket/2,1,132", "route/",
	}, reachable...)
	for _, way := range reachable {
		all(t, "outside", a.outside(t, warden.Command{}, "connects", way), true, way)
	}
	before, beforeOther := listed.asked.Load(), other.asked.Load()
	began := time.Now()
	told := a.inside(t, warden.Command{Network: network}, append([]string{"connects"}, append(works, refused...)...)...)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to be refused", took)
	}
	all(t, "inside", told, true, works...)
	all(t, "inside", told, false, refused...)
	if got := listed.asked.Load() - before; got != 4 {
		t.Errorf("the listed server was connected to %d times, want 4", got)
	}
	if got := other.asked.Load() - beforeOther; got != 1 {
		t.Errorf("the other server was connected to %d times, want once", got)
	}
	for name := range asked.Range {
		t.Errorf("the host was asked for %s", name)
	}
}

// TestMediatedAnswers has names lead to addresses that are none of a public host.
func TestMediatedAnswers(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	s := serve(t)
	port := s.at().Port()
	at := func(name string) string { return fmt.Sprintf("%s:%d", name, port) }
	answers := map[string]string{
		"loopback.example.com": "127.0.0.1", "mapped.example.com": "::ffff:127.0.0.1", "any.example.com": "0.0.0.0", "metadata.example.com": "169.254.169.254",
		"private.example.com": "10.0.0.5", "six.example.com": "::1", "nat64.example.com": "64:ff9b::7f00:1",
	}
	names := slices.Sorted(maps.Keys(answers))
	network := warden.Network{Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(answers[name])}, nil
	}}
	to := destinations{}
	var ways []string
	for _, name := range names {
		to.at, ways = append(to.at, at(name)), append(ways, "tcp/"+at(name))
	}
	run := func(to destinations, network warden.Network, ways ...string) (string, *warden.Receipt) {
		t.Helper()
		var said strings.Builder
		var mu sync.Mutex
		network.Report = func(e mediator.Event) {
			mu.Lock()
			defer mu.Unlock()
			said.WriteString(e.String() + "\n")
		}
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		a := newMediated(t, program, to)
		receipt, err := warden.Run(t.Context(), a.plan, warden.Command{Path: program, Args: append([]string{"attack", "connects"}, ways...), Dir: "/", Stderr: in, Network: network})
		in.Close()
		told, _ := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(told), receipt
	}
	told, receipt := run(to, network, slices.Repeat(ways, 3)...)
	all(t, "inside", told, false, ways...)
	if s.asked.Load() != 0 {
		t.Error("the server on loopback was reached")
	}
	if len(receipt.Traffic.Refusals) != len(names) || len(receipt.Traffic.Connections) != 0 || receipt.Traffic.Untold != 0 {
		t.Errorf("%+v", receipt.Traffic)
	}
	for _, r := range receipt.Traffic.Refusals {
		if r.Reason != mediator.PrivateAddress || r.Count != 3 || r.Port != port || r.Address != netip.AddrPortFrom(netip.MustParseAddr(answers[r.Host]).Unmap(), port) {
			t.Errorf("%+v", r)
		}
	}
	// The control: the host allows some.
	to.private = []string{"loopback.example.com", "mapped.example.com"}
	told, receipt = run(to, network, ways...)
	all(t, "allowed", told, true, "tcp/"+at("loopback.example.com"), "tcp/"+at("mapped.example.com"))
	all(t, "not allowed", told, false, "tcp/"+at("six.example.com"), "tcp/"+at("nat64.example.com"))
	if s.asked.Load() != 2 || len(receipt.Traffic.Connections) != 2 {
		t.Errorf("%d, %+v", s.asked.Load(), receipt.Traffic)
	}
	for _, c := range receipt.Traffic.Connections {
		if c.Sent != 4 || c.Received != 5 || c.Address != s.at() || c.Reason != "" || c.Duration <= 0 || c.Began.Before(receipt.Started) {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Contains(receipt.Layers, warden.NetworkMediator) || !slices.Contains(receipt.Layers, warden.NetworkNamespace) {
		t.Errorf("layers %v", receipt.Layers)
	}
	// The host's own loopback by its name.
	to = destinations{at: []string{at("localhost")}, private: []string{"localhost"}}
	told, _ = run(to, warden.Network{}, "tcp/"+at("localhost"), "tcp/"+fmt.Sprintf("127.0.0.1:%d", port), "tcp/localhost:1", "listen/127.0.0.1:0")
	all(t, "localhost", told, true, "tcp/"+at("localhost"), fmt.Sprintf("tcp/127.0.0.1:%d", port), "listen/127.0.0.1:0")
	all(t, "localhost", told, false, "tcp/localhost:1")
	to.private = nil
	told, _ = run(to, warden.Network{}, "tcp/"+at("localhost"))
	all(t, "localhost", told, false, "tcp/"+at("localhost"))
}

// TestManyDestinations has so many that they have listeners together, one of them at the port of
// the resolver.
func TestManyDestinations(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	s := serve(t)
	to := destinations{pins: map[string]netip.AddrPort{}}
	for i := range mir.MaxDestinations {
		at := fmt.Sprintf("h%d.example.com:%d", i, []int{443, 53, 22}[i%3])
		to.at, to.pins[at] = append(to.at, at), s.at()
	}
	a := newMediated(t, program, to, "read /etc/passwd")
	works := []string{"tcp/h0.example.com:443", "tcp/h1.example.com:53", "tcp/h1022.example.com:22", "tcp/h1023.example.com:443", "dns/h5.example.com", "dnstcp/h5.example.com", "listen/127.0.0.1:0"}
	refused := []string{"tcp/h0.example.com:53", "tcp/h1.example.com:443", "tcp/127.0.0.1:443", "tcp/198.18.9.9:443", "tcp/198.18.0.1:443", "tcp/h0.example.com:80", "tcp/192.0.2.1:443", "dns/h1024.example.com", "dnstcp/h1024.example.com"}
	told := a.inside(t, warden.Command{}, append([]string{"connects"}, append(works, refused...)...)...)
	all(t, "inside", told, true, works...)
	all(t, "inside", told, false, refused...)
}

// TestSandboxesApart has two commands at once, with the same names: neither reaches what only the
// other may.
func TestSandboxesApart(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	one, two := serve(t), serve(t)
	first := newMediated(t, program, destinations{at: []string{"a.example.com:80", "b.example.com:80"}, pins: map[string]netip.AddrPort{"a.example.com:80": one.at(), "b.example.com:80": one.at()}})
	second := newMediated(t, program, destinations{at: []string{"a.example.com:80"}, pins: map[string]netip.AddrPort{"a.example.com:80": two.at()}})
	input, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	waiting, here, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := warden.Run(t.Context(), first.plan, warden.Command{Path: program, Args: []string{"attack", "wait"}, Dir: "/", Stdin: input, Stdout: here})
		here.Close()
		done <- err
	}()
	if _, err := waiting.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	told := second.inside(t, warden.Command{}, "connects", "tcp/a.example.com:80", "tcp/198.18.0.2:80", "tcp/198.18.0.3:80", "tcp/b.example.com:80")
	all(t, "the second", told, true, "tcp/a.example.com:80", "tcp/198.18.0.2:80")
	all(t, "the second", told, false, "tcp/198.18.0.3:80", "tcp/b.example.com:80")
	if one.asked.Load() != 0 || two.asked.Load() != 2 {
		t.Errorf("connected to %d and %d times", one.asked.Load(), two.asked.Load())
	}
	all(t, "the first", first.inside(t, warden.Command{}, "connects", "tcp/b.example.com:80"), true, "tcp/b.example.com:80") // the control
	hold.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, f := range []*os.File{input, waiting} {
		f.Close()
	}
}

// TestFirstConnection has commands connect at once, before anybody can have begun to serve.
func TestFirstConnection(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	s := serve(t)
	a := newMediated(t, program, destinations{at: []string{"a.example.com:80"}, pins: map[string]netip.AddrPort{"a.example.com:80": s.at()}})
	launches := 200
	if testing.Short() {
		launches = 20
	}
	for range launches {
		all(t, "at once", a.inside(t, warden.Command{}, "connects", "tcp/198.18.0.2:80"), true, "tcp/198.18.0.2:80")
	}
	if got := s.asked.Load(); got != int64(launches) {
		t.Errorf("%d connections of %d launches", got, launches)
	}
}

// TestMediationLeavesNothing looks for descriptors and goroutines after runs that end in all
// ways, with connections open.
func TestMediationLeavesNothing(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	s := serve(t)
	a := newMediated(t, program, destinations{at: []string{"a.example.com:80"}, pins: map[string]netip.AddrPort{"a.example.com:80": s.at()}})
	count := func() (descriptors, goroutines int) {
		for range 200 {
			runtime.GC() // the pipes that the servers of these tests splice through are kept until then
			list, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			now := runtime.NumGoroutine()
			if descriptors == len(list) && goroutines == now {
				break
			}
			descriptors, goroutines = len(list), now
			time.Sleep(10 * time.Millisecond)
		}
		return descriptors, goroutines
	}
	run := func(args ...string) (*warden.Receipt, error) {
		return warden.Run(t.Context(), a.plan, warden.Command{Path: program, Args: append([]string{"attack"}, args...), Dir: "/"})
	}
	if _, err := run("connects", "tcp/a.example.com:80"); err != nil {
		t.Fatal(err)
	}
	descriptors, goroutines := count()
	for range 5 {
		if _, err := run("nothing"); err != nil {
			t.Error(err)
		}
		if _, err := run("connects", "tcp/a.example.com:80", "tcp/c.example.com:80"); err != nil {
			t.Error(err)
		}
		receipt, err := canceled(t, a, "hold", "198.18.0.2:80")
		if receipt.Outcome != warden.Canceled || err == nil || len(receipt.Traffic.Connections) != 1 || receipt.Traffic.Connections[0].Received != 5 {
			t.Errorf("%+v, %v", receipt, err)
		}
		_, err = warden.Run(t.Context(), a.plan, warden.Command{Path: "/none", Args: []string{"none"}, Dir: "/"})
		if launch, ok := errors.AsType[*warden.LaunchError](err); !ok || launch.Step != warden.StepStart {
			t.Errorf("%v", err)
		}
	}
	if d, g := count(); d > descriptors || g > goroutines {
		t.Errorf("%d descriptors and %d goroutines, before there were %d and %d", d, g, descriptors, goroutines)
	}
}

// canceled runs an attack until it says something.
func canceled(t *testing.T, a attacker, args ...string) (*warden.Receipt, error) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		_, _ = out.Read(make([]byte, 1))
		cancel()
	}()
	return warden.Run(ctx, a.plan, warden.Command{Path: a.program, Args: append([]string{"attack"}, args...), Dir: "/", Stdout: in})
}

// hold keeps a connection open, and says so.
func hold(args []string) string {
	c, err := net.Dial("tcp", args[0])
	if err == nil {
		_, err = c.Write([]byte("ping"))
	}
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 5))
	}
	if err == nil {
		fmt.Println("connected")
		time.Sleep(time.Hour)
	}
	return tell("hold", err)
}

// TestTooManyConnections has as many as there may be at once.
func TestTooManyConnections(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	s := serve(t)
	a := newMediated(t, program, destinations{at: []string{"a.example.com:80"}, pins: map[string]netip.AddrPort{"a.example.com:80": s.at()}})
	told := a.inside(t, warden.Command{Network: warden.Network{Connections: 3}}, "crowd", "198.18.0.2:80", "5")
	if told != "3 of 5\n" {
		t.Error(told)
	}
	told = a.inside(t, warden.Command{}, "crowd", "198.18.0.2:80", "100") // the control
	if told != "100 of 100\n" {
		t.Error(told)
	}
}

// crowd makes connections that stay open, and says how many of them were answered.
func crowd(args []string) string {
	var want, got int
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	if _, err := fmt.Sscan(args[1], &want); err != nil {
		return err.Error()
	}
	for range want {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			continue
		}
		open = append(open, c)
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Write([]byte("ping"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 5))
		}
		if err == nil {
			got++
		}
	}
	return fmt.Sprintf("%d of %d\n", got, want)
}

// TestNameFilesInside reads the files that say how names are resolved, where all of /etc is
// granted, where a path in it is denied, and where nothing is.
func TestNameFilesInside(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "attack")
	to := destinations{at: []string{"a.example.com:80"}}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	names := mediator.NewNames([]mir.Destination{destinationOf(t, "a.example.com:80")}, machine)
	hosts, resolver := string(names.Hosts()), string(names.ResolvConf())
	for _, tt := range []struct {
		name            string
		rules           []string
		hosts, resolver string
	}{
		{"nothing", nil, hosts, resolver},
		{"all of it", []string{"read /etc"}, hosts, resolver},
		{"denied", []string{"read /etc", "deny /etc/hosts"}, "", resolver},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newMediated(t, program, to, tt.rules...)
			if got := a.inside(t, warden.Command{}, "show", "/etc/hosts", "/etc/resolv.conf"); got != tt.hosts+tt.resolver {
				t.Errorf("%s\nwant %s", got, tt.hosts+tt.resolver)
			}
			for _, path := range []string{"/etc/hosts", "/etc/resolv.conf"} {
				if told := a.inside(t, warden.Command{}, "writable", path); told != "" {
					t.Errorf("it can write %s", told)
				}
				all(t, tt.name, a.inside(t, warden.Command{}, "chmod", path), false, path)
			}
		})
	}
}

// chmod changes permissions, as the owner of a file may.
func chmod(paths []string) string {
	var told strings.Builder
	for _, path := range paths {
		told.WriteString(tell(path, os.Chmod(path, 0o644)))
	}
	return told.String()
}

// show prints files; what cannot be read is empty.
func show(paths []string) string {
	var text strings.Builder
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		text.Write(b)
	}
	return text.String()
}
