package mediator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"maelys.dev/maelys/mediator"
)

// ends returns the ends of a connection through a mediator: that of the command, and that of the
// server.
func ends(t *testing.T, narrow bool, times [3]time.Duration) (n *network, client, server *net.TCPConn) {
	t.Helper()
	servers, over := make(chan *net.TCPConn), make(chan struct{})
	at := served(t, func(c *net.TCPConn) {
		select {
		case servers <- c:
			<-over
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	n = start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": at}, times: times})
	if narrow { // the kernel has room for little, and says sooner that there is some again
		client, err := n.dialBy("a.example.com:80", &net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) {
				failed = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1000), syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096))
			})
			return errors.Join(err, failed)
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return n, client, <-servers
	}
	client = n.mustDial("a.example.com:80")
	return n, client, <-servers
}

// left returns how much the loops keep of what was said.
func (n *network) left() (sum int) {
	for _, l := range n.loops.State() {
		sum += l.Left
	}
	return sum
}

// overflow says more than the other end, which does not read, and the kernel have room for, so that
// a loop keeps something. It says not much more, or as much as can be, and returns how much.
func (n *network) overflow(c *net.TCPConn, asMuchAsCanBe bool) (total int) {
	n.Helper()
	for piece := make([]byte, 16<<10); ; {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		said, err := c.Write(piece)
		total += said
		switch full := errors.Is(err, os.ErrDeadlineExceeded); {
		case err != nil && !full:
			n.Fatalf("after %d bytes: %v", total, err)
		case asMuchAsCanBe && (!full || n.left() == 0):
		case asMuchAsCanBe || n.remains():
			return total
		}
	}
}

// remains reports whether something is left for a while: there can be room again, a little later.
func (n *network) remains() bool {
	left := n.left()
	for i := 0; i < 50 && left > 0; i++ {
		time.Sleep(time.Millisecond)
		if n.left() != left {
			return false
		}
	}
	return left > 0
}

// processorTime returns how long this process has worked.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// rests checks that nothing is done for some time: a loop that turns takes all of it. Something else
// may have to be done once, such as to collect garbage.
func rests(t *testing.T, while string) {
	t.Helper()
	const window = 50 * time.Millisecond
	var used time.Duration
	for range 8 {
		before := processorTime(t)
		time.Sleep(window)
		if used = processorTime(t) - before; used < window/5 {
			return
		}
	}
	t.Errorf("while %s, %s of %s are worked", while, used, window)
}

// tellsNothing checks that nothing has been told of.
func (n *network) tellsNothing() {
	n.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.events) > 0 {
		n.Errorf("there is %v", n.events)
	}
}

// TestHungUp has one end hang up, or be reset, while something is left of what it has said: as long
// as the other does not read, a loop has nothing to do, and then that comes.
func TestHungUp(t *testing.T) {
	for name, test := range map[string]struct{ byClient, reset bool }{
		"the server closes":   {false, false},
		"the server is reset": {false, true},
		"the client closes":   {true, false},
		"the client is reset": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, speaks, hears := ends(t, false, [3]time.Duration{})
			if !test.byClient {
				speaks, hears = hears, speaks
			}
			total := n.overflow(speaks, test.reset)
			if test.reset {
				_ = speaks.SetLinger(0)
			} else {
				if err := hears.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				if _, err := speaks.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				_ = speaks.SetLinger(10) // the end has come when it is closed
			}
			speaks.Close()
			if n.left() == 0 {
				t.Fatal("nothing is left")
			}
			rests(t, "nobody reads")
			n.tellsNothing()
			got, err := io.Copy(io.Discard, hears)
			if test.reset {
				if !isReset(err) || got == 0 || got > int64(total) {
					t.Errorf("%d of %d came, %v", got, total, err)
				}
			} else if err != nil || got != int64(total) {
				t.Errorf("%d of %d came, %v", got, total, err)
			}
			e := n.event("a.example.com")
			if e.Reason != "" || !test.reset && e.Sent+e.Received != int64(total) || (e.Sent > 0) != test.byClient {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestLost has a server be reset while a client does not read what it has said.
func TestLost(t *testing.T) {
	t.Run("without progress", func(t *testing.T) {
		const lost = 200 * time.Millisecond
		n, client, server := ends(t, false, [3]time.Duration{time.Minute, time.Minute, lost})
		n.overflow(server, true)
		began := time.Now()
		_ = server.SetLinger(0)
		server.Close()
		e := n.event("a.example.com") // although nobody has read
		if took := time.Since(began); took < lost || e.Reason != "" || e.Received == 0 {
			t.Errorf("%+v after %s", e, took)
		}
		if _, err := io.Copy(io.Discard, client); !isReset(err) {
			t.Errorf("%v, want a reset", err)
		}
	})
	t.Run("with progress", func(t *testing.T) {
		const lost = 500 * time.Millisecond
		n, client, server := ends(t, true, [3]time.Duration{time.Minute, time.Minute, lost})
		n.overflow(server, true)
		_ = server.SetLinger(0)
		server.Close()
		time.Sleep(lost * 6 / 10)
		began := time.Now()
		for before := n.left(); n.left() == before; { // the client's end says when there is room again
			if _, err := io.ReadFull(client, make([]byte, 1<<10)); err != nil {
				t.Fatal(err)
			}
		}
		n.tellsNothing()
		if n.left() == 0 {
			t.Fatal("nothing is left")
		}
		e := n.event("a.example.com") // as if it had been reset only then
		if took := time.Since(began); took < lost*9/10 || e.Reason != "" {
			t.Errorf("%+v after %s", e, took)
		}
	})
}

// TestLastWords has a server refuse what a client is still sending, and close the connection: what
// it has said is there when what the client says is found to go nowhere.
func TestLastWords(t *testing.T) {
	n, client, server := ends(t, false, [3]time.Duration{})
	n.overflow(client, true)
	const words = "HTTP/1.1 413 Content Too Large\r\n\r\n"
	resume := n.loops.Pause() // or it hears the words before it sees the reset
	_, err := io.WriteString(server, words)
	server.Close() // a reset, since it has not read what is there
	resume()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(client); string(b) != words || !isReset(err) {
		t.Errorf("%q, %v, want the words and a reset", b, err)
	}
	if e := n.event("a.example.com"); e.Received != int64(len(words)) || e.Sent == 0 || e.Reason != "" {
		t.Errorf("%+v", e)
	}
}

// TestLoops makes more connections than one loop is to serve.
func TestLoops(t *testing.T) {
	want := min(runtime.NumCPU(), mediator.MaxLoops)
	server := served(t, echo)
	ping := func(c *net.TCPConn) {
		t.Helper()
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, "goroutines", runtime.NumGoroutine, func() {
		settle(t, "descriptors", descriptors, func() {
			n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
			var all []*net.TCPConn
			one := func() {
				c := n.mustDial("a.example.com:80")
				ping(c)
				all = append(all, c)
			}
			one()
			if state := n.loops.State(); len(state) != 1 {
				t.Errorf("%d loops for one connection", len(state))
			}
			for len(all) < 8*want {
				one()
			}
			state := n.loops.State()
			sum, least, most, kept := 0, len(all), 0, 0
			for _, l := range state {
				sum, least, most, kept = sum+l.Load, min(least, l.Load), max(most, l.Load), kept+l.Kept
			}
			if places := runtime.GOMAXPROCS(0); kept != min(want, places-1) {
				t.Errorf("%d of %d places are kept", kept, places)
			}
			if len(state) != want || sum != len(all) || least == 0 || most-least > 2 {
				t.Errorf("%d loops, want %d: %+v", len(state), want, state)
			}
			for _, c := range all {
				ping(c)
			}
			// One end of each, by the loop that has it.
			for _, c := range all[:len(all)/2] {
				c.Close()
				n.event("a.example.com")
			}
			closed := make(chan struct{})
			go func() {
				n.Close()
				close(closed)
			}()
			select {
			case <-closed:
			case <-time.After(5 * time.Second):
				t.Fatal("it does not end")
			}
			for _, c := range all[len(all)/2:] {
				if _, err := c.Read(make([]byte, 1)); !isReset(err) {
					t.Errorf("%v, want a reset", err)
				}
				c.Close()
				if e := n.event("a.example.com"); e.Sent != 8 || e.Received != 8 {
					t.Errorf("%+v", e)
				}
			}
		})
	})
}

// TestSlowReaders has nobody read on many connections, which have been fast: what a loop keeps of them
// is bounded.
func TestSlowReaders(t *testing.T) {
	const begun = 4 << 20
	block := make([]byte, 1<<20)
	server := served(t, func(c *net.TCPConn) {
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	})
	n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all []*net.TCPConn
	for range 24 * min(runtime.NumCPU(), mediator.MaxLoops) {
		c := n.mustDial("a.example.com:80")
		if _, err := io.CopyN(io.Discard, c, begun); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	full, allowed := false, int64(0)
	for last := 0; last == 0 || n.left() != last; { // what was said last is on its way
		last = n.left()
		time.Sleep(10 * time.Millisecond)
	}
	for _, l := range n.loops.State() {
		if l.Held > mediator.MaxHeld || l.Left > mediator.MaxHeld+l.Load*mediator.MinRead {
			t.Errorf("a loop keeps too much: %+v", l)
		}
		full = full || l.Held == mediator.MaxHeld
		// And those buffers that nothing is in.
		allowed += int64(mediator.MaxHeld + l.Load*mediator.MinRead + 4*mediator.MaxRead)
	}
	if !full {
		t.Errorf("no loop keeps as much as it may: %+v", n.loops.State())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > allowed {
		t.Errorf("%d bytes of memory hold what nobody has read, %d are allowed", grown, allowed)
	}
	for _, c := range all {
		_ = c.SetLinger(0)
		c.Close()
		n.event("a.example.com")
	}
	for _, l := range n.loops.State() {
		if l.Load != 0 || l.Left != 0 || l.Held != 0 {
			t.Errorf("after all have gone: %+v", l)
		}
	}
}

// TestClientGone has clients go away while they are being connected: nobody goes on with that. When
// the mediator is closed meanwhile it is the same.
func TestClientGone(t *testing.T) {
	looked := make(chan context.Context, 1)
	quiet := silent(t, netip.MustParseAddrPort("127.0.0.1:0")).Address()
	for name, s := range map[string]setting{
		"its name is looked up": {at: []string{"a.example.com:80"}, Config: mediator.Config{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			looked <- ctx
			<-ctx.Done()
			return nil, ctx.Err()
		}}},
		"an address does not answer": {
			at: []string{fmt.Sprintf("a.example.com:%d", quiet.Port())},
			Config: mediator.Config{AllowPrivate: []string{"a.example.com"}, Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
				looked <- ctx
				return []netip.Addr{quiet.Addr()}, nil
			}},
		},
		"a pin does not answer": {at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": quiet.String()}},
	} {
		abandon := func(t *testing.T, closes bool) {
			t.Helper()
			settle(t, "goroutines", runtime.NumGoroutine, func() {
				n := start(t, s)
				c := n.mustDial(s.at[0])
				var dialed context.Context
				if s.Lookup != nil {
					dialed = <-looked
				}
				for n.loops.State()[0].Load == 0 { // it is being connected
					time.Sleep(time.Millisecond)
				}
				n.tellsNothing()
				if closes {
					n.Close()
				} else {
					_ = c.SetLinger(0)
					c.Close()
				}
				if e := n.event("a.example.com"); e.Reason != mediator.Abandoned || e.Reason.Refused() || e.Address.IsValid() || e.Sent+e.Received != 0 || e.Duration > 5*time.Second {
					t.Errorf("%+v", e)
				}
				if !closes {
					if load := n.loops.State()[0].Load; load != 0 {
						t.Errorf("%d connections", load)
					}
				}
				if s.Lookup != nil {
					select {
					case <-dialed.Done():
					case <-time.After(5 * time.Second):
						t.Error("it goes on")
					}
				}
				n.Close()
			})
		}
		t.Run(name, func(t *testing.T) { abandon(t, false) })
		t.Run(name+", and all is closed", func(t *testing.T) {
			for range 20 { // what is looked up may have been given up before or after
				abandon(t, true)
			}
		})
	}
}

// TestTimes has each thing that may take some time take longer.
func TestTimes(t *testing.T) {
	const short = 150 * time.Millisecond
	quiet := silent(t, netip.MustParseAddrPort("127.0.0.1:0")).Address()
	server := served(t, echo)
	quietly := fmt.Sprintf("a.example.com:%d", quiet.Port())
	wait := func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	hello := func(c *net.TCPConn) error {
		_, err := c.Write([]byte{22, 3, 1})
		return err
	}
	slowly := func(c *net.TCPConn) error {
		for _, b := range append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, make([]byte, 32)...) { // what is random is the end
			if _, err := c.Write([]byte{b}); err != nil {
				return err
			}
			time.Sleep(short / 3)
		}
		return nil
	}
	for name, test := range map[string]struct {
		setting
		says   func(*net.TCPConn) error
		detail string
	}{
		"a pin does not answer": {
			setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": quiet.String()}, times: [3]time.Duration{short, time.Minute, time.Minute}},
			nil, "no connection within 150ms",
		},
		"an address does not answer": {
			setting{
				at: []string{quietly}, resolve: map[string][]netip.Addr{"a.example.com": {quiet.Addr()}}, times: [3]time.Duration{short, time.Minute, time.Minute},
				Config: mediator.Config{AllowPrivate: []string{"a.example.com"}},
			},
			nil, "no connection within 150ms",
		},
		"no server of names answers": {
			setting{at: []string{"a.example.com:80"}, times: [3]time.Duration{short, time.Minute, time.Minute}, Config: mediator.Config{Lookup: wait}},
			nil, "no connection within 150ms",
		},
		"half a ClientHello": {
			setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}, times: [3]time.Duration{time.Minute, short, time.Minute}},
			hello, "no whole ClientHello within 150ms",
		},
		"a ClientHello in small pieces": {
			setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}, times: [3]time.Duration{time.Minute, short, time.Minute}},
			slowly, "no whole ClientHello within 150ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, test.setting)
			c := n.mustDial(test.at[0])
			began := time.Now()
			var err error
			if test.says != nil {
				err = test.says(c)
			}
			if err == nil {
				_, err = io.ReadAll(c)
			}
			if !isReset(err) {
				t.Errorf("%v, want a reset", err)
			}
			// The clock of the mediator has begun a little earlier.
			if took := time.Since(began); took < short*9/10 || took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			if e := n.event("a.example.com"); e.Reason != mediator.TimedOut || e.Detail != test.detail || e.Address.IsValid() != (test.says != nil) || e.Sent != 0 {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestNoTimes takes longer where that is no matter: nothing is left of a deadline that was kept.
func TestNoTimes(t *testing.T) {
	ping := func(t *testing.T, c *net.TCPConn) {
		t.Helper()
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
			t.Error(err)
		}
	}
	t.Run("hello", func(t *testing.T) {
		const short = 100 * time.Millisecond
		server := served(t, echo)
		n := start(t, setting{
			at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}, times: [3]time.Duration{short, short, short},
		})
		silent, half := n.mustDial("a.example.com:80"), n.mustDial("a.example.com:80")
		for _, b := range [][]byte{{22}, []byte("no TLS")} {
			if _, err := half.Write(b); err != nil {
				t.Fatal(err)
			}
			time.Sleep(short / 10) // it is heard by itself, most likely
		}
		time.Sleep(3 * short)
		if _, err := io.ReadFull(half, make([]byte, 7)); err != nil {
			t.Error(err)
		}
		ping(t, silent)
		ping(t, half)
		n.tellsNothing()
	})
	t.Run("connection", func(t *testing.T) {
		const dial = 1500 * time.Millisecond // the kernel asks again after a second
		l := silent(t, netip.MustParseAddrPort("127.0.0.1:0"))
		n := start(t, setting{
			at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": l.Address().String()}, times: [3]time.Duration{dial, time.Minute, time.Minute},
		})
		c := n.mustDial("a.example.com:80")
		began := time.Now()
		for n.loops.State()[0].Load == 0 {
			time.Sleep(time.Millisecond)
		}
		first, _, err := syscall.Accept(int(l)) // there is room for another
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(first)
		server, _, err := syscall.Accept(int(l))
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(server)
		time.Sleep(time.Until(began.Add(dial * 11 / 10)))
		n.tellsNothing()
		b := make([]byte, 4)
		if _, err := syscall.Write(server, []byte("ping")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, b); string(b) != "ping" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := c.Write([]byte("pong")); err != nil {
			t.Error(err)
		}
		if _, err := syscall.Read(server, b); string(b) != "pong" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestNoDescriptors has clients come while there are no descriptors: they wait, and are served when
// there are.
func TestNoDescriptors(t *testing.T) {
	server := served(t, echo)
	n := start(t, setting{at: []string{"a.example.com:80"}, pins: map[string]string{"a.example.com:80": server}})
	before := n.mustDial("a.example.com:80")
	ping := func() {
		t.Helper()
		if _, err := before.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(before, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	ping()
	address, _ := n.Names().Address("a.example.com")
	var clients []int
	for range 3 {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 5}); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, fd)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore := func() error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	defer func() { _ = restore() }() // once more where the test has failed
	for _, fd := range clients {
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: 80, Addr: address.As4()}); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Write(fd, []byte("ping")); err != nil {
			t.Fatal(err)
		}
	}
	ping() // those that there are go on
	rests(t, "there are no descriptors")
	ping()
	n.tellsNothing()
	if state := n.loops.State(); len(state) != 1 || state[0].Load != 1 {
		t.Errorf("%+v", state)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range clients {
		b := make([]byte, 8)
		if n, err := syscall.Read(fd, b); string(b[:max(n, 0)]) != "ping" || err != nil {
			t.Errorf("%q, %v", strings.TrimRight(string(b), "\x00"), err)
		}
	}
	ping()
}
