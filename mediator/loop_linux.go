//go:build amd64 || arm64

package mediator

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"maelys.dev/maelys/internal/linux"
)

const (
	// maxLoops is how many there are at most, on machines that have as many processors.
	maxLoops = 4

	// acceptPause is how long nothing is accepted when it has failed: for want of descriptors,
	// for one. What waits is not lost.
	acceptPause = 10 * time.Millisecond

	// keepTime is how long a loop keeps its place among Go's goroutines while it waits: about as
	// long as two programs that talk to each other think in between.
	keepTime = 5 * time.Millisecond
)

// serving is what accepts connections: the first loop, and those that it has begun.
type serving struct{ loops []*loop }

// A loop accepts and connects, and passes on what both sides of its connections say. It is one
// goroutine that never waits but for all of them at once: to have one for each woken up, and a
// thread for it, takes longer than all the rest. What has to wait, for names and for proxies, is
// done by others, which hand over what they have got.
type loop struct {
	m      *Mediator
	poller *linux.Poller

	listeners map[uint64]listener
	watching  bool // the listeners
	resume    time.Time

	sides map[uint64]*side
	token uint64 // the last that was given

	timed map[*connection]struct{} // which have a deadline
	due   time.Time                // nothing is late before, zero where nothing will be

	buffers

	load atomic.Int64 // connections

	keep time.Duration // for [linux.Poller.Wait]

	mu     sync.Mutex
	posted []func()
	over   bool
}

type listener struct {
	linux.Socket
	at netip.AddrPort // the zero one where it is at all addresses
}

// Serve accepts connections from listeners, and answers questions that come to datagrams, until
// [Mediator.Close]. It takes over what it is given, also when it fails. The listeners are bound
// inside, at the addresses of [Names.Listeners], and datagrams at that of [Names.Questions].
func (m *Mediator) Serve(listeners []linux.Socket, datagrams net.PacketConn) error {
	first, err := m.newLoop()
	if err != nil {
		for _, s := range listeners {
			s.Close()
		}
		return errors.Join(err, datagrams.Close())
	}
	for _, s := range listeners {
		x := listener{Socket: s, at: s.Address()}
		if x.at.Addr().IsUnspecified() {
			x.at = netip.AddrPort{}
		}
		first.listeners[first.next()] = x
	}
	if err := first.listen(true); err != nil {
		first.stop()
		return errors.Join(err, datagrams.Close())
	}
	m.loops = append(m.loops, first)
	m.work.Go(first.run)
	m.work.Go(func() { m.datagrams(datagrams) })
	context.AfterFunc(m.closing, func() { _ = datagrams.Close() }) // nothing is in it
	return nil
}

func (m *Mediator) newLoop() (*loop, error) {
	poller, err := linux.NewPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{m: m, poller: poller, listeners: map[uint64]listener{}, sides: map[uint64]*side{}, timed: map[*connection]struct{}{}}
	if len(m.loops)+1 < runtime.GOMAXPROCS(0) { // all others have one place at least
		l.keep = keepTime
	}
	context.AfterFunc(m.closing, func() { l.post(func() {}) })
	return l, nil
}

// next returns a token that nothing else has had.
func (l *loop) next() uint64 {
	l.token++
	return l.token
}

// post has the loop do something, and reports whether it will.
func (l *loop) post(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.posted = append(l.posted, do)
	l.poller.Wake()
	return true
}

// take returns what was posted. After the last time nothing more is.
func (l *loop) take(last bool) []func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	posted := l.posted
	l.posted, l.over = nil, last
	return posted
}

// run works until the mediator is closed, or the kernel fails, which ends all.
func (l *loop) run() {
	defer l.stop()
	for l.m.closing.Err() == nil {
		ready, err := l.poller.Wait(l.patience(), l.keep)
		if err != nil {
			return
		}
		for _, r := range ready {
			if s, ok := l.sides[r.Token]; ok {
				l.happened(s, r.For)
			} else if x, ok := l.listeners[r.Token]; ok && l.watching {
				l.accept(x)
			}
		}
		for _, do := range l.take(false) {
			do()
		}
		if l.late() != nil {
			return
		}
	}
}

// stop ends all, and lets go of what the loop has.
func (l *loop) stop() {
	l.m.end()
	for _, do := range l.take(true) {
		do() // what it brings is let go of with the rest
	}
	for _, s := range l.sides {
		if s == &s.c.client {
			l.reset(s.c)
		}
	}
	for _, x := range l.listeners {
		x.Close()
	}
	l.poller.Close()
}

// listen has the listeners watched, or not.
func (l *loop) listen(now bool) error {
	for token, x := range l.listeners {
		before, after := linux.Readiness(0), linux.Readable
		if !now {
			before, after = after, before
		}
		if err := l.poller.Watch(x.Socket, token, before, after); err != nil {
			return err
		}
	}
	l.watching = now
	return nil
}

// until sets the deadline of a connection.
func (l *loop) until(c *connection, d time.Duration) {
	c.deadline = time.Now().Add(d)
	l.timed[c] = struct{}{}
	if l.due.IsZero() || c.deadline.Before(l.due) {
		l.due = c.deadline
	}
}

// patience returns how long nothing need be looked at, negative for ever.
func (l *loop) patience() time.Duration {
	due := l.due
	if !l.resume.IsZero() && (due.IsZero() || l.resume.Before(due)) {
		due = l.resume
	}
	if due.IsZero() {
		return -1
	}
	return max(0, time.Until(due))
}

// late does what is due.
func (l *loop) late() error {
	if l.due.IsZero() && l.resume.IsZero() {
		return nil
	}
	now := time.Now()
	if !l.resume.IsZero() && !now.Before(l.resume) {
		l.resume = time.Time{}
		if err := l.listen(true); err != nil {
			return err
		}
	}
	if l.due.IsZero() || now.Before(l.due) {
		return nil
	}
	l.due = time.Time{}
	for c := range l.timed {
		switch {
		case !now.Before(c.deadline):
			l.expired(c)
		case l.due.IsZero() || c.deadline.Before(l.due):
			l.due = c.deadline
		}
	}
	return nil
}

// accept takes a connection from a listener, and gives it to the loop that has the fewest.
func (l *loop) accept(x listener) {
	s, err := x.Accept()
	switch {
	case linux.Later(err):
		return
	case err != nil:
		l.resume = time.Now().Add(acceptPause)
		if err := l.listen(false); err != nil {
			l.m.end() // what is watched for cannot be said any more
		}
		return
	}
	at := x.at
	if !at.IsValid() {
		at = s.Address()
	}
	to := l.lightest()
	to.load.Add(1)
	if to == l {
		l.begin(s, at)
	} else if !to.post(func() { to.begin(s, at) }) {
		s.Reset()
	}
}

// lightest returns a loop that has clearly fewer connections than this one, or this one, since
// to hand over takes time. It begins another where all have some.
func (l *loop) lightest() *loop {
	m, lightest := l.m, l
	for _, o := range m.loops {
		if o.load.Load() < lightest.load.Load() {
			lightest = o
		}
	}
	if lightest.load.Load() >= 2 && len(m.loops) < min(runtime.NumCPU(), maxLoops) {
		if another, err := m.newLoop(); err == nil { // else those that there are have to do
			m.loops = append(m.loops, another)
			m.work.Go(another.run)
			return another
		}
	}
	if lightest.load.Load()+2 > l.load.Load() {
		return l
	}
	return lightest
}

// begin connects a client to where it wants to go.
func (l *loop) begin(s linux.Socket, at netip.AddrPort) {
	m := l.m
	c := newConnection(s, m.begin(at))
	l.watchable(&c.client)
	if m.open.Add(1) > m.limit {
		l.refuse(c, refuse(TooMany, "there are %d connections already", m.limit))
		return
	}
	if at == m.names.Questions() {
		l.forget(c)
		m.work.Go(func() { m.questionsFrom(s) })
		return
	}
	d, ok := m.names.Destination(at)
	if !ok {
		l.refuse(c, refuse(NotAllowed, "the policy allows no such destination"))
		return
	}
	c.d = d
	if pin, ok := m.pins[d]; ok && pin.Addr().Zone() == "" {
		l.connect(c, pin)
		return
	}
	ctx, cancel := context.WithCancel(m.closing)
	c.cancel = cancel
	if !l.watch(&c.client) {
		return
	}
	m.work.Go(func() {
		defer cancel()
		up, refused := m.dial(ctx, d)
		server := linux.Socket(-1)
		if refused == nil {
			var err error
			if server, err = up.socket(); err != nil {
				refused = refuse(Unreachable, "%v", err)
			}
		}
		if !l.post(func() { l.arrived(c, server, up, refused) }) && server >= 0 {
			server.Close()
		}
	})
}

// socket returns the socket of an upstream, in place of it.
func (u *upstream) socket() (linux.Socket, error) {
	defer u.Close()
	return linux.SocketOf(u)
}

// questionsFrom answers those of a connection, which has been counted as open.
func (m *Mediator) questionsFrom(s linux.Socket) {
	defer m.open.Add(-1)
	file := os.NewFile(uintptr(s), "questions")
	c, err := net.FileConn(file)
	_ = file.Close() // package net has one of its own
	if err != nil {
		return
	}
	defer c.Close()
	m.questions(c)
}
