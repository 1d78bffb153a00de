package mediator

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"maelys.dev/maelys/mir"
)

// Names gives each host of a policy a synthetic IPv4 address of 198.18.0.0/15, a range that
// is nobody's (RFC 2544). It is immutable and safe for concurrent use.
//
// The addresses are those from 198.18.0.2 upward, in the order of the names and without those
// that end in .0 or .255, which some programs take for a network and for everybody in it. A
// policy has [mir.MaxDestinations] destinations at most, a hundredth of what there is.
//
// A policy may list localhost, whose address is the one that every program knows, 127.0.0.1:
// what it lists there leads to the host's own, if the host allows that.
type Names struct {
	hosts        []string          // sorted, distinct; their indexes are those of the addresses
	first        []int             // of the destinations of each host, and at last how many there are
	destinations []mir.Destination // sorted by host and port, distinct
	machine      string            // in lower case; empty where it is none, or a host's name
}

// perBlock is how many addresses of 256 are used, without those two.
const perBlock = 254

const questionPort = 53 // of DNS

// NewNames returns the names of a policy's destinations, which come in any order, and of the
// machine, which is at 127.0.1.1 if its name is one.
func NewNames(destinations []mir.Destination, machine string) *Names {
	sorted := slices.Clone(destinations)
	slices.SortFunc(sorted, func(a, b mir.Destination) int {
		return cmp.Or(strings.Compare(a.Host.String(), b.Host.String()), cmp.Compare(a.Port, b.Port))
	})
	n := &Names{destinations: slices.Compact(sorted)}
	n.hosts, n.first = make([]string, 0, len(sorted)), make([]int, 0, len(sorted)+1)
	for i, d := range n.destinations {
		if i == 0 || n.destinations[i-1].Host != d.Host {
			n.hosts, n.first = append(n.hosts, d.Host.String()), append(n.first, i)
		}
	}
	n.first = append(n.first, len(n.destinations))
	if machine = strings.ToLower(machine); isMachine(machine) {
		if _, ok := n.Address(machine); !ok {
			n.machine = machine
		}
	}
	return n
}

// address returns that of a host by its index; -1 is the resolver.
func address(index int) netip.Addr {
	index++
	block := index / perBlock
	return netip.AddrFrom4([4]byte{198, byte(18 + block>>8), byte(block), byte(1 + index%perBlock)})
}

// localhost is the name that is the same everywhere (RFC 6761, section 6.3).
const localhost = "localhost"

func loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// ownAddress is that of the machine's own name, as Debian has it.
func ownAddress() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 1, 1}) }

// at returns the address of a host by its index.
func (n *Names) at(index int) netip.Addr {
	if n.hosts[index] == localhost {
		return loopback()
	}
	return address(index)
}

// Synthetic returns the range of the addresses, which must be local where the command is.
func Synthetic() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18}), 15) }

// index returns that of the host that has an address.
func (n *Names) index(a netip.Addr) (int, bool) {
	if a == loopback() {
		return slices.BinarySearch(n.hosts, localhost)
	}
	if !Synthetic().Contains(a) {
		return 0, false
	}
	b := a.As4()
	if b[3] == 0 || b[3] == 255 {
		return 0, false
	}
	block := int(b[1]-18)<<8 | int(b[2])
	index := block*perBlock + int(b[3]) - 2
	return index, 0 <= index && index < len(n.hosts) && n.hosts[index] != localhost
}

// Resolver returns the address of the resolver, which is no host's.
func (n *Names) Resolver() netip.Addr { return address(-1) }

// Address returns the address of a host, which is in lower case as policies have it.
func (n *Names) Address(host string) (netip.Addr, bool) {
	i, ok := slices.BinarySearch(n.hosts, host)
	if !ok {
		return netip.Addr{}, false
	}
	return n.at(i), true
}

// Host returns the host that has an address.
func (n *Names) Host(a netip.Addr) (string, bool) {
	i, ok := n.index(a)
	if !ok {
		return "", false
	}
	return n.hosts[i], true
}

// of returns the destinations of a host by its index.
func (n *Names) of(index int) []mir.Destination {
	return n.destinations[n.first[index]:n.first[index+1]]
}

// Destination returns the destination that is meant by an address and a port, if the policy
// has it.
func (n *Names) Destination(at netip.AddrPort) (mir.Destination, bool) {
	i, ok := n.index(at.Addr())
	if !ok {
		return mir.Destination{}, false
	}
	all := n.of(i)
	p, ok := slices.BinarySearchFunc(all, at.Port(), func(d mir.Destination, port uint16) int { return cmp.Compare(d.Port, port) })
	if !ok {
		return mir.Destination{}, false
	}
	return all[p], true
}

// apart is how many destinations there may be for each to have a listener of its own. To make
// one takes the kernel some microseconds, in each launch.
const apart = 32

// Listeners returns where the sockets are to be that [Mediator.Serve] is given: one for each
// destination and one for questions, in no order. Of many destinations there is one for each
// port instead, at all addresses of the sandbox, and what connects to another one of these is
// refused by the mediator.
func (n *Names) Listeners() []netip.AddrPort {
	if len(n.destinations) > apart {
		ports := make([]uint16, len(n.destinations))
		for i, d := range n.destinations {
			ports[i] = d.Port
		}
		slices.Sort(ports)
		all := []netip.AddrPort{}
		for _, port := range slices.Compact(ports) {
			all = append(all, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
		}
		if !slices.Contains(ports, questionPort) {
			all = append(all, n.Questions())
		}
		return all
	}
	all := make([]netip.AddrPort, 0, len(n.destinations)+1)
	for i := range n.hosts {
		for _, d := range n.of(i) {
			all = append(all, netip.AddrPortFrom(n.at(i), d.Port))
		}
	}
	return append(all, n.Questions())
}

// Questions returns where the socket is to be to which questions come by UDP.
func (n *Names) Questions() netip.AddrPort { return netip.AddrPortFrom(n.Resolver(), questionPort) }

// Hosts returns the text of /etc/hosts (hosts(5)): localhost and the machine, and each host at its address.
func (n *Names) Hosts() []byte {
	const local = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	size := len(local) + len(n.machine) + len("127.0.1.1 \n")
	for _, host := range n.hosts {
		size += len("198.18.255.254 ") + len(host) + 1
	}
	text := append(make([]byte, 0, size), local...)
	if n.machine != "" {
		text = append(append(append(ownAddress().AppendTo(text), ' '), n.machine...), '\n')
	}
	for i, host := range n.hosts {
		if host == localhost {
			continue
		}
		text = append(address(i).AppendTo(text), ' ')
		text = append(append(text, host...), '\n')
	}
	return text
}

// isMachine reports whether a name in lower case can stand in /etc/hosts: the kernel takes any
// bytes for the name of a machine.
func isMachine(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !isLocalhost(name)
}

// ResolvConf returns the text of /etc/resolv.conf (resolv.conf(5)).
//
// No list of domains is searched: without one, resolvers make one of the name of the machine.
// The root is what glibc and musl take for an empty one; Go does not, and asks for more names
// after one that was refused. With ndots:0 a name without a dot is also asked for as it is
// first. An answer takes no time, so a second suffices to wait for one; musl takes a refusal
// for no answer, and waits. An option that Go does not know, such as no-aaaa, would keep its
// own resolver from being used.
func (n *Names) ResolvConf() []byte {
	return []byte("nameserver " + n.Resolver().String() + "\nsearch .\noptions ndots:0 timeout:1\n")
}

// isLocalhost reports whether a name in lower case is localhost or one beneath it.
func isLocalhost(name string) bool {
	return name == localhost || strings.HasSuffix(name, "."+localhost)
}
