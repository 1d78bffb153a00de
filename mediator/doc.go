// Package mediator lets a sandboxed command reach the listed hosts by TCP, and nothing else.
//
// In the network namespace of the command each allowed name has an address of its own, out
// of a range that is local there ([Names]); a resolver tells it, and so does /etc/hosts.
// What connects there is accepted by a [Mediator], outside, which knows by address and port
// alone what is meant, looks up the real name, connects, and relays the bytes. There is no
// route to anything else.
//
// Nothing that the client says is believed: not a name in a query, not a Host header. If it
// opens with a TLS ClientHello for another name, the connection is refused. What a real name
// resolves to is judged when it is connected to: no name leads to loopback, to private or
// link-local addresses or to a metadata service, unless the caller says so for that name.
//
// The package makes no sockets inside: it is given listeners.
package mediator
