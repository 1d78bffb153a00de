//go:build amd64 || arm64

package mediator

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/mir"
)

// A connection is a client, a server, and what is known of both.
type connection struct {
	client, server side
	d              mir.Destination
	e              Event
	made           bool               // to the server
	cancel         context.CancelFunc // of the attempt, where somebody else makes it

	hello  []byte // what the client has said, while it may be the beginning of a ClientHello
	need   int    // so many bytes of it are looked at next
	judged bool   // the client may say what it wants

	deadline time.Time // while it is timed
	refused  *refusal
}

// A side is one of the two sockets of a connection, and what is said there.
type side struct {
	c       *connection
	socket  linux.Socket // negative where there is none
	token   uint64
	watched linux.Readiness // what for

	left   []byte // what it has said and the other has not taken
	held   []byte // the buffer that this is in, if that is a shared one
	reads  int    // how much is read at once
	taken  int64  // bytes, by the other
	ended  bool   // it will say no more
	passed bool   // and the other knows
	hung   bool   // it is of no use to watch it while something is left
	lost   bool   // since it was reset
}

func newConnection(s linux.Socket, e Event) *connection {
	c := &connection{e: e, need: 1}
	c.client = side{c: c, socket: s, reads: minRead}
	c.server = side{c: c, socket: -1, reads: minRead}
	return c
}

func (s *side) other() *side {
	if s == &s.c.client {
		return &s.c.server
	}
	return &s.c.client
}

// watchable has events of a socket find its side.
func (l *loop) watchable(s *side) {
	s.token = l.next()
	l.sides[s.token] = s
}

// connect connects a client to an address.
func (l *loop) connect(c *connection, at netip.AddrPort) {
	s, done, err := linux.Connect(at)
	if err != nil {
		l.refuse(c, refuse(Unreachable, "%v", err))
		return
	}
	c.e.Address = at
	c.server.socket = s
	l.watchable(&c.server)
	if !done {
		l.until(c, l.m.times.dial)
		l.want(c)
		return
	}
	l.made(c)
}

// made has both sides heard. The client has said something while it was connected, most
// likely.
func (l *loop) made(c *connection) {
	c.made = true
	delete(l.timed, c)
	if l.hear(&c.client) {
		l.want(c)
	}
}

// arrived goes on with a connection to a server that somebody else has made.
func (l *loop) arrived(c *connection, server linux.Socket, up upstream, refused *refusal) {
	switch {
	case c.client.socket < 0: // it has ended meanwhile
		if refused == nil {
			server.Close()
		}
		return
	case refused != nil && l.m.closing.Err() != nil: // that is why
		l.reset(c)
		return
	case refused != nil:
		l.refuse(c, refused)
		return
	}
	c.e.Address, c.e.Proxied = up.address, up.proxied
	c.server.socket = server
	l.watchable(&c.server)
	if len(up.ahead) == 0 || l.pass(&c.server, up.ahead) {
		l.made(c)
	}
}

// want has both sides watched for what can be done next.
func (l *loop) want(c *connection) {
	if l.watch(&c.client) {
		l.watch(&c.server)
	}
}

// watch reports whether the connection goes on.
func (l *loop) watch(s *side) bool {
	if s.socket < 0 {
		return true
	}
	now := linux.Watched
	if s.c.made && !s.ended && len(s.left) == 0 {
		now |= linux.Readable
		s.hung = false
	}
	if len(s.other().left) > 0 || !s.c.made && s == &s.c.server {
		now |= linux.Writable
	}
	if s.hung && now == linux.Watched {
		now = 0 // or it is told of again and again
	}
	if err := l.poller.Watch(s.socket, s.token, s.watched, now); err != nil {
		l.refuse(s.c, refuse(Unreachable, "%v", err))
		return false
	}
	s.watched = now
	return true
}

// happened does what can be done at one side.
func (l *loop) happened(s *side, ready linux.Readiness) {
	c, o := s.c, s.other()
	if !c.made {
		l.happenedEarly(s)
		return
	}
	if ready&(linux.Writable|linux.Broken|linux.HungUp) != 0 && len(o.left) > 0 && !l.pass(o, o.left) {
		return
	}
	switch {
	case ready == linux.Writable:
	case len(s.left) == 0 && !s.ended:
		if !l.hear(s) {
			return
		}
	case ready&linux.Broken != 0 && len(s.left) == 0: // there is nobody any more
		l.reset(c)
		return
	case ready&(linux.Broken|linux.HungUp) != 0:
		s.hung = true
		if ready&linux.Broken != 0 && !s.lost {
			s.lost = true
			l.until(c, l.m.times.lost)
		}
	}
	l.want(c)
}

// happenedEarly is told of a side while the connection is being made: the server is there, or
// it is not, or the client has gone.
func (l *loop) happenedEarly(s *side) {
	if s == &s.c.client {
		l.reset(s.c)
		return
	}
	if err := s.socket.Failure(); err != nil {
		l.refuse(s.c, refuse(Unreachable, "connect: %v", err))
		return
	}
	l.made(s.c)
}

// expired ends a connection that has taken too long.
func (l *loop) expired(c *connection) {
	switch {
	case !c.made:
		l.refuse(c, refuse(TimedOut, "no connection within %s", l.m.times.dial))
	case c.client.lost || c.server.lost:
		l.reset(c)
	default:
		l.refuse(c, refuse(TimedOut, "no whole ClientHello within %s", l.m.times.hello))
	}
}

// hear reads what a side says and passes it on. It reports whether the connection goes on.
func (l *loop) hear(s *side) bool {
	b := l.buffer()
	n, err := s.socket.Read(b[:min(s.reads, l.mayRead())])
	switch {
	case linux.Later(err):
		return true
	case errors.Is(err, io.EOF):
		s.ended = true
	case err != nil:
		l.reset(s.c)
		return false
	}
	if c := s.c; s == &c.client && !c.judged {
		return l.heardHello(c, b[:n])
	}
	return l.pass(s, b[:n])
}

// heardHello passes on what a client has begun with when it is known whether it speaks TLS, and
// for whom: nothing of a ClientHello goes out before.
func (l *loop) heardHello(c *connection, b []byte) bool {
	began := len(c.hello) > 0
	if began {
		c.hello = append(c.hello, b...)
		b = c.hello
	}
	refused := c.judge(b, c.client.ended)
	switch {
	case refused != nil:
		l.refuse(c, refused)
		return false
	case c.judged:
		c.hello = nil
		delete(l.timed, c)
		return l.pass(&c.client, b)
	case !began:
		c.hello = append(c.hello, b...)
		l.until(c, l.m.times.hello)
	}
	return true
}

// judge says why what a client begins with is refused, or sets judged when it may pass.
func (c *connection) judge(b []byte, ended bool) *refusal {
	if len(b) >= c.need { // a client that sends bytes one by one is not read anew each time
		h := readHello(b)
		c.need, c.e.ECH = h.need, h.ech
		switch {
		case h.state == helloRefused:
			return refuse(BadHello, "what begins like TLS is refused: %s", h.reason)
		case h.state == helloNamed && h.name != "" && h.name != c.d.Host.String():
			c.e.ServerName = h.name
			return refuse(ServerName, "TLS asks for %q", h.name)
		case h.state != helloMore:
			c.judged = true
			return nil
		}
	}
	switch {
	case ended && len(b) == 0:
		c.judged = true
	case ended:
		return refuse(BadHello, "it ends within a ClientHello")
	case len(b) >= maxHello:
		return refuse(BadHello, "its ClientHello is longer than %d bytes", maxHello)
	}
	return nil
}

// pass passes on what a side has said, as far as the other takes it, and then its end. It reports
// whether the connection goes on.
func (l *loop) pass(s *side, b []byte) bool {
	o := s.other()
	if len(b) > 0 {
		n, err := o.socket.Write(b)
		s.taken += int64(n)
		if err != nil {
			l.lastWords(s.c, o)
			return false
		}
		if n > 0 && s.lost {
			l.until(s.c, l.m.times.lost)
		}
		if n < len(b) {
			s.reads = max(minRead, s.reads/2)
			l.hold(s, b[n:])
			return true
		}
		l.release(s)
		s.reads = min(maxRead, 2*s.reads)
	}
	if s.ended && !s.passed {
		s.passed = true
		if o.passed {
			l.close(s.c)
			return false
		}
		if err := o.socket.CloseWrite(); err != nil {
			l.reset(s.c)
			return false
		}
	}
	return true
}

// lastWords ends a connection of which one side hears nothing any more. What a server has said
// before is passed on: it may have refused a request while that is still being sent.
func (l *loop) lastWords(c *connection, deaf *side) {
	if deaf == &c.server && !deaf.ended && len(deaf.left) == 0 {
		if n, err := deaf.socket.Read(l.buffer()); err == nil {
			taken, _ := c.client.socket.Write(l.buffer()[:n]) // it is reset in any case
			deaf.taken += int64(taken)
		}
	}
	l.reset(c)
}

// refuse resets a connection, so that the client does not take it for an end of what was said.
func (l *loop) refuse(c *connection, r *refusal) {
	c.refused = r
	l.reset(c)
}

// reset ends a connection so that both sides see it.
func (l *loop) reset(c *connection) { l.end(c, linux.Socket.Reset) }

// close ends a connection of which both sides know.
func (l *loop) close(c *connection) { l.end(c, linux.Socket.Close) }

func (l *loop) end(c *connection, how func(linux.Socket)) {
	client, server := c.client.socket, c.server.socket
	l.forget(c)
	l.m.open.Add(-1) // before anybody sees that it has ended
	if server >= 0 {
		how(server)
	}
	how(client)
	if !c.made {
		c.e.Address = netip.AddrPort{} // it was not connected to
		if c.refused == nil {
			c.refused = refuse(Abandoned, "it was given up before there was a connection")
		}
	}
	c.e.Sent, c.e.Received = c.client.taken, c.server.taken
	if r := c.refused; r != nil {
		c.e.Reason, c.e.Detail = r.reason, r.detail
		if r.at.IsValid() {
			c.e.Address = r.at
		}
	}
	l.m.tell(&c.e)
}

// forget lets go of a connection, and leaves its sockets open.
func (l *loop) forget(c *connection) {
	for _, s := range []*side{&c.client, &c.server} {
		if s.socket < 0 {
			continue
		}
		l.release(s)
		delete(l.sides, s.token)
		s.socket = -1
	}
	if c.cancel != nil {
		c.cancel()
	}
	delete(l.timed, c)
	l.load.Add(-1)
}
