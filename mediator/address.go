package mediator

import (
	"encoding/binary"
	"net/netip"
)

// special returns what kind of address a is that is none of a public host, for people, or ""
// if a is a globally reachable unicast address.
//
// It goes by the IANA Special-Purpose Address Registries for IPv4 and IPv6: what is not
// globally reachable there is special, and the longest prefix decides. Added to it are
// multicast, what IPv6 has not given out, and addresses where clouds serve metadata. What
// embeds an IPv4 address is judged by that one if everybody reads it so (mapped, NAT64 by its
// well-known prefix); where a relay in between decides (6to4, Teredo) it is special.
//
// It cannot know of a NAT64 or 6rd by a prefix of the network's own, nor that a host has an
// address of a public network for itself.
func special(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "invalid"
	case a.Zone() != "":
		return "zone" // it is of one interface
	case a.Is4() || a.Is4In6():
		return special4(a.Unmap().As4())
	}
	b := a.As16()
	high, low := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	switch {
	case high == 0x0064_ff9b_0000_0000 && low>>32 == 0: // RFC 6052
		return special4([4]byte(b[12:]))
	case high>>16 == 0x0064_ff9b_0001: // RFC 8215
		return "nat64-local"
	case high == 0xfd00_0ec2_0000_0000 && low == 0x0254:
		return "metadata"
	case high == 0 && low == 0:
		return "unspecified"
	case high == 0 && low == 1:
		return "loopback"
	case high == 0 && low>>32 == 0: // it is given up (RFC 4291, section 2.5.5.1)
		return "ipv4-compatible"
	case high == 0x0100_0000_0000_0000: // RFC 6666
		return "discard"
	case high == 0x0100_0000_0000_0001: // RFC 9780
		return "dummy"
	case high>>57 == 0xfc>>1:
		return "unique-local"
	case high>>54 == 0xfe80>>6:
		return "link-local"
	case high>>54 == 0xfec0>>6: // it is given up (RFC 3879)
		return "site-local"
	case high>>56 == 0xff:
		return "multicast"
	case high>>48 == 0x5f00: // RFC 9602
		return "segment-routing"
	case high>>61 != 0x2000>>13:
		return "reserved" // not given out for unicast
	case high>>48 == 0x2002: // RFC 3056
		return "6to4"
	case high>>41 == 0x2001_0000>>9:
		return special2001(high, low)
	case high>>32 == 0x2001_0db8, high>>44 == 0x3fff_0: // RFC 3849, RFC 9637
		return "documentation"
	}
	return ""
}

// special2001 judges 2001::/23, of which protocols of the IETF have parts.
func special2001(high, low uint64) string {
	switch {
	case high>>32 == 0x2001_0000: // RFC 4380
		return "teredo"
	case high>>16 == 0x2001_0002_0000: // RFC 5180
		return "benchmarking"
	case high == 0x2001_0001_0000_0000 && 1 <= low && low <= 3, // anycast: RFC 7723, RFC 8155, RFC 9665
		high>>32 == 0x2001_0003,      // AMT: RFC 7450
		high>>16 == 0x2001_0004_0112, // AS112: RFC 7535
		high>>36 == 0x2001_002,       // ORCHIDv2: RFC 7343
		high>>36 == 0x2001_003:       // drones: RFC 9374
		return ""
	}
	return "reserved"
}

func special4(b [4]byte) string {
	switch b[0] {
	case 0:
		if b == [4]byte{} {
			return "unspecified"
		}
		return "this-network"
	case 10:
		return "private"
	case 100:
		switch {
		case b == [4]byte{100, 100, 100, 200}:
			return "metadata"
		case b[1]>>6 == 64>>6: // RFC 6598: of a carrier's NAT
			return "shared"
		}
	case 127:
		return "loopback"
	case 168:
		if b == [4]byte{168, 63, 129, 16} {
			return "metadata" // it is a public address elsewhere
		}
	case 169:
		switch {
		case b == [4]byte{169, 254, 169, 254}:
			return "metadata"
		case b[1] == 254:
			return "link-local"
		}
	case 172:
		if b[1]>>4 == 16>>4 {
			return "private"
		}
	case 192:
		return special192(b)
	case 198:
		switch {
		case b[1]>>1 == 18>>1: // RFC 2544
			return "benchmarking"
		case b[1] == 51 && b[2] == 100: // RFC 5737
			return "documentation"
		}
	case 203:
		if b[1] == 0 && b[2] == 113 {
			return "documentation"
		}
	}
	switch {
	case b == [4]byte{255, 255, 255, 255}:
		return "broadcast"
	case b[0] >= 240:
		return "reserved"
	case b[0] >= 224:
		return "multicast"
	}
	return ""
}

// special192 judges 192.0.0.0/8.
func special192(b [4]byte) string {
	switch {
	case b[1] == 168:
		return "private"
	case b[1] == 88 && b[2] == 99: // its relays: RFC 7526
		return "6to4"
	case b[1] != 0:
		return ""
	case b[2] == 2:
		return "documentation"
	case b[2] != 0, b[3] == 9, b[3] == 10: // anycast: RFC 7723, RFC 8155
		return ""
	case b[3] == 192:
		return "metadata"
	}
	return "reserved" // for protocols of the IETF (RFC 6890)
}
