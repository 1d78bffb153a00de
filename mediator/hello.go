package mediator

import (
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	maxFragment   = 1 << 14 // bytes of a TLS record that is not encrypted (RFC 8446, section 5.1)
	maxHandshake  = 1 << 16 // bytes of a ClientHello, as far as servers take it
	maxServerName = 255     // bytes in the name that it asks for
	maxSessionID  = 32      // bytes

	recordHeader    = 5 // bytes: type, version, length
	handshakeHeader = 4 // bytes: type, length

	firstRecordType = 0x14
	typeAlert       = 0x15
	typeHandshake   = 0x16
	lastRecordType  = 0x18
	majorVersion    = 3 // of SSL 3.0 and of TLS

	typeClientHello     = 1 // of a handshake message
	extensionServerName = 0
	extensionECH        = 0xfe0d
)

// A helloState is what is known of how a client begins.
type helloState uint8

const (
	helloNone    helloState = iota // it does not speak TLS, or not in a way that can ask for a name
	helloMore                      // it may speak TLS, and has not said all of it
	helloNamed                     // a whole ClientHello is there, and nobody can read it in two ways
	helloRefused                   // it may be read as TLS, by somebody, in some way
)

// A hello is what the first bytes of a client are as TLS.
type hello struct {
	state helloState

	// name is what a ClientHello asks for: in lower case, without the dot that may be at the
	// end; empty if it asks for none. It has letters, digits, hyphens, underscores and dots
	// only, but need not be a hostname.
	name string

	// ech is whether the ClientHello has an encrypted one in it (RFC 9849), or what looks like
	// it: browsers always send that (GREASE), and nobody but the server can tell. The name is
	// the one outside then, and what may be inside is hidden.
	ech bool

	reason string // why it is refused
	need   int    // with helloMore: bytes, from the first on, without which nothing is whole
}

// readHello says what the first bytes of a client are, which may be any number of them. It
// does not keep b.
//
// Nothing of a ClientHello must go to a server before it is known whose name is in it. Servers
// forgive different faults: what any of them may take for a ClientHello is read here by all of
// the rules, and refused if it breaks one that matters for the name. What no server takes for
// one is not TLS. Neither is the ClientHello of SSL 2.0, with which TLS up to 1.2 may begin
// too: it has no place for a name, so it goes as one goes that asks for none.
//
// What comes after the first ClientHello is not looked at: neither a second one, which a
// server of TLS 1.3 may ask for and has to compare with the first, nor one that is encrypted.
//
// The time is linear in b, and at most one copy of the ClientHello is made, if it is in parts.
// When more is needed it is of no use to ask again before there are hello.need bytes. That
// matters if each byte comes alone, in a record of its own: all of the records are walked
// again each time.
func readHello(b []byte) hello {
	if h := beginning(b); h.state != helloMore || h.need > len(b) {
		return h
	}
	var (
		header [handshakeHeader]byte
		have   int // bytes of the message that are there
		whole  int // bytes of the message, with its header; 0 as long as that is not known
	)
	for at := 0; ; {
		rest := b[at:]
		if fault := recordFault(rest); fault != "" {
			return refusedHello("%s", fault)
		}
		if len(rest) < recordHeader {
			return moreHello(at+recordHeader, maxFragment, whole-have)
		}
		size := int(binary.BigEndian.Uint16(rest[3:]))
		fragment := rest[recordHeader:min(recordHeader+size, len(rest))]
		if have < len(header) {
			copy(header[have:], fragment)
		}
		have += len(fragment)
		if have > 0 && header[0] != typeClientHello {
			return refusedHello("its first message is of type %d, and no ClientHello", header[0])
		}
		if whole == 0 && have >= len(header) {
			n := int(header[1])<<16 | int(header[2])<<8 | int(header[3])
			if n > maxHandshake {
				return refusedHello("a ClientHello of %d bytes", n)
			}
			whole = len(header) + n
		}
		switch {
		case whole > 0 && have >= whole:
			message := fragment
			if at > 0 {
				message = joined(b, whole)
			}
			return readMessage(message[len(header):whole])
		case len(fragment) < size:
			return moreHello(len(b), size-len(fragment), whole-have)
		}
		at += recordHeader + size
	}
}

// beginning says what the first bytes are by the first of them: anything but a record of TLS
// with a part of a handshake, which is more if it may be one, and needs no more than there is
// if it is one.
func beginning(b []byte) hello {
	switch {
	case len(b) == 0:
		return hello{state: helloMore, need: 1}
	case b[0] < firstRecordType || b[0] > lastRecordType:
		return hello{}
	case len(b) == 1:
		return hello{state: helloMore, need: 2}
	case b[1] == majorVersion && b[0] != typeHandshake:
		// Some servers pass over an alert that comes first, or a change_cipher_spec.
		return refusedHello("its first record is of type %d, and has no ClientHello", b[0])
	case b[1] == majorVersion:
		return hello{state: helloMore}
	}
	// Servers are told to ignore the version of a record (RFC 8446, section 5.1), and some do
	// so for the first. No client has another one than 3, so if the rest fits, it is a trick;
	// with another type, or without a ClientHello, it is something else than TLS. That is
	// known after one byte of content: it has the same value in a ClientHello and in an alert
	// that is passed over.
	if b[0] != typeHandshake && b[0] != typeAlert {
		return hello{}
	}
	if len(b) <= recordHeader {
		return hello{state: helloMore, need: recordHeader + 1}
	}
	if size := binary.BigEndian.Uint16(b[3:]); size == 0 || size > maxFragment || b[recordHeader] != typeClientHello {
		return hello{}
	}
	return refusedHello("a record of version %d.%d", b[1], b[2])
}

// recordFault says what is wrong with a record by what there is of its header, if anything is.
func recordFault(b []byte) string {
	switch {
	case len(b) > 0 && b[0] != typeHandshake:
		return fmt.Sprintf("a record of type %d within its ClientHello", b[0])
	case len(b) > 1 && b[1] != majorVersion:
		return fmt.Sprintf("a record of major version %d within its ClientHello", b[1])
	case len(b) < recordHeader:
		return ""
	}
	size := binary.BigEndian.Uint16(b[3:])
	switch {
	case size == 0:
		return "an empty record"
	case size > maxFragment:
		return fmt.Sprintf("a record of %d bytes", size)
	}
	return ""
}

// joined returns the first bytes of the message that is in the records of b.
func joined(b []byte, whole int) []byte {
	message := make([]byte, 0, whole)
	for len(message) < whole {
		size := int(binary.BigEndian.Uint16(b[3:]))
		b = b[recordHeader:]
		message = append(message, b[:min(size, whole-len(message))]...)
		b = b[min(size, len(b)):]
	}
	return message
}

func refusedHello(format string, args ...any) hello {
	return hello{state: helloRefused, reason: fmt.Sprintf(format, args...)}
}

// moreHello is the answer where bytes are missing of the message. They come after the first at
// bytes: as many as inRecord in one that has begun, the others in as few records as may be. At
// least one is missing, if it is not known how many.
func moreHello(at, inRecord, missing int) hello {
	missing = max(missing, 1)
	records := max(0, missing-inRecord+maxFragment-1) / maxFragment
	return hello{state: helloMore, need: at + missing + records*recordHeader}
}

// readMessage reads a ClientHello without its header (RFC 8446, section 4.1.2).
func readMessage(b []byte) hello {
	r := fields{rest: b}
	version := r.number(2)
	r.take(32) // random
	session := r.vector(1)
	suites := r.vector(2)
	compressions := r.vector(1)
	switch {
	case r.short:
		return refusedHello("its ClientHello ends early")
	case version < majorVersion<<8:
		return refusedHello("a ClientHello of version %d.%d", version>>8, version&0xff)
	case len(session) > maxSessionID:
		return refusedHello("a session ID of %d bytes", len(session))
	case len(suites) == 0 || len(suites)%2 != 0:
		return refusedHello("cipher suites of %d bytes", len(suites))
	case len(compressions) == 0:
		return refusedHello("no compression methods")
	case len(r.rest) == 0: // TLS before 1.3 may do without them
		return hello{state: helloNamed}
	}
	extensions := fields{rest: r.vector(2)}
	if r.short || len(r.rest) > 0 {
		return refusedHello("extensions of another length than what is left of its ClientHello")
	}
	h := hello{state: helloNamed}
	for named := false; len(extensions.rest) > 0; {
		kind, data := extensions.number(2), extensions.vector(2)
		if extensions.short {
			return refusedHello("an extension that ends early")
		}
		switch kind {
		case extensionServerName:
			if named {
				return refusedHello("two extensions with server names")
			}
			named = true
			var fault string
			if h.name, fault = readServerName(data); fault != "" {
				return refusedHello("%s", fault)
			}
		case extensionECH:
			h.ech = true
		}
	}
	return h
}

// readServerName reads the extension with the name that is asked for (RFC 6066, section 3):
// a list that has one name, since there is one kind of them. Otherwise it returns what is
// wrong.
func readServerName(b []byte) (name, fault string) {
	r := fields{rest: b}
	list := fields{rest: r.vector(2)}
	if r.short || len(r.rest) > 0 {
		return "", "a list of server names of another length than its extension"
	}
	if len(list.rest) == 0 {
		return "", "an empty list of server names"
	}
	kind, text := list.number(1), list.vector(2)
	switch {
	case list.short:
		return "", "a server name that ends early"
	case kind != 0:
		return "", fmt.Sprintf("a server name of type %d", kind)
	case len(list.rest) > 0:
		return "", "more than one server name"
	case len(text) > maxServerName:
		return "", fmt.Sprintf("a server name of %d bytes", len(text))
	}
	lower := make([]byte, 0, maxServerName)
	for _, c := range text {
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return "", fmt.Sprintf("a server name with the byte %q in it", c)
		}
		lower = append(lower, c)
	}
	// It should be without the dot at the end, but servers forgive that.
	name = strings.TrimSuffix(string(lower), ".")
	if name == "" {
		return "", "an empty server name"
	}
	return name, ""
}

// fields takes fields of TLS from bytes. Once one is not there as a whole it is short, and all
// that follow are zero.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.rest) {
		f.rest, f.short = nil, true
	}
	if f.short {
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// number takes a number of some bytes.
func (f *fields) number(bytes int) (n int) {
	for _, b := range f.take(bytes) {
		n = n<<8 | int(b)
	}
	return n
}

// vector takes bytes that come after their number, which itself has some bytes.
func (f *fields) vector(bytes int) []byte { return f.take(f.number(bytes)) }
