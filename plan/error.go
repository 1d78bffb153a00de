package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// A Code says what kind of fault or warning an [Error] reports. Codes are stable.
type Code string

// The codes of errors.
const (
	CodeHostContext  Code = "host-context" // the host context itself is unusable
	CodeMissing      Code = "missing"      // a path that must exist does not
	CodeEscape       Code = "escape"       // a path below a symbolic root leads out of it
	CodeUnresolvable Code = "unresolvable" // a path that cannot be followed, for any reason but a missing entry
	CodeRuntime      Code = "runtime"      // the executable cannot be loaded and started
	CodeConflict     Code = "conflict"     // the sandbox's own directory and the host's are wanted at one path
	CodeUnsupported  Code = "unsupported"  // a rule that has no meaning on a host
	CodeChanged      Code = "changed"      // a path is not what it was at resolution
)

// The codes of warnings.
const (
	CodeOmissibleDeny   Code = "omissible-deny"   // a deny that is left out, whose path the command can create
	CodeReplaceableLink Code = "replaceable-link" // a deny that was found through a link, or by way of "..", which the command can replace
	CodeHardLinkedDeny  Code = "hard-linked-deny" // a denied file that has other names
	CodeDeniedRuntime   Code = "denied-runtime"   // a file that the command cannot start without is not permitted
	CodeWritableRuntime Code = "writable-runtime" // a file of the host that the command is started from can be changed by it
)

// An Error is one reason that a policy cannot be resolved on a host, or one warning
// about the plan.
type Error struct {
	Code    Code
	Rule    int    // index in [mir.Policy.Rules], -1 when it is about the host context
	Path    string // the host path in question; empty where there is none
	Message string // what was expected and what was found
	Hint    string // what to do; empty where there is nothing to add
	Err     error  // the cause; nil where there is none
}

func (e *Error) Error() string {
	where := "host context"
	if e.Rule >= 0 {
		where = fmt.Sprintf("rule %d", e.Rule)
	}
	if e.Path != "" {
		where += fmt.Sprintf(": %q", e.Path)
	}
	return fmt.Sprintf("%s: %s [%s]", where, e.Message, e.Code)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors is why a policy cannot be resolved: all faults, those of the host context
// first, then in order of the rules.
type Errors []*Error

func (l Errors) Error() string {
	switch len(l) {
	case 0:
		return "plan: no errors"
	case 1:
		return "plan: " + l[0].Error()
	}
	return fmt.Sprintf("plan: %s (and %d more)", l[0], len(l)-1)
}

// Unwrap returns the errors one by one, for [errors.As].
func (l Errors) Unwrap() []error {
	list := make([]error, len(l))
	for i, e := range l {
		list[i] = e
	}
	return list
}

func (l Errors) sort() {
	slices.SortStableFunc(l, func(a, b *Error) int { return cmp.Compare(a.Rule, b.Rule) })
}
