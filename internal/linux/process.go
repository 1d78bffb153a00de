//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	ends   [2]int // a socket, as it is numbered here: the launcher's end and the child's
}

func (c *process) unmap() { _ = unix.Munmap(c.mapped) } // it was mapped

// A Mapping says which users and groups there are in a user namespace.
type Mapping struct {
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
	if p.process.ends, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		p.process.unmap()
		return nil, &ForkError{"socketpair", err}
	}
	p.launcher, p.control = p.process.ends[0], p.process.ends[1]
	return p, nil
}

// CloseFd closes a descriptor of this process, where nothing can go wrong.
func CloseFd(fd int) { _ = unix.Close(fd) }

// Discard lets go of a program that was not started.
func (p *Program) Discard() {
	CloseFd(p.process.ends[0])
	CloseFd(p.process.ends[1])
	p.process.unmap()
}

// OnFirstThread reports whether the caller runs on the first thread of this process, which
// the runtime of Go keeps until the process ends, also when a goroutine ends there that was
// locked to it.
func OnFirstThread() bool { return unix.Gettid() == unix.Getpid() }

// Start forks the child, into new namespaces of some kinds or, with 0, none. With a user
// namespace mapping, which is called meanwhile, says who is there. The child makes the
// calls that [Program.Go] permits, from now on or before; meanwhile calls can be added, by another goroutine too. The kernel kills the child when the calling
// thread ends (PR_SET_PDEATHSIG): the caller must be locked to it, or [OnFirstThread]. A child that was
// started must be waited for, with [Program.Wait].
//
// The failure is a *[ForkError] or that of mapping; then there is no child, and the program
// is to be discarded.
func (p *Program) Start(kinds uintptr, mapping func() (Mapping, error)) error {
	p.process.zero = now()
	pid, errno := p.fork(kinds)
	if errno != 0 {
		return &ForkError{"clone", errno}
	}
	p.process.pid = pid
	var err error
	if kinds&NamespaceUser != 0 {
		var m Mapping
		if m, err = mapping(); err == nil {
			err = m.apply(pid)
		}
	}
	if err != nil {
		// A child that has failed meanwhile has said more of it than its absence does.
		if n, failed := p.receive(make([]byte, 8), unix.MSG_PEEK|unix.MSG_DONTWAIT); failed == nil && n > 0 {
			CloseFd(p.process.ends[1])
			return nil
		}
		p.Kill()
		_ = p.reap(nil) // the failure is known
		return err
	}
	CloseFd(p.process.ends[1])
	return nil
}

// Go has the child make the calls so far. More can be added, for another Go, until the
// command is started by the last of them.
func (p *Program) Go() error {
	if p.failed != nil {
		return p.failed
	}
	var message [8]byte
	binary.NativeEndian.PutUint64(message[:], uint64(p.count))
	err := p.send(message)
	if err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) { // it has ended, and said why
		return &ForkError{"send to the child", err}
	}
	return nil
}

// apply writes the maps of users and groups of a child.
func (m *Mapping) apply(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	files := [][2]string{{"/setgroups", "deny"}, {"/uid_map", m.Users}, {"/gid_map", m.Groups}}
	if m.KeepGroups {
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

// arena is the size of the regions that the heap of Go grows by, at multiples of it.
const arena = 64 << 20

// fork makes the child.
//
//go:noinline
//go:norace
func (p *Program) fork(kinds uintptr) (pid int, errno syscall.Errno) {
	m := p.memory
	top := unsafe.Pointer(&m.stack[len(m.stack)-64]) // beneath room for what the caller keeps of a call
	begin := reflect.ValueOf((*memory).begin).Pointer()
	// The child has no use for the heap. Shared with it, each page would have to be copied
	// once it is written to here, which takes longer than all else in a launch; and what is
	// not there cannot be read in the init. A failure costs only that.
	heap := uintptr(unsafe.Pointer(p)) &^ (arena - 1)
	runtimeBeforeFork()
	_, _, _ = syscall.RawSyscall(unix.SYS_MADVISE, heap, arena, unix.MADV_DONTFORK)
	result, failure := clone(kinds|uintptr(unix.SIGCHLD), uintptr(top), uintptr(unsafe.Pointer(m)), begin)
	_, _, _ = syscall.RawSyscall(unix.SYS_MADVISE, heap, arena, unix.MADV_DOFORK)
	runtimeAfterFork()
	return int(result), syscall.Errno(failure)
}

// clone makes a process (clone(2)) that calls begin with m, on a stack of its own.
//
//go:noescape
func clone(flags, stack, m, begin uintptr) (pid, errno uintptr)

// begin is all that the child does. It must neither allocate nor grow its stack, nor ask
// which goroutine it is: all that it calls is nosplit.
//
//go:nosplit
//go:norace
func (m *memory) begin() {
	// Nobody's descriptor but the launcher's own may keep the socket open.
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(m.launcher), 0, 0)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
		exitGroup(1)
	}
	for done := 0; ; {
		// The maps of users are written meanwhile, and further calls.
		if n, _, errno := syscall.RawSyscall6(unix.SYS_READ, uintptr(m.control), uintptr(unsafe.Pointer(&m.limit)), 8, 0, 0, 0); errno != 0 || n == 0 {
			exitGroup(1) // the launcher is gone, or needs no child
		}
		command, failed, errno := m.perform(done, m.limit)
		if errno != 0 {
			m.say(reportFailed, int64(failed), int64(errno), 3)
			exitGroup(1)
		}
		if command != 0 {
			m.supervise(command)
		}
		done = m.limit
	}
}

// What a message of the child is about.
const (
	reportFailed    = iota + 1 // call, errno
	reportStopped              // signal
	reportContinued            //
	reportEnded                // wait status, and the times of the steps
	reportHanded               // nothing: descriptors come with it
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
	// Handed are descriptors of the child's, which are the launcher's to close now.
	Handed struct{ Fds []int }
	// Ready says that there is something to read on one of the descriptors of [Program.Watch],
	// which are not watched any more.
	Ready struct{}
	// Ended says how the command ended, and how it was started. It is the last event.
	Ended struct {
		Status syscall.WaitStatus
		Steps  []Step
	}
)

func (Failed) event()    {}
func (Stopped) event()   {}
func (Continued) event() {}
func (Handed) event()    {}
func (Ready) event()     {}
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
	text := unsafe.Slice((*byte)(unsafe.Pointer(&report)), unsafe.Sizeof(report))
	if ready, err := p.await(); ready || err != nil {
		return Ready{}, err
	}
	var n int
	var fds []int
	var err error
	if p.handing {
		n, fds, err = p.receiveFds(text)
	} else {
		n, err = p.receive(text, 0)
	}
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
	case reportHanded:
		return Handed{fds}, nil
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

// Watch has [Program.Next] tell when there is something to read on one of some descriptors of
// this process, once. Nobody need wait for each of them until then.
func (p *Program) Watch(fds []int) {
	p.watched = append(p.watched[:0], unix.PollFd{Fd: int32(p.process.ends[0]), Events: unix.POLLIN})
	for _, fd := range fds {
		p.watched = append(p.watched, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
}

// await waits until the child reports something, or what is watched is ready, which it
// reports.
func (p *Program) await() (ready bool, err error) {
	for len(p.watched) > 0 {
		_, err := unix.Poll(p.watched, -1)
		switch {
		case errors.Is(err, unix.EINTR): // ppoll(2) is never restarted
		case err != nil:
			return false, fmt.Errorf("ppoll: %w", err)
		case p.watched[0].Revents != 0:
			return false, nil
		default:
			p.watched = nil
			return true, nil
		}
	}
	return false, nil
}

// Silent waits for a while and reports whether the child has reported nothing meanwhile.
func (p *Program) Silent(while time.Duration) bool {
	polled := []unix.PollFd{{Fd: int32(p.process.ends[0]), Events: unix.POLLIN}}
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
		n, _, err = unix.Recvfrom(p.process.ends[0], b, flags)
		if !passing(err) {
			return n, err
		}
	}
}

// passing reports whether a failure to receive says nothing of the next attempt: a child that
// ends with a message for it unread is an error once, before what it said itself can be read.
func passing(err error) bool { return errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNRESET) }

// receiveFds is receive for a message that may bring descriptors.
func (p *Program) receiveFds(b []byte) (n int, fds []int, err error) {
	control := make([]byte, unix.CmsgSpace(4*maxHanded))
	var used, flags int
	for {
		n, used, flags, _, err = unix.Recvmsg(p.process.ends[0], b, control, unix.MSG_CMSG_CLOEXEC)
		if !passing(err) {
			break
		}
	}
	if err != nil {
		return n, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:used])
	if err != nil {
		return n, nil, err
	}
	for _, m := range messages {
		some, err := unix.ParseUnixRights(&m)
		if err != nil {
			return n, nil, err
		}
		fds = append(fds, some...)
	}
	if flags&unix.MSG_CTRUNC != 0 { // the others are lost
		for _, fd := range fds {
			CloseFd(fd)
		}
		return n, nil, unix.EMFILE
	}
	return n, fds, nil
}

// Send sends the command a signal by way of its init, which leaves it out when the signal
// reached the init too: then it went to the whole process group, which the command is in.
func (p *Program) Send(signal syscall.Signal) error { return p.send([8]byte{byte(signal)}) }

func (p *Program) send(message [8]byte) error {
	return unix.Sendto(p.process.ends[0], message[:], unix.MSG_NOSIGNAL, nil)
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
	CloseFd(p.process.ends[0])
	p.process.unmap() // the child has it too
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
