package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// A painter marks text for a terminal, or leaves it as it is.
type painter struct{ color bool }

func (p painter) bold(s string) string { return p.paint("1", s) }
func (p painter) red(s string) string  { return p.paint("31;1", s) }
func (p painter) blue(s string) string { return p.paint("34;1", s) }

func (p painter) paint(code, s string) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// colorful reports whether w is a terminal that wants colours (https://no-color.org).
func colorful(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

// text returns d as it is shown to people: the place, the sentence and the code in
// one line, then the source with a caret, then the hint.
func (d diagnostic) text(p painter) string {
	var b strings.Builder
	b.WriteString(p.bold(d.place()))
	if d.Pointer != nil && *d.Pointer != "" {
		b.WriteString(printable(middle(*d.Pointer, 200)) + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]\n", p.red(printable(d.Message)), d.Code)
	switch {
	case d.in == nil:
	case d.Line > 0:
		b.WriteString(sourceLine(d.in.data, d.Line, d.Column, p))
	case d.Offset != nil:
		b.WriteString(hexLine(d.in.data, *d.Offset, p))
	}
	if d.Hint != "" {
		fmt.Fprintf(&b, "  %s %s\n", p.blue("hint:"), printable(d.Hint))
	}
	return b.String()
}

func (d diagnostic) place() string {
	if d.File == "" {
		return "maelys: "
	}
	name := printable(d.File)
	switch {
	case d.Line > 0:
		return fmt.Sprintf("%s:%d:%d: ", name, d.Line, d.Column)
	case d.Offset != nil:
		return fmt.Sprintf("%s: offset %d: ", name, *d.Offset)
	}
	return name + ": "
}

// sourceLine returns a line of src with a caret beneath a column of it, which
// counts bytes. Of a long line it shows what is around the column.
func sourceLine(src []byte, line, column int, p painter) string {
	const around = 60
	text := string(src)
	for range line - 1 {
		_, text, _ = strings.Cut(text, "\n")
	}
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimSuffix(text, "\r")
	at := min(max(column-1, 0), len(text))
	before, after := text[:at], text[at:]
	if len(before) > around {
		before = "…" + whole(before[len(before)-around:])
	}
	if len(after) > around {
		after = whole(after[:around]) + "…"
	}
	before, after = printable(before), printable(after)
	number := fmt.Sprintf("%5d", line)
	return fmt.Sprintf("%s %s%s\n%s %s%s\n",
		p.blue(number+" |"), before, after,
		p.blue(strings.Repeat(" ", len(number))+" |"), strings.Repeat(" ", displayWidth(before)), p.red("^"))
}

// hexLine returns the 16 bytes of data around offset with a mark beneath its byte.
func hexLine(data []byte, offset int, p painter) string {
	const perLine = 16
	start := offset / perLine * perLine
	end := min(start+perLine, len(data))
	if start > end {
		return ""
	}
	number := fmt.Sprintf("%08x", start)
	bytes := strings.TrimPrefix(fmt.Sprintf("% x", data[start:end]), " ")
	return fmt.Sprintf("%s %s\n%s %s%s\n",
		p.blue(number+" |"), bytes,
		p.blue(strings.Repeat(" ", len(number))+" |"), strings.Repeat("   ", offset-start), p.red("^^"))
}

// printable returns s without anything that could move the cursor, colour the
// screen or turn the direction of writing: a file may come from anyone.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == utf8.RuneError, !unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// displayWidth returns how many columns of a terminal s takes.
func displayWidth(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// whole drops the parts of a rune that a cut has left at either end of s.
func whole(s string) string {
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if c := s[len(s)-i]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				s = s[:len(s)-i]
			}
			break
		}
	}
	return s
}

// middle cuts a long s in its middle.
func middle(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return whole(s[:most/2]) + "…" + whole(s[len(s)-most/2:])
}
