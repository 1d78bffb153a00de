package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A result is what a verb has to say. Its JSON form is the contract with programs:
// "ok" comes first, and "diagnostics" are there exactly when it is false.
type result struct {
	OK          bool            `json:"ok"`
	Diagnostics []diagnostic    `json:"diagnostics,omitempty"`
	Files       []fileResult    `json:"files,omitempty"`
	Inspection  json.RawMessage `json:"inspection,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Comparison  *comparison     `json:"comparison,omitempty"`
	Excess      []change        `json:"excess,omitempty"` // contains: one change for each dimension
	Answers     []answer        `json:"answers,omitempty"`
	Plan        json.RawMessage `json:"plan,omitempty"`
	Warnings    []diagnostic    `json:"warnings,omitempty"` // what --strict would refuse
	Doctor      *doctorInfo     `json:"doctor,omitempty"`
	Version     *versionInfo    `json:"version,omitempty"`
	Script      string          `json:"script,omitempty"`

	text string // for people, on standard output, unless --json is given
	raw  []byte // instead of text and JSON, when the verb was told to write to "-"
}

// A fileResult is what became of one file that passed.
type fileResult struct {
	File     string `json:"file"`
	Digest   string `json:"digest,omitempty"`
	Output   string `json:"output,omitempty"`   // the file that was written
	Changed  *bool  `json:"changed,omitempty"`  // fmt: whether the file was not canonical
	Manifest string `json:"manifest,omitempty"` // fmt: the canonical text, when it is not written
}

// A diagnostic is one reason that something was refused, or could not be done.
type diagnostic struct {
	File    string  `json:"file"`
	Code    string  `json:"code"`
	Pointer *string `json:"pointer,omitempty"` // of a manifest
	Offset  *int    `json:"offset,omitempty"`  // of MIR
	Line    int     `json:"line,omitempty"`
	Column  int     `json:"column,omitempty"`
	Message string  `json:"message"`
	Hint    string  `json:"hint"`

	Rule     *int   `json:"rule,omitempty"`     // of the policy, as inspect numbers them
	HostPath string `json:"hostPath,omitempty"` // that it is about

	exit int
	in   *input // for the source line; nil where there is none
}

// The codes that only the command has; all others are those of mir and manifest.
const (
	codeUsage          = "usage"             // the words of the command line are off
	codeUnreadable     = "unreadable"        // a file cannot be read
	codeUnwritable     = "unwritable"        // a file cannot be written
	codeFormatting     = "not-formatted"     // a manifest is not in canonical form
	codeWidened        = "widened"           // a policy permits more than another
	codeInexpressed    = "not-in-json"       // a policy that no manifest can say
	codeTooLarge       = "limit-exceeded"    // a result that no policy can hold
	codeWritablePolicy = "writable-policy"   // a policy that the command could rewrite
	codeCapability     = "no-capability"     // what this host cannot enforce
	hintHelp           = "see maelys --help" // where nothing better can be said
)

func usageResult(err error) *result {
	if wrong, ok := errors.AsType[*usageError](err); ok {
		return usagef(wrong.hint, "%s", wrong.message)
	}
	return failure(diagnostic{Code: codeUsage, Message: err.Error(), Hint: hintHelp, exit: exitUsage})
}

func usagef(hint, format string, args ...any) *result {
	return failure(diagnostic{Code: codeUsage, Message: fmt.Sprintf(format, args...), Hint: hint, exit: exitUsage})
}

func failure(diagnostics ...diagnostic) *result { return &result{Diagnostics: diagnostics} }

// add joins the result for one file to r, which is for several.
func (r *result) add(one *result) {
	r.Diagnostics = append(r.Diagnostics, one.Diagnostics...)
	r.Files = append(r.Files, one.Files...)
	r.text += one.text
}

// bothFailed joins why two steps failed; nil stands for a step that did not.
func bothFailed(first, second *result) *result {
	if first == nil {
		return second
	}
	if second != nil {
		first.add(second)
	}
	return first
}

// status returns the exit status of r.
func (r *result) status() int {
	status := exitYes
	for _, d := range r.Diagnostics {
		status = max(status, d.exit)
	}
	return status
}

// show prints r and returns its exit status.
func (a *app) show(r *result) int {
	status := r.status()
	r.OK = status == exitYes
	switch {
	case a.json:
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			panic("maelys: internal error: a result always encodes: " + err.Error())
		}
		a.print(out.Bytes())
	case r.raw != nil:
		a.print(r.raw)
	default:
		a.print([]byte(r.text))
		p := painter{color: colorful(a.stderr)}
		for _, d := range r.Diagnostics {
			a.complain(d.text(p))
		}
		for _, d := range r.Warnings {
			d.Message = "warning: " + d.Message
			a.complain(d.text(p))
		}
	}
	return status
}

// print writes to standard output; Main reports what goes wrong.
func (a *app) print(b []byte) { _, _ = a.stdout.Write(b) }
