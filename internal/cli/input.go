package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// maxInput is the most that is read of a file. One byte more than either form may
// have is enough to refuse it, however long it goes on.
const maxInput = max(manifest.MaxSize, mir.MaxDocument) + 1

// An input is a file that has been read.
type input struct {
	name   string // as given; "-" for standard input
	data   []byte
	source *manifest.Source // where its rules stand; only of a manifest, and only from readSource
}

// read returns the beginning of the named file, or why there is none.
func (a *app) read(name string) (*input, *result) {
	fail := func(hint, format string, args ...any) (*input, *result) {
		return nil, failure(diagnostic{File: name, Code: codeUnreadable, Message: fmt.Sprintf(format, args...), Hint: hint, exit: exitUsage})
	}
	var from io.Reader
	var all bytes.Buffer
	if name == "-" {
		if a.stdinRead {
			return fail("name one of them by its path", "standard input can be read only once")
		}
		a.stdinRead = true
		from = a.stdin
	} else {
		file, err := os.Open(name)
		if err != nil {
			hint := ""
			if errors.Is(err, fs.ErrNotExist) {
				hint = "check the spelling; maelys init writes a manifest to start from"
			}
			return fail(hint, "the file cannot be opened: %v", cause(err))
		}
		defer file.Close()
		from = file
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			all.Grow(int(min(info.Size(), maxInput)) + bytes.MinRead) // it is read at once
		}
	}
	_, err := all.ReadFrom(io.LimitReader(from, maxInput))
	switch {
	case errors.Is(err, syscall.EISDIR):
		return fail("name the manifest in it", "this is a directory, not a file")
	case err != nil:
		return fail("", "the file cannot be read: %v", cause(err))
	}
	return &input{name: name, data: all.Bytes()}, nil
}

// isMIR reports whether the file claims to be MIR. Everything else is taken for a
// manifest.
func (in *input) isMIR() bool { return bytes.HasPrefix(in.data, []byte("MMIR")) }

// policy returns the policy that the input is, in either form.
func (in *input) policy() (*mir.Policy, *result) {
	var p *mir.Policy
	var err error
	if in.isMIR() {
		p, err = mir.Decode(in.data)
	} else {
		p, err = manifest.Compile(in.data)
	}
	if err != nil {
		return nil, in.refused(err)
	}
	return p, nil
}

// readPolicy reads the named file and returns the policy that it is.
func (a *app) readPolicy(name string) (*mir.Policy, *result) {
	in, failed := a.read(name)
	if failed != nil {
		return nil, failed
	}
	return in.policy()
}

// readSource is readPolicy for verbs that point at the rules of the policy.
func (a *app) readSource(name string) (*input, *mir.Policy, *result) {
	in, failed := a.read(name)
	if failed != nil {
		return nil, nil, failed
	}
	if in.isMIR() {
		p, failed := in.policy()
		return in, p, failed
	}
	source, err := manifest.Parse(in.data)
	if err != nil {
		return nil, nil, in.refused(err)
	}
	in.source = source
	return in, source.Policy(), nil
}

// places returns where rule i of the policy stands in the manifest.
func (in *input) places(i int) []manifest.Place {
	if in.source == nil {
		return nil
	}
	return in.source.Rule(i)
}

// readPolicies reads two files, and says what is wrong with either.
func (a *app) readPolicies(first, second string) (p, q *mir.Policy, failed *result) {
	p, failed = a.readPolicy(first)
	q, other := a.readPolicy(second)
	return p, q, bothFailed(failed, other)
}

// refused returns the diagnostics of an error of package mir or manifest.
func (in *input) refused(err error) *result {
	r := new(result)
	add := func(d diagnostic) {
		d.File, d.exit = in.name, exitNo
		if len(in.data) < maxInput {
			d.in = in // of a file that is too large there is no line worth showing
		}
		r.Diagnostics = append(r.Diagnostics, d)
	}
	var faults manifest.Errors
	var fault *mir.DecodeError
	switch {
	case errors.As(err, &faults):
		for _, e := range faults {
			d := placed(e.Place)
			d.Code, d.Message, d.Hint = string(e.Code), e.Message, e.Hint
			if in.isMIR() && e.Code == manifest.CodeSyntax {
				d.Hint = "this is MIR and not a manifest; maelys fmt turns it back into one"
			}
			add(d)
		}
	case errors.As(err, &fault):
		d := diagnostic{Code: string(fault.Code), Offset: &fault.Offset, Message: fault.Message}
		if fault.Code == mir.CodeBadMagic && bytes.HasPrefix(bytes.TrimSpace(in.data), []byte("{")) {
			d.Hint = "this looks like a manifest; maelys compile makes MIR of it"
		}
		add(d)
	default:
		message := err.Error()
		if unsaid, ok := errors.AsType[*manifest.FormatError](err); ok {
			message = unsaid.Message
		}
		add(diagnostic{Code: codeInexpressed, Message: message, Hint: "maelys inspect shows the policy in full"})
	}
	return r
}

// placed returns a diagnostic that points into a manifest.
func placed(p manifest.Place) diagnostic {
	return diagnostic{Pointer: &p.Pointer, Line: p.Line, Column: p.Column}
}

// cause strips the operation and the path from an error of package os; the message
// around it says both.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
