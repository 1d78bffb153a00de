//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"maelys.dev/maelys/internal/linux/limit"
)

// The runtime's own preparations for a fork: signals are blocked, and an attempt to grow
// the stack in the child is found at once.
//
//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

// A Process is the child that a program runs in: until [Program.Fork] by itself, and then
// as the init of the command.
type Process struct {
	pid     int
	control *os.File
	steps   []string
	started time.Time
	zero    int64 // the monotonic time of started
}

// Namespaces are what a child is started in.
type Namespaces struct {
	Kinds uintptr // of namespaces, 0 for none; the others are made beneath a user namespace

	// Users and Groups are the lines of uid_map and gid_map (user_namespaces(7)).
	Users, Groups string
	// KeepGroups says that setgroups(2) stays permitted, which takes a right.
	KeepGroups bool
}

// NewProgram returns a program without calls.
func NewProgram() (*Program, error) {
	p := &Program{attributes: map[uint64]argument{}}
	var err error
	if p.control, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	return p, nil
}

// CloseFd closes a descriptor of this process, where nothing can go wrong.
func CloseFd(fd int) { _ = unix.Close(fd) }

// Discard lets go of a program that is not started.
func (p *Program) Discard() {
	CloseFd(p.control[0])
	CloseFd(p.control[1])
}

// A ForkError is why no child could be made; nothing has been started.
type ForkError struct {
	Call string
	Err  error
}

func (e *ForkError) Error() string { return e.Call + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ForkError) Unwrap() error { return e.Err }

// Start forks a child in new namespaces that makes the calls of p. The kernel kills it
// when the calling thread ends (PR_SET_PDEATHSIG), to which the caller must be locked.
// The failure is a *[ForkError].
func (p *Program) Start(in Namespaces) (*Process, error) {
	started := time.Now()
	zero := now()
	pid, errno := p.fork(in.Kinds)
	runtime.KeepAlive(p)
	CloseFd(p.control[1])
	if errno != 0 {
		CloseFd(p.control[0])
		return nil, &ForkError{"clone", errno}
	}
	process := &Process{pid: pid, steps: p.steps, started: started, zero: zero}
	err := in.apply(pid)
	if err == nil {
		if err = unix.SetNonblock(p.control[0], true); err != nil {
			err = &ForkError{"fcntl", err}
		}
	}
	process.control = os.NewFile(uintptr(p.control[0]), "control")
	if err == nil {
		if err = process.Send(0); err != nil { // it waits for the maps
			err = &ForkError{"write to the child", err}
		}
	}
	if err != nil {
		process.Kill()
		_, _ = process.Wait() // the failure is known
		return nil, err
	}
	return process, nil
}

// apply writes the maps of users and groups of a child.
func (in *Namespaces) apply(pid int) error {
	if in.Kinds == 0 {
		return nil
	}
	dir := "/proc/" + strconv.Itoa(pid)
	files := [][2]string{{"/setgroups", "deny"}, {"/uid_map", in.Users}, {"/gid_map", in.Groups}}
	if in.KeepGroups {
		files = files[1:]
	}
	for _, f := range files {
		// Not os.WriteFile, which registers with the poller of the runtime.
		fd, err := unix.Open(dir+f[0], unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(f[1]))
			CloseFd(fd)
		}
		if err != nil {
			return &ForkError{"write of " + f[0][1:], err}
		}
	}
	return nil
}

// fork makes the child. Beyond runtimeBeforeFork the child must neither allocate nor grow
// its stack: all that it calls is nosplit.
//
//go:noinline
//go:norace
func (p *Program) fork(kinds uintptr) (pid int, errno syscall.Errno) {
	runtimeBeforeFork()
	result, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, kinds|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || result != 0 {
		runtimeAfterFork()
		return int(result), errno
	}
	// Nobody's descriptor but the launcher's own may keep the socket open.
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(p.control[0]), 0, 0)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
		exitGroup(1)
	}
	command, failed, errno := p.perform(0)
	if errno == 0 {
		p.supervise(command)
	}
	p.say(reportFailed, int64(failed), int64(errno), 3)
	exitGroup(1)
	return 0, 0
}

// What a message of the child is about.
const (
	reportFailed    = iota + 1 // call, errno
	reportStarted              // and the times of the steps
	reportStopped              // signal
	reportContinued            //
	reportEnded                // wait status
)

// An Event is what a child reports.
type Event interface{ event() }

// The events.
type (
	// Failed says that a call has failed, and that no command was started.
	Failed struct {
		Step string
		Path string // that the call was for, if it was for one
		Call string // its name
		Err  syscall.Errno
	}
	// Started says that the command is about to be started. Failed may follow, when that
	// fails.
	Started struct{ Steps []Step }
	// Stopped says that a signal has stopped the command.
	Stopped struct{ Signal syscall.Signal }
	// Continued says that the command runs again.
	Continued struct{}
	// Ended says how the command ended. It is the last event.
	Ended struct{ Status syscall.WaitStatus }
)

func (Failed) event()    {}
func (Started) event()   {}
func (Stopped) event()   {}
func (Continued) event() {}
func (Ended) event()     {}

// A Step of a launch, and when it began, counted from the fork.
type Step struct {
	Name  string
	Began time.Duration
}

// Next waits for what the child reports next. At the end it is [io.EOF], also when the
// child was killed.
func (c *Process) Next(p *Program) (Event, error) {
	var report [maxReport]int64
	n, err := c.control.Read(unsafe.Slice((*byte)(unsafe.Pointer(&report)), unsafe.Sizeof(report)))
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return nil, io.EOF // it was killed with a signal for it unread
	case err != nil:
		return nil, err
	}
	switch report[0] {
	case reportFailed:
		failed := &p.calls[report[1]]
		return Failed{c.steps[failed.step], p.abouts[failed.about-1], failed.name(), syscall.Errno(report[2])}, nil
	case reportStarted:
		var steps []Step
		for i, name := range c.steps {
			if at := report[3+i]; at != 0 {
				steps = append(steps, Step{name, time.Duration(at - c.zero)})
			}
		}
		return Started{steps}, nil
	case reportStopped:
		return Stopped{syscall.Signal(report[1])}, nil
	case reportContinued:
		return Continued{}, nil
	case reportEnded:
		return Ended{syscall.WaitStatus(report[1])}, nil
	}
	return nil, fmt.Errorf("a message of %d bytes about %d", n, report[0])
}

// Send sends the command a signal by way of its init, which leaves it out when the signal
// reached the init too: then it went to the whole process group, which the command is in.
func (c *Process) Send(signal syscall.Signal) error {
	message := [8]byte{byte(signal)}
	_, err := c.control.Write(message[:])
	return err
}

// Kill ends the child, and with it everything in its process ID namespace.
func (c *Process) Kill() { _ = unix.Kill(c.pid, unix.SIGKILL) } // it is not reaped, so the number is its own

// A Usage is what a child, the command and what it has waited for have used.
type Usage struct {
	User, System time.Duration
	PeakMemory   int64 // of the largest process, in bytes
}

// Wait waits for the end of the child and of everything in its process ID namespace.
func (c *Process) Wait() (Usage, error) {
	defer c.control.Close()
	var usage unix.Rusage
	for {
		_, err := unix.Wait4(c.pid, nil, unix.WALL, &usage)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return Usage{}, fmt.Errorf("wait4: %w", err)
		}
		return Usage{
			User: time.Duration(usage.Utime.Nano()), System: time.Duration(usage.Stime.Nano()),
			PeakMemory: usage.Maxrss * 1024,
		}, nil
	}
}

// Reset gives the command what the launcher was started with, and what the runtime of Go
// and the init have changed: the mask of signals, of new files, and the limit of open ones.
func (p *Program) Reset() error {
	var mask unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask); err != nil {
		return fmt.Errorf("rt_sigprocmask: %w", err)
	}
	kept := &mask
	p.call(unix.SYS_RT_SIGPROCMASK, number(unix.SIG_SETMASK), p.pointer(unsafe.Pointer(kept), kept), argument{}, number(8))
	if files, ok := limit.Files(); ok {
		p.call(unix.SYS_PRLIMIT64, argument{}, number(unix.RLIMIT_NOFILE), p.pointer(unsafe.Pointer(&files), &files), argument{})
	}
	return nil
}

// Describe returns the calls of p by name, a line each, with the step that they belong to.
func (p *Program) Describe() string {
	var b strings.Builder
	for i := range p.calls {
		fmt.Fprintf(&b, "%s: %s\n", p.steps[p.calls[i].step], p.calls[i].name())
	}
	return b.String()
}
