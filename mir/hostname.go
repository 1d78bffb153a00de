package mir

import "strings"

// A Hostname is a DNS name in lower case. The zero Hostname is invalid and
// [Build] refuses it. Hostnames are comparable with ==.
type Hostname struct{ text string }

// NewHostname returns name in lower case.
//
// A name is labels of letters, digits and hyphens, 1 to 63 bytes each, with no
// hyphen at either end, joined by dots, [MaxHostname] bytes at most. Wildcards,
// underscores, a trailing dot, IP literals and names whose last label a resolver
// could read as a number (127.1, 0x7f000001, example.123) are refused. Every
// failure is a *[SpecError] with [CodeInvalidHost].
func NewHostname(name string) (Hostname, error) {
	if len(name) > MaxHostname {
		return Hostname{}, specErrorf(CodeInvalidHost, "the hostname is %d bytes long, the limit is %d", len(name), MaxHostname)
	}
	// Only A to Z: a Unicode fold could turn another name into an allowed one.
	lower := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
	if !isHostname(lower) {
		return Hostname{}, specErrorf(CodeInvalidHost, "%s: %.80q", hostnameFault(lower), name)
	}
	return Hostname{lower}, nil
}

// String returns the name in lower case.
func (h Hostname) String() string { return h.text }

// isHostname reports whether name is a valid hostname in lower case. It decides
// for every input, in one pass and without allocating.
func isHostname(name string) bool {
	if len(name) == 0 || len(name) > MaxHostname {
		return false
	}
	label := 0 // where the current label begins
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-':
			if i == label {
				return false
			}
		case c == '.':
			if i == label || i-label > maxLabel || name[i-1] == '-' {
				return false
			}
			label = i + 1
		default:
			return false
		}
	}
	last := name[label:]
	return len(last) != 0 && len(last) <= maxLabel && last[len(last)-1] != '-' && !isNumber(last)
}

// isNumber reports whether a resolver could read the last label of a name as a
// part of an IPv4 address, as inet_aton does: digits, or 0x and hex digits.
func isNumber(label string) bool {
	hex := strings.HasPrefix(label, "0x")
	if hex {
		label = label[2:]
	}
	for i := 0; i < len(label); i++ {
		c := label[i]
		if ('0' > c || c > '9') && (!hex || 'a' > c || c > 'f') {
			return false
		}
	}
	return true
}

// hostnameFault says what keeps name, which is in lower case, from being a hostname.
func hostnameFault(name string) string {
	switch {
	case name == "":
		return "a hostname must not be empty"
	case strings.HasSuffix(name, "."):
		return "a hostname must not end with a dot"
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return "a hostname must not have an empty label"
		case strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
			return "a hostname may hold letters, digits, hyphens and dots only"
		case label[0] == '-' || label[len(label)-1] == '-':
			return "a label of a hostname must not begin or end with a hyphen"
		case len(label) > maxLabel:
			return "a label of a hostname may be 63 bytes long at most"
		}
	}
	return "an IP address, or a name that ends like one, is not a hostname"
}
