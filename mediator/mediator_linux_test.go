package mediator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/mediator"
	"maelys.dev/maelys/mir"
)

// destination returns a destination as HOST:PORT spells it.
func destination(t testing.TB, at string) mir.Destination {
	t.Helper()
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	var d mir.Destination
	if d.Host, err = mir.NewHostname(host); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(port, &d.Port); err != nil {
		t.Fatal(err)
	}
	return d
}

// A network is a mediator at work, and what it has told of.
type network struct {
	testing.TB
	*mediator.Mediator
	loops  mediator.Loops
	mu     sync.Mutex
	events []mediator.Event
	told   chan struct{}
}

// A setting is what a mediator of a test is made of.
type setting struct {
	mediator.Config
	at       []string                // the destinations
	pins     map[string]string       // HOST:PORT to ADDR:PORT
	resolve  map[string][]netip.Addr // names of the host
	anywhere bool                    // and many others, so that there is one listener a port, at all addresses
	times    [3]time.Duration        // for a connection, a ClientHello, and what was said before a reset, where not the usual ones
}

func start(t testing.TB, s setting) *network {
	t.Helper()
	needsInside(t)
	n := &network{TB: t, told: make(chan struct{}, 1)}
	for _, at := range s.at {
		s.Destinations = append(s.Destinations, destination(t, at))
	}
	s.Pins = map[mir.Destination]netip.AddrPort{}
	if s.anywhere { // there is one listener a port when there are many names
		_, port, _ := strings.Cut(s.at[0], ":")
		for i := range 32 {
			s.Destinations = append(s.Destinations, destination(t, fmt.Sprintf("more-%d.example.com:%s", i, port)))
		}
	}
	for from, to := range s.pins {
		s.Pins[destination(t, from)] = netip.MustParseAddrPort(to)
	}
	if s.Lookup == nil {
		s.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if found, ok := s.resolve[host]; ok {
				return found, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
	}
	s.Report = func(e mediator.Event) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.events = append(n.events, e)
		select {
		case n.told <- struct{}{}:
		default:
		}
	}
	var err error
	if n.Mediator, err = mediator.New(s.Config); err != nil {
		t.Fatal(err)
	}
	if s.times != [3]time.Duration{} {
		n.Hurry(s.times[0], s.times[1], s.times[2])
	}
	var listeners []linux.Socket
	t.Cleanup(func() { // where it does not come to serving
		for _, s := range listeners {
			s.Close()
		}
	})
	all := n.Names().Listeners()
	if anywhere := !slices.ContainsFunc(all, func(at netip.AddrPort) bool { return at.Port() != 53 && !at.Addr().IsUnspecified() }); anywhere != s.anywhere {
		t.Fatalf("listeners at %v", all)
	}
	for _, at := range all {
		listeners = append(listeners, socketOf(t, listenTCP(t, at)))
	}
	datagrams, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(n.Names().Questions()))
	if err != nil {
		t.Fatal(err)
	}
	handed := listeners
	listeners = nil
	if err := n.Serve(handed, datagrams); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	n.loops = n.Loops()
	return n
}

// socketOf returns the socket of a listener, in place of it.
func socketOf(t testing.TB, l *net.TCPListener) linux.Socket {
	t.Helper()
	defer l.Close()
	s, err := linux.SocketOf(l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// event waits for the next event that is about a host, and takes it.
func (n *network) event(host string) mediator.Event {
	n.Helper()
	deadline := time.After(10 * time.Second)
	for {
		n.mu.Lock()
		i := slices.IndexFunc(n.events, func(e mediator.Event) bool { return e.Host == host })
		if i >= 0 {
			e := n.events[i]
			n.events = slices.Delete(n.events, i, i+1)
			n.mu.Unlock()
			return e
		}
		n.mu.Unlock()
		select {
		case <-n.told:
		case <-deadline:
			n.Fatalf("nothing was told of %s; there is %v", host, n.events)
		}
	}
}

// resolver is the one that the sandbox has, used by Go's own resolver.
func (n *network) resolver(network string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, asked, _ string) (net.Conn, error) {
		if network != "" {
			asked = network
		}
		var d net.Dialer
		return d.DialContext(ctx, asked, netip.AddrPortFrom(n.Names().Resolver(), 53).String())
	}}
}

// dial connects as a command does.
func (n *network) dial(at string) (*net.TCPConn, error) {
	n.Helper()
	return n.dialBy(at, &net.Dialer{Timeout: 5 * time.Second})
}

func (n *network) dialBy(at string, dialer *net.Dialer) (*net.TCPConn, error) {
	n.Helper()
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		n.Fatal(err)
	}
	address, ok := n.Names().Address(host)
	if !ok {
		n.Fatalf("%s has no address", host)
	}
	c, err := dialer.Dial("tcp", net.JoinHostPort(address.String(), port))
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		n.Fatal(err)
	}
	return c.(*net.TCPConn), nil
}

func (n *network) mustDial(at string) *net.TCPConn {
	n.Helper()
	c, err := n.dial(at)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { c.Close() })
	return c
}

// refusedAt connects to what is refused, and returns how that ends: a reset can come before
// connect(2) returns.
func (n *network) refusedAt(at string) error {
	n.Helper()
	c, err := n.dial(at)
	if err != nil {
		return err
	}
	defer c.Close()
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		return err
	}
	return io.EOF
}

// served accepts connections on a loopback address, for a function.
func served(t testing.TB, do func(c *net.TCPConn)) string {
	t.Helper()
	needsInside(t)
	l := listenTCP(t, netip.MustParseAddrPort("127.0.0.1:0"))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				do(c)
			}()
		}
	}()
	return l.Addr().String()
}

func echo(c *net.TCPConn) {
	if _, err := io.Copy(c, c); err == nil {
		_ = c.CloseWrite()
	}
}

// isReset reports whether a connection was ended as by a refusal.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// TestPrograms reaches an allowed web server by its name, in all the ways of net/http, by a
// resolver that asks by UDP or TCP.
func TestPrograms(t *testing.T) {
	needsInside(t)
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %d", r.Proto, r.Method, r.Host, len(body))
	})
	plain, secure := httptest.NewServer(web), httptest.NewUnstartedServer(web)
	secure.EnableHTTP2 = true
	secure.StartTLS() // its certificate is for example.com
	defer plain.Close()
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for _, asked := range []string{"udp", "tcp"} {
		for _, anywhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s anywhere %t", asked, anywhere), func(t *testing.T) {
				n := start(t, setting{
					at: []string{"example.com:443", "example.com:80"}, anywhere: anywhere,
					pins: map[string]string{"example.com:443": secure.Listener.Addr().String(), "example.com:80": plain.Listener.Addr().String()},
				})
				dialer := &net.Dialer{Resolver: n.resolver(asked)}
				for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
					transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: version == "HTTP/2.0"}
					defer transport.CloseIdleConnections()
					client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
					for _, url := range []string{"https://example.com/", "http://example.com/", "https://EXAMPLE.com./"} {
						response, err := client.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
						if err != nil {
							t.Fatal(err)
						}
						body, _ := io.ReadAll(response.Body)
						response.Body.Close()
						want := version
						if strings.HasPrefix(url, "http:") {
							want = "HTTP/1.1"
						}
						if !strings.HasPrefix(string(body), want+" POST ") || !strings.HasSuffix(string(body), " 100000") {
							t.Errorf("%s: %q", url, body)
						}
					}
					transport.CloseIdleConnections()
				}
				if e := n.event("example.com"); e.Reason != "" || e.Sent < 100_000 || e.Received == 0 || !e.Address.Addr().IsLoopback() || e.Duration <= 0 {
					t.Errorf("%+v", e)
				}
			})
		}
	}
}

// TestRefusals asks for what is not allowed.
func TestRefusals(t *testing.T) {
	var reached sync.Map
	server := served(t, func(c *net.TCPConn) {
		first := make([]byte, 1)
		if n, _ := c.Read(first); n > 0 {
			reached.Store("something", true)
		}
		_, _ = c.Write([]byte("hello"))
	})
	port := netip.MustParseAddrPort(server).Port()
	at := func(host string) string { return fmt.Sprintf("%s:%d", host, port) }
	const elsewhere = 8443 // a port for listeners at all addresses, which no connection has had as its own
	addresses := func(all ...string) (found []netip.Addr) {
		for _, a := range all {
			found = append(found, netip.MustParseAddr(a))
		}
		return found
	}
	resolve := map[string][]netip.Addr{
		"loopback.example.com":  addresses("127.0.0.1"),
		"loopback6.example.com": addresses("::1"),
		"mapped.example.com":    addresses("::ffff:127.0.0.1"),
		"private.example.com":   addresses("10.0.0.5"),
		"metadata.example.com":  addresses("169.254.169.254"),
		"shared.example.com":    addresses("100.64.0.1"),
		"nat64.example.com":     addresses("64:ff9b::7f00:1"),
		"local.example.com":     addresses("fe80::1"),
		"unique.example.com":    addresses("fd00:ec2::254"),
		"zero.example.com":      addresses("0.0.0.0"),
		"all.example.com":       addresses("10.0.0.5", "127.0.0.1", "::1"),
		"mixed.example.com":     addresses("127.0.0.1", "192.0.2.1"),
		"public.example.com":    addresses("203.0.112.1", "2600::1"),
		"nothing.example.com":   nil,
		"allowed.example.com":   addresses("127.0.0.1"),
	}
	for _, anywhere := range []bool{false, true} {
		pins := map[string]string{"pinned.example.com:443": server}
		if anywhere { // the server is at one of all addresses
			port = elsewhere
			pins[at("allowed.example.com")] = server
		}
		pins[at("gone.example.com")] = "127.0.0.1:1"
		all := []string{at("unknown.example.com"), "pinned.example.com:443", at("gone.example.com")}
		for host := range resolve {
			all = append(all, at(host))
		}
		n := start(t, setting{
			at: all, resolve: resolve, anywhere: anywhere, pins: pins,
			Config: mediator.Config{AllowPrivate: []string{"allowed.example.com"}},
		})
		for host, want := range map[string]mediator.Reason{
			"loopback.example.com": mediator.PrivateAddress, "loopback6.example.com": mediator.PrivateAddress, "mapped.example.com": mediator.PrivateAddress,
			"private.example.com": mediator.PrivateAddress, "metadata.example.com": mediator.PrivateAddress, "shared.example.com": mediator.PrivateAddress,
			"nat64.example.com": mediator.PrivateAddress, "local.example.com": mediator.PrivateAddress, "unique.example.com": mediator.PrivateAddress,
			"zero.example.com": mediator.PrivateAddress, "all.example.com": mediator.PrivateAddress, "mixed.example.com": mediator.PrivateAddress,
			"public.example.com": mediator.Unreachable, "nothing.example.com": mediator.Unresolved, "unknown.example.com": mediator.Unresolved,
			"gone.example.com": mediator.Unreachable,
		} {
			if err := n.refusedAt(at(host)); !isReset(err) {
				t.Errorf("%s: %v, want a reset", host, err)
			}
			if e := n.event(host); e.Reason != want || e.Detail == "" || e.Sent+e.Received != 0 || e.Port != port {
				t.Errorf("%s: %+v, want %s", host, e, want)
			}
		}
		c := n.mustDial(at("allowed.example.com")) // the control
		_, _ = c.Write([]byte("x"))
		if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
			t.Errorf("an allowed one: %q, %v", b, err)
		}
		if _, ok := reached.LoadAndDelete("something"); !ok {
			t.Error("the control has reached nobody")
		}
		// Another port of an allowed name.
		err := n.refusedAt("pinned.example.com:" + fmt.Sprint(port))
		if anywhere {
			if e := n.event("pinned.example.com"); e.Reason != mediator.NotAllowed || e.Port != port {
				t.Errorf("another port: %+v", e)
			}
		}
		if !anywhere && !errors.Is(err, syscall.ECONNREFUSED) || anywhere && !isReset(err) {
			t.Errorf("another port: %v", err)
		}
		if _, found := reached.Load("something"); found {
			t.Error("somebody was reached")
		}
		n.Close()
	}
	// Nobody has these: there is no way out.
	for _, literal := range []string{"192.0.2.1:443", "[2001:db8::1]:443", "198.18.99.99:443"} {
		began := time.Now()
		if c, err := net.DialTimeout("tcp", literal, 5*time.Second); err == nil {
			c.Close()
			t.Errorf("%s is reached", literal)
		} else if time.Since(began) > time.Second {
			t.Errorf("%s: %v after %s", literal, err, time.Since(began))
		}
	}
}

// TestNew refuses what is said about hosts that are no destinations.
func TestNew(t *testing.T) {
	allowed := []mir.Destination{destination(t, "a.example.com:443")}
	for name, c := range map[string]mediator.Config{
		"private":    {Destinations: allowed, AllowPrivate: []string{"b.example.com"}},
		"pin":        {Destinations: allowed, Pins: map[mir.Destination]netip.AddrPort{destination(t, "b.example.com:443"): {}}},
		"other port": {Destinations: allowed, Pins: map[mir.Destination]netip.AddrPort{destination(t, "a.example.com:80"): {}}},
	} {
		if _, err := mediator.New(c); err == nil || !strings.Contains(err.Error(), "no destination of the policy") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := mediator.New(mediator.Config{Destinations: allowed, AllowPrivate: []string{"a.example.com"}}); err != nil {
		t.Error(err)
	}
}

// TestServerName asks for other names by TLS than the destination's.
func TestServerName(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	server := served(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(io.LimitReader(c, 5))
		mu.Lock()
		defer mu.Unlock()
		got.Write(b)
	})
	n := start(t, setting{at: []string{"example.com:443"}, pins: map[string]string{"example.com:443": server}})
	for _, name := range []string{"other.example.com", "example.com.evil.example.net", "example.co"} {
		c := n.mustDial("example.com:443")
		if err := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); !isReset(err) {
			t.Errorf("%s: %v, want a reset", name, err)
		}
		if e := n.event("example.com"); e.Reason != mediator.ServerName || !strings.Contains(e.Detail, name) || e.Sent != 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// A hello that comes in single bytes, and one that never ends, go nowhere meanwhile.
	c := n.mustDial("example.com:443")
	for _, b := range []byte{22, 3, 1, 0} {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if e := n.event("example.com"); e.Reason != mediator.BadHello || e.Sent != 0 {
		t.Errorf("half a hello: %+v", e)
	}
	// What begins like TLS and is no ClientHello.
	c = n.mustDial("example.com:443")
	if _, err := c.Write([]byte{22, 3, 1, 0, 4, 2, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); !isReset(err) {
		t.Errorf("no hello: %v, want a reset", err)
	}
	if e := n.event("example.com"); e.Reason != mediator.BadHello || e.Sent != 0 {
		t.Errorf("no hello: %+v", e)
	}
	mu.Lock()
	if got.Len() > 0 {
		t.Errorf("the server has read %q", got.Bytes())
	}
	mu.Unlock()
	for _, name := range []string{"example.com", ""} { // the controls
		c := n.mustDial("example.com:443")
		_ = tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		if e := n.event("example.com"); e.Reason != "" || e.Sent == 0 {
			t.Errorf("%q: %+v", name, e)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !bytes.HasPrefix(got.Bytes(), []byte{22, 3}) {
		t.Errorf("the server has read %q", got.Bytes())
	}
}

// TestWordsDoNotCount says in all ways of HTTP that another host is meant: it goes where it was
// connected to, as it was said, and nobody else hears of it.
func TestWordsDoNotCount(t *testing.T) {
	heard, others := make(chan string, 1), make(chan string, 1)
	server := served(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c)
		heard <- string(b)
	})
	other := served(t, func(*net.TCPConn) { others <- "somebody" })
	n := start(t, setting{
		at: []string{"a.example.com:80", "b.example.com:80"}, pins: map[string]string{"a.example.com:80": server, "b.example.com:80": other},
		Config: mediator.Config{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			others <- host
			return nil, errors.New("nobody is to be looked up")
		}},
	})
	for _, words := range []string{
		"GET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n",
		"GET http://b.example.com/ HTTP/1.1\r\nHost: c.example.com\r\n\r\n",
		"CONNECT b.example.com:80 HTTP/1.1\r\nHost: b.example.com:80\r\n\r\n",
		"\x05\x01\x00\x05\x01\x00\x03\x0db.example.com\x00\x50",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"PROXY TCP4 127.0.0.1 198.18.0.3 1 80\r\n",
	} {
		c := n.mustDial("a.example.com:80")
		if _, err := c.Write([]byte(words)); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != words {
			t.Errorf("%q came as %q", words, got)
		}
		if e := n.event("a.example.com"); e.Reason != "" || e.Address.String() != server || e.Sent != int64(len(words)) {
			t.Errorf("%+v", e)
		}
	}
	select {
	case who := <-others:
		t.Errorf("%s has heard of it", who)
	default:
	}
}

// TestRebinding has a name resolve to something else the second time.
func TestRebinding(t *testing.T) {
	server := served(t, echo)
	port := netip.MustParseAddrPort(server).Port()
	var asked atomic.Int64
	n := start(t, setting{
		at: []string{fmt.Sprintf("flip.example.com:%d", port)},
		Config: mediator.Config{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			if asked.Add(1)%2 == 1 {
				return []netip.Addr{netip.MustParseAddr("203.0.112.1")}, nil // it would be reached, were there a way
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}},
	})
	for i, want := range []mediator.Reason{mediator.Unreachable, mediator.PrivateAddress, mediator.Unreachable, mediator.PrivateAddress} {
		if err := n.refusedAt(fmt.Sprintf("flip.example.com:%d", port)); !isReset(err) {
			t.Error(err)
		}
		if e := n.event("flip.example.com"); e.Reason != want || asked.Load() != int64(i+1) {
			t.Errorf("%+v after %d lookups, want %s", e, asked.Load(), want)
		}
	}
}

// TestEnds passes on the end of one direction, and a reset, as what they are.
func TestEnds(t *testing.T) {
	t.Run("the client ends first", func(t *testing.T) {
		server := served(t, func(c *net.TCPConn) {
			b, err := io.ReadAll(c)
			fmt.Fprintf(c, "%d %v", len(b), err)
		})
		n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
		c := n.mustDial("a.example.com:80")
		if _, err := c.Write(make([]byte, 300_000)); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); string(b) != "300000 <nil>" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if e := n.event("a.example.com"); e.Sent != 300_000 || e.Received != 12 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("the server ends first", func(t *testing.T) {
		heard := make(chan string, 1)
		server := served(t, func(c *net.TCPConn) {
			_, _ = c.Write([]byte("first")) // without being asked
			_ = c.CloseWrite()
			b, err := io.ReadAll(c)
			heard <- fmt.Sprintf("%s %v", b, err)
		})
		n := start(t, setting{at: []string{"a.example.com:22"}, pins: map[string]string{"a.example.com:22": server}})
		c := n.mustDial("a.example.com:22")
		if b, err := io.ReadAll(c); string(b) != "first" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		_, _ = c.Write([]byte("later"))
		c.Close()
		if got := <-heard; got != "later <nil>" {
			t.Error(got)
		}
	})
	t.Run("the server resets", func(t *testing.T) {
		server := served(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, 4))
			_ = c.SetLinger(0)
		})
		n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
		c := n.mustDial("a.example.com:80")
		_, _ = c.Write([]byte("more than that"))
		if _, err := io.ReadAll(c); !isReset(err) {
			t.Errorf("%v, want a reset", err)
		}
	})
	t.Run("the client resets", func(t *testing.T) {
		heard := make(chan error, 1)
		server := served(t, func(c *net.TCPConn) {
			_, _ = c.Write([]byte("go on"))
			_, err := io.ReadAll(c)
			heard <- err
		})
		n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
		c := n.mustDial("a.example.com:80")
		_, _ = io.ReadFull(c, make([]byte, 5))
		_ = c.SetLinger(0)
		c.Close()
		if err := <-heard; !isReset(err) {
			t.Errorf("%v, want a reset", err)
		}
	})
	t.Run("the mediator ends", func(t *testing.T) {
		server := served(t, echo)
		n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
		c := n.mustDial("a.example.com:80")
		_, _ = c.Write([]byte("ping"))
		_, _ = io.ReadFull(c, make([]byte, 4))
		n.Close()
		if _, err := io.ReadAll(c); !isReset(err) {
			t.Errorf("%v, want a reset", err)
		}
		if e := n.event("a.example.com"); e.Sent != 4 || e.Received != 4 {
			t.Errorf("%+v", e)
		}
	})
}

// TestBackPressure has nobody read what is sent: it stays where it is.
func TestBackPressure(t *testing.T) {
	written := make(chan int, 1)
	server := served(t, func(c *net.TCPConn) {
		total, block := 0, make([]byte, 1<<16)
		for {
			_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := c.Write(block)
			if total += n; err != nil {
				written <- total
				return
			}
		}
	})
	n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := n.mustDial("a.example.com:80")
	total := <-written
	runtime.ReadMemStats(&after)
	if total > 64<<20 {
		t.Errorf("%d bytes went out that nobody has read", total)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("%d bytes of memory hold what nobody has read", grown)
	}
	read, _ := io.Copy(io.Discard, c)
	if read > int64(total) || read == 0 {
		t.Errorf("%d bytes of %d came in the end", read, total)
	}
}

// TestLimit opens as many connections as there may be, and one more.
func TestLimit(t *testing.T) {
	server := served(t, echo)
	n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}, Config: mediator.Config{Connections: 20}})
	ping := func(c *net.TCPConn) error {
		if _, err := c.Write([]byte("ping")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 4))
		return err
	}
	var all []*net.TCPConn
	for range 20 {
		c := n.mustDial("a.example.com:80")
		if err := ping(c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for range 3 {
		if err := n.refusedAt("a.example.com:80"); !isReset(err) {
			t.Errorf("one more: %v, want a reset", err)
		}
		if e := n.event("a.example.com"); e.Reason != mediator.TooMany {
			t.Errorf("%+v", e)
		}
	}
	all[0].Close()
	n.event("a.example.com")
	if err := ping(n.mustDial("a.example.com:80")); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// TestLoad makes many connections, after one another and at once, some of which die: nothing
// is left of them.
func TestLoad(t *testing.T) {
	server := served(t, func(c *net.TCPConn) {
		first := make([]byte, 1)
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		switch first[0] {
		case 'r':
			_ = c.SetLinger(0)
		case 'n':
			_, _ = io.Copy(io.Discard, c) // it never answers
		default:
			_, _ = c.Write(first)
			echo(c)
		}
	})
	n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}, Config: mediator.Config{Connections: 2000}})
	one := func(kind byte) error {
		c, err := n.dial("a.example.com:80")
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte{kind}); err != nil {
			return err
		}
		if kind == 'n' {
			return nil
		}
		_, err = io.ReadFull(c, make([]byte, 1))
		if kind == 'r' && isReset(err) {
			return nil
		}
		return err
	}
	sequence := 10_000
	if testing.Short() {
		sequence = 500
	}
	settle(t, "goroutines", runtime.NumGoroutine, func() {
		settle(t, "descriptors", descriptors, func() {
			for i := range sequence {
				if err := one("eeeern"[i%6]); err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
			}
			failed := make(chan error, 1000)
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() { failed <- one("eern"[i%4]) })
			}
			all.Wait()
			for range 1000 {
				if err := <-failed; err != nil {
					t.Error(err)
				}
			}
		})
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.events) != sequence+1000 {
		t.Errorf("%d connections were told of, there were %d", len(n.events), sequence+1000)
	}
}

// settle does something after which there are as many of something as before, in a while.
func settle(t *testing.T, what string, count func() int, do func()) {
	t.Helper()
	before := count()
	do()
	after := 0
	for range 200 {
		runtime.GC() // the pipes that the servers of these tests splice through are kept until then
		if after = count(); after <= before+2 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d %s, before there were %d", after, what, before)
}

func descriptors() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(all)
}

// TestQuestions asks for names that are not allowed.
func TestQuestions(t *testing.T) {
	n := start(t, setting{at: []string{"a.example.com:443"}})
	for _, network := range []string{"udp", "tcp"} {
		found, err := n.resolver(network).LookupNetIP(t.Context(), "ip", "a.example.com")
		if want, _ := n.Names().Address("a.example.com"); err != nil || len(found) != 1 || found[0].Unmap() != want {
			t.Errorf("%s: %v, %v", network, found, err)
		}
		for _, name := range []string{"b.example.com", "secret.a.example.com", "example.com", "com"} {
			began := time.Now()
			if found, err := n.resolver(network).LookupNetIP(t.Context(), "ip4", name+"."); err == nil {
				t.Errorf("%s: %v", name, found)
			}
			if time.Since(began) > time.Second {
				t.Errorf("%s: it takes %s to be refused", name, time.Since(began))
			}
			if e := n.event(name); e.Reason != mediator.NotAllowed || e.Port != 0 {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// silent returns a socket at a loopback address that never answers: it listens, accepts nobody, and
// its queue is full.
func silent(t *testing.T, at netip.AddrPort) linux.Socket {
	t.Helper()
	needsInside(t)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", linux.Socket(fd).Address().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return linux.Socket(fd)
}

// TestSilentAddress has the first address of a name never answer: the second does meanwhile.
func TestSilentAddress(t *testing.T) {
	server := served(t, echo)
	port := netip.MustParseAddrPort(server).Port()
	silent(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), port))
	n := start(t, setting{
		at: []string{fmt.Sprintf("a.example.com:%d", port)}, resolve: map[string][]netip.Addr{"a.example.com": {netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}},
		Config: mediator.Config{AllowPrivate: []string{"a.example.com"}},
	})
	began := time.Now()
	c := n.mustDial(fmt.Sprintf("a.example.com:%d", port))
	_, _ = c.Write([]byte("ping"))
	if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	c.Close()
	if e := n.event("a.example.com"); e.Address.Addr().String() != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
}
