package mediator

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"maelys.dev/maelys/mir"
)

const (
	// dialTime is how long it may take to have a connection, with everything.
	dialTime = 30 * time.Second

	// attemptDelay is how long an address has for itself before the next is tried beside it
	// (RFC 8305, section 5).
	attemptDelay = 250 * time.Millisecond

	// maxAddresses of a name are tried.
	maxAddresses = 32

	// maxAnswer is how much of a proxy's answer is read, in bytes.
	maxAnswer = 64 << 10
)

// A Proxy is what the host connects through, for the destinations that it does so for.
type Proxy func(d mir.Destination) (*url.URL, error)

// ProxyFromEnvironment reads HTTPS_PROXY, ALL_PROXY and NO_PROXY, or the same in lower case,
// from variables. It is an error when a proxy is of a kind that cannot be used.
func ProxyFromEnvironment(lookup func(name string) string) (Proxy, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if v := lookup(name); v != "" {
				return v
			}
		}
		return ""
	}
	config := httpproxy.Config{
		HTTPSProxy: first("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
		NoProxy:    first("NO_PROXY", "no_proxy"),
	}
	if config.HTTPSProxy == "" {
		return nil, nil
	}
	through := config.ProxyFunc()
	// A name that no policy has: what is asked is whether the proxy itself can be used.
	at, err := through(&url.URL{Scheme: "https", Host: "maelys.invalid:443"})
	if err == nil && at != nil {
		_, err = proxyPort(at)
	}
	if err != nil {
		return nil, fmt.Errorf("the proxy of the host: %w", err)
	}
	return func(d mir.Destination) (*url.URL, error) {
		return through(&url.URL{Scheme: "https", Host: d.String()})
	}, nil
}

// proxyPort returns the port of a proxy, or why it cannot be used.
func proxyPort(at *url.URL) (uint16, error) {
	var port uint64
	switch at.Scheme {
	case "http":
		port = 80
	case "socks5", "socks5h":
		port = 1080
	default:
		// A proxy that is spoken to by TLS would take its libraries into every start.
		return 0, fmt.Errorf("expected http://, socks5:// or socks5h://, found %q", at.Scheme+"://")
	}
	if at.Hostname() == "" || at.Path != "" && at.Path != "/" {
		return 0, fmt.Errorf("expected the host of a proxy and its port, found %q", at.Host+at.Path)
	}
	if at.Port() == "" {
		return uint16(port), nil
	}
	port, err := strconv.ParseUint(at.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("expected a port of 1 to 65535, found %q", at.Port())
	}
	return uint16(port), nil
}

// dial connects to a destination as the host does, or says why not.
func (m *Mediator) dial(ctx context.Context, d mir.Destination) (upstream, *refusal) {
	deadline := time.Now().Add(m.times.dial)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	up, err := m.dialOnce(ctx, d)
	if err == nil {
		return up, nil
	}
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok && refused.reason.Refused():
	case !time.Now().Before(deadline): // which ctx itself can be told of after a socket has
		refused = refuse(TimedOut, "no connection within %s", m.times.dial)
	case !ok:
		refused = refuse(Unreachable, "%v", cause(err))
	}
	return upstream{}, refused
}

// An upstream is a connection on the host's side.
type upstream struct {
	*net.TCPConn
	address netip.AddrPort // the zero one behind a proxy
	proxied bool
	ahead   []byte // what came with the answer of a proxy
}

func (m *Mediator) dialOnce(ctx context.Context, d mir.Destination) (upstream, error) {
	if at, ok := m.pins[d]; ok {
		return m.connect(ctx, []netip.AddrPort{at})
	}
	if m.proxy != nil {
		switch at, err := m.proxy(d); {
		case err != nil:
			return upstream{}, refuse(Unreachable, "the proxy of the host: %v", err)
		case at != nil:
			return m.dialProxy(ctx, at, d)
		}
	}
	addresses, err := m.lookup(ctx, d.Host.String())
	if err != nil {
		return upstream{}, refuse(Unresolved, "%v", cause(err))
	}
	var allowed []netip.AddrPort
	var refused *refusal
	for _, a := range addresses {
		at := netip.AddrPortFrom(a.Unmap(), d.Port)
		if kind := special(a); kind != "" && !m.private[d.Host.String()] {
			if refused == nil {
				refused = refuse(PrivateAddress, "it resolves to %s, which is none of a public host: %s", a, kind)
				refused.at = at
			}
			continue
		}
		allowed = append(allowed, at)
	}
	switch {
	case len(allowed) > 0:
		return m.connect(ctx, allowed[:min(len(allowed), maxAddresses)])
	case refused != nil:
		return upstream{}, refused
	}
	return upstream{}, refuse(Unresolved, "it has no address")
}

var errFilesOnly = errors.New("no server is asked")

// lookup resolves a name as the host does, by its files and by its servers. Of these the name is
// asked for as the policy says it, and none of a list to be searched.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == localhost {
		return []netip.Addr{loopback(), netip.IPv6Loopback()}, nil
	}
	// Package net looks into /etc/hosts only without a dot at the end, and then it searches.
	files := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errFilesOnly }}
	if found, err := files.LookupNetIP(ctx, "ip", host); err == nil && len(found) > 0 {
		return found, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host+".")
}

// connect tries addresses, each a little after the one before, of both kinds in turn, and
// takes the first that answers (RFC 8305).
func (m *Mediator) connect(ctx context.Context, addresses []netip.AddrPort) (upstream, error) {
	if len(addresses) == 1 { // there is nothing to be first of
		c, err := m.tcp(ctx, addresses[0])
		return upstream{TCPConn: c, address: addresses[0]}, err
	}
	addresses = interleave(addresses)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type attempt struct {
		c   *net.TCPConn
		at  netip.AddrPort
		err error
	}
	answers := make(chan attempt)
	next := time.NewTimer(0)
	defer next.Stop()
	var first error
	for running := 0; ; {
		select {
		case <-next.C:
			at := addresses[0]
			addresses = addresses[1:]
			running++
			go func() {
				c, err := m.tcp(ctx, at)
				select {
				case answers <- attempt{c, at, err}:
				case <-ctx.Done():
					if err == nil {
						_ = c.Close() // another was first
					}
				}
			}()
			if len(addresses) > 0 {
				next.Reset(attemptDelay)
			}
		case a := <-answers:
			running--
			if a.err == nil {
				return upstream{TCPConn: a.c, address: a.at}, nil
			}
			if first == nil {
				first = a.err
			}
			if len(addresses) > 0 {
				next.Reset(0)
			} else if running == 0 {
				return upstream{}, first
			}
		case <-ctx.Done():
			return upstream{}, ctx.Err()
		}
	}
}

// interleave has addresses of both kinds alternate, beginning with the first.
func interleave(all []netip.AddrPort) []netip.AddrPort {
	var kinds [2][]netip.AddrPort
	for _, a := range all {
		other := 0
		if a.Addr().Is4() != all[0].Addr().Is4() {
			other = 1
		}
		kinds[other] = append(kinds[other], a)
	}
	var mixed []netip.AddrPort
	for i := range max(len(kinds[0]), len(kinds[1])) {
		for _, kind := range kinds {
			if i < len(kind) {
				mixed = append(mixed, kind[i])
			}
		}
	}
	return mixed
}

// tcp connects to an address. Small writes go out at once, which is the default of net.
func (m *Mediator) tcp(ctx context.Context, at netip.AddrPort) (*net.TCPConn, error) {
	// Not DialTCP, which takes the local address for one, and binds a port for it.
	c, err := m.dialer.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("a connection by %T", c) // it never is
	}
	return tcp, nil
}

// dialProxy connects by a proxy, which resolves the name: what that leads to is for the proxy
// to judge, and where it is itself is the host's own word.
func (m *Mediator) dialProxy(ctx context.Context, at *url.URL, d mir.Destination) (upstream, error) {
	port, err := proxyPort(at)
	if err != nil {
		return upstream{}, refuse(Unreachable, "the proxy of the host: %v", err)
	}
	var addresses []netip.AddrPort
	if a, err := netip.ParseAddr(at.Hostname()); err == nil {
		addresses = append(addresses, netip.AddrPortFrom(a, port))
	} else {
		found, err := m.lookup(ctx, at.Hostname())
		if err != nil || len(found) == 0 {
			return upstream{}, refuse(Unreachable, "the proxy of the host: %v", cause(err))
		}
		for _, a := range found {
			addresses = append(addresses, netip.AddrPortFrom(a.Unmap(), port))
		}
	}
	up, err := m.connect(ctx, addresses)
	if err != nil {
		return upstream{}, refuse(Unreachable, "the proxy of the host: %v", cause(err))
	}
	up.address, up.proxied = netip.AddrPort{}, true
	stop := context.AfterFunc(ctx, func() { _ = up.SetDeadline(time.Unix(1, 0)) })
	err = up.handshake(ctx, at, d)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = up.Close()
		return upstream{}, refuse(Unreachable, "the proxy of the host: %v", cause(err))
	}
	return up, nil
}

// handshake asks a proxy for the connection.
func (u *upstream) handshake(ctx context.Context, at *url.URL, d mir.Destination) error {
	if strings.HasPrefix(at.Scheme, "socks5") {
		var auth *proxy.Auth
		if at.User != nil {
			password, _ := at.User.Password()
			auth = &proxy.Auth{User: at.User.Username(), Password: password}
		}
		// The dialer that it is given returns the connection that there is.
		socks, err := proxy.SOCKS5("tcp", at.Host, auth, already{u.TCPConn})
		if err != nil {
			return err
		}
		_, err = socks.(proxy.ContextDialer).DialContext(ctx, "tcp", d.String())
		return err
	}
	request := "CONNECT " + d.String() + " HTTP/1.1\r\nHost: " + d.String() + "\r\n"
	if at.User != nil {
		password, _ := at.User.Password()
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(at.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(u, request+"\r\n"); err != nil {
		return err
	}
	r := bufio.NewReader(io.LimitReader(u.TCPConn, maxAnswer))
	answer := textproto.NewReader(r)
	line, err := answer.ReadLine()
	if err != nil {
		return err
	}
	version, status, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(version, "HTTP/1.") || len(status) < 3 || status[0] != '2' { // RFC 9110, section 9.3.6
		return fmt.Errorf("it answers %q", line)
	}
	if _, err := answer.ReadMIMEHeader(); err != nil {
		return err
	}
	if n := r.Buffered(); n > 0 {
		u.ahead, _ = r.Peek(n) // it is there
	}
	return nil
}

// already is a dialer for the connection that there is.
type already struct{ c net.Conn }

func (a already) Dial(string, string) (net.Conn, error) { return a.c, nil }

func (a already) DialContext(context.Context, string, string) (net.Conn, error) { return a.c, nil }

// cause returns what is at the bottom of an error of net: the addresses around it are in the
// event already.
func cause(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}
