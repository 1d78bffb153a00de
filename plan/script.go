package plan

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
)

// The limits that Linux puts on #! lines (binfmt_script).
const (
	maxScriptLine  = 256 // bytes that are looked at
	maxScriptDepth = 5   // scripts that are the interpreter of one another, then ELOOP
)

// A program is what execve is called with.
type program struct {
	path   string
	needed string // the file that starts it
	why    string
	search []string // PATH
}

// start follows a program through its #! lines to what the kernel loads. When that
// is env, next is what env starts.
func (c *closure) start(p *program) (next *program, err error) {
	path, needed, why, what := p.path, p.needed, p.why, "an executable"
	argument := "" // of the interpreter at path, when it is one
	for depth := 0; ; depth++ {
		r, err := c.executable(path, needed, what)
		if err != nil {
			return nil, err
		}
		head, err := c.head(r, maxScriptLine)
		if err != nil {
			return nil, &RuntimeError{path, needed, "expected " + what + " that can be read", err}
		}
		c.join(r, why)
		if bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
			if err := c.load(path, needed, r); err != nil || depth == 0 || base(path) != "env" {
				return nil, err
			}
			return c.env(needed, argument, p.search)
		}
		interpreter, rest, ok := scriptLine(head)
		if !ok {
			if depth == 0 && p.needed != "" { // execvp lets the shell try
				return &program{"/bin/sh", path, "shell of " + path, p.search}, nil
			}
			return nil, &RuntimeError{path, needed, fmt.Sprintf("expected an ELF file or a #! line with an interpreter, found %q", head[:min(len(head), 16)]), nil}
		}
		if depth == maxScriptDepth {
			return nil, &RuntimeError{path, needed, fmt.Sprintf("expected at most %d scripts that interpret one another, found more", maxScriptDepth), ErrLoop}
		}
		argument = rest
		path, needed, why, what = interpreter, path, "interpreter of "+path, "the interpreter of a script"
	}
}

// scriptLine takes apart a #! line as Linux does: the interpreter, and all that
// follows as one argument.
func scriptLine(head []byte) (interpreter, argument string, ok bool) {
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", "", false
	}
	line, _, whole := bytes.Cut(line, []byte("\n"))
	if !whole && len(head) >= maxScriptLine {
		// Linux takes no name that may be cut off, and drops the last byte.
		if !bytes.ContainsAny(bytes.TrimLeft(line, " \t"), " \t\x00") {
			return "", "", false
		}
		line = line[:len(line)-1]
	}
	line = bytes.Trim(line, " \t")
	name := line
	if end := bytes.IndexAny(line, " \t\x00"); end >= 0 {
		name = line[:end]
		if line[end] != 0 {
			rest, _, _ := bytes.Cut(bytes.TrimLeft(line[end:], " \t"), []byte{0})
			argument = string(rest)
		}
	}
	return string(name), argument, len(name) > 0
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
