// Package warden runs one command under one plan, on Linux.
//
// [Run] makes the command a root of its own, in which each grant of the plan is a mount
// and each deny a mask, and processes, IPC and a network of its own; takes all
// capabilities from it; has Landlock grant the same once more; and has the kernel refuse
// the system calls that reach around all that. Whatever fails ends the launch: there is
// no confinement by half.
//
// All of it is decided before the fork. What the child of a launch does is a list of
// system calls (internal/linux), which ends with the start of the command; the child stays
// behind as its init.
//
// Several commands can be run at once. Nothing is left of one when Run returns, or when
// this process ends, however it does.
package warden

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/mediator"
	"maelys.dev/maelys/plan"
)

// A Command is what is to be run.
type Command struct {
	Path string   // of the program, absolute, in the command's own root
	Args []string // with the name of the program first
	Env  []string // all of its environment
	Dir  string   // where it starts, absolute

	Stdin, Stdout, Stderr *os.File // nil for /dev/null of the host

	// Files are further descriptors of the command, by their numbers there, which are
	// above 2. A directory is refused here and among the standard ones: it would lead out.
	Files map[int]*os.File

	// Signals that come from here are sent to the command, unless the same signal went to
	// the process group of both, as those of a terminal do.
	Signals <-chan os.Signal

	// Relayed are signals of this process that are sent to the command in the same way, from
	// the launch on and by themselves: without a thread or a goroutine, which take longer to
	// start than many commands. Package os/signal must not be asked for them meanwhile, and
	// one command at a time can have them.
	Relayed []os.Signal

	// Stopped, if it is not nil, is called when a signal has stopped the command. A shell's
	// job stops as a whole when the caller then stops itself.
	Stopped func(os.Signal)

	// Backend is how it is confined; empty for [host.Namespaces]. Nothing else is tried.
	Backend host.Backend

	Network Network // where that of the plan is mediated
}

// A Network says how a command is connected to the destinations of a plan whose network is
// mediated. Which these are, and where, is the plan's word alone.
type Network struct {
	// Proxy is what the host itself connects through, as [mediator.ProxyFromEnvironment] has
	// it; nil for none.
	Proxy mediator.Proxy

	// Lookup resolves a name on the host; nil for its own resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// Connections is how many there may be at once; 0 for [mediator.DefaultConnections], or
	// for fewer where this process may not have so many files open.
	Connections int

	// Report is told of each connection when it has ended, and of all that is refused, by one
	// goroutine at a time. It must not wait: all connections wait for it.
	Report func(mediator.Event)
}

// A Receipt says what was done and how it ended.
type Receipt struct {
	Backend host.Backend
	Layers  []Layer
	Steps   []Step // of the launch

	Outcome Outcome
	Status  int // as a shell has it: the exit status, or 128 and the number of the signal that ended the command

	Started, Ended time.Time
	User, System   time.Duration // processor time of everything that was run
	PeakMemory     int64         // of the largest process, in bytes

	Traffic Traffic // where the network is mediated
}

// Traffic is what a command did with a mediated network, as far as there is room for it.
type Traffic struct {
	Connections []mediator.Event // to what may be reached, as they ended; [MaxConnections] at most
	Refusals    []Refusal        // as they came; [MaxRefusals] at most
	Untold      int              // events that there was no room for
}

// The limits of [Traffic].
const (
	MaxConnections = 16384
	MaxRefusals    = 1024
)

// A Refusal is what was refused, once or more often.
type Refusal struct {
	mediator.Event     // the first
	Count          int // of the same host, port and reason
}

// An Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	Refused  Outcome = "refused"  // before the launch
	Failed   Outcome = "failed"   // in the launch: the command was not started
	Exited   Outcome = "exited"   // by itself
	Signaled Outcome = "signaled" // by a signal
	Canceled Outcome = "canceled" // with everything it had started, because the context was done
)

// A Layer is one of the things that confine a command.
type Layer string

// The layers.
const (
	UserNamespace    Layer = "user namespace"
	MountNamespace   Layer = "mount namespace with a root of its own"
	PIDNamespace     Layer = "process ID namespace"
	IPCNamespace     Layer = "IPC namespace"
	UTSNamespace     Layer = "UTS namespace"
	CgroupNamespace  Layer = "cgroup namespace"
	NetworkNamespace Layer = "network namespace"
	NetworkMediator  Layer = "network mediator"
	NoCapabilities   Layer = "no capabilities, no new privileges"
	LandlockRules    Layer = "Landlock"
	SystemCalls      Layer = "seccomp filter"
)

// A Step is a part of a launch.
type Step struct {
	Name string
	Took time.Duration
}

// A RefusedError is why a plan was not started: what enforces it would not hold all of
// it, or the host is not what was resolved.
type RefusedError struct {
	Backend host.Backend
	Unmet   []Unmet
	Changed []*plan.Error
	Reasons []string // that are neither
}

// An Unmet requirement is one that the backend cannot hold here.
type Unmet struct {
	plan.Requirement
	Reason string // why not; empty when nothing could hold it
	Fix    string // what turns it on; empty when nothing does
}

func (e *RefusedError) Error() string {
	var reasons []string
	for _, r := range e.Unmet {
		reason := r.Reason
		if r.Unenforceable {
			reason = "nothing could hold it"
		}
		reasons = append(reasons, string(r.Capability)+": "+reason)
	}
	for _, c := range e.Changed {
		reasons = append(reasons, c.Error())
	}
	reasons = append(reasons, e.Reasons...)
	return "warden: refused before the launch: " + strings.Join(reasons, "; ")
}

// A LaunchError is why a command was not started, or did not end by itself.
type LaunchError struct {
	Step string // what was being done
	Path string // that it was done for, if it was for one
	Call string // the system call that failed, if it was one
	Err  error
}

func (e *LaunchError) Error() string {
	text := "warden: " + e.Step
	if e.Path != "" {
		text += fmt.Sprintf(" for %q", e.Path)
	}
	if e.Call != "" {
		text += ": " + e.Call
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *LaunchError) Unwrap() error { return e.Err }

// StepStart is the step of a [LaunchError] when everything was ready and the program
// itself could not be started: it is missing in the command's root, or is none.
const StepStart = "starting the command"
