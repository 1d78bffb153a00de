package mediator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"maelys.dev/maelys/mir"
)

const (
	// DefaultConnections is how many connections there may be at once, where nothing else is
	// said.
	DefaultConnections = 1024

	// helloTime is how long a client that has begun a ClientHello has for the rest.
	helloTime = 10 * time.Second

	// maxHello is how much of a client's is kept until its ClientHello is there.
	maxHello = 128 << 10
)

// A Config is what a mediator is to do.
type Config struct {
	Destinations []mir.Destination // that may be reached

	// Machine is the name of the machine that the command knows, where it may look for itself.
	Machine string

	// AllowPrivate are hosts of destinations whose names may resolve to addresses that are
	// none of a public host. It comes from the host, never from a policy.
	AllowPrivate []string

	// Pins say where destinations are, instead of resolving their names: at any address. They
	// come from the host too.
	Pins map[mir.Destination]netip.AddrPort

	Proxy Proxy // that the host uses, if it does

	// Lookup resolves a name on the host; nil for its own resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// Connections is how many there may be at once, 0 for [DefaultConnections]. Each takes up
	// to six descriptors.
	Connections int

	// Report is told of each connection when it has ended, and of each refused question. It
	// is called by one goroutine at a time.
	Report func(Event)
}

// A Mediator accepts the connections of a command and connects them to where they may go.
type Mediator struct {
	names   *Names
	private map[string]bool
	pins    map[mir.Destination]netip.AddrPort
	proxy   Proxy
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	limit   int64
	dialer  net.Dialer

	report   func(Event)
	reported sync.Mutex

	open    atomic.Int64 // connections
	work    sync.WaitGroup
	closing context.Context
	end     context.CancelFunc
}

// New returns a mediator. It is an error to say something about a host that is no
// destination.
func New(c Config) (*Mediator, error) {
	m := &Mediator{
		names: NewNames(c.Destinations, c.Machine), private: map[string]bool{}, pins: c.Pins, proxy: c.Proxy,
		lookup: c.Lookup, limit: int64(c.Connections), report: c.Report,
	}
	if m.limit <= 0 {
		m.limit = DefaultConnections
	}
	if m.lookup == nil {
		m.lookup = lookup
	}
	for _, host := range c.AllowPrivate {
		if _, ok := m.names.Address(host); !ok {
			return nil, fmt.Errorf("private addresses are allowed for %q, which is no destination of the policy", host)
		}
		m.private[host] = true
	}
	for d := range c.Pins {
		a, ok := m.names.Address(d.Host.String())
		if ok {
			_, ok = m.names.Destination(netip.AddrPortFrom(a, d.Port))
		}
		if !ok {
			return nil, fmt.Errorf("%s is pinned, which is no destination of the policy", d)
		}
	}
	m.closing, m.end = context.WithCancel(context.Background())
	return m, nil
}

// Names returns the synthetic addresses.
func (m *Mediator) Names() *Names { return m.names }

// Serve accepts connections from listeners, and answers questions that come to datagrams, until
// [Mediator.Close]. It takes over what it is given. The listeners are bound inside, at the
// addresses of [Names.Listeners], and datagrams at that of [Names.Questions].
func (m *Mediator) Serve(listeners []*net.TCPListener, datagrams net.PacketConn) {
	for _, l := range listeners {
		m.work.Go(func() { m.accept(l) })
	}
	m.work.Go(func() { m.datagrams(datagrams) })
	context.AfterFunc(m.closing, func() {
		for _, l := range listeners {
			_ = l.Close() // nothing is in it
		}
		_ = datagrams.Close()
	})
}

// Close ends all connections and returns when everything has been reported.
func (m *Mediator) Close() {
	m.end()
	m.work.Wait()
}

// accept has each connection of a listener handled, as far as there may be more of them.
func (m *Mediator) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			if m.closing.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, for one. What waits is not lost.
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-m.closing.Done():
				return
			}
		}
		if m.open.Add(1) > m.limit {
			m.open.Add(-1)
			at, _ := local(c)
			e := m.begin(at)
			m.refuse(c, &e, refuse(TooMany, "there are %d connections already", m.limit))
			m.tell(&e)
			continue
		}
		// Another one accepts the next, so that this one need not be handed over to a thread
		// that sleeps.
		m.work.Go(func() { m.accept(l) })
		if at, ok := local(c); ok && at == m.names.Questions() {
			m.questions(c)
			m.open.Add(-1)
		} else {
			e := m.connection(c, at)
			m.open.Add(-1) // before anybody is told that it has ended
			m.tell(&e)
		}
		return
	}
}

// local returns what a connection inside was made to.
func local(c *net.TCPConn) (netip.AddrPort, bool) {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	at := a.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), true
}

// begin returns the event of a connection that was made to an address inside.
func (m *Mediator) begin(at netip.AddrPort) Event {
	e := Event{Began: time.Now(), Host: at.Addr().String(), Port: at.Port()}
	if host, ok := m.names.Host(at.Addr()); ok {
		e.Host = host
	}
	return e
}

// refuse resets a connection, so that the client does not take it for an end of what was
// said.
func (m *Mediator) refuse(c *net.TCPConn, e *Event, r *refusal) {
	reset(c)
	e.Reason, e.Detail = r.reason, r.detail
	if r.at.IsValid() {
		e.Address = r.at
	}
}

func (m *Mediator) tell(e *Event) {
	if m.report == nil {
		return
	}
	e.Duration = time.Since(e.Began)
	m.reported.Lock()
	defer m.reported.Unlock()
	m.report(*e)
}

// connection connects a client to where it wants to go, and returns what became of it.
func (m *Mediator) connection(c *net.TCPConn, at netip.AddrPort) Event {
	e := m.begin(at)
	d, ok := m.names.Destination(at)
	if !ok {
		m.refuse(c, &e, refuse(NotAllowed, "the policy allows no such destination"))
		return e
	}
	up, refused := m.dial(d)
	if refused != nil {
		m.refuse(c, &e, refused)
		return e
	}
	e.Address, e.Proxied = up.address, up.proxied
	m.relay(c, &up, d, &e)
	return e
}

// reset closes a connection so that the other side sees a reset.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed already
	_ = c.Close()
}
