//go:build linux && (amd64 || arm64)

package linux

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Program is all that the child of a launch does between fork(2) and execve(2): system
// calls with their arguments, one after another, and nothing else. Everything is decided
// and laid out before the fork. The child makes the calls and stops at the first that
// fails, so that nothing is started by half; it needs no memory, no other thread and no
// second start of this program.
//
// The methods add calls; none of them does anything by itself. [Program.Start] forks.
type Program struct {
	calls  []call
	steps  []string // what is being done, for failures and times
	abouts []string // the paths that calls are for
	values []uintptr

	text     []byte   // where the strings of calls are put
	texts    [][]byte // those that are full
	memory   []any    // what calls point to
	expected []Identity

	found, other unix.Stat_t                  // what the last calls of fstat(2) found
	grant        unix.LandlockPathBeneathAttr // of the call that permits a path
	attributes   map[uint64]argument          // struct mount_attr, each once
	beneath      argument                     // struct open_how of [Program.Beneath]

	control [2]int           // a socket: the launcher's end and the child's
	report  [maxReport]int64 // a message to the launcher
	init    supervisor
}

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

func (p *Program) pointer(at unsafe.Pointer, kept any) argument {
	p.memory = append(p.memory, kept)
	return argument{value: uintptr(at)}
}

// string returns the address of a string as C has it.
func (p *Program) string(s string) argument {
	if cap(p.text)-len(p.text) < len(s)+1 {
		p.texts = append(p.texts, p.text)
		p.text = make([]byte, 0, max(1<<14, len(s)+1))
	}
	at := len(p.text)
	p.text = append(append(p.text, s...), 0)
	return argument{value: uintptr(unsafe.Pointer(&p.text[at : at+1][0]))}
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
	p.calls = append(p.calls, call{number: nr, step: uint16(len(p.steps) - 1), about: uint32(len(p.abouts))})
	c := &p.calls[len(p.calls)-1]
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
	p.values = append(p.values, 0)
	v := Value{uint32(len(p.values) - 1)}
	p.call(nr, args...).save = v.index + 1
	return v
}

// Len returns how many calls the program has.
func (p *Program) Len() int { return len(p.calls) }

// Close closes a descriptor.
func (p *Program) Close(fd Value) { p.call(unix.SYS_CLOSE, fd.argument()) }

// Fork has the process stay behind as the init of the command, and a child of it go on
// with the calls that follow, which end with [Program.Exec].
func (p *Program) Fork() { p.call(doFork) }

// Exec starts the command (execve(2)).
func (p *Program) Exec(path string, args, env []string) {
	p.call(unix.SYS_EXECVE, p.string(path), p.list(args), p.list(env))
}

func (p *Program) list(all []string) argument {
	at := make([]uintptr, len(all)+1)
	for i, s := range all {
		at[i] = p.string(s).value
	}
	return p.pointer(unsafe.Pointer(&at[0]), at)
}

// perform makes the calls from the one at index from on. It returns only in the init,
// with the process number of the command, or with a failure.
//
//go:nosplit
//go:norace
func (p *Program) perform(from int) (command uintptr, failed int, errno syscall.Errno) {
	for i := from; i < len(p.calls); i++ {
		c := &p.calls[i]
		if i == from || c.step != p.calls[i-1].step {
			p.mark(int(c.step))
		}
		var a [6]uintptr
		for n := range a {
			a[n] = c.args[n]
			if c.valued&(1<<n) != 0 {
				a[n] = p.values[a[n]]
			}
		}
		var result uintptr
		errno = 0
		switch c.number {
		case doHear:
			if n, _, err := syscall.RawSyscall6(unix.SYS_READ, uintptr(p.control[1]), uintptr(unsafe.Pointer(&p.report)), 8, 0, 0, 0); err != 0 || n == 0 {
				errno = syscall.ESRCH // nobody is there any more
			}
		case doMatch:
			if e := &p.expected[a[0]]; p.found.Dev != e.Device || p.found.Ino != e.Inode || p.found.Mode&unix.S_IFMT != e.kind {
				errno = syscall.ESTALE
			}
		case doSame:
			if p.found.Dev != p.other.Dev || p.found.Ino != p.other.Ino {
				errno = syscall.ESTALE
			}
		case doControl:
			p.control[1] = int(a[0])
		case doGrant:
			p.grant.Allowed_access, p.grant.Parent_fd = uint64(a[1]), int32(a[2])
			_, _, errno = syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, a[0], unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&p.grant)), 0, 0, 0)
		case doFork:
			result, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno == 0 && result != 0 {
				return result, 0, 0
			}
		case unix.SYS_EXECVE:
			p.say(reportStarted, 0, 0, len(p.report))
			fallthrough
		default:
			result, _, errno = syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
			for c.repeat && errno == 0 {
				result, _, errno = syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
			}
		}
		if errno != 0 && errno != c.tolerated {
			return 0, i, errno
		}
		if c.save != 0 {
			p.values[c.save-1] = result
		}
	}
	return 0, len(p.calls), syscall.ENOEXEC // it does not end with an exec
}

// mark notes when a step begins.
//
//go:nosplit
//go:norace
func (p *Program) mark(step int) { p.report[3+step] = now() }

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
func (p *Program) say(what, a, b int64, length int) {
	p.report[0], p.report[1], p.report[2] = what, a, b
	_, _, _ = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(p.control[1]), uintptr(unsafe.Pointer(&p.report)), uintptr(length)*8, unix.MSG_NOSIGNAL, 0, 0)
}
