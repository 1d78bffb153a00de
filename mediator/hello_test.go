package mediator

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// A scripted is a connection whose other side says what there is, and then ends.
type scripted struct {
	net.Conn
	said io.Reader
	sent bytes.Buffer
}

func (c *scripted) Read(b []byte) (int, error)       { return c.said.Read(b) }
func (c *scripted) Write(b []byte) (int, error)      { return c.sent.Write(b) }
func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// goClientHello returns what the client of crypto/tls says first.
func goClientHello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	c := &scripted{said: strings.NewReader("")}
	_ = tls.Client(c, config).Handshake() // the other side ends
	if c.sent.Len() == 0 {
		t.Fatal("no ClientHello")
	}
	return c.sent.Bytes()
}

// goServerName returns which name the server of crypto/tls reads from what a client says.
func goServerName(b []byte) (name string, ok bool) {
	config := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, errors.New("that is all")
	}}
	_ = tls.Server(&scripted{said: bytes.NewReader(b)}, config).Handshake() // it is no whole one
	return name, ok
}

// sessions returns a cache with a session of one version of TLS for a name.
func sessions(t testing.TB, name string, version uint16) tls.ClientSessionCache {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	cache := tls.NewLRUClientSessionCache(1)
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MaxVersion: version})
		_, _ = server.Write([]byte("x"))
		_, _ = io.Copy(io.Discard, far)
	}()
	client := tls.Client(near, &tls.Config{ServerName: name, RootCAs: roots, ClientSessionCache: cache})
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return remembered{cache, roots}
}

// remembered is a cache, and whom the sessions in it are with.
type remembered struct {
	tls.ClientSessionCache
	roots *x509.CertPool
}

// realHello is a ClientHello of a client that exists.
type realHello struct {
	name, server string
	bytes        []byte
}

// realHellos returns some of each kind.
func realHellos(t testing.TB) (all []realHello) {
	t.Helper()
	add := func(name, server string, config *tls.Config) {
		config.ServerName = server
		all = append(all, realHello{name, strings.ToLower(server), goClientHello(t, config)})
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		add(tls.VersionName(version), "a.example.com", &tls.Config{MinVersion: version, MaxVersion: version})
		add(tls.VersionName(version)+" at most", "A.Example.com", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version})
	}
	add("protocols", "b.example.com", &tls.Config{NextProtos: []string{"h2", "http/1.1"}})
	add("no name", "", &tls.Config{InsecureSkipVerify: true})
	add("an address", "", &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	add("a small one", "c.example.com", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, MaxVersion: tls.VersionTLS12, SessionTicketsDisabled: true})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cache := sessions(t, "d.example.com", version).(remembered)
		add("a session of "+tls.VersionName(version), "d.example.com", &tls.Config{ClientSessionCache: cache, RootCAs: cache.roots})
	}
	return all
}

// What follows puts ClientHellos together that no client sends.

func number(n, bytes int) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	return string(b[8-bytes:])
}

// vector is content after its length.
func vector(bytes int, content ...string) string {
	all := strings.Join(content, "")
	return number(len(all), bytes) + all
}

func extension(kind int, data string) string { return number(kind, 2) + vector(2, data) }

// serverName is the extension with names, each of which is of type 0.
func serverName(names ...string) string {
	var list string
	for _, name := range names {
		list += "\x00" + vector(2, name)
	}
	return extension(0, vector(2, list))
}

// body is a ClientHello without its header, with what comes after the compression methods.
func body(rest ...string) string {
	return "\x03\x03" + strings.Repeat("r", 32) + vector(1) + vector(2, "\x13\x01") + vector(1, "\x00") + strings.Join(rest, "")
}

func handshake(body string) string { return "\x01" + vector(3, body) }

// records are records of some bytes at most with all of a message in them.
func records(size int, message string) (all string) {
	for message != "" {
		n := min(size, len(message))
		all += "\x16\x03\x01" + vector(2, message[:n])
		message = message[n:]
	}
	return all
}

// withExtensions is a whole ClientHello in a record.
func withExtensions(extensions ...string) string {
	return records(maxFragment, handshake(body(vector(2, extensions...))))
}

// asked reads b as it comes: a part again only when that may be of use. It returns how often it
// asked, too.
func asked(b []byte) (h hello, times int) {
	for have := min(1, len(b)); ; have = h.need {
		h, times = readHello(b[:have]), times+1
		if h.state != helloMore || h.need > len(b) || h.need <= have {
			return h, times
		}
	}
}

// TestHello reads what real clients say, in every part.
func TestHello(t *testing.T) {
	for _, tt := range realHellos(t) {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.bytes
			if size := recordHeader + int(binary.BigEndian.Uint16(b[3:])); size != len(b) {
				t.Fatalf("a record of %d bytes of %d", size, len(b))
			}
			for n := range len(b) {
				if h := readHello(b[:n]); h.state != helloMore || h.need <= n || h.need > len(b) {
					t.Fatalf("%d bytes of %d: %+v", n, len(b), h)
				}
			}
			want := hello{state: helloNamed, name: tt.server}
			for _, after := range []string{"", "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03", "x", strings.Repeat("\x16\x03\x01\x00\x00", 9)} {
				if h := readHello(append(slices.Clip(b), after...)); h != want {
					t.Errorf("with %q after it: %+v, want %+v", after, h, want)
				}
			}
			if name, ok := goServerName(b); !ok || !strings.EqualFold(name, tt.server) {
				t.Errorf("crypto/tls reads %q, %t", name, ok)
			}
			for minor := range 256 {
				other := bytes.Clone(b)
				other[2] = byte(minor)
				if h := readHello(other); h != want {
					t.Errorf("a record of version 3.%d: %+v", minor, h)
				}
			}
		})
	}
}

// TestHelloInParts has the ClientHellos of real clients come in records of any size.
func TestHelloInParts(t *testing.T) {
	for _, tt := range realHellos(t) {
		t.Run(tt.name, func(t *testing.T) {
			want := hello{state: helloNamed, name: tt.server}
			whole := string(tt.bytes[recordHeader:])
			for size := 1; size <= len(whole); size++ {
				b := []byte(records(size, whole))
				if h := readHello(b); h != want {
					t.Fatalf("records of %d bytes: %+v, want %+v", size, h, want)
				}
				if h, times := asked(b); h != want || times > 100 {
					t.Fatalf("records of %d bytes: %+v, asked %d times", size, h, times)
				}
				if h := readHello(b[:len(b)-1]); h.state != helloMore || h.need != len(b) {
					t.Fatalf("records of %d bytes without the last byte: %+v", size, h)
				}
				if size > 6 && size != len(whole)-1 {
					continue
				}
				for n := range len(b) {
					if h := readHello(b[:n]); h.state != helloMore || h.need <= n || h.need > len(b) {
						t.Fatalf("%d bytes of %d, in records of %d: %+v", n, len(b), size, h)
					}
				}
			}
			if name, ok := goServerName([]byte(records(7, whole))); !ok || !strings.EqualFold(name, tt.server) {
				t.Errorf("crypto/tls reads %q, %t", name, ok)
			}
		})
	}
}

// TestHelloTaken has ClientHellos that real clients do not send, or not those of crypto/tls.
func TestHelloTaken(t *testing.T) {
	long := strings.Repeat("a23456789.", 25) + "a2345"
	for _, tt := range []struct {
		name, bytes, server string
		ech                 bool
	}{
		{"a name", withExtensions(serverName("a.example.com")), "a.example.com", false},
		{"among others", withExtensions(extension(0x0a0a, ""), serverName("a.example.com"), extension(0xffff, "xyz")), "a.example.com", false},
		{"upper case", withExtensions(serverName("A.EXAMPLE.Com")), "a.example.com", false},
		{"a dot at the end", withExtensions(serverName("a.example.com.")), "a.example.com", false},
		{"two dots at the end", withExtensions(serverName("a.example.com..")), "a.example.com.", false},
		{"underscores and hyphens", withExtensions(serverName("_a-.0-9")), "_a-.0-9", false},
		{"an address", withExtensions(serverName("127.0.0.1")), "127.0.0.1", false},
		{"the longest", withExtensions(serverName(long)), long, false},
		{"no extensions", records(99, handshake(body())), "", false},
		{"none in the list", withExtensions(), "", false},
		{"no name", withExtensions(extension(16, "\x00\x03\x02h2")), "", false},
		{"an encrypted one inside", withExtensions(extension(0xfe0d, "\x00\x00\x01\x00\x01\x07"), serverName("a.example.com")), "a.example.com", true},
		{"nothing but an encrypted one", withExtensions(extension(0xfe0d, "")), "", true},
		{"other extensions twice", withExtensions(extension(5, ""), extension(5, "")), "", false},
		{"SSL 3.0", records(99, handshake("\x03\x00"+body()[2:])), "", false},
		{"a later version", records(99, handshake("\x03\x09"+body()[2:])), "", false},
		{"another major version", records(99, handshake("\x04\x00"+body()[2:])), "", false},
		{"the longest session", records(999, handshake("\x03\x03"+strings.Repeat("r", 32)+vector(1, strings.Repeat("s", 32))+body()[35:])), "", false},
		{"the next message in its record", records(999, handshake(body())+"\x01\x00\x00\x01"), "", false},
		{"the longest one", records(maxFragment, handshake(body(vector(2, extension(1, strings.Repeat("x", 65400)))))), "", false},
		{"a long one in small records", records(9, handshake(body(vector(2, extension(1, strings.Repeat("x", 65000)), serverName("a.example.com"))))), "a.example.com", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := hello{state: helloNamed, name: tt.server, ech: tt.ech}
			if h := readHello([]byte(tt.bytes)); h != want {
				t.Errorf("%+v, want %+v", h, want)
			}
			if h, times := asked([]byte(tt.bytes)); h != want || times > 120 {
				t.Errorf("%+v, asked %d times", h, times)
			}
			if name, ok := goServerName([]byte(tt.bytes)); ok && strings.ToLower(name) != tt.server {
				t.Errorf("crypto/tls reads %q", name)
			}
		})
	}
}

// TestHelloRefused has what one server might read as one thing and another as another, or not
// at all.
func TestHelloRefused(t *testing.T) {
	named := handshake(body(vector(2, serverName("a.example.com"))))
	half := len(named) / 2
	part := func(s string) string { return records(maxFragment, s) }
	for _, tt := range []struct{ name, bytes, reason string }{
		{"two extensions", withExtensions(serverName("a.example.com"), serverName("b.example.com")), "two extensions with server names"},
		{"two that are the same", withExtensions(serverName("a.example.com"), extension(1, ""), serverName("a.example.com")), "two extensions with server names"},
		{"two names", withExtensions(serverName("a.example.com", "b.example.com")), "more than one server name"},
		{"two names that are the same", withExtensions(serverName("a.example.com", "a.example.com")), "more than one server name"},
		{"no name", withExtensions(serverName()), "an empty list of server names"},
		{"not even a list", withExtensions(extension(0, "")), "another length than its extension"},
		{"half a length of a list", withExtensions(extension(0, "\x00")), "another length than its extension"},
		{"an empty name", withExtensions(serverName("")), "an empty server name"},
		{"a dot", withExtensions(serverName(".")), "an empty server name"},
		{"an empty name before one", withExtensions(serverName("", "a.example.com")), "more than one server name"},
		{"another type", withExtensions(extension(0, vector(2, "\x01"+vector(2, "a.example.com")))), "a server name of type 1"},
		{"another type before", withExtensions(extension(0, vector(2, "\x01"+vector(2, "b")+"\x00"+vector(2, "a")))), "a server name of type 1"},
		{"another type after", withExtensions(extension(0, vector(2, "\x00"+vector(2, "a")+"\x01"+vector(2, "b")))), "more than one server name"},
		{"a byte after the name", withExtensions(extension(0, vector(2, "\x00"+vector(2, "a")+"\x00"))), "more than one server name"},
		{"a byte after the list", withExtensions(extension(0, vector(2, "\x00"+vector(2, "a"))+"\x00")), "another length than its extension"},
		{"a list that is longer than the extension", withExtensions(extension(0, "\x00\x05\x00\x00\x01a")), "another length than its extension"},
		{"a name that is longer than the list", withExtensions(extension(0, vector(2, "\x00\x00\x02a"))), "a server name that ends early"},
		{"half an entry", withExtensions(extension(0, vector(2, "\x00\x00"))), "a server name that ends early"},
		{"NUL in the name", withExtensions(serverName("a.example.com\x00.b.example.com")), `the byte '\x00'`},
		{"a space", withExtensions(serverName("a.example.com ")), "the byte ' '"},
		{"a line end", withExtensions(serverName("a.example.com\r\n")), `the byte '\r'`},
		{"a wildcard", withExtensions(serverName("*.example.com")), "the byte '*'"},
		{"a port", withExtensions(serverName("a.example.com:443")), "the byte ':'"},
		{"an address of IPv6", withExtensions(serverName("[::1]")), "the byte '['"},
		{"a path", withExtensions(serverName("a.example.com/b")), "the byte '/'"},
		{"UTF-8", withExtensions(serverName("ä.example.com")), "the byte 'Ã'"},
		{"what folds to ASCII", withExtensions(serverName("\u212a.example.com")), "the byte 'â'"}, // the sign of Kelvin
		{"256 bytes", withExtensions(serverName(strings.Repeat("a", 256))), "a server name of 256 bytes"},
		{"60000 bytes", withExtensionsInParts(serverName(strings.Repeat("a", 60000))), "a server name of 60000 bytes"},

		{"an extension that ends early", records(999, handshake(body(vector(2, serverName("a"), "\x00\x01\x00\x01")))), "an extension that ends early"},
		{"half a header of an extension", records(999, handshake(body(vector(2, serverName("a"), "\x00\x01\x00")))), "an extension that ends early"},
		{"extensions longer than the message", records(999, handshake(body("\x00\x20", serverName("a")))), "extensions of another length"},
		{"extensions shorter than the message", records(999, handshake(body(vector(2, serverName("a")), "\x00"))), "extensions of another length"},
		{"half a length of extensions", records(999, handshake(body("\x00"))), "extensions of another length"},
		{"nothing in the message", records(999, handshake("")), "ends early"},
		{"an early end", records(999, handshake(body()[:36])), "ends early"},
		{"no compression", records(999, handshake(body()[:39]+vector(1))), "no compression methods"},
		{"no length of compression", records(999, handshake(body()[:39])), "ends early"},
		{"no cipher suites", records(999, handshake(body()[:35]+vector(2)+vector(1, "\x00"))), "cipher suites of 0 bytes"},
		{"half a cipher suite", records(999, handshake(body()[:35]+vector(2, "\x13\x01\x13")+vector(1, "\x00"))), "cipher suites of 3 bytes"},
		{"more cipher suites than bytes", records(999, handshake(body()[:35]+"\x01\x00\x13\x01"+vector(1, "\x00"))), "ends early"},
		{"a long session", records(999, handshake(body()[:34]+vector(1, strings.Repeat("s", 33))+body()[35:])), "a session ID of 33 bytes"},
		{"a session longer than the message", records(999, handshake(body()[:34]+"\xff"+body()[35:])), "ends early"},
		{"SSL 2.0", records(999, handshake("\x02\x00"+body()[2:])), "a ClientHello of version 2.0"},
		{"version 0", records(999, handshake("\x00\x00"+body()[2:])), "a ClientHello of version 0.0"},

		{"a ServerHello", records(999, "\x02"+named[1:]), "of type 2, and no ClientHello"},
		{"a request for a ClientHello before", records(999, "\x00\x00\x00\x00"+named), "of type 0, and no ClientHello"},
		{"more than 64 KiB", records(999, "\x01\x01\x00\x01"), "a ClientHello of 65537 bytes"},
		{"more than 64 KiB, in parts", records(1, "\x01\x01\x00\x01"), "a ClientHello of 65537 bytes"},
		{"16 MiB", records(999, "\x01\xff\xff\xff"), "a ClientHello of 16777215 bytes"},

		{"an empty record", part("") + "\x16\x03\x01\x00\x00" + part(named), "an empty record"},
		{"an empty record between", part(named[:half]) + "\x16\x03\x01\x00\x00" + part(named[half:]), "an empty record"},
		{"a long record", "\x16\x03\x01\x40\x01" + named, "a record of 16385 bytes"},
		{"a long record between", part(named[:half]) + "\x16\x03\x01\xff\xff" + named[half:], "a record of 65535 bytes"},
		{"an alert between", part(named[:half]) + "\x15\x03\x01\x00\x02\x01\x5a" + part(named[half:]), "a record of type 21 within"},
		{"an alert in the header", part(named[:3]) + "\x15\x03\x01\x00\x02\x01\x5a" + part(named[3:]), "a record of type 21 within"},
		{"a change_cipher_spec between", part(named[:half]) + "\x14\x03\x03\x00\x01\x01" + part(named[half:]), "a record of type 20 within"},
		{"data between", part(named[:half]) + "\x17\x03\x03\x00\x01x" + part(named[half:]), "a record of type 23 within"},
		{"a type between", part(named[:half]) + "\x80", "a record of type 128 within"},
		{"a version between", part(named[:half]) + "\x16\x02", "a record of major version 2 within"},
		{"an alert before", "\x15\x03\x01\x00\x02\x01\x5a" + part(named), "its first record is of type 21"},
		{"a change_cipher_spec before", "\x14\x03\x03\x00\x01\x01" + part(named), "its first record is of type 20"},
		{"data before", "\x17\x03\x03\x00\x01x" + part(named), "its first record is of type 23"},
		{"a heartbeat before", "\x18\x03\x02\x00\x03\x01\x40\x00", "its first record is of type 24"},
		{"a record of version 1.3", "\x16\x01\x03" + part(named)[3:], "a record of version 1.3"},
		{"a record of version 0.0", "\x16\x00\x00" + part(named)[3:], "a record of version 0.0"},
		{"a record of version 127.7", "\x16\x7f\x07" + part(named)[3:], "a record of version 127.7"},
		{"a byte of a ClientHello in a record of version 4.0", "\x16\x04\x00" + part(named[:1])[3:] + part(named[1:]), "a record of version 4.0"},
		{"an alert before, of version 1.0", "\x15\x01\x00\x00\x02\x01\x5a" + part(named), "a record of version 1.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := []byte(tt.bytes)
			h := readHello(b)
			if h.state != helloRefused || !strings.Contains(h.reason, tt.reason) || h.name != "" || h.need != 0 {
				t.Errorf("%+v, want to be refused for %q", h, tt.reason)
			}
			// Nothing of it is passed on meanwhile.
			for n := range b {
				if h := readHello(b[:n]); h.state != helloMore && h.state != helloRefused {
					t.Fatalf("%d bytes of %d: %+v", n, len(b), h)
				}
			}
		})
	}
}

// withExtensionsInParts is a ClientHello in several records.
func withExtensionsInParts(extensions ...string) string {
	return records(5000, handshake(body(vector(2, extensions...))))
}

// TestHelloNone has what is not TLS, or has no place for a name: nothing is waited for.
func TestHelloNone(t *testing.T) {
	named := withExtensions(serverName("a.example.com"))
	for _, tt := range []struct {
		name, bytes string
		needs       int // bytes until that is known
	}{
		{"HTTP", "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n", 1},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 1},
		{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", 1},
		{"Redis", "*1\r\n$4\r\nPING\r\n", 1},
		{"PostgreSQL, which asks for TLS", "\x00\x00\x00\x08\x04\xd2\x16\x2f", 1},
		{"MySQL", "\x20\x00\x00\x01\x85\xae\xff\x00", 1},
		{"SMTP", "EHLO a.example.com\r\n", 1},
		{"the header of a proxy", "PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n" + named, 1},
		{"SOCKS", "\x05\x01\x00", 1},
		{"a line before", "\r\n" + named, 1},
		{"NUL", "\x00", 1},
		{"SSL 2.0 that may begin TLS", "\x80\x2e\x01\x03\x03\x00\x15\x00\x00\x00\x10" + strings.Repeat("x", 37), 1},
		{"SSL 2.0 with padding", "\x00\x2e\x00\x01\x03\x03", 1},
		{"a type that is none", "\x13" + named[1:], 1},
		{"another that is none", "\x19" + named[1:], 1},
		{"a number that is like the type of a record", "\x17\x00\x00\x00", 2},
		{"a change_cipher_spec of version 1.0", "\x14\x01\x00\x00\x01\x01", 2},
		{"a number that is like the type of a handshake", "\x16\x00\x00\x00\x03\x00\x00\x00\x00", 6},
		{"that of an alert", "\x15\x00\x00\x00\x03\x00\x00\x00\x00", 6},
		{"an empty record of version 1.0", "\x16\x01\x00\x00\x00" + named, 6},
		{"a long record of version 1.0", "\x16\x01\x00\x40\x01\x01", 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n := 1; n <= len(tt.bytes); n++ {
				h := readHello([]byte(tt.bytes[:n]))
				switch {
				case n < tt.needs && (h.state != helloMore || h.need <= n || h.need > tt.needs):
					t.Fatalf("%d bytes: %+v, want more, and to know at %d", n, h, tt.needs)
				case n >= tt.needs && h != hello{}:
					t.Fatalf("%d bytes: %+v", n, h)
				}
			}
			if name, ok := goServerName([]byte(tt.bytes)); ok {
				t.Errorf("crypto/tls reads %q", name)
			}
		})
	}
	if h := readHello(nil); h != (hello{state: helloMore, need: 1}) {
		t.Errorf("nothing: %+v", h)
	}
	for first := range 256 {
		want := first >= 0x14 && first <= 0x18
		if h := readHello([]byte{byte(first)}); (h.state == helloMore) != want || (h == hello{}) == want {
			t.Errorf("%#x: %+v", first, h)
		}
	}
	chance := mathrand.New(mathrand.NewPCG(1, 2))
	for range 10_000 {
		b := make([]byte, 1+chance.IntN(60))
		for i := range b {
			b[i] = byte(chance.Uint32())
		}
		b[0] |= 0x20 // no type of a record has that bit
		if h := readHello(b); h != (hello{}) {
			t.Fatalf("%x: %+v", b, h)
		}
	}
}

// TestHelloEffort has the longest ClientHello come byte by byte, in the smallest records.
func TestHelloEffort(t *testing.T) {
	long := []byte(records(1, handshake(body(vector(2, extension(1, strings.Repeat("x", 20000)), serverName("a.example.com"))))))
	if h, times := asked(long); h.name != "a.example.com" || times > 120 {
		t.Errorf("%+v, asked %d times", h, times)
	}
	// In the largest records it is known from the beginning how much there is to come.
	large := []byte(records(maxFragment, handshake(body(vector(2, extension(1, strings.Repeat("x", 65000)))))))
	for n := recordHeader + handshakeHeader; n < len(large); n++ {
		if h := readHello(large[:n]); h.state != helloMore || h.need != len(large) {
			t.Fatalf("%d bytes of %d: %+v", n, len(large), h)
		}
	}
	for _, tt := range []struct {
		name, bytes string
		want        float64
	}{
		{"HTTP", "GET / HTTP/1.1\r\n", 0},
		{"more", withExtensions(serverName("a.example.com"))[:50], 0},
		{"a name", withExtensions(serverName("a.example.com")), 1},
		{"a name in parts", records(9, handshake(body(vector(2, serverName("a.example.com"))))), 2},
		{"a name that is not there", withExtensions(), 0},
	} {
		b := []byte(tt.bytes)
		if n := testing.AllocsPerRun(100, func() { readHello(b) }); n > tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, n, tt.want)
		}
	}
}

// differs says in what readHello is more lenient than crypto/tls, or reads another name; ""
// where it is not.
func differs(b []byte) string {
	h := readHello(b)
	switch {
	case h.state != helloNamed && h.name != "", h.state == helloRefused != (h.reason != ""):
		return fmt.Sprintf("%+v is no answer", h)
	case h.state == helloMore != (h.need > len(b)):
		return fmt.Sprintf("%+v needs what is there", h)
	}
	// Who asks only when it is of use gets the same answer, but for a fault that is seen while
	// more is waited for.
	each, _ := asked(b)
	if each.state == helloMore {
		each.need = h.need
	}
	if each != h && h.state != helloRefused {
		return fmt.Sprintf("%+v as it comes, %+v at once", each, h)
	}
	name, ok := goServerName(b)
	if !ok || h.state == helloRefused {
		return ""
	}
	if want := strings.TrimSuffix(strings.ToLower(name), "."); h.state != helloNamed || h.name != want {
		return fmt.Sprintf("%+v, and crypto/tls reads %q", h, want)
	}
	return ""
}

// mutate returns b with faults: wherever they come, and in lengths and bytes that matter.
func mutate(chance *mathrand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + chance.IntN(3) {
		if len(b) < 12 {
			return b
		}
		i := chance.IntN(len(b))
		if chance.IntN(3) == 0 {
			i = chance.IntN(12) // of the headers
		}
		j := min(len(b), i+1+chance.IntN(8))
		switch chance.IntN(9) {
		case 0:
			b[i] ^= 1 << chance.IntN(8)
		case 1:
			b[i] = byte(chance.Uint32())
		case 2:
			b[i]++
		case 3:
			b[i]--
		case 4:
			b = append(b[:i:i], b[j:]...)
		case 5:
			b = append(b[:j:j], b[i:]...)
		case 6: // records of other sizes, of what comes after the first header
			b = []byte(records(1+chance.IntN(len(b)), string(b[recordHeader:])))
		case 7: // something between, which is a record of its own
			between := [...]string{"\x15\x03\x01\x00\x02\x01\x5a", "\x14\x03\x01\x00\x01\x01", "\x16\x03\x01\x00\x00", "\x17\x03\x03\x00\x01x", "\x15\x0f\x00\x00\x02\x01\x00"}
			if chance.IntN(2) == 0 {
				i = 0
			}
			b = append(append(b[:i:i], between[chance.IntN(len(between))]...), b[i:]...)
		case 8: // another extension, where the lengths around are right
			if c := extended(b, [...]string{serverName("x.example.com"), extension(0xfe0d, "\x01"), serverName("y\x00"), serverName("Z.example.com", "z")}[chance.IntN(4)]); c != nil {
				b = c
			}
		}
	}
	return b
}

// extended returns a ClientHello in one record with another extension at the front.
func extended(b []byte, extension string) []byte {
	r := fields{rest: b}
	r.take(recordHeader + handshakeHeader + 2 + 32)
	r.vector(1)
	r.vector(2)
	r.vector(1)
	if r.short || len(r.rest) < 2 {
		return nil
	}
	until := len(b) - len(r.rest)
	return []byte(records(maxFragment, handshake(string(b[recordHeader+handshakeHeader:until])+vector(2, extension, string(r.rest[2:])))))
}

// TestHelloMutated compares with crypto/tls what becomes of real ClientHellos by chance.
func TestHelloMutated(t *testing.T) {
	all := realHellos(t)
	chance := mathrand.New(mathrand.NewPCG(3, 4))
	var states [4]int
	accepted := 0
	for range 30_000 {
		b := mutate(chance, all[chance.IntN(len(all))].bytes)
		if fault := differs(b); fault != "" {
			t.Fatalf("%s\n%x", fault, b)
		}
		states[readHello(b).state]++
		if _, ok := goServerName(b); ok {
			accepted++
		}
	}
	for state, n := range states {
		if n < 100 {
			t.Errorf("state %d comes %d times only", state, n)
		}
	}
	if accepted < 1000 {
		t.Errorf("crypto/tls accepts %d only", accepted)
	}
}

// FuzzHello has anything at all read as crypto/tls reads it, or refused.
func FuzzHello(f *testing.F) {
	for _, real := range realHellos(f) {
		f.Add(real.bytes)
		f.Add([]byte(records(100, string(real.bytes[recordHeader:]))))
		f.Add(append([]byte("\x15\x03\x01\x00\x02\x01\x5a"), real.bytes...))
	}
	for _, seed := range []string{
		"", "\x16", "GET / HTTP/1.1\r\n", "\x80\x2e\x01\x03\x03", "\x16\x0f\x0f\x00\x01\x01",
		withExtensions(serverName("a.example.com.")), withExtensions(serverName("a", "b")), withExtensions(serverName("a"), serverName("b")),
		records(1, handshake(body(vector(2, serverName("a.example.com"))))), records(99, handshake(body())),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if fault := differs(b); fault != "" {
			t.Error(fault)
		}
	})
}

func BenchmarkReadHello(b *testing.B) {
	whole := handshake(body(vector(2, extension(1, strings.Repeat("x", 1500)), serverName("a.example.com"))))
	for _, size := range []int{maxFragment, 100, 1} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			said := []byte(records(size, whole))
			for b.Loop() {
				if readHello(said).name != "a.example.com" {
					b.Fatal("another name")
				}
			}
		})
	}
}
