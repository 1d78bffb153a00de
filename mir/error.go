package mir

import "fmt"

// Code says what kind of fault a [DecodeError] or [SpecError] reports. Codes are
// stable: programs may compare them, and the conformance vectors name them.
type Code string

// The codes.
const (
	CodeTruncated          Code = "truncated"           // the bytes end inside a field
	CodeBadMagic           Code = "bad-magic"           // the bytes do not begin with MMIR
	CodeUnsupportedVersion Code = "unsupported-version" // a format version other than 2
	CodeReservedNotZero    Code = "reserved-not-zero"   // a flag or reserved byte is set
	CodeInvalidValue       Code = "invalid-value"       // a number outside its range
	CodeLimitExceeded      Code = "limit-exceeded"      // a count, length or size over its limit
	CodeInvalidPath        Code = "invalid-path"        // a path that no normal form can mend
	CodeInvalidHost        Code = "invalid-host"        // not a DNS hostname
	CodeInconsistent       Code = "inconsistent"        // network mode and destinations disagree
	CodeNotCanonical       Code = "not-canonical"       // a second spelling of a valid decision
	CodeTrailingBytes      Code = "trailing-bytes"      // bytes after the last record
)

// Limits of format version 2.
const (
	MaxDocument     = 1 << 20 // bytes in one encoded document
	MaxRules        = 4096    // filesystem rules, after duplicates collapse
	MaxDestinations = 1024    // network destinations, after duplicates collapse
	MaxPath         = 4096    // bytes in one path, as written
	MaxHostname     = 253     // bytes in one hostname
	maxLabel        = 63      // bytes between two dots of a hostname
)

// A DecodeError is why bytes are not canonical MIR. Every failure of [Decode]
// and [Verify] is one.
type DecodeError struct {
	Code    Code
	Offset  int    // of the first byte of the first offending field
	Message string // what was expected and what was found
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("mir: offset %d: %s [%s]", e.Offset, e.Message, e.Code)
}

// A SpecError is why Go values are not a policy. Every failure of [Build],
// [NewPath], [NewHostname] and [Restrict] is one.
type SpecError struct {
	Code    Code
	Field   string // the field of [Spec] at fault, as Go spells it; empty where there is none
	Message string // what was expected and what was found
}

func (e *SpecError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("mir: %s [%s]", e.Message, e.Code)
	}
	return fmt.Sprintf("mir: %s: %s [%s]", e.Field, e.Message, e.Code)
}

func specErrorf(code Code, format string, args ...any) *SpecError {
	return &SpecError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// in returns e as the fault of the named field.
func (e *SpecError) in(format string, args ...any) *SpecError {
	return &SpecError{Code: e.Code, Field: fmt.Sprintf(format, args...), Message: e.Message}
}
