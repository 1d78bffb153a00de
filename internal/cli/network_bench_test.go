//go:build linux && (amd64 || arm64)

package cli_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"maelys.dev/maelys/internal/ratio"
)

// A traffic is what the measurements of a mediated network need: servers in this process, on
// the host's loopback, and a program that connects to them from wherever it is started.
type traffic struct {
	*bench
	program, certificate string // the client
	bulk, web, tls       netip.AddrPort
}

// The servers, as the policy names them.
const (
	bulkName = "a.example.com:9000"
	webName  = "a.example.com:80"
	tlsName  = "a.example.com:443"
)

// noLimit is for what is printed to be looked at.
var noLimit = math.Inf(1)

func newTraffic(b *testing.B) *traffic {
	b.Helper()
	if ok, err := condition("able"); err != nil || !ok {
		b.Skip("this host cannot enforce anything")
	}
	b.Setenv("TMPDIR", "/var/tmp")
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	e := &bench{B: b, dir: dir, workspace: dir, maelys: dir + "/maelys", policy: dir + "/policy.json"}
	n := &traffic{bench: e, program: dir + "/traffic", certificate: dir + "/certificate.pem"}
	for name, source := range map[string]string{n.maelys: "../../cmd/maelys", n.program: "./testdata/traffic"} {
		n.must(exec.Command("go", "build", "-trimpath", "-o", name+".linked", source), "CGO_ENABLED=0")
		n.must(exec.Command("cp", name+".linked", name)) // as in newBench
	}
	n.serve()
	n.write(n.policy, manifestFor(mediated(bulkName, webName, tlsName)))
	n.withPolicy = []string{
		n.maelys, "run", "-p", n.policy, "-w", n.workspace,
		"--pin", fmt.Sprintf("%s=%s", bulkName, n.bulk), "--pin", fmt.Sprintf("%s=%s", webName, n.web), "--pin", fmt.Sprintf("%s=%s", tlsName, n.tls), "--",
	}
	return n
}

// manifestFor returns a policy that lets the workspace be read, with a network.
func manifestFor(network string) string {
	return `{"formatVersion": 2, "filesystem": {"default": "deny", "rules": [{"access": "read", "path": {"special": "minimal-runtime"}},
	{"access": "read", "path": {"root": "workspace"}}]}, "network": ` + network + `, "process": {"treeConfinement": "required"}}`
}

// mediated returns a network with some destinations.
func mediated(at ...string) string {
	var all []string
	for _, d := range at {
		host, port, _ := strings.Cut(d, ":")
		all = append(all, fmt.Sprintf(`{"protocol": "tcp", "host": %q, "port": %s}`, host, port))
	}
	return `{"mode": "mediated", "allow": [` + strings.Join(all, ",\n") + `]}`
}

// serve has the servers listen.
func (n *traffic) serve() {
	n.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"a.example.com"}, IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		n.Fatal(err)
	}
	n.write(n.certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	listen := func(at *netip.AddrPort) net.Listener {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			n.Fatal(err)
		}
		*at = netip.MustParseAddrPort(l.Addr().String())
		return l
	}
	bulk, plain, secret := listen(&n.bulk), listen(&n.web), listen(&n.tls)
	web := &http.Server{
		Handler:           http.HandlerFunc(answer),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}},
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = web.Serve(plain) }()             // until it is closed
	go func() { _ = web.ServeTLS(secret, "", "") }() // the same
	go func() {
		for {
			c, err := bulk.Accept()
			if err != nil {
				return
			}
			go stream(c)
		}
	}()
	n.Cleanup(func() {
		_ = web.Close() // nobody needs it
		_ = bulk.Close()
	})
}

// answer answers a request for /N with N bytes.
func answer(w http.ResponseWriter, r *http.Request) {
	size, _ := strconv.Atoi(r.URL.Path[1:])
	w.Header().Set("Content-Length", strconv.Itoa(size))
	send(w, size)
}

// stream does what the client asks for in the first line of a connection.
func stream(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	var direction string
	var size int
	if _, err := fmt.Fscanln(r, &direction, &size); err != nil {
		return
	}
	if direction == "download" {
		send(c, size)
		return
	}
	if n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.LimitReader(r, int64(size))}, make([]byte, len(zeros))); n == int64(size) {
		send(c, 1)
	}
}

var zeros [128 << 10]byte

func send(w io.Writer, size int) {
	for size > 0 {
		n, err := w.Write(zeros[:min(size, len(zeros))])
		if err != nil {
			return // the client says so
		}
		size -= n
	}
}

// A client is the program that connects, somewhere, and how it reaches the servers from
// there.
type client struct {
	*testing.B
	cmd            *exec.Cmd
	in             io.WriteCloser
	out            *bufio.Reader
	bulk, web, tls string
}

// client starts the client, behind the words of a command line. From there the servers are at
// an address.
func (n *traffic) client(b *testing.B, at string, line ...string) (*client, error) {
	b.Helper()
	line = slices.Concat(line, []string{n.program, n.certificate})
	return n.connect(b, at, exec.Command(line[0], line[1:]...))
}

func (n *traffic) connect(b *testing.B, at string, cmd *exec.Cmd) (*client, error) {
	b.Helper()
	c := &client{
		B: b, cmd: cmd, bulk: fmt.Sprintf("%s:%d", at, n.bulk.Port()),
		web: fmt.Sprintf("http://%s:%d/", at, n.web.Port()), tls: fmt.Sprintf("https://%s:%d/", at, n.tls.Port()),
	}
	cmd.Stderr = os.Stderr
	var out io.Reader
	var err, failed error
	c.in, err = cmd.StdinPipe()
	out, failed = cmd.StdoutPipe()
	if err := errors.Join(err, failed, cmd.Start()); err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if _, err := c.out.ReadString('\n'); err != nil { // it is not ready
		return nil, errors.Join(c.in.Close(), cmd.Wait(), err)
	}
	b.Cleanup(func() {
		if err := errors.Join(c.in.Close(), cmd.Wait()); err != nil {
			b.Errorf("%q: %v", cmd.Args, err)
		}
	})
	return c, nil
}

// direct starts the client with nothing around it, and mediated has run do so. Both resolve
// a name, by /etc/hosts.
func (n *traffic) direct(b *testing.B) *client {
	b.Helper()
	c, err := n.client(b, "localhost")
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (n *traffic) mediated(b *testing.B) *client {
	b.Helper()
	c, err := n.client(b, "", n.withPolicy...)
	if err != nil {
		b.Fatal(err)
	}
	c.bulk, c.web, c.tls = bulkName, "http://"+webName+"/", "https://"+tlsName+"/"
	return c
}

// ask has the client do something, and returns nanoseconds.
func (c *client) ask(what ...any) []float64 {
	c.Helper()
	_, err := fmt.Fprintln(c.in, what...)
	text, failed := c.out.ReadString('\n')
	if err := errors.Join(err, failed); err != nil {
		c.Fatalf("%q: %v", c.cmd.Args, err)
	}
	var all []float64
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil {
			c.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// processorTime returns that of the servers, of the client and of all that is around it, in
// nanoseconds.
func (c *client) processorTime() float64 {
	total := processorTime(os.Getpid())
	for all := []int{c.cmd.Process.Pid}; len(all) > 0; all = all[1:] {
		total += processorTime(all[0])
		all = append(all, children(all[0])...)
	}
	return total
}

// processorTime returns that of a process, also of its threads that have ended. Its clock has
// a number (clock_getcpuclockid(3)).
func processorTime(pid int) float64 {
	var t syscall.Timespec
	const shift, scheduled = 3, 2 // in the number
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<shift|scheduled), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0 // it has ended
	}
	return float64(t.Nano())
}

// inTurn does one thing and another until the benchmark's time is used up, and at least so
// many times. The second is first every other time.
func inTurn(b *testing.B, least int, one, other func()) {
	b.Helper()
	done := 0
	pair := func() {
		first, second := one, other
		if done%2 == 1 {
			first, second = other, one
		}
		first()
		second()
		done++
	}
	for b.Loop() {
		pair()
	}
	for done < least {
		pair()
	}
}

// quantile returns the number that a part of all are below, and sorts them.
func quantile(part float64, all []float64) float64 {
	slices.Sort(all)
	return all[int(part*float64(len(all)))]
}

// quotients returns those of each number and its neighbour.
func quotients(these, those []float64) []float64 {
	all := make([]float64, len(these))
	for i := range all {
		all[i] = these[i] / those[i]
	}
	return all
}

// BenchmarkRatioNetwork has a program connect to servers outside, by its mediated network and
// without anything around it.
func BenchmarkRatioNetwork(b *testing.B) {
	n := newTraffic(b)
	for _, s := range []struct {
		name, direction string
		size, streams   int
	}{
		{"download", "download", 256 << 20, 1},
		{"upload", "upload", 256 << 20, 1},
		{"download-by-8", "download", 48 << 20, 8},
		{"upload-by-8", "upload", 48 << 20, 8},
	} {
		b.Run(s.name, func(b *testing.B) {
			var times, processor [2][]float64 // mediated, direct
			by := func(i int, c *client) func() {
				return func() {
					before := c.processorTime()
					times[i] = append(times[i], c.ask(s.direction, c.bulk, s.size, s.streams)...)
					processor[i] = append(processor[i], c.processorTime()-before)
				}
			}
			inTurn(b, 15, by(0, n.mediated(b)), by(1, n.direct(b)))
			// At least 0.6 of the throughput.
			ratio.Print(os.Stdout, s.name+"-time-mediated/direct", quantile(0.5, quotients(times[0], times[1])), 1.66)
			ratio.Print(os.Stdout, s.name+"-processor-time-mediated/direct", quantile(0.5, quotients(processor[0], processor[1])), 2.2)
		})
	}
	for _, kind := range []string{"http", "https"} {
		b.Run(kind, func(b *testing.B) {
			const rounds, blocks, connections = 5, 20, 25 // each has 500 in a round
			mediated, direct := n.mediated(b), n.direct(b)
			var times [2][]float64
			by := func(i int, c *client) func() {
				return func() {
					at := c.web
					if kind == "https" {
						at = c.tls
					}
					times[i] = append(times[i], c.ask("get", at, connections)...)
				}
			}
			inTurn(b, rounds*blocks, by(0, mediated), by(1, direct))
			for _, part := range []float64{0.5, 0.99} {
				var more, noise []float64 // of each round, and of one without it against the one before
				for first := 0; first+blocks*connections <= len(times[0]); first += blocks * connections {
					round := func(i, first int) float64 {
						return quantile(part, slices.Clone(times[i][first:first+blocks*connections]))
					}
					more = append(more, round(0, first)-round(1, first))
					if first > 0 {
						noise = append(noise, math.Abs(round(1, first)-round(1, first-blocks*connections)))
					}
				}
				name := fmt.Sprintf("%s-connection-p%.0f-us-mediated-minus-direct", kind, part*100)
				ratio.Print(os.Stdout, name, quantile(0.5, more)/1e3, 150)
				ratio.Print(os.Stdout, name+"-noise", quantile(0.5, noise)/1e3, noLimit)
			}
		})
	}
}

// BenchmarkRatioNetworkTools compares with others that connect what is confined, for what it is
// worth: they hold other promises.
func BenchmarkRatioNetworkTools(b *testing.B) {
	n := newTraffic(b)
	for _, tool := range []struct {
		name, program string
		start         func(b *testing.B) (*client, error)
	}{
		{"pasta", "pasta", n.pasta},
		{"pasta-forwarding", "pasta", n.pastaForwarding},
		{"slirp4netns", "slirp4netns", n.slirp},
		{"srt", "srt", n.srt},
	} {
		b.Run(tool.name, func(b *testing.B) {
			_, err := exec.LookPath(tool.program)
			var other *client
			if err == nil {
				other, err = tool.start(b)
			}
			if err != nil {
				fmt.Printf("\nSKIP network-mediated/%s %v\n", tool.name, err)
				b.Skip(err)
			}
			mediated := n.mediated(b)
			for _, what := range []struct {
				name, path   string
				times, least int
			}{
				{"download", strconv.Itoa(128 << 20), 1, 5},
				{"connection", "", 25, 12},
			} {
				var times [2][]float64
				for range what.least {
					times[0] = append(times[0], mediated.ask("get", mediated.web+what.path, what.times)...)
					times[1] = append(times[1], other.ask("get", other.web+what.path, what.times)...)
				}
				ratio.Print(os.Stdout, "http-"+what.name+"-mediated/"+tool.name, quantile(0.5, times[0])/quantile(0.5, times[1]), noLimit)
			}
		})
	}
}

// pasta starts the client in a network of pasta(1), whose gateway is the host's loopback.
func (n *traffic) pasta(b *testing.B) (*client, error) {
	b.Helper()
	return n.client(b, "192.0.2.1", pastaLine("none", "-a", "192.0.2.100", "-n", "24", "-g", "192.0.2.1")...)
}

// pastaForwarding does so with a port of the host's loopback at the one inside.
func (n *traffic) pastaForwarding(b *testing.B) (*client, error) {
	b.Helper()
	return n.client(b, "127.0.0.1", pastaLine(strconv.Itoa(int(n.web.Port())))...)
}

func pastaLine(forwarded string, more ...string) []string {
	line := []string{"pasta", "--config-net", "-q", "-f", "-4", "-t", "none", "-u", "none", "-T", forwarded, "-U", "none"}
	if os.Geteuid() == 0 {
		line = append(line, "--runas", "0") // else it may not read the program
	}
	return slices.Concat(line, more, []string{"--"})
}

// slirp starts the client in a network of slirp4netns(1), with the MTU that its manual has
// for speed.
func (n *traffic) slirp(b *testing.B) (*client, error) {
	b.Helper()
	cmd := exec.Command(n.program, n.certificate)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	c, err := n.connect(b, "10.0.2.2", cmd)
	if err != nil {
		return nil, err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	pid := strconv.Itoa(cmd.Process.Pid)
	slirp := exec.Command("slirp4netns", "--configure", "--mtu=65520", "--ready-fd=3", "--userns-path=/proc/"+pid+"/ns/user", pid, "tap0")
	slirp.ExtraFiles = []*os.File{tell}
	err = errors.Join(slirp.Start(), tell.Close())
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() {
		_ = slirp.Process.Kill() // it may have ended already
		_ = slirp.Wait()         // by that
	})
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("it is not ready: %w", err)
	}
	return c, nil
}

// srt starts the client in the sandbox runtime of Anthropic (npm:@anthropic-ai/sandbox-runtime),
// which has a proxy that programs have to know of.
func (n *traffic) srt(b *testing.B) (*client, error) {
	b.Helper()
	settings := n.dir + "/srt.json"
	n.write(settings, `{"network": {"allowedDomains": ["127.0.0.1"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}`)
	return n.client(b, "127.0.0.1", "srt", "--settings", settings, "--")
}

// BenchmarkRatioLaunchMediated starts a program that does nothing with a mediated network, and
// with none and the same files. What is printed is the difference in milliseconds.
func BenchmarkRatioLaunchMediated(b *testing.B) {
	for _, destinations := range []int{1, 1024} {
		b.Run(strconv.Itoa(destinations), func(b *testing.B) {
			e := newBench(b)
			var at []string
			for i := range destinations {
				at = append(at, fmt.Sprintf("host-%d.example.com:%d", i, []int{443, 80, 22}[i%3]))
			}
			line := func(name, policy string) []string {
				file := filepath.Join(e.dir, name)
				e.write(file+".json", policy)
				e.must(exec.Command(e.maelys, "compile", file+".json", "-o", file+".mir"))
				return []string{e.maelys, "run", "-p", file + ".mir", "-w", e.workspace, "--", e.yes}
			}
			with := line("mediated", manifestFor(mediated(at...)))
			without := line("none", strings.Replace(manifestFor(`{"mode": "none"}`), `"rules": [`, `"rules": [
				{"access": "read", "path": {"absolute": "/etc/hosts"}, "scope": "exact"}, {"access": "read", "path": {"absolute": "/etc/resolv.conf"}, "scope": "exact"},`, 1))
			var times [2][]float64
			by := func(i int, line []string) func() {
				return func() {
					began := time.Now()
					e.start(line)
					times[i] = append(times[i], float64(time.Since(began)))
				}
			}
			inTurn(b, 200, by(0, with), by(1, without))
			var more []float64
			for i := range times[0] {
				more = append(more, times[0][i]-times[1][i])
			}
			ratio.Print(os.Stdout, fmt.Sprintf("launch-ms-mediated-%d-minus-none", destinations), quantile(0.5, more)/1e6, 1)
		})
	}
}
