package mediator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// longest is a host of 253 bytes, the most there can be.
var longest = strings.Repeat(strings.Repeat("l", 62)+".", 4) + "e"

func fewNames(t testing.TB) *Names {
	t.Helper()
	return NewNames(destinations(t, "a.example.com:443", "b.example.com:443", longest+":443", "localhost:5432", "single:80"), "Machine")
}

// message returns one with ID 0x1234, of flags, a digit for the count of each section, and what
// follows.
func message(flags uint16, counts string, rest ...string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x12, 0x34}, flags)
	for _, c := range counts {
		b = append(b, 0, byte(c-'0'))
	}
	return append(b, strings.Join(rest, "")...)
}

// wire returns a question of class IN as it is in a message.
func wire(name string, t dnsmessage.Type) string {
	var b []byte
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	return string(append(b, 0, byte(t>>8), byte(t), 0, 1))
}

// optRecord returns an OPT record.
func optRecord(size uint16, version byte, flags uint16, options string) string {
	b := append([]byte{0, 0, 41}, byte(size>>8), byte(size), 0, version, byte(flags>>8), byte(flags))
	return string(append(binary.BigEndian.AppendUint16(b, uint16(len(options))), options...))
}

// ask returns a usual query.
func ask(name string, t dnsmessage.Type) []byte { return message(0x0100, "1000", wire(name, t)) }

// read returns what a reply says.
func read(t testing.TB, reply []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("%x: %v", reply, err)
	}
	return m
}

// text returns the records of a section, each as NAME TYPE VALUE.
func text(section []dnsmessage.Resource) string {
	var all []string
	for _, r := range section {
		var value string
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			value = netip.AddrFrom4(b.A).String()
		case *dnsmessage.AAAAResource:
			value = netip.AddrFrom16(b.AAAA).String()
		case *dnsmessage.PTRResource:
			value = b.PTR.String()
		case *dnsmessage.SOAResource:
			value = fmt.Sprintf("%s %s %d", b.NS, b.MBox, b.MinTTL)
		default:
			value = fmt.Sprintf("%#v", b)
		}
		all = append(all, fmt.Sprintf("%s %s %s", r.Header.Name, typeText(r.Header.Type), value))
		if r.Header.TTL != 60 || r.Header.Class != dnsmessage.ClassINET {
			all = append(all, fmt.Sprintf("TTL %d, class %d", r.Header.TTL, r.Header.Class))
		}
	}
	return strings.Join(all, "\n")
}

// TestAnswer asks for names and types.
func TestAnswer(t *testing.T) {
	const (
		naming = dnsmessage.TypePTR
		ipv6   = ".0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa"
	)
	n := fewNames(t)
	for _, c := range []struct {
		name          string
		of            dnsmessage.Type
		answer        string // the name is put before it
		zone          string // of the SOA record, if there is one
		code          dnsmessage.RCode
		refused, kind string // as reported
	}{
		{name: "a.example.com", of: dnsmessage.TypeA, answer: "A 198.18.0.2"},
		{name: "b.example.com", of: dnsmessage.TypeA, answer: "A 198.18.0.3"},
		{name: "single", of: dnsmessage.TypeA, answer: "A 198.18.0.6"},
		{name: longest, of: dnsmessage.TypeA, answer: "A 198.18.0.4"},
		{name: "a.example.com", of: dnsmessage.TypeALL, answer: "A 198.18.0.2"},
		{name: "a.ExAmPlE.cOm", of: dnsmessage.TypeA, answer: "A 198.18.0.2"},
		{name: "A.EXAMPLE.COM", of: dnsmessage.TypeAAAA, zone: "A.EXAMPLE.COM."},
		{name: "a.example.com", of: dnsmessage.TypeAAAA, zone: "a.example.com."},
		{name: longest, of: dnsmessage.TypeAAAA, zone: longest + "."},
		{name: "a.example.com", of: dnsmessage.TypeTXT, zone: "a.example.com."},
		{name: "a.example.com", of: dnsmessage.TypeHTTPS, zone: "a.example.com."},
		{name: "a.example.com", of: dnsmessage.TypeSVCB, zone: "a.example.com."},
		{name: "a.example.com", of: dnsmessage.TypeMX, zone: "a.example.com."},
		{name: "a.example.com", of: dnsmessage.TypeSRV, zone: "a.example.com."},
		{name: "a.example.com", of: dnsmessage.TypeSOA, zone: "a.example.com."},
		{name: "a.example.com", of: naming, zone: "a.example.com."},
		{name: "a.example.com", of: 65280, zone: "a.example.com."},

		{name: "localhost", of: dnsmessage.TypeA, answer: "A 127.0.0.1"},
		{name: "LOCALHOST", of: dnsmessage.TypeAAAA, answer: "AAAA ::1"},
		{name: "x.y.localhost", of: dnsmessage.TypeA, answer: "A 127.0.0.1"},
		{name: "x.localhost", of: dnsmessage.TypeAAAA, answer: "AAAA ::1"},
		{name: "localhost", of: dnsmessage.TypeALL, answer: "A 127.0.0.1"},
		{name: "localhost", of: dnsmessage.TypeMX, zone: "localhost."},
		{name: "machine", of: dnsmessage.TypeA, answer: "A 127.0.1.1"},
		{name: "MACHINE", of: dnsmessage.TypeAAAA, zone: "MACHINE."},
		{name: "1.1.0.127.in-addr.arpa", of: naming, answer: "PTR machine."},

		{name: "2.0.18.198.in-addr.arpa", of: naming, answer: "PTR a.example.com."},
		{name: "4.0.18.198.in-addr.arpa", of: naming, answer: "PTR " + longest + "."},
		{name: "5.0.18.198.IN-ADDR.arpa", of: naming, code: dnsmessage.RCodeNameError, zone: "18.198.IN-ADDR.arpa."}, // localhost has none of its own
		{name: "6.0.18.198.in-addr.arpa", of: naming, answer: "PTR single."},
		{name: "2.0.18.198.in-addr.arpa", of: dnsmessage.TypeALL, answer: "PTR a.example.com."},
		{name: "2.0.18.198.in-addr.arpa", of: dnsmessage.TypeA, zone: "2.0.18.198.in-addr.arpa."},
		{name: "1.0.0.127.in-addr.arpa", of: naming, answer: "PTR localhost."},
		{name: "1" + ipv6, of: naming, answer: "PTR localhost."},
		{name: "1" + ipv6, of: dnsmessage.TypeTXT, zone: "1" + ipv6 + "."},
		{name: "1.0.18.198.in-addr.arpa", of: naming, code: dnsmessage.RCodeNameError, zone: "18.198.in-addr.arpa."},
		{name: "9.9.19.198.In-Addr.Arpa", of: naming, code: dnsmessage.RCodeNameError, zone: "19.198.In-Addr.Arpa."},
		{name: "0.0.18.198.in-addr.arpa", of: dnsmessage.TypeA, code: dnsmessage.RCodeNameError, zone: "18.198.in-addr.arpa."},

		{name: "c.example.com", of: dnsmessage.TypeA, code: dnsmessage.RCodeRefused, refused: "c.example.com", kind: "A"},
		{name: "C.Example.Com", of: dnsmessage.TypeAAAA, code: dnsmessage.RCodeRefused, refused: "c.example.com", kind: "AAAA"},
		{name: "example.com", of: dnsmessage.TypeNS, code: dnsmessage.RCodeRefused, refused: "example.com", kind: "NS"},
		{name: "x.a.example.com", of: dnsmessage.TypeTXT, code: dnsmessage.RCodeRefused, refused: "x.a.example.com", kind: "TXT"},
		{name: "_443._tcp.a.example.com", of: 52, code: dnsmessage.RCodeRefused, refused: "_443._tcp.a.example.com", kind: "TYPE52"},
		{name: "xa.example.com", of: dnsmessage.TypeALL, code: dnsmessage.RCodeRefused, refused: "xa.example.com", kind: "ANY"},
		{name: ".", of: dnsmessage.TypeNS, code: dnsmessage.RCodeRefused, refused: ".", kind: "NS"},
		{name: "notlocalhost", of: dnsmessage.TypeA, code: dnsmessage.RCodeRefused, refused: "notlocalhost", kind: "A"},
		{name: "localhost.example.com", of: dnsmessage.TypeA, code: dnsmessage.RCodeRefused, refused: "localhost.example.com", kind: "A"},
		{name: "8.8.8.8.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "8.8.8.8.in-addr.arpa", kind: "PTR"},
		{name: "2.0.0.127.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "2.0.0.127.in-addr.arpa", kind: "PTR"},
		{name: "2.0.17.198.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "2.0.17.198.in-addr.arpa", kind: "PTR"},
		{name: "1.0.20.198.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "1.0.20.198.in-addr.arpa", kind: "PTR"},
		{name: "02.0.18.198.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "02.0.18.198.in-addr.arpa", kind: "PTR"},
		{name: "x.2.0.18.198.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "x.2.0.18.198.in-addr.arpa", kind: "PTR"},
		{name: "18.198.in-addr.arpa", of: dnsmessage.TypeSOA, code: dnsmessage.RCodeRefused, refused: "18.198.in-addr.arpa", kind: "SOA"},
		{name: "::1.in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "::1.in-addr.arpa", kind: "PTR"},
		{name: "in-addr.arpa", of: naming, code: dnsmessage.RCodeRefused, refused: "in-addr.arpa", kind: "PTR"},
		{name: "2" + ipv6, of: naming, code: dnsmessage.RCodeRefused, refused: "2" + ipv6, kind: "PTR"},
	} {
		t.Run(fmt.Sprintf("%.30s %s", c.name, typeText(c.of)), func(t *testing.T) {
			for _, opt := range []bool{false, true} {
				query := ask(c.name, c.of)
				if opt {
					query = message(0x0100, "1001", wire(c.name, c.of), optRecord(4096, 0, 0x8000, ""))
				}
				reply, refused := n.Answer(query, 512)
				m := read(t, reply)
				if m.ID != 0x1234 || !m.Response || m.OpCode != 0 || m.Truncated || !m.RecursionDesired || !m.RecursionAvailable || m.AuthenticData || m.CheckingDisabled || m.Authoritative != (c.refused == "") {
					t.Errorf("the header is %#v", m.Header)
				}
				if question := query[12 : 12+len(wire(c.name, c.of))]; !bytes.HasPrefix(reply[12:], question) || len(m.Questions) != 1 {
					t.Errorf("%q does not repeat the question %q", reply, question)
				}
				answer := c.answer
				if answer != "" {
					answer = c.name + ". " + answer
				}
				zone := c.zone
				if zone != "" {
					zone = fmt.Sprintf("%s SOA %[1]s . 60", zone)
				}
				if m.RCode != c.code || text(m.Answers) != answer || text(m.Authorities) != zone {
					t.Errorf("it is %s, %q, %q; want %s, %q, %q", m.RCode, text(m.Answers), text(m.Authorities), c.code, answer, zone)
				}
				if len(m.Additionals) == 1 != opt {
					t.Errorf("%d additional records", len(m.Additionals))
				}
				want := Refusal{}
				if c.refused != "" {
					want = Refusal{c.refused, c.kind, refusedName}
				}
				if refused != want {
					t.Errorf("%+v is told of, want %+v", refused, want)
				}
			}
		})
	}
}

// TestMessages sends other messages than usual questions.
func TestMessages(t *testing.T) {
	const (
		none    = dnsmessage.RCode(0xffff)
		usual   = 0x0100
		badVers = 16
	)
	usually := wire("a.example.com", dnsmessage.TypeA)
	plain := optRecord(1232, 0, 0, "")
	record := "\x01x\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x7f\x00\x00\x01" // an A record
	for _, c := range []struct {
		name   string
		query  []byte
		code   dnsmessage.RCode
		reason string // part of it
	}{
		{"a usual one", message(usual, "1000", usually), 0, ""},
		{"with an OPT record", message(usual, "1001", usually, plain), 0, ""},
		{"with options", message(usual, "1001", usually, optRecord(1232, 0, 0, "\x00\x0a\x00\x08cookiess\x00\x08\x00\x07\x00\x01\x18\x00\xc0\x00\x02")), 0, ""},
		{"with options that are none", message(usual, "1001", usually, optRecord(1232, 0, 0, "\xff\xff\xff")), 0, ""},
		{"EDNS version 1", message(usual, "1001", usually, optRecord(1232, 1, 0, "")), badVers, ""},
		{"EDNS version 255, of a name that is not allowed", message(usual, "1001", wire("c.example.com", 1), optRecord(1232, 255, 0, "")), badVers, ""},
		{"no payload at all", message(usual, "1001", usually, optRecord(0, 0, 0, "")), 0, ""},
		{"nothing", nil, none, "shorter"},
		{"half a header", message(usual, "100"), none, "shorter"},
		{"an answer", message(0x8180, "1000", usually), none, "answer"},
		{"an answer of another operation", message(0xa800, "1000", usually), none, "answer"},
		{"an inverse query", message(0x0800, "0100", record), dnsmessage.RCodeNotImplemented, "operation 1"},
		{"a notification", message(0x2000, "1000", usually), dnsmessage.RCodeNotImplemented, "operation 4"},
		{"an update", message(0x2800, "1000", usually), dnsmessage.RCodeNotImplemented, "operation 5"},
		{"operation 15, malformed", message(0x7800, "9999"), dnsmessage.RCodeNotImplemented, "operation 15"},
		{"another class", message(usual, "1000", "\x07version\x04bind\x00\x00\x10\x00\x03"), dnsmessage.RCodeRefused, "class"},
		{"another class for an allowed name", message(usual, "1000", usually[:len(usually)-1]+"\xff"), dnsmessage.RCodeRefused, "class"},
		{"no question", message(usual, "0000"), dnsmessage.RCodeFormatError, "one question"},
		{"no question, but an OPT record", message(usual, "0001", plain), dnsmessage.RCodeFormatError, "one question"},
		{"two questions", message(usual, "2000", usually, usually), dnsmessage.RCodeFormatError, "one question"},
		{"one of two questions", message(usual, "2000", usually), dnsmessage.RCodeFormatError, "one question"},
		{"a question that is not there", message(usual, "1000"), dnsmessage.RCodeFormatError, "one question"},
		{"a question cut short", message(usual, "1000", usually[:len(usually)-1]), dnsmessage.RCodeFormatError, "one question"},
		{"a name without an end", message(usual, "1000", usually[:15]), dnsmessage.RCodeFormatError, "one question"},
		{"something after it", message(usual, "1000", usually, "\x00"), dnsmessage.RCodeFormatError, "one question"},
		{"something after the OPT record", message(usual, "1001", usually, plain, "\x00"), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record that is not counted", message(usual, "1000", usually, plain), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record that is not there", message(usual, "1001", usually), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record cut short", message(usual, "1001", usually, plain[:10]), dnsmessage.RCodeFormatError, "one question"},
		{"options cut short", message(usual, "1001", usually, optRecord(1232, 0, 0, "four")[:13]), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record of a name", message(usual, "1001", usually, "\x01x", plain), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record of a name elsewhere", message(usual, "1001", usually, "\xc0\x04", plain[1:]), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record of a name elsewhere, as long as it would be", message(usual, "1001", usually, "\xc0\x04", optRecord(1232, 0, 0, "x")[1:11]), dnsmessage.RCodeFormatError, "one question"},
		{"two OPT records", message(usual, "1002", usually, plain, plain), dnsmessage.RCodeFormatError, "one question"},
		{"two OPT records that are not there", message(usual, "1002", usually), dnsmessage.RCodeFormatError, "one question"},
		{"another record", message(usual, "1001", usually, record), dnsmessage.RCodeFormatError, "one question"},
		{"another record of the root", message(usual, "1001", usually, "\x00\x00\x01", plain[3:]), dnsmessage.RCodeFormatError, "one question"},
		{"with an answer", message(usual, "1100", usually, record), dnsmessage.RCodeFormatError, "one question"},
		{"with an answer that is not there", message(usual, "1100", usually), dnsmessage.RCodeFormatError, "one question"},
		{"with an authority", message(usual, "1010", usually, record), dnsmessage.RCodeFormatError, "one question"},
		{"with an authority that is not there", message(usual, "1010", usually), dnsmessage.RCodeFormatError, "one question"},
		{"an OPT record as an answer", message(usual, "1100", usually, plain), dnsmessage.RCodeFormatError, "one question"},
		{"a name that points to itself", message(usual, "1000", "\xc0\x0c\x00\x01\x00\x01"), dnsmessage.RCodeFormatError, "one question"},
		{"a name that points into the header", message(usual, "1000", "\x01x\xc0\x04\x00\x01\x00\x01"), dnsmessage.RCodeFormatError, "one question"},
		{"a name that is the root elsewhere", message(usual, "1000", "\xc0\x06\x00\x01\x00\x01"), dnsmessage.RCodeFormatError, "one question"},
		{"a name that points into the header, and as long as it would be", message(usual, "1000", "\xc0\x05\x00\x01\x00\x01", "\x00"), dnsmessage.RCodeFormatError, "one question"},
		{"a name that points past the end", message(usual, "1000", "\x01x\xff\xff\x00\x01\x00\x01"), dnsmessage.RCodeFormatError, "one question"},
		{"a label of 64 bytes", message(usual, "1000", wire(strings.Repeat("x", 64)+".com", 1)), dnsmessage.RCodeFormatError, "one question"},
		{"a name of 254 bytes", message(usual, "1000", wire("x"+longest, 1)), dnsmessage.RCodeFormatError, "one question"},
		{"a name of 1000 bytes", message(usual, "1000", wire(strings.Repeat("x.", 500), 1)), dnsmessage.RCodeFormatError, "one question"},
		{"a dot in a label", message(usual, "1000", "\x0da.example.com\x00\x00\x01\x00\x01"), dnsmessage.RCodeFormatError, "one question"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, refused := fewNames(t).Answer(c.query, 512)
			if c.reason == "" && refused != (Refusal{}) || !strings.Contains(refused.Reason, c.reason) || refused.Reason == refusedName {
				t.Errorf("%+v is told of, want %q", refused, c.reason)
			}
			if (reply == nil) != (c.code == none) {
				t.Fatalf("the reply is %x, want %s", reply, c.code)
			}
			if reply == nil {
				return
			}
			m := read(t, reply)
			code := m.RCode
			for _, r := range m.Additionals {
				code = r.Header.ExtendedRCode(code)
				if r.Header.Type != dnsmessage.TypeOPT || r.Header.Class != 1232 || r.Header.TTL&0x00ffffff != 0 {
					t.Errorf("it has %+v", r.Header)
				}
			}
			if code != c.code {
				t.Errorf("it is %d, want %d", code, c.code)
			}
			if asked := binary.BigEndian.Uint16(c.query[2:]); m.ID != 0x1234 || !m.Response || uint16(m.OpCode) != asked>>11 || m.Authoritative != (c.code == 0) || m.AuthenticData {
				t.Errorf("the header is %#v", m.Header)
			}
			if code != 0 && len(m.Answers)+len(m.Authorities) != 0 {
				t.Errorf("it is an error and says %v, %v", m.Answers, m.Authorities)
			}
			if (len(m.Additionals) == 1) != (c.query[11] == 1 && m.RCode == 0) {
				t.Errorf("%d additional records", len(m.Additionals))
			}
		})
	}
}

// TestFlags has what a question says of itself repeated, and nothing else.
func TestFlags(t *testing.T) {
	usually := wire("a.example.com", dnsmessage.TypeA)
	for _, c := range []struct {
		name      string
		asked     uint16
		opt       uint16 // flags of it
		want, too uint16 // of the header and of the OPT record
	}{
		{"none", 0, 0, 0x8480, 0},
		{"RD", 0x0100, 0, 0x8580, 0},
		{"RD, AD and CD", 0x0130, 0, 0x8590, 0},
		{"those of answers, and what must be zero", 0x06cf, 0, 0x8480, 0},
		{"DO", 0x0100, 0x8000, 0x8580, 0x8000},
		{"DO, and what must be zero", 0x0100, 0xffff, 0x8580, 0x8000},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, refused := fewNames(t).Answer(message(c.asked, "1001", usually, optRecord(512, 0, c.opt, "")), 512)
			if refused != (Refusal{}) || len(reply) < 12 {
				t.Fatalf("%x, %+v", reply, refused)
			}
			flags, last := binary.BigEndian.Uint16(reply[2:]), binary.BigEndian.Uint16(reply[len(reply)-4:])
			if flags != c.want || last != c.too {
				t.Errorf("%#04x and %#04x, want %#04x and %#04x", flags, last, c.want, c.too)
			}
		})
	}
}

// TestLimit has less and less room for an answer, down to none.
func TestLimit(t *testing.T) {
	n := fewNames(t)
	for _, query := range [][]byte{
		ask("4.0.18.198.in-addr.arpa", dnsmessage.TypePTR),
		message(0x0100, "1001", wire(longest, dnsmessage.TypeAAAA), optRecord(1232, 0, 0, "")),
		ask("c.example.com", dnsmessage.TypeA),
	} {
		whole, want := n.Answer(query, 65535)
		if len(whole) > 512 {
			t.Errorf("%d bytes are more than a datagram", len(whole))
		}
		for limit := range 513 {
			reply, refused := n.Answer(query, limit)
			if refused != want {
				t.Fatalf("with %d bytes %+v is told of, want %+v", limit, refused, want)
			}
			switch {
			case limit < 12:
				if reply != nil {
					t.Fatalf("%d bytes, there is room for %d", len(reply), limit)
				}
			case limit >= len(whole):
				if !bytes.Equal(reply, whole) {
					t.Fatalf("with %d bytes it is %x, want %x", limit, reply, whole)
				}
			default:
				if m := read(t, reply); len(reply) > limit || !m.Truncated || len(m.Answers)+len(m.Authorities) != 0 || m.ID != 0x1234 {
					t.Fatalf("with %d bytes it is %d: %#v", limit, len(reply), m)
				}
			}
		}
	}
}

// TestRefusedNames asks for names that should not come to a terminal as they are.
func TestRefusedNames(t *testing.T) {
	n := fewNames(t)
	for _, c := range []struct{ name, labels, want string }{
		{"a sequence for a terminal", "\x08\x1b[2J\x07\r\n\x7f\x03com", `\027[2j\007\013\010\127.com`},
		{"no ASCII", "\x05\xc3\x89\xff\x00\x80\x03com", `\195\137\255\000\128.com`},
		{"a space and a backslash", "\x04A \\Z\x03com", `a\032\\z.com`},
		{"no byte of an allowed one too many", "\x02a\x00\x07example\x03com", `a\000.example.com`},
		{"a letter that folds to an ASCII one", "\x01a\x0aexamp\xc5\xbf\xe2\x84\xaa\x03com", `a.examp\197\191\226\132\170.com`},
		{"one that looks allowed", "\x05a\xe2\x80\x8b-\x07example\x03com", `a\226\128\139-.example.com`},
		{"quotes", "\x03\"'`\x03com", "\"'`.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, refused := n.Answer(message(0x0100, "1000", c.labels, "\x00\x00\x01\x00\x01"), 512)
			if want := (Refusal{c.want, "A", refusedName}); refused != want {
				t.Errorf("%+v is told of, want %+v", refused, want)
			}
		})
	}
	long := strings.Repeat("\x3f"+strings.Repeat("\x01", 63), 3) + "\x1bevil-0123456789-0123456789a\x03com"
	reply, refused := n.Answer(message(0x0100, "1000", long, "\x00\x00\x10\x00\x01"), 512)
	if read(t, reply).RCode != dnsmessage.RCodeRefused {
		t.Errorf("it is no refusal: %x", reply)
	}
	if len(refused.Name) != 255 || !strings.HasPrefix(refused.Name, "...") || !strings.HasSuffix(refused.Name, `\001\001.evil-0123456789-0123456789a.com`) {
		t.Errorf("%d bytes: %q", len(refused.Name), refused.Name)
	}
	if _, refused := n.Answer(ask("x"+longest[1:], dnsmessage.TypeA), 512); refused.Name != "x"+longest[1:] {
		t.Errorf("%q is cut", refused.Name)
	}
}

// serve answers the questions of the other end of a pipe, as TCP has them.
func serve(n *Names, c net.Conn, told func(Refusal)) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		reply, refused := n.Answer(query, 65535)
		told(refused)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// TestGoResolver has Go's own resolver ask, by datagrams and by a stream.
func TestGoResolver(t *testing.T) {
	n := fewNames(t)
	told := make(chan Refusal, 100)
	tell := func(r Refusal) {
		if r != (Refusal{}) {
			told <- r
		}
	}
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	go func() {
		query := make([]byte, 1<<16)
		for {
			size, from, err := packets.ReadFrom(query)
			if err != nil {
				return
			}
			reply, refused := n.Answer(query[:size], 512)
			tell(refused)
			_, _ = packets.WriteTo(reply, from)
		}
	}()
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"datagrams": func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp4", packets.LocalAddr().String())
		},
		"a stream": func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go serve(n, there, tell)
			return here, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &net.Resolver{PreferGo: true, Dial: dial}
			for _, network := range []string{"ip", "ip4", "ip6"} {
				began := time.Now()
				found, err := r.LookupNetIP(t.Context(), network, "b.example.com.")
				fault := (*net.DNSError)(nil)
				switch {
				case network != "ip6" && (err != nil || len(found) != 1 || found[0].Unmap().String() != "198.18.0.3"):
					t.Errorf("%s: %v, %v", network, found, err)
				case network == "ip6" && (!errors.As(err, &fault) || !fault.IsNotFound):
					t.Errorf("%s: %v, %v", network, found, err)
				}
				if found, err := r.LookupNetIP(t.Context(), network, "c.example.com."); !errors.As(err, &fault) || fault.IsNotFound || fault.IsTimeout {
					t.Errorf("%s: one that is not allowed is at %v (%v)", network, found, err)
				}
				if len(told) == 0 {
					t.Errorf("%s: nothing is told", network)
				}
				for len(told) > 0 { // it asks again, and for both types
					if r := <-told; r.Name != "c.example.com" || r.Reason != refusedName || r.Type != "A" && r.Type != "AAAA" {
						t.Errorf("%s: %+v is told of", network, r)
					}
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("%s: it takes %s", network, took)
				}
			}
			found, err := r.LookupNetIP(t.Context(), "ip", "x.localhost.")
			slices.SortFunc(found, netip.Addr.Compare)
			if fmt.Sprint(found) != "[127.0.0.1 ::1]" || err != nil {
				t.Errorf("beneath localhost: %v, %v", found, err)
			}
			if found, err := r.LookupAddr(t.Context(), "198.18.0.2"); err != nil || !slices.Equal(found, []string{"a.example.com."}) {
				t.Errorf("of an address: %v, %v", found, err)
			}
			fault := (*net.DNSError)(nil)
			if found, err := r.LookupAddr(t.Context(), "198.18.9.9"); !errors.As(err, &fault) || !fault.IsNotFound {
				t.Errorf("of an address of nobody: %v, %v", found, err)
			}
			if found, err := r.LookupTXT(t.Context(), "a.example.com."); !errors.As(err, &fault) || !fault.IsNotFound {
				t.Errorf("text: %q, %v", found, err)
			}
			if len(told) != 0 {
				t.Errorf("%+v is told of", <-told)
			}
		})
	}
}

// lowerASCII is what case is to DNS (RFC 4343).
func lowerASCII(name string) string {
	b := []byte(name)
	for i, c := range b {
		if bytes.IndexByte([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), c) >= 0 {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

// FuzzAnswer has anything at all answered. What is said is about what was asked, leads nowhere
// but to where a host is, and is hardly more than what was asked.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"a.example.com", "c.example.com", "x.LOCALHOST", longest, "2.0.18.198.in-addr.arpa", "9.9.18.198.in-addr.arpa", "1.0.0.127.in-addr.arpa", "\x1b\x00.com", "."} {
		for _, of := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR, dnsmessage.TypeALL, 1234} {
			f.Add(ask(name, of), uint16(512))
			f.Add(message(0x0130, "1001", wire(name, of), optRecord(4096, 0, 0x8000, "\x00\x0a\x00\x08cookiess")), uint16(65535))
		}
	}
	usually := wire("a.example.com", dnsmessage.TypeA)
	f.Add(message(0x8000, "1000", usually), uint16(512))
	f.Add(message(0x2800, "1000", usually), uint16(512))
	f.Add(message(0x0100, "1000", "\x01x\xc0\x0c\x00\x01\x00\x01"), uint16(512))
	f.Add(message(0x0100, "1001", usually, optRecord(1232, 7, 0, "")), uint16(512))
	f.Add(message(0x0100, "1001", usually, "\xc0\x0c", optRecord(1232, 0, 0, "")[1:]), uint16(40))
	n := fewNames(f)
	f.Fuzz(func(t *testing.T, query []byte, limit uint16) {
		before := bytes.Clone(query)
		reply, refused := n.Answer(query, int(limit))
		if !bytes.Equal(query, before) {
			t.Fatal("the query is changed")
		}
		for _, part := range []string{refused.Name, refused.Type, refused.Reason} {
			if len(part) > 255 || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r > '~' }) || part != refused.Reason && strings.Contains(part, " ") {
				t.Fatalf("%q is told of", part)
			}
		}
		if len(query) < 12 || query[2]&0x80 != 0 {
			if reply != nil || refused.Reason == "" {
				t.Fatalf("the reply is %x, and %+v is told of", reply, refused)
			}
			return
		}
		if len(reply) > int(limit) || reply == nil && limit >= 12 {
			t.Fatalf("it is %d bytes, with room for %d", len(reply), limit)
		}
		if reply == nil {
			return
		}
		m := read(t, reply)
		if m.ID != binary.BigEndian.Uint16(query) || !m.Response || reply[2]&0x79 != query[2]&0x79 || m.AuthenticData || m.Truncated && limit >= 512 {
			t.Fatalf("the header is %#v", m.Header)
		}
		if m.RCode != 0 && m.RCode != dnsmessage.RCodeNameError && len(reply) > len(query) || len(reply) > len(query)+300 {
			t.Fatalf("%d bytes are answered by %d", len(query), len(reply))
		}
		if (refused == Refusal{}) != (m.RCode == 0 || m.RCode == dnsmessage.RCodeNameError) {
			t.Fatalf("it is %s, and %+v is told of", m.RCode, refused)
		}
		said := append(m.Answers, m.Authorities...)
		if m.Authoritative && m.RCode == 0 && !m.Truncated && len(said) == 0 || len(said) > 1 || len(said) == 1 && !m.Authoritative {
			t.Fatalf("it says %v", said)
		}
		if len(m.Questions) == 0 {
			if len(said)+len(m.Additionals) != 0 {
				t.Fatalf("it says %v about no question", m)
			}
			return
		}
		asked := wire(m.Questions[0].Name.String(), m.Questions[0].Type)
		asked = asked[:len(asked)-2] // another class, perhaps
		if len(m.Questions) != 1 || !bytes.HasPrefix(query[12:], []byte(asked)) || !bytes.HasPrefix(reply[12:], query[12:12+len(asked)+2]) {
			t.Fatalf("%q does not repeat the question of %q", reply, query)
		}
		name := strings.TrimSuffix(lowerASCII(m.Questions[0].Name.String()), ".")
		for _, r := range m.Answers {
			if r.Header.Name != m.Questions[0].Name {
				t.Fatalf("it is about %s", r.Header.Name)
			}
			var ok bool
			switch b := r.Body.(type) {
			case *dnsmessage.AResource:
				host, _ := n.Host(netip.AddrFrom4(b.A))
				ok = host == name || b.A == [4]byte{127, 0, 0, 1} && strings.HasSuffix("."+name, ".localhost") || b.A == [4]byte{127, 0, 1, 1} && name == "machine"
			case *dnsmessage.AAAAResource:
				ok = netip.AddrFrom16(b.AAAA) == netip.IPv6Loopback() && strings.HasSuffix("."+name, ".localhost")
			case *dnsmessage.PTRResource:
				host := strings.TrimSuffix(b.PTR.String(), ".")
				_, ok = n.Address(host)
				ok = (ok || host == "localhost" || host == "machine") && strings.HasSuffix(name, ".arpa")
			}
			if !ok {
				t.Fatalf("of %q it says %v", name, r)
			}
		}
		for _, r := range m.Authorities {
			if r.Header.Type != dnsmessage.TypeSOA || !strings.HasSuffix(name+".", lowerASCII(r.Header.Name.String())) {
				t.Fatalf("of %q it says %v", name, r)
			}
		}
		if len(m.Additionals) > 1 || len(m.Additionals) == 1 && (m.Additionals[0].Header.Type != dnsmessage.TypeOPT || query[11] != 1) {
			t.Fatalf("it adds %v", m.Additionals)
		}
	})
}
