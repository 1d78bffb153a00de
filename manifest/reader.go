package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// The limits of a manifest as a text.
const (
	MaxSize  = 1 << 20 // bytes
	MaxDepth = 32      // arrays and objects inside each other

	// maxErrors ends the reading of a manifest that has more, so that the errors
	// cannot outgrow the manifest by much.
	maxErrors = 1000
)

// A reader walks the tokens of one manifest and collects its errors. Once done is
// set nothing more is read, and every method returns at once.
type reader struct {
	src    []byte
	text   string // src as a string, so that values without escapes need no copy
	tokens *jsontext.Decoder
	errors Errors
	done   bool

	at           pointer // of the value that is being read
	pointerBytes int     // in errors
	furthest     int     // the greatest offset in errors
}

func newReader(src []byte) *reader {
	// Duplicate names are looked for here, so that they are reported like every
	// other error of a member and not as bad syntax.
	return &reader{
		src:    src,
		text:   string(src),
		tokens: jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowDuplicateNames(true)),
	}
}

// A pointer is a place in the document: the steps from the top. A step is a
// member's name, or an index where the name is empty and index is not negative.
type pointer []step

type step struct {
	name  string
	index int // -1 for a member
}

// decimals is enough for an index: no manifest has more elements than bytes.
const decimals = len("1048576")

func (p pointer) String() string {
	size := 0
	for _, s := range p {
		size += 1 + max(len(s.name)+strings.Count(s.name, "~")+strings.Count(s.name, "/"), decimals)
	}
	b := make([]byte, 0, size)
	for _, s := range p {
		b = append(b, '/')
		if s.index >= 0 {
			b = strconv.AppendInt(b, int64(s.index), 10)
			continue
		}
		for i := range len(s.name) {
			switch c := s.name[i]; c {
			case '~':
				b = append(b, "~0"...)
			case '/':
				b = append(b, "~1"...)
			default:
				b = append(b, c)
			}
		}
	}
	return string(b)
}

func (r *reader) enter(name string) { r.at = append(r.at, step{name, -1}) }
func (r *reader) leave()            { r.at = r.at[:len(r.at)-1] }

// report adds an error at the value or member that is being read.
func (r *reader) report(code Code, offset int, hint, format string, args ...any) {
	r.reportAt(code, r.at, offset, hint, format, args...)
}

func (r *reader) reportAt(code Code, at pointer, offset int, hint, format string, args ...any) {
	if len(r.errors) == maxErrors || r.pointerBytes > MaxSize {
		if !r.done {
			r.done = true
			r.add(CodeLimitExceeded, "", max(offset, r.furthest), "mend the errors above first", fmt.Sprintf("more than %d errors, the rest is left out", len(r.errors)))
		}
		return
	}
	r.add(code, at.String(), offset, hint, fmt.Sprintf(format, args...))
}

func (r *reader) add(code Code, pointer string, offset int, hint, message string) {
	r.pointerBytes += len(pointer)
	r.furthest = max(r.furthest, offset)
	r.errors = append(r.errors, &Error{Code: code, Place: Place{Pointer: pointer, Offset: offset}, Message: message, Hint: hint})
}

// kind returns the kind of the next token, and 0 when there is none, after
// reporting why.
func (r *reader) kind() jsontext.Kind {
	if r.done {
		return 0
	}
	k := r.tokens.PeekKind()
	if k == 0 {
		_, err := r.tokens.ReadToken()
		r.syntax(err)
	}
	return k
}

// offset returns where the next token begins, which kind has seen.
func (r *reader) offset() int {
	i := int(r.tokens.InputOffset())
	for i < len(r.src) && strings.IndexByte(" \t\r\n,:", r.src[i]) >= 0 {
		i++
	}
	return i
}

// scalar reads the next value, which kind says is no array and no object, and
// returns it as written and where it begins.
func (r *reader) scalar() (raw jsontext.Value, offset int) {
	raw, err := r.tokens.ReadValue()
	if err != nil {
		r.syntax(err)
		return nil, 0
	}
	return raw, int(r.tokens.InputOffset()) - len(raw)
}

// open reads the bracket that begins an array or object and returns where it stands.
func (r *reader) open() (offset int) {
	offset = r.offset()
	if r.tokens.StackDepth() == MaxDepth {
		r.report(CodeLimitExceeded, offset, "", "arrays and objects may be nested %d deep at most", MaxDepth)
		r.done = true
		return offset
	}
	r.close()
	return offset
}

// close reads the bracket that ends an array or object.
func (r *reader) close() {
	if r.done {
		return
	}
	if _, err := r.tokens.ReadToken(); err != nil {
		r.syntax(err)
	}
}

// unquote returns the text of a JSON string that the tokenizer has accepted and
// that begins at offset.
func (r *reader) unquote(raw jsontext.Value, offset int) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return r.text[offset+1 : offset+len(raw)-1]
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil { // cannot be: the tokenizer has checked it
		r.syntax(err)
		return ""
	}
	return string(text)
}

// string reads a string. It reports any other value, with hint, and returns false.
func (r *reader) string(hint string) (text string, offset int, ok bool) {
	if !r.expect('"', "a string", hint) {
		return "", 0, false
	}
	raw, offset := r.scalar()
	if r.done {
		return "", 0, false
	}
	return r.unquote(raw, offset), offset, true
}

// number reads a number as written. It returns false without a report for one that
// something follows at once, such as 0443: that is bad syntax, as the next read finds.
func (r *reader) number() (text string, offset int, ok bool) {
	if !r.expect('0', "a number", "write it in plain digits, without quotes") {
		return "", 0, false
	}
	raw, offset := r.scalar()
	end := offset + len(raw)
	whole := end == len(r.src) || strings.IndexByte(" \t\r\n,]}", r.src[end]) >= 0
	return string(raw), offset, !r.done && whole
}

// expect reports and skips the next value unless it is of kind want.
func (r *reader) expect(want jsontext.Kind, name, hint string) bool {
	k := r.kind()
	if k == want {
		return true
	}
	if k == 0 {
		return false
	}
	// A bracket has a type at once, a scalar only once it has turned out to be one.
	offset := r.offset()
	bracket := k == '{' || k == '['
	if bracket {
		r.report(CodeWrongType, offset, hint, "expected %s, found %s", name, kindName(k))
	}
	r.skip()
	if !bracket && !r.done {
		r.report(CodeWrongType, offset, hint, "expected %s, found %s", name, kindName(k))
	}
	return false
}

func kindName(k jsontext.Kind) string {
	switch byte(k) {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "a closing bracket"
}

// word reads a string that must be one of words and returns its number from 1, or
// 0 after reporting.
func (r *reader) word(words []string) int {
	hint := ""
	if r.kind() != '"' {
		hint = didYouMean("", words)
	}
	text, offset, ok := r.string(hint)
	if !ok {
		return 0
	}
	for i, w := range words {
		if text == w {
			return i + 1
		}
	}
	r.report(CodeInvalidValue, offset, didYouMean(text, words), "expected %s, found %.60q", oneOf(words), text)
	return 0
}

// A shape is the members that an object may have.
type shape struct {
	names    []string
	required int    // how many of the names, from the first, must be there
	hint     string // what to write instead of a value that is no object
}

// object reads an object and calls visit for each member of the shape, once, with
// its index and the offset of its name; visit must read the value. It reports
// members that are unknown, that come twice, and that are missing. It returns
// which members were there, as a bit set, and where the object begins.
func (r *reader) object(s shape, visit func(member, offset int)) (seen uint, offset int, ok bool) {
	if !r.expect('{', "an object", s.hint) {
		return 0, 0, false
	}
	offset = r.open()
	var strangers map[string]bool
	for {
		name, nameOffset, more := r.member()
		if !more {
			break
		}
		member := s.index(name)
		r.enter(name)
		switch {
		case member < 0 && strangers[name] || member >= 0 && seen&(1<<member) != 0:
			r.duplicate(name, nameOffset)
			r.skip()
		case member < 0:
			if strangers == nil {
				strangers = map[string]bool{}
			}
			strangers[name] = true
			r.report(CodeUnknownMember, nameOffset, didYouMean(name, s.names), "unknown member %.60q", name)
			r.skip()
		default:
			seen |= 1 << member
			visit(member, nameOffset)
		}
		r.leave()
	}
	for member, name := range s.names[:s.required] {
		if seen&(1<<member) == 0 && !r.done {
			r.report(CodeMissingMember, offset, fmt.Sprintf("add %q", name), "the member %q is missing", name)
		}
	}
	return seen, offset, !r.done
}

func (s shape) index(name string) int {
	for i, n := range s.names {
		if n == name {
			return i
		}
	}
	return -1
}

func (r *reader) duplicate(name string, offset int) {
	r.report(CodeDuplicateMember, offset, "keep one of them", "the member %.60q comes twice", name)
}

// member reads the name of the next member, or the end of the object.
func (r *reader) member() (name string, offset int, more bool) {
	if k := r.kind(); k == 0 || k == '}' {
		r.close()
		return "", 0, false
	}
	raw, offset := r.scalar()
	if r.done {
		return "", 0, false
	}
	return r.unquote(raw, offset), offset, true
}

// array reads an array and calls visit for each element; visit must read it.
func (r *reader) array(visit func()) (count, offset int, ok bool) {
	if !r.expect('[', "an array", "write a list in brackets, []") {
		return 0, 0, false
	}
	offset = r.open()
	for r.element() {
		r.at = append(r.at, step{"", count})
		visit()
		r.leave()
		count++
	}
	return count, offset, !r.done
}

// element reports whether the array has another element, and reads its end if not.
func (r *reader) element() bool {
	if k := r.kind(); k == 0 || k == ']' {
		r.close()
		return false
	}
	return true
}

// skip reads a value that has no meaning. Its size, depth and syntax count, and so
// do members that come twice.
func (r *reader) skip() {
	switch byte(r.kind()) {
	case 0:
	case '{':
		r.open()
		seen := map[string]bool{}
		for {
			name, offset, more := r.member()
			if !more {
				return
			}
			r.enter(name)
			if seen[name] {
				r.duplicate(name, offset)
			}
			seen[name] = true
			r.skip()
			r.leave()
		}
	case '[':
		r.open()
		for i := 0; r.element(); i++ {
			r.at = append(r.at, step{"", i})
			r.skip()
			r.leave()
		}
	default:
		r.scalar()
	}
}

// end reports what follows the document.
func (r *reader) end() {
	if r.done {
		return
	}
	if k := r.tokens.PeekKind(); k != 0 {
		r.add(CodeSyntax, "", r.offset(), "a manifest is one object; remove what follows it", "expected the end of the document, found "+kindName(k))
		return
	}
	if _, err := r.tokens.ReadToken(); !errors.Is(err, io.EOF) {
		r.syntax(err)
	}
}

// syntax reports an error of the tokenizer and ends the reading.
func (r *reader) syntax(err error) {
	if r.done {
		return
	}
	r.done = true
	offset, at, message := len(r.src), r.at.String(), "the document ends before it is complete"
	if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = string(fault.JSONPointer)
		if !errors.Is(fault.Err, io.ErrUnexpectedEOF) {
			offset = min(int(fault.ByteOffset), len(r.src))
			message = fault.Err.Error()
		}
	}
	hint := ""
	switch rest := r.text[offset:]; {
	case strings.TrimSpace(r.text) == "":
		message = "the document is empty"
		hint = "a manifest is a JSON object; maelys init writes one to start from"
	case rest == "":
		hint = "close every string, array and object"
	case isSurrogate(rest):
		message = "a surrogate escape without its other half"
		hint = "write surrogates in pairs, or the character itself in UTF-8"
	default:
		hint = syntaxHint(r.text[:offset], rest, message)
	}
	r.add(CodeSyntax, at, offset, hint, message)
}

// isSurrogate reports whether text begins with the escape of half a character.
func isSurrogate(text string) bool {
	if len(text) < 4 || !strings.HasPrefix(text, `\u`) {
		return false
	}
	return (text[2] == 'd' || text[2] == 'D') && strings.IndexByte("89abcdefABCDEF", text[3]) >= 0
}

// syntaxHint says what to write instead of rest, which is not empty and follows
// before, where it is something that other formats allow. The message is that of
// the tokenizer.
func syntaxHint(before, rest, message string) string {
	const space = " \t\r\n"
	last := strings.TrimRight(before, space)
	next := strings.TrimLeft(rest[1:], space)
	starts := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(rest, p) })
	}
	inNumber := before != "" && '0' <= before[len(before)-1] && before[len(before)-1] <= '9'
	switch c := rest[0]; {
	case starts("\xef\xbb\xbf"):
		return "save the file as UTF-8 without a byte order mark"
	case c >= 0x80 && strings.ToValidUTF8(rest[:min(4, len(rest))], "") != rest[:min(4, len(rest))]:
		return "save the file as UTF-8"
	case starts("//", "/*", "#"):
		return "JSON has no comments; remove it"
	case c == ',' && (strings.HasPrefix(next, "}") || strings.HasPrefix(next, "]")),
		(c == '}' || c == ']') && strings.HasSuffix(last, ","):
		return "remove the comma before the closing bracket"
	case c == ',' && strings.HasSuffix(last, ","):
		return "remove one of the commas"
	case c == '\'':
		return "write strings in double quotes"
	case starts("NaN", "Infinity", "-Infinity", "Inf"):
		return "JSON has no such number"
	case starts("True", "False", "None", "undefined"):
		return "JSON has true, false and null only"
	case inNumber && '0' <= c && c <= '9':
		return "numbers have no leading zeros"
	case inNumber && (c == '_' || c == 'x' || c == 'X'):
		return "write numbers in plain decimal digits"
	case strings.Contains(message, "escape"):
		return `write escapes as \n, \t, \" or \\, or \u and four hexadecimal digits`
	case c < ' ' && strings.Contains(message, "in string"):
		return fmt.Sprintf(`write control characters as escapes, \u%04x`, c)
	case strings.Contains(message, "at start of") || strings.Contains(message, "in literal"):
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' {
			return "write names and strings in double quotes"
		}
	}
	return ""
}
