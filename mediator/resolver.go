package mediator

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// answerTTL is how long an answer may be kept, in seconds: long enough for many
	// connections, and not for what keeps it to take it into the next run, which may have
	// other addresses.
	answerTTL = 60

	// payload is the size of a UDP message that is said to be taken (RFC 9715). What a
	// client says is the same to us: an answer never needs the 512 bytes that it always
	// takes.
	payload = 1232

	headerSize = 12 // of a message
	optSize    = 11 // of an OPT record without options

	badVersion dnsmessage.RCode = 16 // BADVERS (RFC 6891, section 9)

	// maxShown is how long, in bytes, a name in a [Refusal] is at most.
	maxShown = 255
)

// A Refusal is a question that was not answered; the zero Refusal is none.
type Refusal struct {
	// Name is what was asked for, in lower case and without the last dot, as 255 bytes of
	// printable ASCII at most: others are written \ddd, as in a zone file, and of what is too
	// long the end is kept, after "...". Empty where it could not be read.
	Name string

	Type   string // of the question, such as AAAA or TYPE1234; empty like Name
	Reason string // refusedName, or what is wrong with the message
}

// refusedName is the reason where the policy does not allow the name.
const refusedName = "the policy allows no such name"

// Answer answers one DNS message (RFC 1035) with limit bytes at most: 512 by UDP, 65535 by
// TCP. The answer is nil for what must get none.
//
// The address of an allowed name is told, and the name of such an address; of an allowed name
// there are no other records, which is no error, so that a client goes on at once. Localhost
// and names beneath it that are not allowed, and the machine, are at loopback. All other questions are refused, except for the names of
// addresses that could be a host's, which do not exist: nothing asks for the name of an address
// to get anywhere.
//
// The name in an answer is spelled as in the question, because clients tell answers from
// forgeries by that.
func (n *Names) Answer(query []byte, limit int) (reply []byte, refused Refusal) {
	var p dnsmessage.Parser
	asked, err := p.Start(query)
	switch {
	case err != nil:
		return nil, Refusal{Reason: "it is shorter than the header of a DNS message"}
	case asked.Response: // two that answer answers never end
		return nil, Refusal{Reason: "it is an answer and no question"}
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{
		ID: asked.ID, Response: true, OpCode: asked.OpCode,
		RecursionDesired: asked.RecursionDesired, CheckingDisabled: asked.CheckingDisabled,
	}}
	if asked.OpCode != 0 {
		m.RCode = dnsmessage.RCodeNotImplemented
		return pack(&m, limit), Refusal{Reason: "operation " + strconv.Itoa(int(asked.OpCode)) + " is no question"}
	}
	q, opt, ok := question(&p, query)
	if !ok {
		m.RCode = dnsmessage.RCodeFormatError
		return pack(&m, limit), Refusal{Reason: "it is no DNS message with one question"}
	}
	m.RecursionAvailable = true
	m.Questions = []dnsmessage.Question{q}
	if opt != nil {
		var h dnsmessage.ResourceHeader
		version, code := opt.TTL>>16&0xff, dnsmessage.RCodeSuccess
		if version != 0 {
			code = badVersion
		}
		if err := h.SetEDNS0(payload, code, opt.DNSSECAllowed()); err != nil {
			return nil, Refusal{Reason: err.Error()} // it never is
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
		if version != 0 {
			return pack(&m, limit), Refusal{} // it asks again by version 0
		}
	}
	if q.Class != dnsmessage.ClassINET {
		m.RCode = dnsmessage.RCodeRefused
		return pack(&m, limit), Refusal{shown(q.Name), typeText(q.Type), "it asks for another class than IN"}
	}
	if !n.answer(&m, q) {
		m.RCode = dnsmessage.RCodeRefused
		return pack(&m, limit), Refusal{shown(q.Name), typeText(q.Type), refusedName}
	}
	m.Authoritative = true
	return pack(&m, limit), Refusal{}
}

// question reads the rest of a query: one question and perhaps an OPT record, nothing else.
// What the OPT record has of options is ignored.
func question(p *dnsmessage.Parser, query []byte) (q dnsmessage.Question, opt *dnsmessage.ResourceHeader, ok bool) {
	count := func(section int) uint16 { return binary.BigEndian.Uint16(query[4+2*section:]) }
	if count(0) != 1 || count(1) != 0 || count(2) != 0 || count(3) > 1 {
		return q, nil, false
	}
	q, err := p.Question()
	if err != nil {
		return q, nil, false
	}
	// A name may point elsewhere in the message, but there is nothing yet to point to.
	m := dnsmessage.Message{Questions: []dnsmessage.Question{q}}
	plain, err := m.Pack()
	if err != nil || !bytes.HasPrefix(query[headerSize:], plain[headerSize:]) {
		return q, nil, false
	}
	end := len(plain)
	if count(3) == 1 {
		if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
			return q, nil, false
		}
		h, err := p.AdditionalHeader()
		if err != nil || h.Type != dnsmessage.TypeOPT || query[end] != 0 { // the root
			return q, nil, false
		}
		opt = &h
		end += optSize + int(h.Length)
	}
	return q, opt, end == len(query)
}

// answer adds to m what there is to answer to a question of class IN, and reports whether it
// may be asked.
func (n *Names) answer(m *dnsmessage.Message, q dnsmessage.Question) bool {
	name, everything := lower(q.Name), q.Type == dnsmessage.TypeALL
	zone := q.Name // each name that is allowed is a zone of its own
	var record dnsmessage.ResourceBody
	if v4, v6, ok := n.addresses(name); ok {
		if q.Type == dnsmessage.TypeA || everything { // one record will do (RFC 8482)
			record = &dnsmessage.AResource{A: v4.As4()}
		} else if q.Type == dnsmessage.TypeAAAA && v6.IsValid() {
			record = &dnsmessage.AAAAResource{AAAA: v6.As16()}
		}
	} else if host, ok := n.pointed(name); ok {
		if host == "" {
			m.RCode = dnsmessage.RCodeNameError
			// 18.198.in-addr.arpa or 19.198.in-addr.arpa, as it was spelled
			zone = dnsmessage.MustNewName(strings.SplitAfterN(q.Name.String(), ".", 3)[2])
		} else if q.Type == dnsmessage.TypePTR || everything {
			record = &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(host + ".")}
		}
	} else {
		return false
	}
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
	if record != nil {
		m.Answers = []dnsmessage.Resource{{Header: h, Body: record}}
		return true
	}
	// That there is nothing can be kept when an SOA record says for how long (RFC 2308). Its
	// other numbers are for those that copy a zone.
	h.Name = zone
	m.Authorities = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.SOAResource{
		NS: zone, MBox: dnsmessage.MustNewName("."), Serial: 1, Refresh: answerTTL, Retry: answerTTL, Expire: answerTTL, MinTTL: answerTTL,
	}}}
	return true
}

// addresses returns those of a name in lower case that is allowed; v6 may be none.
func (n *Names) addresses(name string) (v4, v6 netip.Addr, ok bool) {
	if v4, ok = n.Address(name); ok && name != localhost {
		return v4, netip.Addr{}, true
	}
	if name == n.machine && name != "" {
		return ownAddress(), netip.Addr{}, true
	}
	return loopback(), netip.IPv6Loopback(), isLocalhost(name)
}

// pointed returns the host whose address a name in lower case is, as PTR records have it.
// There is none at an address that could have one; the names of others may not be asked for.
func (n *Names) pointed(name string) (host string, ok bool) {
	if name == "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa" { // ::1
		return localhost, true
	}
	text, ok := strings.CutSuffix(name, ".in-addr.arpa")
	if !ok {
		return "", false
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return "", false
	}
	b := a.As4()
	a = netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})
	switch {
	case a == loopback():
		return localhost, true
	case a == ownAddress() && n.machine != "":
		return n.machine, true
	}
	host, _ = n.Host(a)
	return host, Synthetic().Contains(a)
}

// pack returns a message of limit bytes at most. One that does not fit says that it is cut.
func pack(m *dnsmessage.Message, limit int) []byte {
	for {
		reply, err := m.Pack()
		switch {
		case err != nil:
			return nil
		case len(reply) <= limit:
			return reply
		case !m.Truncated:
			m.Truncated, m.Answers, m.Authorities = true, nil, nil
		case m.Questions != nil:
			m.Questions, m.Additionals = nil, nil
		default:
			return nil
		}
	}
}

// lower returns a name in lower case and without the last dot.
func lower(name dnsmessage.Name) string {
	b := name.Data[:name.Length]
	b = bytes.TrimSuffix(b, []byte{'.'})
	for i, c := range b {
		if 'A' <= c && c <= 'Z' { // the bytes of a copy
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// shown returns a name as a [Refusal] has it.
func shown(name dnsmessage.Name) string {
	plain := lower(name)
	if plain == "" {
		return "."
	}
	var b []byte
	for i := range len(plain) {
		switch c := plain[i]; {
		case c <= ' ' || c > '~':
			b = append(b, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
		case c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	if len(b) > maxShown {
		const cut = "..."
		return cut + string(b[len(b)-maxShown+len(cut):])
	}
	return string(b)
}

// typeText returns a type as zone files have it (RFC 3597).
func typeText(t dnsmessage.Type) string {
	switch t {
	case dnsmessage.TypeA:
		return "A"
	case dnsmessage.TypeAAAA:
		return "AAAA"
	case dnsmessage.TypeALL:
		return "ANY"
	case dnsmessage.TypeAXFR:
		return "AXFR"
	case dnsmessage.TypeCNAME:
		return "CNAME"
	case dnsmessage.TypeHINFO:
		return "HINFO"
	case dnsmessage.TypeHTTPS:
		return "HTTPS"
	case dnsmessage.TypeMINFO:
		return "MINFO"
	case dnsmessage.TypeMX:
		return "MX"
	case dnsmessage.TypeNS:
		return "NS"
	case dnsmessage.TypeOPT:
		return "OPT"
	case dnsmessage.TypePTR:
		return "PTR"
	case dnsmessage.TypeSOA:
		return "SOA"
	case dnsmessage.TypeSRV:
		return "SRV"
	case dnsmessage.TypeSVCB:
		return "SVCB"
	case dnsmessage.TypeTXT:
		return "TXT"
	case dnsmessage.TypeWKS:
		return "WKS"
	}
	return "TYPE" + strconv.Itoa(int(t))
}
