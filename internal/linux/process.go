//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io"
	"strconv"
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

// A process is the child that a program runs in: until [Program.StayBehind] by itself, and then
// as the init of the command.
type process struct {
	pid    int
	zero   int64  // the monotonic time of the fork
	mapped []byte // the memory of the program
}

func (c *process) unmap() { _ = unix.Munmap(c.mapped) } // it was mapped

// Namespaces are what a child is started in.
type Namespaces struct {
	Kinds uintptr // of namespaces, 0 for none; the others are made beneath a user namespace

	// Users and Groups are the lines of uid_map and gid_map (user_namespaces(7)).
	Users, Groups string
	// KeepGroups says that setgroups(2) stays permitted, which takes a right.
	KeepGroups bool
}

// A ForkError is why no child could be made; nothing has been started.
type ForkError struct {
	Call string
	Err  error
}

func (e *ForkError) Error() string { return e.Call + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ForkError) Unwrap() error { return e.Err }

// NewProgram returns a program without calls. It must be started, or discarded.
func NewProgram() (*Program, error) {
	p := &Program{attributes: map[uint64]argument{}}
	mapped, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(*p.memory)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, &ForkError{"mmap", err}
	}
	p.memory, p.process.mapped = (*memory)(unsafe.Pointer(&mapped[0])), mapped
	if p.control, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		p.process.unmap()
		return nil, &ForkError{"socketpair", err}
	}
	return p, nil
}

// CloseFd closes a descriptor of this process, where nothing can go wrong.
func CloseFd(fd int) { _ = unix.Close(fd) }

// Discard lets go of a program that was not started.
func (p *Program) Discard() {
	CloseFd(p.control[0])
	CloseFd(p.control[1])
	p.process.unmap()
}

// UntilGo says that the calls so far are made at once, and those that follow after
// [Program.Go].
func (p *Program) UntilGo() { p.prologue = p.count }

// Start forks the child in new namespaces. It makes the calls until [Program.UntilGo] and
// waits for [Program.Go]; meanwhile calls can be added, by another goroutine too. The kernel kills the child when the calling
// thread ends (PR_SET_PDEATHSIG), to which the caller must be locked. A child that was
// started must be waited for, with [Program.Wait].
//
// The failure is a *[ForkError]; then there is no child, and the program is to be discarded.
func (p *Program) Start(in Namespaces) error {
	p.process.zero = now()
	pid, errno := p.fork(in.Kinds)
	if errno != 0 {
		return &ForkError{"clone", errno}
	}
	p.process.pid = pid
	if err := in.apply(pid); err != nil {
		// A child that has failed meanwhile has said more of it than its absence does.
		if n, failed := p.receive(make([]byte, 8), unix.MSG_PEEK|unix.MSG_DONTWAIT); failed == nil && n > 0 {
			CloseFd(p.control[1])
			return nil
		}
		p.Kill()
		_ = p.reap(nil) // the failure is known
		return err
	}
	CloseFd(p.control[1])
	return nil
}

// Go has the child make the calls of p, to which none can be added any more.
func (p *Program) Go() error {
	if p.failed != nil {
		return p.failed
	}
	err := p.Send(0)
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) { // it has ended, and said why
		return &ForkError{"send to the child", err}
	}
	return nil
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
	_, failed, errno := p.perform(0, p.prologue)
	if errno != 0 {
		p.say(reportFailed, int64(failed), int64(errno), 3)
		exitGroup(1)
	}
	// The maps of users are written meanwhile, and the calls.
	if n, _, errno := syscall.RawSyscall6(unix.SYS_READ, uintptr(p.control[1]), uintptr(unsafe.Pointer(&p.report)), 8, 0, 0, 0); errno != 0 || n == 0 {
		exitGroup(1) // the launcher is gone, or needs no child
	}
	command, failed, errno := p.perform(p.prologue, p.count)
	switch {
	case errno != 0:
	case command == 0: // it does not end with an exec
		failed, errno = p.count-1, syscall.ENOEXEC
	default:
		p.supervise(command)
	}
	p.say(reportFailed, int64(failed), int64(errno), 3)
	exitGroup(1)
	return 0, 0
}

// What a message of the child is about.
const (
	reportFailed    = iota + 1 // call, errno
	reportStopped              // signal
	reportContinued            //
	reportEnded                // wait status, and the times of the steps
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
	// Stopped says that a signal has stopped the command.
	Stopped struct{ Signal syscall.Signal }
	// Continued says that the command runs again.
	Continued struct{}
	// Ended says how the command ended, and how it was started. It is the last event.
	Ended struct {
		Status syscall.WaitStatus
		Steps  []Step
	}
)

func (Failed) event()    {}
func (Stopped) event()   {}
func (Continued) event() {}
func (Ended) event()     {}

// A Step of a launch, and when it began, counted from the fork.
type Step struct {
	Name  string
	Began time.Duration
}

// Next waits for what the child reports next. At the end it is [io.EOF], also when the
// child was killed. It blocks its thread: a launch has one anyway, to which it is locked,
// and the poller of the runtime would wake another one first.
func (p *Program) Next() (Event, error) {
	var report [maxReport]int64
	n, err := p.receive(unsafe.Slice((*byte)(unsafe.Pointer(&report)), unsafe.Sizeof(report)), 0)
	switch {
	case err != nil:
		return nil, fmt.Errorf("recvfrom: %w", err)
	case n == 0:
		return nil, io.EOF
	}
	switch report[0] {
	case reportFailed:
		failed := &p.memory.call[report[1]]
		return Failed{p.steps[failed.step], p.abouts[failed.about-1], failed.name(), syscall.Errno(report[2])}, nil
	case reportStopped:
		return Stopped{syscall.Signal(report[1])}, nil
	case reportContinued:
		return Continued{}, nil
	case reportEnded:
		ended := Ended{Status: syscall.WaitStatus(report[1])}
		for i, name := range p.steps {
			if at := report[3+i]; at != 0 {
				ended.Steps = append(ended.Steps, Step{name, time.Duration(at - p.process.zero)})
			}
		}
		return ended, nil
	}
	return nil, fmt.Errorf("a message of %d bytes about %d", n, report[0])
}

// Silent waits for a while and reports whether the child has reported nothing meanwhile.
func (p *Program) Silent(while time.Duration) bool {
	polled := []unix.PollFd{{Fd: int32(p.control[0]), Events: unix.POLLIN}}
	for end := time.Now().Add(while); ; {
		n, err := unix.Poll(polled, max(0, int(time.Until(end).Milliseconds())))
		if err != unix.EINTR { // poll(2) is never restarted, whatever the handler asks for.
			return err == nil && n == 0
		}
	}
}

// receive reads a message of the child, of no bytes at the end.
func (p *Program) receive(b []byte, flags int) (n int, err error) {
	for {
		n, _, err = unix.Recvfrom(p.control[0], b, flags)
		// A child that ends with a message for it unread is an error once, before what it
		// said itself can be read.
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECONNRESET) {
			return n, err
		}
	}
}

// Send sends the command a signal by way of its init, which leaves it out when the signal
// reached the init too: then it went to the whole process group, which the command is in.
func (p *Program) Send(signal syscall.Signal) error {
	message := [8]byte{byte(signal)}
	return unix.Sendto(p.control[0], message[:], unix.MSG_NOSIGNAL, nil)
}

// Kill ends the child, and with it everything in its process ID namespace.
func (p *Program) Kill() { _ = unix.Kill(p.process.pid, unix.SIGKILL) } // it is not reaped, so the number is its own

// A Usage is what a child, the command and what it has waited for have used.
type Usage struct {
	User, System time.Duration
	PeakMemory   int64 // of the largest process, in bytes
}

// Wait waits for the end of the child and of everything in its process ID namespace. A
// child that was never told to go ends by this.
func (p *Program) Wait() (Usage, error) {
	CloseFd(p.control[0])
	defer p.process.unmap()
	var usage unix.Rusage
	if err := p.reap(&usage); err != nil {
		return Usage{}, fmt.Errorf("wait4: %w", err)
	}
	return Usage{
		User: time.Duration(usage.Utime.Nano()), System: time.Duration(usage.Stime.Nano()),
		PeakMemory: usage.Maxrss * 1024,
	}, nil
}

func (p *Program) reap(usage *unix.Rusage) error {
	for {
		if _, err := unix.Wait4(p.process.pid, nil, unix.WALL, usage); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Reset gives the command what the launcher was started with, and what the runtime of Go
// and the init have changed: the mask of signals, of new files, and the limit of open ones.
func (p *Program) Reset() error {
	var mask unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, nil, &mask); err != nil {
		return fmt.Errorf("rt_sigprocmask: %w", err)
	}
	p.call(unix.SYS_RT_SIGPROCMASK, number(unix.SIG_SETMASK), pointer(p, &mask), zero(), number(8))
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("getrlimit: %w", err)
	}
	// The package os has raised the limit as far as it could, if nobody has changed it since.
	if first, ok := limit.Files(); ok && files.Cur == files.Max {
		files.Cur = min(first.Cur, files.Max)
		p.call(unix.SYS_PRLIMIT64, zero(), number(unix.RLIMIT_NOFILE), pointer(p, &files), zero())
	}
	return nil
}
