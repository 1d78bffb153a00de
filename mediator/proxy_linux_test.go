package mediator_test

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"maelys.dev/maelys/mediator"
)

// relayed connects both ends, as a proxy does once it has agreed.
func relayed(c io.ReadWriter, to string) {
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, up)
}

// connectProxy is a proxy for HTTP CONNECT that sends everything to one server, and says with
// its answer what the server has not.
func connectProxy(t *testing.T, server, want, status, ahead string, c net.Conn) {
	r := bufio.NewReader(c)
	request, err := http.ReadRequest(r)
	if err != nil {
		t.Error(err)
		return
	}
	if request.Method != http.MethodConnect || request.Host != "a.example.com:443" || request.Header.Get("Proxy-Authorization") != want {
		t.Errorf("the proxy was asked %s %s %v", request.Method, request.Host, request.Header)
	}
	fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n%s", status, ahead)
	if strings.HasPrefix(status, "200") {
		relayed(struct {
			io.Reader
			io.Writer
		}{r, c}, server)
	}
}

// socksProxy is a proxy by SOCKS 5 (RFC 1928, RFC 1929).
func socksProxy(t *testing.T, server, user string, c net.Conn) {
	must := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			t.Error(err)
		}
		return b
	}
	methods := must(int(must(2)[1]))
	if user == "" {
		_, _ = c.Write([]byte{5, 0})
	} else {
		if !strings.Contains(string(methods), "\x02") {
			t.Errorf("methods %v", methods)
		}
		_, _ = c.Write([]byte{5, 2})
		name := string(must(int(must(2)[1])))
		if password := string(must(int(must(1)[0]))); name+":"+password != user {
			t.Errorf("%s:%s", name, password)
		}
		_, _ = c.Write([]byte{1, 0})
	}
	head := must(4)
	if head[3] != 3 {
		t.Errorf("the name was resolved before the proxy: %v", head)
		return
	}
	host := string(must(int(must(1)[0])))
	if port := binary.BigEndian.Uint16(must(2)); host != "a.example.com" || port != 443 {
		t.Errorf("%s:%d", host, port)
	}
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	relayed(c, server)
}

// TestProxy goes by the proxies of the host.
func TestProxy(t *testing.T) {
	server := served(t, echo)
	direct := served(t, func(c *net.TCPConn) { _, _ = c.Write([]byte("direct")) })
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:secret"))
	for _, tt := range []struct {
		name        string
		variables   map[string]string // PROXY stands for where it is
		serve       func(c *net.TCPConn)
		ahead, want string
		reason      mediator.Reason
	}{
		{
			name: "CONNECT", variables: map[string]string{"HTTPS_PROXY": "http://PROXY"},
			serve: func(c *net.TCPConn) { connectProxy(t, server, "", "200 OK", "", c) }, want: "ping",
		},
		{
			name: "with a password", variables: map[string]string{"https_proxy": "http://me:secret@PROXY"},
			serve: func(c *net.TCPConn) { connectProxy(t, server, basic, "200 Connection established", "", c) }, want: "ping",
		},
		{
			name: "with more than its answer", variables: map[string]string{"ALL_PROXY": "http://PROXY"},
			serve: func(c *net.TCPConn) { connectProxy(t, server, "", "200 OK", "banner ", c) }, want: "banner ping",
		},
		{
			name: "no", variables: map[string]string{"HTTPS_PROXY": "http://PROXY"},
			serve: func(c *net.TCPConn) { connectProxy(t, server, "", "403 Forbidden", "", c) }, reason: mediator.Unreachable,
		},
		{
			name: "another answer", variables: map[string]string{"HTTPS_PROXY": "http://PROXY"},
			serve: func(c *net.TCPConn) { _, _ = c.Write([]byte("SSH-2.0-x\r\n")); _, _ = c.Read(make([]byte, 99)) }, reason: mediator.Unreachable,
		},
		{
			name: "an end", variables: map[string]string{"HTTPS_PROXY": "http://PROXY"},
			serve: func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 999)) }, reason: mediator.Unreachable,
		},
		{
			name: "an answer without end", variables: map[string]string{"HTTPS_PROXY": "http://PROXY"},
			serve: func(c *net.TCPConn) {
				_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
				for line := []byte(strings.Repeat("X: y\r\n", 1000)); ; {
					if _, err := c.Write(line); err != nil {
						return
					}
				}
			}, reason: mediator.Unreachable,
		},
		{
			name: "SOCKS", variables: map[string]string{"ALL_PROXY": "socks5://PROXY"},
			serve: func(c *net.TCPConn) { socksProxy(t, server, "", c) }, want: "ping",
		},
		{
			name: "SOCKS with a password", variables: map[string]string{"all_proxy": "socks5h://me:secret@PROXY"},
			serve: func(c *net.TCPConn) { socksProxy(t, server, "me:secret", c) }, want: "ping",
		},
		{
			name: "not for this one", variables: map[string]string{"HTTPS_PROXY": "http://PROXY", "NO_PROXY": ".example.com"},
			serve: func(*net.TCPConn) { t.Error("the proxy was asked") }, reason: mediator.Unresolved,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := served(t, tt.serve)
			through, err := mediator.ProxyFromEnvironment(func(name string) string { return strings.ReplaceAll(tt.variables[name], "PROXY", at) })
			if err != nil || through == nil {
				t.Fatal(err)
			}
			n := start(t, setting{
				at: []string{"a.example.com:443", "pinned.example.com:443"}, pins: map[string]string{"pinned.example.com:443": direct},
				Config: mediator.Config{Proxy: through},
			})
			c, err := n.dial("a.example.com:443")
			var b []byte
			if err == nil {
				defer c.Close()
				// A write or a read is told of a reset, and only the first of them.
				if _, err = c.Write([]byte("ping")); err == nil {
					_ = c.CloseWrite()
					b, err = io.ReadAll(c)
				}
			}
			if tt.reason != "" {
				if !isReset(err) {
					t.Errorf("%q, %v, want a reset", b, err)
				}
			} else if string(b) != tt.want || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			if e := n.event("a.example.com"); e.Reason != tt.reason || e.Reason == "" && (!e.Proxied || e.Address.IsValid()) {
				t.Errorf("%+v", e)
			}
			if b, err := io.ReadAll(n.mustDial("pinned.example.com:443")); string(b) != "direct" || err != nil {
				t.Errorf("a pin is not followed: %q, %v", b, err)
			}
		})
	}
	for _, wrong := range []string{"ftp://proxy.example.com", "http://proxy.example.com:port", "quic://proxy.example.com", "https://proxy.example.com", "http://proxy.example.com:0", "http://", "http://proxy.example.com/path"} {
		if _, err := mediator.ProxyFromEnvironment(func(name string) string { return map[string]string{"HTTPS_PROXY": wrong}[name] }); err == nil {
			t.Errorf("%s is taken for a proxy", wrong)
		}
	}
	if through, err := mediator.ProxyFromEnvironment(func(string) string { return "" }); through != nil || err != nil {
		t.Errorf("without any: %v", err)
	}
}
