package manifest

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"maelys.dev/maelys/mir"
)

// A FormatError is why a policy cannot be said as a manifest.
type FormatError struct {
	Rule    int // index of the rule at fault, -1 where the whole policy is
	Message string
}

func (e *FormatError) Error() string {
	if e.Rule < 0 {
		return "manifest: " + e.Message
	}
	return fmt.Sprintf("manifest: rule %d: %s", e.Rule, e.Message)
}

// Format returns the canonical manifest of p: rules and destinations in the order
// of the policy, one member a line, paths and destinations in one line each, and
// no member that says a default. Compiling it gives p again.
//
// A policy whose manifest would be too large in that form is written without any
// white space. The failures are a *[FormatError]: a path below minimal-runtime,
// which JSON has no form for, and a policy too large for [MaxSize] even so.
func Format(p *mir.Policy) ([]byte, error) {
	for i, r := range p.Rules() {
		if err := sayable(r.Path); err != nil {
			err.Rule = i
			return nil, err
		}
	}
	for _, pretty := range []bool{true, false} {
		w := writer{pretty: pretty}
		w.policy(p)
		if w.out.Len() <= MaxSize {
			return w.out.Bytes(), nil
		}
	}
	return nil, &FormatError{-1, fmt.Sprintf("the manifest of this policy would be larger than %d bytes", MaxSize)}
}

// sayable returns why JSON has no form for a path, if it has none.
func sayable(p mir.Path) *FormatError {
	if p.Root() == mir.RootRuntime && p.Text() != "" {
		return &FormatError{-1, fmt.Sprintf("a manifest can name minimal-runtime as a whole only, not %q below it", p.Text())}
	}
	return nil
}

// FormatRule returns r as it stands in a manifest, in one line. The failure is a
// *[FormatError], for a path below minimal-runtime.
func FormatRule(r mir.Rule) (string, error) {
	if err := sayable(r.Path); err != nil {
		return "", err
	}
	w := writer{pretty: true, inline: true}
	w.rule(r)
	return w.out.String(), nil
}

// FormatDestination returns d as it stands in a manifest, in one line.
func FormatDestination(d mir.Destination) string {
	w := writer{pretty: true, inline: true}
	w.destination(d)
	return w.out.String()
}

// A writer writes the JSON of a manifest. Everything it writes is fixed but for
// strings and ports.
type writer struct {
	out    bytes.Buffer
	pretty bool
	inline bool // pretty, in one line
}

func (w *writer) policy(p *mir.Policy) {
	w.out.WriteByte('{')
	if w.pretty {
		w.line(1)
		w.member("$schema", SchemaURL)
		w.out.WriteByte(',')
	}
	w.line(1)
	w.name("formatVersion")
	w.out.WriteString("2,")
	w.line(1)
	w.name("filesystem")
	w.out.WriteByte('{')
	w.line(2)
	w.member("default", "deny")
	w.out.WriteByte(',')
	w.line(2)
	w.name("rules")
	rules := p.Rules()
	w.list(len(rules), 3, func(i int) { w.rule(rules[i]) })
	w.line(1)
	w.out.WriteString("},")
	w.line(1)
	w.name("network")
	w.out.WriteByte('{')
	if p.Mode() == mir.ModeMediated {
		w.line(2)
		w.member("mode", p.Mode().String())
		w.out.WriteByte(',')
		w.line(2)
		w.name("allow")
		destinations := p.Destinations()
		w.list(len(destinations), 3, func(i int) { w.destination(destinations[i]) })
		w.line(1)
	} else {
		w.space()
		w.member("mode", p.Mode().String())
		w.space()
	}
	w.out.WriteString("},")
	w.line(1)
	w.name("process")
	w.out.WriteByte('{')
	w.space()
	w.member("treeConfinement", p.TreeConfinement().String())
	w.space()
	w.out.WriteByte('}')
	w.line(0)
	w.out.WriteByte('}')
	w.line(0)
}

func (w *writer) rule(r mir.Rule) {
	w.out.WriteByte('{')
	w.line(4)
	w.member("access", r.Access.String())
	w.out.WriteByte(',')
	w.line(4)
	w.name("path")
	w.path(r.Path)
	if r.Scope != mir.Tree {
		w.out.WriteByte(',')
		w.line(4)
		w.member("scope", r.Scope.String())
	}
	if r.Missing != mir.MissingError {
		w.out.WriteByte(',')
		w.line(4)
		w.member("missing", r.Missing.String())
	}
	w.line(3)
	w.out.WriteByte('}')
}

func (w *writer) path(p mir.Path) {
	w.out.WriteByte('{')
	w.space()
	switch p.Root() {
	case mir.RootRuntime:
		w.member("special", p.Root().String())
	case mir.RootHost:
		w.member("absolute", p.Text())
	case mir.RootWorkspace, mir.RootTemp:
		w.member("root", p.Root().String())
		if p.Text() != "" {
			w.out.WriteByte(',')
			w.space()
			w.member("relative", p.Text())
		}
	}
	w.space()
	w.out.WriteByte('}')
}

func (w *writer) destination(d mir.Destination) {
	w.out.WriteByte('{')
	w.space()
	w.member("protocol", "tcp")
	w.out.WriteByte(',')
	w.space()
	w.member("host", d.Host.String())
	w.out.WriteByte(',')
	w.space()
	w.name("port")
	w.out.WriteString(strconv.Itoa(int(d.Port)))
	w.space()
	w.out.WriteByte('}')
}

// list writes an array of n elements, each on lines of its own at depth.
func (w *writer) list(n, depth int, element func(i int)) {
	w.out.WriteByte('[')
	for i := range n {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.line(depth)
		element(i)
	}
	if n > 0 {
		w.line(depth - 1)
	}
	w.out.WriteByte(']')
}

func (w *writer) member(name, value string) {
	w.name(name)
	w.quote(value)
}

func (w *writer) name(name string) {
	w.quote(name)
	w.out.WriteByte(':')
	w.space()
}

func (w *writer) quote(s string) {
	b, err := jsontext.AppendQuote(w.out.AvailableBuffer(), s)
	if err != nil {
		panic("manifest: internal error: the strings of a policy are valid UTF-8: " + err.Error())
	}
	w.out.Write(b)
}

func (w *writer) space() {
	if w.pretty {
		w.out.WriteByte(' ')
	}
}

func (w *writer) line(depth int) {
	if w.inline {
		w.out.WriteByte(' ')
		return
	}
	if !w.pretty {
		return
	}
	w.out.WriteByte('\n')
	for range depth {
		w.out.WriteString("  ")
	}
}
