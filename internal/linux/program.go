//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Program is all that the child of a launch does between fork(2) and execve(2): system
// calls with their arguments, one after another, and nothing else. Everything is decided
// and laid out by the launcher. The child makes the calls and stops at the first that
// fails, so that nothing is started by half; it needs no memory, no other thread and no
// second start of this program.
//
// [Program.Start] forks the child. The methods add calls, in memory that both share; none of
// them does anything by itself. [Program.Go] has the child go on, so that namespaces are made
// while it is still being worked out what to do in them.
type Program struct {
	*memory
	steps  []string // what is being done, for failures and times
	abouts []string // the paths that calls are for
	failed error    // why the program cannot be laid out

	handing bool          // descriptors come back from the child
	watched []unix.PollFd // the launcher's end of the control socket, and those of [Program.Watch]

	attributes map[uint64]argument // struct mount_attr, each once
	beneath    argument            // struct open_how of [Program.Beneath]

	process process
}

// A memory is what the launcher and the child share: the calls, what they point to, and
// what they return. It has fixed places, since the child knows it from the fork on, and
// the child may know nothing else: it has no copy of the launcher's heap.
type memory struct {
	count  int // of calls
	values int // of values
	data   int // bytes in use
	limit  int // how many calls the child has been told of

	control      int                          // the child's end of the socket, wherever it moves to
	launcher     int                          // the other, until the child closes it
	found, other unix.Stat_t                  // what the last calls of fstat(2) found
	grant        unix.LandlockPathBeneathAttr // of the call that permits a path
	forked       bool                         // this is the command's own process, which shares the init's memory
	report       [maxReport]int64             // a message to the launcher
	init         supervisor
	stack        [16 << 10]byte // of the child

	call  [1 << 18]call
	value [1 << 19]uintptr
	bytes [1 << 24]byte
}

var errTooMuch = errors.New("the plan takes more system calls than a launch can make")

// A Value is what a call of a program returns once it is made, such as a descriptor.
type Value struct{ index uint32 }

// A call is one system call of a program.
type call struct {
	number    uintptr
	args      [6]uintptr
	valued    uint8  // bit n: argument n is the index of a value
	save      uint32 // which value the result is
	step      uint16
	about     uint32
	tolerated syscall.Errno // a failure that is none
	repeat    bool          // until it fails as tolerated
}

// What is no system call. Numbers are beyond all of those.
const (
	doHear    = 1<<24 + iota // wait for the launcher's word
	doMatch                  // what fstat found is expected[args[0]]
	doSame                   // what fstat found is what it found before
	doControl                // the child's end of the control socket is args[0] now
	doGrant                  // landlock_add_rule: ruleset, rights, descriptor
	doWritten                // args[0] is args[1]: all of a file has been written
	doStore                  // the number of 32 bits at offset args[0] is args[1] now
	doTell                   // the message at args[0] goes to the launcher (sendmsg)
	doFork                   // the rest is the command's; this process becomes its init
)

// maxReport is how many numbers a message to the launcher has at most: what it is about,
// and when each step began.
const maxReport = 3 + maxSteps

const maxSteps = 32

// An argument of a call.
type argument struct {
	value uintptr
	later bool // value is the index of one
}

func number[N ~int | ~uint | ~uint64 | ~uintptr | ~uint32 | ~int32](n N) argument {
	return argument{value: uintptr(n)}
}

// zero is a null pointer too.
func zero() argument { return argument{} }

func (v Value) argument() argument { return argument{uintptr(v.index), true} }

// room returns shared memory for some bytes, at an address that fits everything.
func (p *Program) room(size int) []byte {
	size = (size + 7) &^ 7
	if size > len(p.bytes)-p.data {
		p.failed = errTooMuch // nothing is started any more
		return make([]byte, size)
	}
	p.data += size
	return p.bytes[p.data-size : p.data]
}

// pointer returns the address of a copy of what v points to.
func pointer[T any](p *Program, v *T) argument { return elements(p, unsafe.Slice(v, 1)) }

// elements returns the address of a copy of a slice that is not empty.
func elements[T any](p *Program, v []T) argument {
	size := int(unsafe.Sizeof(v[0])) * len(v)
	room := p.room(size)
	copy(room, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), size))
	return argument{value: uintptr(unsafe.Pointer(&room[0]))}
}

// string returns the address of a string as C has it.
func (p *Program) string(s string) argument {
	room := p.room(len(s) + 1)
	copy(room, s)
	room[len(s)] = 0
	return argument{value: uintptr(unsafe.Pointer(&room[0]))}
}

// Step says what the calls that follow are for.
func (p *Program) Step(name string) {
	if len(p.steps) == maxSteps {
		panic("a program of too many steps")
	}
	p.steps = append(p.steps, name)
	p.About("")
}

// About says which path the calls that follow in this step are for.
func (p *Program) About(path string) { p.abouts = append(p.abouts, path) }

func (p *Program) call(nr uintptr, args ...argument) *call {
	if p.count == len(p.memory.call) {
		p.failed = errTooMuch
		p.count-- // a call that is not made any more
	}
	c := &p.memory.call[p.count]
	p.count++
	*c = call{number: nr, step: uint16(len(p.steps) - 1), about: uint32(len(p.abouts))}
	for i, a := range args {
		c.args[i] = a.value
		if a.later {
			c.valued |= 1 << i
		}
	}
	return c
}

// value adds a call whose result is used later.
func (p *Program) value(nr uintptr, args ...argument) Value {
	if p.values == len(p.memory.value) {
		p.failed = errTooMuch
		p.values--
	}
	v := Value{uint32(p.values)}
	p.values++
	p.call(nr, args...).save = v.index + 1
	return v
}

// Close closes a descriptor.
func (p *Program) Close(fd Value) { p.call(unix.SYS_CLOSE, fd.argument()) }

// StayBehind has the process stay behind as the init of the command, and a child of it go
// on with the calls that follow, which end with [Program.Exec] before the next [Program.Go].
func (p *Program) StayBehind() { p.call(doFork) }

// Exec starts the command (execve(2)).
func (p *Program) Exec(path string, args, env []string) {
	p.call(unix.SYS_EXECVE, p.string(path), p.list(args), p.list(env))
}

func (p *Program) list(all []string) argument {
	at := make([]uintptr, len(all)+1)
	for i, s := range all {
		at[i] = p.string(s).value
	}
	return elements(p, at)
}

// perform makes the calls from the one at index from on. It returns when all are made, in
// the init with the process number of the command, and with a failure.
//
//go:nosplit
//go:norace
func (m *memory) perform(from, to int) (command uintptr, failed int, errno syscall.Errno) {
	for i := from; i < to; i++ {
		c := &m.call[i]
		if i == from || c.step != m.call[i-1].step {
			m.mark(int(c.step))
		}
		var a [6]uintptr
		for n := range a {
			a[n] = c.args[n]
			if c.valued&(1<<n) != 0 {
				a[n] = m.value[a[n]]
			}
		}
		var result uintptr
		errno = 0
		switch c.number {
		case doMatch:
			if m.found.Dev != uint64(a[0]) || m.found.Ino != uint64(a[1]) || m.found.Mode&unix.S_IFMT != uint32(a[2]) {
				errno = syscall.ESTALE
			}
		case doSame:
			if m.found.Dev != m.other.Dev || m.found.Ino != m.other.Ino {
				errno = syscall.ESTALE
			}
		case doControl:
			m.control = int(a[0])
		case doGrant:
			m.grant.Allowed_access, m.grant.Parent_fd = uint64(a[1]), int32(a[2])
			_, _, errno = syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, a[0], unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&m.grant)), 0, 0, 0)
		case doWritten:
			if a[0] != a[1] {
				errno = syscall.ENOSPC
			}
		case doStore:
			*(*int32)(unsafe.Pointer(&m.bytes[a[0]])) = int32(a[1])
		case doTell:
			_, _, errno = syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(m.control), a[0], unix.MSG_NOSIGNAL)
		case doFork:
			// What this process knew of the calls is the child's when it comes back here:
			// nothing but the answer may be used.
			pid, failure := vfork()
			if failure == 0 && pid != 0 {
				return pid, 0, 0
			}
			errno, m.forked = syscall.Errno(failure), true
		default:
			result, _, errno = syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
			for c.repeat && errno == 0 {
				result, _, errno = syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
			}
		}
		if errno != 0 && errno != c.tolerated {
			if m.forked { // the frames of the callers are the init's
				m.say(reportFailed, int64(i), int64(errno), 3)
				exitGroup(1)
			}
			return 0, i, errno
		}
		if c.save != 0 {
			m.value[c.save-1] = result
		}
	}
	if m.forked { // it does not end with an exec
		m.say(reportFailed, int64(to-1), int64(syscall.ENOEXEC), 3)
		exitGroup(1)
	}
	return 0, 0, 0
}

// vfork makes a process that shares the memory of this one, which waits until the other
// has started a program or ended (vfork(2)): nothing is copied.
func vfork() (pid, errno uintptr)

// mark notes when a step begins.
//
//go:nosplit
//go:norace
func (m *memory) mark(step int) { m.report[3+step] = now() }

// now is the monotonic time in nanoseconds.
//
//go:nosplit
//go:norace
func now() int64 {
	var t unix.Timespec
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&t)), 0)
	return t.Sec*1e9 + t.Nsec
}

// say sends the launcher a message.
//
//go:nosplit
//go:norace
func (m *memory) say(what, a, b int64, length int) {
	m.report[0], m.report[1], m.report[2] = what, a, b
	_, _, _ = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(m.control), uintptr(unsafe.Pointer(&m.report)), uintptr(length)*8, unix.MSG_NOSIGNAL, 0, 0)
}
