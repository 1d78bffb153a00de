package mediator

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/mir"
)

// destinations returns those that are written as HOST:PORT.
func destinations(t testing.TB, all ...string) []mir.Destination {
	t.Helper()
	var found []mir.Destination
	for _, text := range all {
		host, number, _ := strings.Cut(text, ":")
		name, err := mir.NewHostname(host)
		if err != nil {
			t.Fatal(err)
		}
		var port uint16
		if _, err := fmt.Sscan(number, &port); err != nil {
			t.Fatal(err)
		}
		found = append(found, mir.Destination{Host: name, Port: port})
	}
	return found
}

// most returns as many destinations as a policy can have, in no order: each of another host,
// or several of one.
func most(t testing.TB, ofOne int) []mir.Destination {
	t.Helper()
	var all []string
	for i := range mir.MaxDestinations {
		all = append(all, fmt.Sprintf("host-%d.team-%d.example.com:%d", i/ofOne, i/ofOne%7, 1+(i%ofOne)*31%65535))
	}
	r := rand.New(rand.NewPCG(1, uint64(ofOne)))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return destinations(t, all...)
}

// TestNames holds the addresses, which other programs see, against a list.
func TestNames(t *testing.T) {
	n := NewNames(destinations(t, "b.example.com:443", "a.example.com:8443", "B.example.com:80", "a.example.com:443", "a.example.com:443", "c:1", "app.localhost:80", "localhost:5432"), "Machine_1.example.com")
	if got := n.Resolver().String(); got != "198.18.0.1" {
		t.Errorf("the resolver is at %s", got)
	}
	for host, want := range map[string]string{
		"a.example.com": "198.18.0.2", "app.localhost": "198.18.0.3", "b.example.com": "198.18.0.4", "c": "198.18.0.5", "localhost": "127.0.0.1",
		"": "", "A.example.com": "", "a.example.com.": "", "example.com": "", "d": "",
	} {
		a, ok := n.Address(host)
		if ok != (want != "") || ok && a.String() != want {
			t.Errorf("the address of %q: %v, want %q", host, a, want)
		}
		if got, ok := n.Host(a); got != host && ok {
			t.Errorf("the host of %v: %q, want %q", a, got, host)
		}
	}
	if got, want := fmt.Sprint(n.Listeners()), "[198.18.0.2:443 198.18.0.2:8443 198.18.0.3:80 198.18.0.4:80 198.18.0.4:443 198.18.0.5:1 127.0.0.1:5432 198.18.0.1:53]"; got != want {
		t.Errorf("listeners %s, want %s", got, want)
	}
	if d, ok := n.Destination(netip.MustParseAddrPort("127.0.0.1:5432")); !ok || d.String() != "localhost:5432" {
		t.Errorf("at 127.0.0.1 is %v, %v", d, ok)
	}
	if host, ok := n.Host(netip.MustParseAddr("198.18.0.6")); ok {
		t.Errorf("%s is at an address of its own", host)
	}
	const hosts = `127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
127.0.1.1 machine_1.example.com
198.18.0.2 a.example.com
198.18.0.3 app.localhost
198.18.0.4 b.example.com
198.18.0.5 c
`
	if got := string(n.Hosts()); got != hosts {
		t.Errorf("/etc/hosts is\n%s", got)
	}
	for _, machine := range []string{"", "A.example.com", "localhost", "x.LOCALHOST", "two names", "line\n192.0.2.1 b", "é"} {
		other := NewNames(n.destinations, machine)
		if got := string(other.Hosts()); got != strings.Replace(hosts, "127.0.1.1 machine_1.example.com\n", "", 1) {
			t.Errorf("on %q /etc/hosts is\n%s", machine, got)
		}
	}
	const resolver = "nameserver 198.18.0.1\nsearch .\noptions ndots:0 timeout:1\n"
	if got := string(n.ResolvConf()); got != resolver {
		t.Errorf("/etc/resolv.conf is\n%s", got)
	}
}

// TestNoNames has names of nothing.
func TestNoNames(t *testing.T) {
	n := NewNames(nil, "")
	if all := n.Listeners(); fmt.Sprint(all) != "[198.18.0.1:53]" || strings.Count(string(n.Hosts()), "\n") != 2 {
		t.Errorf("%v, %s", all, n.Hosts())
	}
	if _, ok := n.Host(n.Resolver()); ok {
		t.Error("the resolver is a host")
	}
}

// TestListenersOfMany has a policy with so many destinations that they have listeners together,
// and one of them at the port of questions.
func TestListenersOfMany(t *testing.T) {
	var all []string
	for i := range apart {
		all = append(all, fmt.Sprintf("h%d.example.com:%d", i, 443+i%2))
	}
	if got := NewNames(destinations(t, all...), "").Listeners(); len(got) != apart+1 || got[0].String() != "198.18.0.2:443" {
		t.Errorf("%v, want one for each", got)
	}
	if got := fmt.Sprint(NewNames(destinations(t, append(all, "more.example.com:443")...), "").Listeners()); got != "[0.0.0.0:443 0.0.0.0:444 198.18.0.1:53]" {
		t.Error(got)
	}
	if got := fmt.Sprint(NewNames(destinations(t, append(all, "dns.example.com:53")...), "").Listeners()); got != "[0.0.0.0:53 0.0.0.0:443 0.0.0.0:444]" {
		t.Error(got)
	}
}

// TestSynthetic looks for hosts at addresses next to the ones that are given out.
func TestSynthetic(t *testing.T) {
	n := NewNames(most(t, 1), "")
	for text, want := range map[string]bool{
		"198.18.0.2": true, "198.18.0.254": true, "198.18.1.1": true, "198.18.4.9": true, // the 1024th: 1 + 253 + 3*254 + 9
		"198.18.4.10": false, "198.18.0.0": false, "198.18.0.1": false, "198.18.0.255": false, "198.18.1.0": false, "198.18.1.255": false,
		"198.19.0.2": false, "198.17.255.254": false, "198.20.0.2": false, "199.18.0.2": false, "0.0.0.0": false, "255.255.255.255": false,
		"::ffff:198.18.0.2": false, "::": false, "::c612:2": false,
	} {
		a := netip.MustParseAddr(text)
		_, ok := n.Host(a)
		if ok != want {
			t.Errorf("a host at %s: %v, want %v", text, ok, want)
		}
		if !ok {
			if d, ok := n.Destination(netip.AddrPortFrom(a, 1)); ok {
				t.Errorf("%s is at %s", d, text)
			}
		}
	}
	if _, ok := n.Host(netip.Addr{}); ok {
		t.Error("no address is some host's")
	}
}

// TestMostNames has as many destinations as there can be, and looks for each by trying.
func TestMostNames(t *testing.T) {
	for _, ofOne := range []int{1, 3, mir.MaxDestinations} {
		t.Run(fmt.Sprintf("%d ports a host", ofOne), func(t *testing.T) {
			all := most(t, ofOne)
			before := slices.Clone(all)
			n := NewNames(all, "")
			if !slices.Equal(all, before) {
				t.Error("what it is given is changed")
			}
			if again := NewNames(slices.Repeat(before, 2), ""); string(again.Hosts()) != string(n.Hosts()) || !slices.Equal(again.Listeners(), n.Listeners()) {
				t.Error("it is not the same twice")
			}
			taken := map[netip.Addr]string{n.Resolver(): "the resolver"}
			var hosts []string
			for _, d := range all {
				hosts = append(hosts, d.Host.String())
			}
			slices.Sort(hosts)
			hosts = slices.Compact(hosts)
			last := n.Resolver()
			for _, host := range hosts {
				a, ok := n.Address(host)
				b := a.As4()
				switch {
				case !ok || !a.Is4() || !netip.MustParsePrefix("198.18.0.0/15").Contains(a) || b[3] == 0 || b[3] == 255:
					t.Fatalf("%s is at %v", host, a)
				case taken[a] != "":
					t.Fatalf("%s and %s are both at %v", host, taken[a], a)
				case !last.Less(a):
					t.Fatalf("%s is at %v, after %v", host, a, last)
				}
				taken[a], last = host, a
				if got, ok := n.Host(a); !ok || got != host {
					t.Fatalf("at %v is %q, want %q", a, got, host)
				}
			}

			want := map[netip.AddrPort]mir.Destination{}
			for _, d := range all {
				a, _ := n.Address(d.Host.String())
				want[netip.AddrPortFrom(a, d.Port)] = d
			}
			if len(want) != len(all) {
				t.Fatalf("%d endpoints of %d destinations", len(want), len(all))
			}
			ports := map[uint16]bool{}
			for at, d := range want {
				ports[at.Port()] = true
				if got, ok := n.Destination(at); !ok || got != d {
					t.Fatalf("at %v is %v, want %v", at, got, d)
				}
			}
			tried := []uint16{0, 2, 65535}
			for _, at := range n.Listeners() {
				if at != n.Questions() && (!at.Addr().IsUnspecified() || !ports[at.Port()]) {
					t.Fatalf("nobody is at %v", at)
				}
				tried = append(tried, at.Port())
			}
			if len(n.Listeners()) != len(ports)+1 {
				t.Fatalf("%d listeners for %d ports", len(n.Listeners()), len(ports))
			}
			// All there is otherwise around there.
			for third := range 6 {
				for fourth := range 256 {
					a := netip.AddrFrom4([4]byte{198, 18, byte(third), byte(fourth)})
					for _, port := range tried {
						at := netip.AddrPortFrom(a, port)
						d, ok := n.Destination(at)
						if w, there := want[at]; ok != there || d != w {
							t.Fatalf("at %v is %v, want %v", at, d, w)
						}
					}
				}
			}

			lines := strings.Split(strings.TrimSuffix(string(n.Hosts()), "\n"), "\n")[2:]
			if len(lines) != len(hosts) {
				t.Fatalf("%d lines of %d hosts", len(lines), len(hosts))
			}
			for i, host := range hosts {
				if a, _ := n.Address(host); lines[i] != a.String()+" "+host {
					t.Fatalf("line %d is %q, want %s at %s", i, lines[i], host, a)
				}
			}
		})
	}
}

// BenchmarkRatioNames prints the milliseconds that a launch takes for the names of the
// largest policy.
func BenchmarkRatioNames(b *testing.B) {
	all := most(b, 1)
	slices.SortFunc(all, func(x, y mir.Destination) int { // as policies have them
		return strings.Compare(x.Host.String(), y.Host.String())
	})
	b.ReportAllocs()
	for b.Loop() {
		NewNames(all, "").Hosts()
	}
	ratio.Print(os.Stdout, "names-1024-milliseconds", b.Elapsed().Seconds()*1000/float64(b.N), 0.2)
}
