//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Renounce takes all capabilities from the process for good, from the bounding set too,
// and has no program that it starts gain any (capabilities(7), prctl(2)). Owner says that
// the process is in a user namespace of its own, or root: others cannot change their
// bounding set, and need not, since they gain nothing any more.
func (p *Program) Renounce(owner bool) error {
	p.prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	for c := uintptr(0); ; c++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		} else if err != nil {
			return fmt.Errorf("the capabilities of the kernel cannot be counted: prctl: %w", err)
		}
		if drop := p.prctl(unix.PR_CAPBSET_DROP, c); !owner {
			drop.tolerated = unix.EPERM
		}
	}
	p.call(unix.SYS_CAPSET, pointer(p, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), pointer(p, &[2]unix.CapUserData{}))
	p.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	return nil
}

func (p *Program) prctl(option int, value uintptr) *call {
	return p.call(unix.SYS_PRCTL, number(option), number(value), zero(), zero(), zero())
}

// Undumpable keeps the process from being traced, and its files in procfs from being
// opened, by processes of the same user. It ends with the start of a program.
func (p *Program) Undumpable() { p.prctl(unix.PR_SET_DUMPABLE, 0) }

// Orphan has the kernel kill the process when its init ends, also without a process ID
// namespace.
func (p *Program) Orphan() { p.prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)) }

// A File is a descriptor of the launcher, and its number in the command.
type File struct {
	Fd     int // less than 0 for /dev/null
	Number int
}

// OpenPath is the flag of a descriptor that only stands for a place.
const OpenPath = unix.O_PATH

// OpenFlags returns what a descriptor of this process was opened with (F_GETFL).
func OpenFlags(fd int) (int, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, fmt.Errorf("fcntl: %w", err)
	}
	return flags, nil
}

// Files gives the child these descriptors and closes all others but the one that it talks
// to the launcher by (dup3(2), close_range(2), Linux 5.9).
func (p *Program) Files(files []File) {
	highest := 2
	for _, f := range files {
		highest = max(highest, f.Number)
	}
	control := highest + 1
	// First out of the way, since one may have the number of another.
	duplicate := func(fd argument) Value {
		return p.value(unix.SYS_FCNTL, fd, number(unix.F_DUPFD_CLOEXEC), number(control+1))
	}
	talk := duplicate(number(p.process.ends[1]))
	kept := make([]bool, highest+1)
	var all []Value
	for _, f := range files {
		fd := number(f.Fd)
		if f.Fd < 0 {
			fd = p.value(unix.SYS_OPENAT, here(), p.string("/dev/null"), number(unix.O_RDWR|unix.O_CLOEXEC), zero()).argument()
		}
		all = append(all, duplicate(fd))
		kept[f.Number] = true
	}
	for i, f := range files {
		p.call(unix.SYS_DUP3, all[i].argument(), number(f.Number), zero())
	}
	p.call(unix.SYS_DUP3, talk.argument(), number(control), number(unix.O_CLOEXEC))
	p.call(doControl, number(control))
	for fd, keep := range kept {
		if !keep {
			p.call(unix.SYS_CLOSE, number(fd)).tolerated = unix.EBADF
		}
	}
	p.call(unix.SYS_CLOSE_RANGE, number(control+1), number(^uint32(0)), zero())
}
