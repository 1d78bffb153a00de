package mediator

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"maelys.dev/maelys/mir"
)

// relay passes on what both sides say until both have ended, and notes it in an event.
//
// Each direction is passed on by splice(2) where net can do so, which is the case for two TCP
// connections: nothing is copied, and nothing kept but what a pipe holds. An end of one
// direction is passed on as such, and a reset as a reset.
func (m *Mediator) relay(c *net.TCPConn, up *upstream, d mir.Destination, e *Event) {
	stop := context.AfterFunc(m.closing, func() {
		reset(c)
		reset(up.TCPConn)
	})
	defer stop()
	var other sync.WaitGroup
	other.Go(func() {
		var err error
		if e.Received, err = receive(c, up); err != nil {
			reset(c)
			reset(up.TCPConn)
		}
	})
	var refused *refusal
	var err error
	if e.Sent, refused, err = m.send(c, up, d, e); refused != nil || err != nil {
		reset(c)
		reset(up.TCPConn)
	}
	other.Wait()
	_ = c.Close()
	_ = up.Close()
	if refused != nil {
		e.Reason, e.Detail = refused.reason, refused.detail
	}
}

// send passes on what the client says. Nothing of a ClientHello goes out before it is known
// whose name is in it.
func (m *Mediator) send(c *net.TCPConn, up *upstream, d mir.Destination, e *Event) (n int64, refused *refusal, err error) {
	first, refused, err := clientHello(c, d, e)
	if refused != nil || err != nil {
		return 0, refused, err
	}
	written := 0
	if len(first) > 0 {
		if written, err = up.Write(first); err != nil {
			return int64(written), nil, err
		}
	}
	n, err = io.Copy(up.TCPConn, c)
	if err == nil {
		err = up.CloseWrite()
	}
	return int64(written) + n, nil, err
}

// clientHello reads until it is known whether the client speaks TLS, and for whom. It returns
// what it has read.
func clientHello(c *net.TCPConn, d mir.Destination, e *Event) (first []byte, refused *refusal, err error) {
	buffer := make([]byte, 4<<10)
	have, need := 0, 1
	for {
		n, err := c.Read(buffer[have:])
		have += n
		if have >= need { // a client that sends bytes one by one is not read anew each time
			h := readHello(buffer[:have])
			need, e.ECH = h.need, h.ech
			switch {
			case h.state == helloRefused:
				return nil, refuse(BadHello, "what begins like TLS is refused: %s", h.reason), nil
			case h.state == helloNamed && h.name != "" && h.name != d.Host.String():
				e.ServerName = h.name
				return nil, refuse(ServerName, "TLS asks for %q", h.name), nil
			case h.state != helloMore:
				return buffer[:have], nil, c.SetReadDeadline(time.Time{})
			}
		}
		switch {
		case errors.Is(err, io.EOF) && have == 0:
			return nil, nil, nil
		case errors.Is(err, io.EOF):
			return nil, refuse(BadHello, "it ends within a ClientHello"), nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, refuse(TimedOut, "no whole ClientHello within %s", helloTime), nil
		case err != nil:
			return nil, nil, err
		}
		if have == n { // the first
			if err := c.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
				return nil, nil, err
			}
		}
		if have == len(buffer) {
			if have >= maxHello {
				return nil, refuse(BadHello, "its ClientHello is longer than %d bytes", maxHello), nil
			}
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
	}
}

// receive passes on what the server says.
func receive(c *net.TCPConn, up *upstream) (int64, error) {
	ahead := 0
	if len(up.ahead) > 0 {
		var err error
		if ahead, err = c.Write(up.ahead); err != nil {
			return int64(ahead), err
		}
	}
	n, err := io.Copy(c, up.TCPConn)
	if err == nil {
		err = c.CloseWrite()
	}
	return int64(ahead) + n, err
}
