package mir

import "fmt"

const (
	magic = "MMIR"

	headerSize         = 20
	atRuleCount        = 8
	atMode             = 12
	atTreeConfinement  = 13
	atDestinationCount = 16

	rulePrefix   = 12
	atPathLength = 8
	kindRule     = 1

	destinationPrefix = 8
	atHostLength      = 4
	kindDestination   = 2
	protocolTCP       = 1

	wireDisabled = 0
	wireRequired = 1
)

// A wireField is one fixed field of a header or of a record's prefix. Its value,
// a big-endian integer, must lie in [low, high].
type wireField struct {
	at, size  int
	name      string
	low, high uint32
	otherwise Code // the code of a value outside the range
}

var headerFields = [...]wireField{
	{0, 4, "magic", 0x4d4d4952, 0x4d4d4952, CodeBadMagic},
	{4, 2, "format version", 2, 2, CodeUnsupportedVersion},
	{6, 2, "flags", 0, 0, CodeReservedNotZero},
	{atRuleCount, 4, "number of filesystem records", 0, MaxRules, CodeLimitExceeded},
	{atMode, 1, "network mode", uint32(ModeNone), uint32(ModeMediated), CodeInvalidValue},
	{atTreeConfinement, 1, "tree confinement", wireDisabled, wireRequired, CodeInvalidValue},
	{14, 2, "reserved bytes", 0, 0, CodeReservedNotZero},
	{atDestinationCount, 4, "number of network records", 0, MaxDestinations, CodeLimitExceeded},
}

var ruleFields = [...]wireField{
	{0, 1, "record kind", kindRule, kindRule, CodeInvalidValue},
	{1, 1, "access", uint32(Read), uint32(Deny), CodeInvalidValue},
	{2, 1, "root", uint32(RootRuntime), uint32(RootHost), CodeInvalidValue},
	{3, 1, "scope", uint32(Exact), uint32(Tree), CodeInvalidValue},
	{4, 1, "missing", uint32(MissingError), uint32(MissingSkip), CodeInvalidValue},
	{5, 3, "reserved bytes", 0, 0, CodeReservedNotZero},
	{atPathLength, 4, "path length", 0, MaxPath, CodeLimitExceeded},
}

var destinationFields = [...]wireField{
	{0, 1, "record kind", kindDestination, kindDestination, CodeInvalidValue},
	{1, 1, "protocol", protocolTCP, protocolTCP, CodeInvalidValue},
	{2, 2, "port", 1, 65535, CodeInvalidValue},
	{atHostLength, 4, "hostname length", 1, MaxHostname, CodeLimitExceeded},
}

// scanFields checks the fields that begin at base and returns the first fault.
func scanFields(doc string, base int, fields []wireField) *DecodeError {
	for _, f := range fields {
		at := base + f.at
		if len(doc) < at+f.size {
			return faultf(CodeTruncated, at, "expected %s in %d bytes, found the end of the document", f.name, f.size)
		}
		var v uint32
		for i := range f.size {
			v = v<<8 | uint32(doc[at+i])
		}
		if f.low <= v && v <= f.high {
			continue
		}
		code := f.otherwise
		if v < f.low && code == CodeLimitExceeded {
			code = CodeInvalidValue
		}
		if f.low == f.high {
			return faultf(code, at, "expected %s %d, found %d", f.name, f.low, v)
		}
		return faultf(code, at, "expected %s %d to %d, found %d", f.name, f.low, f.high, v)
	}
	return nil
}

func faultf(code Code, offset int, format string, args ...any) *DecodeError {
	return &DecodeError{Code: code, Offset: offset, Message: fmt.Sprintf(format, args...)}
}

func uint32At(s string, i int) uint32 {
	s = s[i : i+4]
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

func appendUint32(b []byte, v uint32) []byte {
	return append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}
