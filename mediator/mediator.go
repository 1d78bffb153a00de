package mediator

import (
	"context"
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

	// lostTime is how long what a side has said may take to be heard, without any progress, after
	// that side has been reset.
	lostTime = 30 * time.Second

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

	// Connections is how many there may be at once, 0 for [DefaultConnections]. Each takes
	// two descriptors, and one more while it is made.
	Connections int

	// Report is told of each connection when it has ended, and of each refused question. It
	// is called by one goroutine at a time, and must not wait: connections wait for it.
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
	times   times
	dialer  net.Dialer
	serving // what accepts connections

	report   func(Event)
	reported sync.Mutex

	open    atomic.Int64 // connections
	work    sync.WaitGroup
	closing context.Context
	end     context.CancelFunc
}

// times are how long things may take: for all but tests dialTime, helloTime and lostTime.
type times struct{ dial, hello, lost time.Duration }

// New returns a mediator. It is an error to say something about a host that is no
// destination.
func New(c Config) (*Mediator, error) {
	m := &Mediator{
		names: NewNames(c.Destinations, c.Machine), private: map[string]bool{}, pins: c.Pins, proxy: c.Proxy,
		lookup: c.Lookup, limit: int64(c.Connections), report: c.Report,
		times: times{dialTime, helloTime, lostTime},
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

// Close ends all connections and returns when everything has been reported.
func (m *Mediator) Close() {
	m.end()
	m.work.Wait()
}

// begin returns the event of a connection that was made to an address inside.
func (m *Mediator) begin(at netip.AddrPort) Event {
	e := Event{Began: time.Now(), Host: at.Addr().String(), Port: at.Port()}
	if host, ok := m.names.Host(at.Addr()); ok {
		e.Host = host
	}
	return e
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
