package mediator

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

const (
	// questionTime is how long a client that asks by TCP may be silent.
	questionTime = 10 * time.Second

	maxDatagram = 512
	maxStream   = 64<<10 - 1
)

// datagrams answers DNS questions that come by UDP.
func (m *Mediator) datagrams(p net.PacketConn) {
	query := make([]byte, 64<<10)
	for {
		n, from, err := p.ReadFrom(query)
		if err != nil {
			if m.closing.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // one that has gone away, for example (ICMP)
		}
		if reply := m.answer(query[:n], maxDatagram); reply != nil {
			_, _ = p.WriteTo(reply, from) // it asks again
		}
	}
}

// questions answers those of one connection (RFC 1035, section 4.2.2; RFC 7766).
func (m *Mediator) questions(c net.Conn) {
	stop := context.AfterFunc(m.closing, func() { _ = c.Close() })
	defer stop()
	var size [2]byte
	query := make([]byte, 64<<10)
	for {
		if c.SetDeadline(time.Now().Add(questionTime)) != nil {
			return
		}
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query[:n]); err != nil {
			return
		}
		reply := m.answer(query[:n], maxStream)
		if reply == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// answer answers one question, and tells of it when it was refused.
func (m *Mediator) answer(query []byte, limit int) []byte {
	began := time.Now()
	reply, refused := m.names.Answer(query, limit)
	if refused != (Refusal{}) {
		e := Event{Began: began, Host: refused.Name, Reason: NotAllowed, Detail: refused.Reason}
		if refused.Reason != refusedName {
			e.Reason = BadQuery
		}
		m.tell(&e)
	}
	return reply
}
