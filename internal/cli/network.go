package cli

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mediator"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// network reads what the flags say of destinations into a host context.
func (c *hostContext) network(h *plan.Host) *result {
	for _, name := range c.allowPrivate {
		host, err := mir.NewHostname(name)
		if err != nil {
			return usagef("write --allow-private HOST, as network.allow of the policy names it", "expected a host for --allow-private, found %q: %v", name, err)
		}
		h.AllowPrivate = append(h.AllowPrivate, host)
	}
	for _, text := range c.pins {
		d, at, err := pinOf(text)
		if err != nil {
			return usagef("write --pin HOST:PORT=ADDR:PORT, such as a.example.com:443=192.0.2.7:8443", "expected a destination and an address for --pin, found %q: %v", text, err)
		}
		if old, ok := h.Pins[d]; ok && old != at {
			return usagef("pin it once", "%s is pinned to %s and to %s", d, old, at)
		}
		if h.Pins == nil {
			h.Pins = map[mir.Destination]netip.AddrPort{}
		}
		h.Pins[d] = at
	}
	return nil
}

// pinOf takes apart HOST:PORT=ADDR:PORT.
func pinOf(text string) (mir.Destination, netip.AddrPort, error) {
	before, after, _ := strings.Cut(text, "=")
	at, err := netip.ParseAddrPort(after)
	if err != nil {
		return mir.Destination{}, at, err
	}
	name, port, ok := destinationOf(before)
	if !ok || port == 0 {
		return mir.Destination{}, at, fmt.Errorf("expected HOST:PORT, found %q", before)
	}
	host, err := mir.NewHostname(name)
	return mir.Destination{Host: host, Port: port}, at, err
}

// without returns the context for p, which is compared with another policy: what is said of
// the destinations of that one alone is left out.
func (c *hostContext) without(p, other *mir.Policy) *hostContext {
	foreign := func(is func(mir.Destination) bool) bool {
		return !slices.ContainsFunc(p.Destinations(), is) && slices.ContainsFunc(other.Destinations(), is)
	}
	own := *c
	own.allowPrivate = slices.DeleteFunc(slices.Clone(c.allowPrivate), func(name string) bool {
		host, err := mir.NewHostname(name)
		return err == nil && foreign(func(d mir.Destination) bool { return d.Host == host })
	})
	own.pins = slices.DeleteFunc(slices.Clone(c.pins), func(text string) bool {
		pinned, _, err := pinOf(text)
		return err == nil && foreign(func(d mir.Destination) bool { return d == pinned })
	})
	return &own
}

// proxyVariables are those by which programs are told to connect through a proxy. Where the
// network is mediated it is the mediator that does so.
var proxyVariables = [...]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY"}

// isProxyVariable reports whether a variable is one of these, in upper or lower case.
func isProxyVariable(name string) bool {
	return slices.Contains(proxyVariables[:], strings.ToUpper(name))
}

// connect says how the command is connected to its destinations. What is told of them is all
// said when the function that it returns has been called.
func (r *running) connect() (n warden.Network, said func(), failed *result) {
	if r.plan.Mode() != mir.ModeMediated {
		return n, func() {}, nil
	}
	proxy, err := mediator.ProxyFromEnvironment(os.Getenv)
	if err != nil {
		return n, nil, failure(diagnostic{
			Code: string(plan.CodeHostContext), exit: exitSandbox, Message: err.Error(),
			Hint: "mend HTTPS_PROXY or ALL_PROXY, or do without: env -u HTTPS_PROXY -u ALL_PROXY maelys run …",
		})
	}
	told := &teller{running: r, said: map[mediator.Cause]bool{}}
	return warden.Network{Proxy: proxy, Report: told.tell}, told.end, nil
}

// A teller says on standard error, as it happens, what a command cannot reach: each
// destination once for each reason.
type teller struct {
	*running
	said  map[mediator.Cause]bool
	texts chan string   // with room for all, since connections may not wait for who reads them
	ended chan struct{} // closed when all are written
}

// maxTold is how much is said while the command runs. A receipt has more.
const maxTold = 100

// say has a text written to standard error.
func (t *teller) say(text string) {
	if t.texts == nil {
		t.texts, t.ended = make(chan string, maxTold+1), make(chan struct{})
		go func() {
			defer close(t.ended)
			for text := range t.texts {
				t.app.complain(text)
			}
		}()
	}
	t.texts <- text
}

// end returns when all has been written. Nothing may be told any more.
func (t *teller) end() {
	if t.texts != nil {
		close(t.texts)
		<-t.ended
	}
}

func (t *teller) tell(e mediator.Event) {
	if e.Reason == "" || e.Reason == mediator.Abandoned { // nothing failed, and nobody waits
		return
	}
	cause := e.Cause()
	switch {
	case t.said[cause] || len(t.said) > maxTold:
		return
	case len(t.said) == maxTold:
		t.said[cause] = true
		t.say("maelys: more destinations could not be reached; --receipt names them\n")
		return
	}
	t.said[cause] = true
	d := diagnostic{File: t.in.name, Code: string(e.Reason), Hint: t.hint(e)}
	verb := "cannot reach"
	if e.Reason.Refused() {
		verb = "refused"
	}
	d.Message = strings.TrimSpace(verb+" "+e.Target()) + ": " + e.Detail
	t.say(d.text(painter{color: colorful(t.app.stderr)}))
}

// hint says what would let the command reach a destination.
func (t *teller) hint(e mediator.Event) string {
	name, port := e.Host, e.Port
	switch e.Reason {
	case mediator.PrivateAddress:
		return fmt.Sprintf("if it is meant to be there, run it with --allow-private %s", e.Host)
	case mediator.ServerName:
		name = e.ServerName
	case mediator.NotAllowed:
	case mediator.TooMany, mediator.BadHello, mediator.BadQuery, mediator.Unresolved, mediator.Unreachable, mediator.TimedOut, mediator.Abandoned:
		return ""
	}
	host, err := mir.NewHostname(name)
	if err != nil {
		return "" // no policy can allow it
	}
	usual := ""
	if port == 0 {
		port, usual = 443, ", with the port that is needed"
	}
	return "to allow it, add " + manifest.FormatDestination(mir.Destination{Host: host, Port: port}) + " to /network/allow" + usual
}

// A connectionInfo is one connection to a destination.
type connectionInfo struct {
	Host     string    `json:"host"`
	Port     uint16    `json:"port"`
	Address  string    `json:"address,omitempty"` // that was connected to
	Proxied  bool      `json:"proxied,omitempty"` // by the proxy of the host, which resolves the name
	ECH      bool      `json:"encryptedClientHello,omitempty"`
	Sent     int64     `json:"sentBytes"`
	Received int64     `json:"receivedBytes"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`
	Reason   string    `json:"reason,omitempty"` // why it was not made
	Detail   string    `json:"detail,omitempty"`
}

// A refusalInfo is what was asked for and refused.
type refusalInfo struct {
	Host    string    `json:"host"`
	Port    uint16    `json:"port,omitempty"`    // 0 and left out where a name was asked for
	Address string    `json:"address,omitempty"` // that was not connected to
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"`
	First   time.Time `json:"first"`
	Count   int       `json:"count"`
}

func connectionInfos(t *warden.Traffic) []connectionInfo {
	all := make([]connectionInfo, 0, len(t.Connections))
	for _, e := range t.Connections {
		all = append(all, connectionInfo{
			e.Host, e.Port, addressText(e.Address), e.Proxied, e.ECH, e.Sent, e.Received, e.Began.UTC(), e.Duration.Seconds(), string(e.Reason), e.Detail,
		})
	}
	return all
}

func refusalInfos(t *warden.Traffic) []refusalInfo {
	all := make([]refusalInfo, 0, len(t.Refusals))
	for _, r := range t.Refusals {
		all = append(all, refusalInfo{r.Host, r.Port, addressText(r.Address), string(r.Reason), r.Detail, r.Began.UTC(), r.Count})
	}
	return all
}

func addressText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// trafficText shows what a command did with a mediated network.
func trafficText(t *warden.Traffic) []string {
	const most = 20
	var lines []string
	for _, e := range t.Connections[:min(len(t.Connections), most)] {
		lines = append(lines, e.String())
	}
	if more := len(t.Connections) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more connections", more))
	}
	for _, r := range t.Refusals[:min(len(t.Refusals), most)] {
		lines = append(lines, fmt.Sprintf("%s, %d times", r.String(), r.Count))
	}
	if more := len(t.Refusals) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more refusals", more))
	}
	if t.Untold > 0 {
		lines = append(lines, fmt.Sprintf("and %d of which nothing is known any more", t.Untold))
	}
	return lines
}
