package mediator

import (
	"fmt"
	"net/netip"
	"time"
)

// A Reason says why something was refused or has failed. It is stable.
type Reason string

// The reasons.
const (
	NotAllowed     Reason = "not-allowed"     // no such name, or no such port of it
	PrivateAddress Reason = "private-address" // the name resolves to addresses that are none of a public host
	ServerName     Reason = "server-name"     // TLS asks for another name
	BadHello       Reason = "bad-hello"       // what begins like TLS is no ClientHello, or is ambiguous
	Unresolved     Reason = "unresolved"      // the name has no address
	Unreachable    Reason = "unreachable"     // nobody answers there, or the proxy of the host says no
	TooMany        Reason = "too-many"        // connections at once
	TimedOut       Reason = "timed-out"       // it took too long to connect, or to say hello
	Abandoned      Reason = "abandoned"       // the command went away, or ended, before there was a connection
	BadQuery       Reason = "bad-query"       // a DNS message that is none
)

// Refused reports whether the reason is a decision, and not a failure of the network.
func (r Reason) Refused() bool {
	return r != "" && r != Unresolved && r != Unreachable && r != TimedOut && r != Abandoned
}

// An Event is what became of one connection, or of one DNS question that was refused.
type Event struct {
	Began    time.Time
	Duration time.Duration

	Host string // as the policy spells it; for a question as it was asked; the address where no name is known
	Port uint16 // 0 for a question

	// Address is what was connected to, on the host's side, or with [PrivateAddress] what was
	// not; the zero AddrPort where the proxy of the host connects, and where nothing was.
	Address netip.AddrPort
	Proxied bool // by the proxy of the host

	ServerName string // that TLS asked for, where it is the reason

	// ECH says that the client has sent an Encrypted Client Hello (RFC 9849), which may hold
	// another name than the one that is seen, or nothing: browsers always send one.
	ECH bool

	Sent, Received int64 // bytes by the command and to it

	Reason Reason // empty for a connection that was allowed and made
	Detail string // of the reason, for people
}

// A Cause is what events have in common that are told of once.
type Cause struct {
	Host   string
	Port   uint16
	Reason Reason
}

// Cause returns that of e.
func (e *Event) Cause() Cause { return Cause{e.Host, e.Port, e.Reason} }

// Target is what was asked for, for people: HOST:PORT, or the name in a question.
func (e *Event) Target() string {
	if e.Port == 0 {
		return e.Host
	}
	return fmt.Sprintf("%s:%d", e.Host, e.Port)
}

// String is for people.
func (e *Event) String() string {
	what := e.Target()
	if e.Reason == "" {
		return fmt.Sprintf("%s: %d bytes sent, %d received in %s", what, e.Sent, e.Received, e.Duration.Round(time.Millisecond))
	}
	if e.Detail == "" {
		return fmt.Sprintf("%s: %s", what, e.Reason)
	}
	return fmt.Sprintf("%s: %s [%s]", what, e.Detail, e.Reason)
}

// A refusal is why there is no connection.
type refusal struct {
	reason Reason
	detail string
	at     netip.AddrPort // what it is about, if that is an address
}

func (r *refusal) Error() string { return fmt.Sprintf("%s [%s]", r.detail, r.reason) }

func refuse(reason Reason, format string, args ...any) *refusal {
	return &refusal{reason: reason, detail: fmt.Sprintf(format, args...)}
}
