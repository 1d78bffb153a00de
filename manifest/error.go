package manifest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Code says what kind of fault an [Error] or [Finding] reports. Codes are
// stable: programs may compare them, and the conformance vectors name them.
type Code string

// The codes of an [Error].
const (
	CodeSyntax             Code = "syntax"              // not JSON
	CodeDuplicateMember    Code = "duplicate-member"    // a member that comes twice
	CodeUnknownMember      Code = "unknown-member"      // a member with no meaning where it stands
	CodeMissingMember      Code = "missing-member"      // a required member is not there
	CodeWrongType          Code = "wrong-type"          // a value of another JSON type
	CodeInvalidValue       Code = "invalid-value"       // a value outside its set or range
	CodeConflictingMembers Code = "conflicting-members" // members that exclude each other
	CodeInvalidPath        Code = "invalid-path"        // not a path of its form
	CodeInvalidHost        Code = "invalid-host"        // not a DNS hostname
	CodeLimitExceeded      Code = "limit-exceeded"      // a size, depth, length or count over its limit
)

// A Place is where in a manifest something stands.
type Place struct {
	Pointer string // RFC 6901; "" is the whole document
	Offset  int    // of the first byte, from 0
	Line    int    // from 1
	Column  int    // in bytes, from 1
}

// An Error is one reason that a manifest is refused.
type Error struct {
	Code Code
	Place
	Message string // what was expected and what was found, as a sentence without its full stop
	Hint    string // what to write instead; empty where there is nothing to add
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("%d:%d: %s [%s]", e.Line, e.Column, e.Message, e.Code)
	}
	return fmt.Sprintf("%d:%d: %.200s: %s [%s]", e.Line, e.Column, e.Pointer, e.Message, e.Code)
}

// Errors is why a manifest is refused: all its faults in source order. A syntax
// error ends the reading, so that one is always the last.
type Errors []*Error

func (l Errors) Error() string {
	switch len(l) {
	case 0:
		return "manifest: no errors"
	case 1:
		return "manifest: " + l[0].Error()
	}
	return fmt.Sprintf("manifest: %s (and %d more)", l[0], len(l)-1)
}

// Unwrap returns the errors one by one, for [errors.As].
func (l Errors) Unwrap() []error {
	list := make([]error, len(l))
	for i, e := range l {
		list[i] = e
	}
	return list
}

// locate fills in the lines and columns of places, which are in order of offset.
func locate(src []byte, places []*Place) {
	line, lineStart, at := 1, 0, 0
	for _, p := range places {
		offset := min(max(p.Offset, at), len(src))
		for {
			i := bytes.IndexByte(src[at:offset], '\n')
			if i < 0 {
				break
			}
			at += i + 1
			line, lineStart = line+1, at
		}
		at = offset
		p.Line, p.Column = line, offset-lineStart+1
	}
}

// oneOf lists words for a message: "a", "b" or "c".
func oneOf(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", w)
	}
	return b.String()
}

// didYouMean returns a hint that names the word nearest to text, or all of them
// when none is near.
func didYouMean(text string, words []string) string {
	best, distance := "", 3
	for _, w := range words {
		if d := editDistance(strings.ToLower(text), strings.ToLower(w), distance); d < distance && 3*d <= len(w) {
			best, distance = w, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(words) == 1:
		return fmt.Sprintf("write %q", words[0])
	}
	return "write " + oneOf(words)
}

// editDistance returns how many bytes must be inserted, removed, replaced or
// swapped with their neighbour to turn a into b; limit stands for that many or more.
func editDistance(a, b string, limit int) int {
	if len(a) > len(b)+limit || len(b) > len(a)+limit {
		return limit
	}
	width := len(b) + 1
	table := make([]int, (len(a)+1)*width)
	for i := range len(a) + 1 {
		for j := range width {
			switch {
			case i == 0:
				table[j] = j
				continue
			case j == 0:
				table[i*width] = i
				continue
			}
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(table[(i-1)*width+j]+1, table[i*width+j-1]+1, table[(i-1)*width+j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, table[(i-2)*width+j-2]+1)
			}
			table[i*width+j] = d
		}
	}
	return min(table[len(table)-1], limit)
}

// sorted orders errors by their place, keeping the order of those at one place.
func (l Errors) sorted() Errors {
	slices.SortStableFunc(l, func(a, b *Error) int { return a.Offset - b.Offset })
	return l
}
