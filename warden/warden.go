// Package warden runs one command under one plan, on Linux.
//
// It is being built. What is here: the command's own root, in which each grant of the
// plan is a mount and each deny a mask; processes, IPC and a network of its own; no
// capability; Landlock with the same grants again; and a filter of system calls. What is
// missing, and why nothing starts a command by it yet: terminals, receipts, directories
// apart from their entries, and every network mode but none.
package warden

import (
	"fmt"
	"os"
	"strings"

	"maelys.dev/maelys/plan"
)

// A Command is what is to be run.
type Command struct {
	Path string   // of the program, absolute, in the command's own root
	Args []string // with the name of the program first
	Env  []string // all of its environment
	Dir  string   // where it starts, absolute

	Stdin, Stdout, Stderr *os.File // nil for /dev/null of the host

	// Signals that come from here are sent to the command, except SIGINT and SIGQUIT: a
	// terminal sends those to everybody.
	Signals <-chan os.Signal
}

// A Receipt says how a command ended.
type Receipt struct {
	Status int // the exit status, or 128 and the number of the signal that ended it
}

// A RefusedError is why a plan was not started: what enforces it would not hold all of
// it, or the host is not what was resolved.
type RefusedError struct {
	Unmet   []plan.Requirement
	Changed []*plan.Error
}

func (e *RefusedError) Error() string {
	var reasons []string
	for _, r := range e.Unmet {
		reasons = append(reasons, string(r.Capability))
	}
	for _, c := range e.Changed {
		reasons = append(reasons, c.Error())
	}
	return "warden: refused before the launch: " + strings.Join(reasons, ", ")
}

// A LaunchError is why a command was not started.
type LaunchError struct {
	Step    string // what was being done
	Message string
	Err     error // nil when it happened on the other side
}

func (e *LaunchError) Error() string { return fmt.Sprintf("warden: %s: %s", e.Step, e.Message) }

// Unwrap returns the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// Capabilities returns what [Run] can hold.
func Capabilities() []plan.Capability {
	return []plan.Capability{plan.FSRead, plan.FSWrite, plan.FSDeny, plan.NetworkNone, plan.ProcessTree}
}
