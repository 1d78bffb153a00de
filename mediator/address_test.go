package mediator

import (
	"math/big"
	"net/netip"
	"strings"
	"testing"
)

// An assignment is a prefix and the kind of address that it holds; "" for public ones.
type assignment struct{ prefix, kind string }

// assignments are the registries of the IANA, as they are written there, and what is added to
// them. The longest prefix counts.
func assignments() []assignment {
	return []assignment{
		{"0.0.0.0/0", ""},
		{"0.0.0.0/8", "this-network"},
		{"0.0.0.0/32", "unspecified"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared"},
		{"100.100.100.200/32", "metadata"},
		{"127.0.0.0/8", "loopback"},
		{"168.63.129.16/32", "metadata"},
		{"169.254.0.0/16", "link-local"},
		{"169.254.169.254/32", "metadata"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "reserved"},
		{"192.0.0.0/29", "reserved"},
		{"192.0.0.8/32", "reserved"},
		{"192.0.0.9/32", ""},
		{"192.0.0.10/32", ""},
		{"192.0.0.170/32", "reserved"},
		{"192.0.0.171/32", "reserved"},
		{"192.0.0.192/32", "metadata"},
		{"192.0.2.0/24", "documentation"},
		{"192.31.196.0/24", ""},
		{"192.52.193.0/24", ""},
		{"192.88.99.0/24", "6to4"},
		{"192.88.99.2/32", "6to4"},
		{"192.168.0.0/16", "private"},
		{"192.175.48.0/24", ""},
		{"198.18.0.0/15", "benchmarking"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"224.0.0.0/4", "multicast"},
		{"240.0.0.0/4", "reserved"},
		{"255.255.255.255/32", "broadcast"},

		{"::/0", "reserved"},
		{"2000::/3", ""},
		{"::/96", "ipv4-compatible"},
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"::ffff:0:0/96", "of the address in it"},
		{"64:ff9b::/96", "of the address in it"},
		{"64:ff9b:1::/48", "nat64-local"},
		{"100::/64", "discard"},
		{"100:0:0:1::/64", "dummy"},
		{"2001::/23", "reserved"},
		{"2001::/32", "teredo"},
		{"2001:1::1/128", ""},
		{"2001:1::2/128", ""},
		{"2001:1::3/128", ""},
		{"2001:2::/48", "benchmarking"},
		{"2001:3::/32", ""},
		{"2001:4:112::/48", ""},
		{"2001:10::/28", "reserved"},
		{"2001:20::/28", ""},
		{"2001:30::/28", ""},
		{"2001:db8::/32", "documentation"},
		{"2002::/16", "6to4"},
		{"2620:4f:8000::/48", ""},
		{"3fff::/20", "documentation"},
		{"5f00::/16", "segment-routing"},
		{"fc00::/7", "unique-local"},
		{"fd00:ec2::254/128", "metadata"},
		{"fe80::/10", "link-local"},
		{"fec0::/10", "site-local"},
		{"ff00::/8", "multicast"},
	}
}

// slowSpecial is special by the longest prefix of the registries.
func slowSpecial(a netip.Addr) string {
	if !a.IsValid() {
		return "invalid"
	}
	if a.Zone() != "" {
		return "zone"
	}
	for _, embedding := range []string{"::ffff:0:0/96", "64:ff9b::/96"} {
		bits := a.As16()
		if p := netip.MustParsePrefix(embedding); p.Addr().As16() == netip.PrefixFrom(netip.AddrFrom16(bits), 96).Masked().Addr().As16() {
			a = netip.AddrFrom4([4]byte(bits[12:]))
		}
	}
	longest, kind := -1, ""
	for _, each := range assignments() {
		if p := netip.MustParsePrefix(each.prefix); p.Contains(a) && p.Bits() > longest {
			longest, kind = p.Bits(), each.kind
		}
	}
	return kind
}

// around returns the first and the last address of a prefix, the ones before and after, and one
// in the middle, as far as there are such.
func around(p netip.Prefix) []netip.Addr {
	first := p.Masked().Addr()
	size := new(big.Int).Lsh(big.NewInt(1), uint(first.BitLen()-p.Bits()))
	at := func(offset *big.Int) netip.Addr {
		n := new(big.Int).Add(new(big.Int).SetBytes(first.AsSlice()), offset)
		a, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, first.BitLen()/8)))
		return a
	}
	last := at(new(big.Int).Sub(size, big.NewInt(1)))
	all := []netip.Addr{first, last, at(new(big.Int).Rsh(size, 1))}
	if size.BitLen() == 1 {
		all = all[:1]
	}
	for _, a := range []netip.Addr{first.Prev(), last.Next()} {
		if a.IsValid() {
			all = append(all, a)
		}
	}
	return all
}

// embeddings returns an IPv4 address in the forms that are judged by it.
func embeddings(a netip.Addr) []netip.Addr {
	mapped, b := a.As16(), a.As4()
	nat64 := netip.MustParseAddr("64:ff9b::").As16()
	copy(nat64[12:], b[:])
	return []netip.Addr{netip.AddrFrom16(mapped), netip.AddrFrom16(nat64)}
}

// TestSpecialPrefixes asks at the edges of every prefix of the registries, and, if that is one
// of IPv4, in every form.
func TestSpecialPrefixes(t *testing.T) {
	for _, each := range assignments() {
		t.Run(each.prefix, func(t *testing.T) {
			p := netip.MustParsePrefix(each.prefix)
			for _, a := range around(p) {
				want := slowSpecial(a)
				if got := special(a); got != want {
					t.Errorf("%s: %q, want %q", a, got, want)
				}
				if !a.Is4() {
					continue
				}
				for _, form := range embeddings(a) {
					if got := special(form); got != want {
						t.Errorf("%s in %s: %q, want %q", a, form, got, want)
					}
				}
			}
		})
	}
}

// TestSpecial names addresses, so that neither the table nor its reader is believed alone.
func TestSpecial(t *testing.T) {
	for _, tt := range []struct{ kind, addresses string }{
		{"", "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0"},
		{"", "172.15.255.255 172.32.0.0 192.0.0.9 192.0.0.10 192.0.1.0 192.31.196.1 192.52.193.1 192.88.98.255 192.88.100.0 192.167.255.255"},
		{"", "192.169.0.0 192.175.48.1 198.17.255.255 198.20.0.0 198.51.99.255 203.0.112.255 203.0.114.0 223.255.255.255 168.63.129.17"},
		{"", "2000:: 2001:1::1 2001:1::2 2001:1::3 2001:3::1 2001:4:112::1 2001:20::1 2001:2f:ffff::1 2001:30::1 2001:200:: 2606:4700::1 2620:4f:8000::1"},
		{"", "2001:db7:ffff:: 2001:db9:: 2003:: 3ffe:: 3fff:1000:: 3fff:ffff:: ::ffff:1.1.1.1 64:ff9b::1.1.1.1 64:ff9b::192.0.0.9"},
		{"unspecified", "0.0.0.0 :: ::ffff:0.0.0.0 64:ff9b::"},
		{"this-network", "0.0.0.1 0.255.255.255"},
		{"loopback", "127.0.0.1 127.0.0.2 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::7f00:1"},
		{"private", "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 ::ffff:10.1.2.3 64:ff9b::192.168.1.1"},
		{"shared", "100.64.0.0 100.127.255.255 ::ffff:100.64.0.1"},
		{"link-local", "169.254.0.0 169.254.169.253 169.254.170.2 169.254.255.255 fe80:: fe80::1 febf:ffff::1 ::ffff:169.254.1.1"},
		{"metadata", "169.254.169.254 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 64:ff9b::168.63.129.16"},
		{"reserved", "192.0.0.0 192.0.0.7 192.0.0.8 192.0.0.11 192.0.0.170 192.0.0.171 192.0.0.255 240.0.0.0 255.255.255.254"},
		{"reserved", "2001:1:: 2001:1::4 2001:2:1:: 2001:4:111:: 2001:4:113:: 2001:5::1 2001:10::1 2001:40::1 2001:1ff:ffff::1"},
		{"reserved", "::1:0:0 ::ffff:0:1.2.3.4 64:ff9b:0:0:0:1:: 64:ff9b::1:0:0 64:ff9b:2:: 64:ff9a:: 100:0:0:2:: 1fff:ffff:: 4000:: 5eff:: 5f01:: fbff:: fe00:: fe7f::"},
		{"documentation", "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8:: 2001:db8:ffff::1 3fff:: 3fff:fff::1"},
		{"benchmarking", "198.18.0.0 198.19.255.255 2001:2::1 2001:2:0:ffff::1"},
		{"multicast", "224.0.0.1 239.255.255.255 ff00:: ff02::1 ff0e::1 ffff::"},
		{"broadcast", "255.255.255.255 ::ffff:255.255.255.255"},
		{"6to4", "192.88.99.0 192.88.99.1 192.88.99.2 192.88.99.255 2002:: 2002:101:101::1 2002:7f00:1::1"},
		{"teredo", "2001:: 2001:0:ffff::1"},
		{"nat64-local", "64:ff9b:1:: 64:ff9b:1::1.1.1.1 64:ff9b:1:ffff::"},
		{"ipv4-compatible", "::2 ::1.1.1.1 ::127.0.0.1 ::ffff:ffff"},
		{"discard", "100:: 100::ffff:ffff:ffff:ffff"},
		{"dummy", "100:0:0:1:: 100:0:0:1::1"},
		{"unique-local", "fc00:: fd00:ec2::253 fd00:ec2::255 fd00:ec2:1::254 fdff:ffff::1"},
		{"site-local", "fec0:: feff:ffff::1"},
		{"segment-routing", "5f00:: 5f00:ffff::1"},
		{"zone", "fe80::1%eth0 2606:4700::1%1 ::1%lo"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			for text := range strings.FieldsSeq(tt.addresses) {
				if got := special(netip.MustParseAddr(text)); got != tt.kind {
					t.Errorf("%s: %q, want %q", text, got, tt.kind)
				}
			}
		})
	}
	if got := special(netip.Addr{}); got != "invalid" {
		t.Errorf("no address: %q", got)
	}
}

// FuzzSpecial has any address judged as the registries say, whatever form it is in.
func FuzzSpecial(f *testing.F) {
	for _, each := range assignments() {
		for _, a := range around(netip.MustParsePrefix(each.prefix)) {
			f.Add(a.AsSlice())
			if a.Is4() {
				for _, form := range embeddings(a) {
					f.Add(form.AsSlice())
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return // these are no address
		}
		got := special(a)
		if want := slowSpecial(a); got != want {
			t.Errorf("%s: %q, want %q", a, got, want)
		}
		if u := a.Unmap(); got == "" && (!u.IsGlobalUnicast() || u.IsPrivate() || u.IsLoopback() || u.IsLinkLocalUnicast() || u.IsMulticast() || u.IsUnspecified()) {
			t.Errorf("%s is taken for a public address", a)
		}
		if a.Is4() {
			for _, form := range embeddings(a) {
				if special(form) != got {
					t.Errorf("%s in %s: %q, want %q", a, form, special(form), got)
				}
			}
			return
		}
		if got := special(a.WithZone("eth0")); got != "zone" {
			t.Errorf("%s with a zone: %q", a, got)
		}
	})
}

func BenchmarkSpecial(b *testing.B) {
	for text := range strings.FieldsSeq("1.1.1.1 192.175.48.1 2606:4700::1 2001:30::1 64:ff9b::1.1.1.1") {
		b.Run(text, func(b *testing.B) {
			a := netip.MustParseAddr(text)
			for b.Loop() {
				if special(a) != "" {
					b.Fatal("special")
				}
			}
		})
	}
}
