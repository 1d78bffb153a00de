//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What reaches around the other layers: mounts and namespaces, programs and events in
// the kernel, memory of others, keys, modules, and the clock and state of the machine.
// Most of it needs capabilities that are gone; this is a layer of its own.
var refusedCalls = [...]uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_VHANGUP, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
	467, // open_tree_attr(2), Linux 6.15
}

// What is refused too where there are no namespaces: other processes of the user and
// their IPC are in reach, and Landlock sees neither what is changed of a file without
// opening it nor who watches one.
var refusedAlone = [...]uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	463, 466, // setxattrat(2) and removexattrat(2), Linux 6.13
	469, // file_setattr(2), Linux 6.17
	unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH,
}

// aboutOthers are calls that change a process, by the argument that names it; 0 is the
// caller.
var aboutOthers = [...]struct{ call, argument uint32 }{
	{unix.SYS_PRLIMIT64, 0},
	{unix.SYS_SETPRIORITY, 1},
	{unix.SYS_IOPRIO_SET, 1},
	{unix.SYS_SCHED_SETAFFINITY, 0},
	{unix.SYS_SCHED_SETATTR, 0},
	{unix.SYS_SCHED_SETPARAM, 0},
	{unix.SYS_SCHED_SETSCHEDULER, 0},
}

// Surroundings are what the filter of system calls is for.
type Surroundings struct {
	Scoped  bool // Landlock keeps signals in ([LandlockScopes])
	Alone   bool // there are no namespaces
	Network bool // with Alone: the host's network may be used
}

// families returns the sockets that stay where they should. AF_VSOCK and AF_PACKET, for
// two, leave a network namespace; those of AF_UNIX lead to whoever listens on the host
// where no root of the command's own hides them, and Landlock does not see it.
func (s Surroundings) families() []uint32 {
	switch {
	case !s.Alone:
		return []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	case s.Network:
		return []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	}
	return nil
}

// namespaceFlags are those of clone(2) that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// firstUnknownCall is what comes after the calls of Linux 6.18, of which the last is
// file_setattr(2).
const firstUnknownCall = 470

// Offsets in struct seccomp_data (seccomp(2)). Of arguments the low half is at the lower
// address on both machines.
const (
	offsetCall         = 0
	offsetArchitecture = 4
	offsetArguments    = 16
)

func argument32(n uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArguments + 8*n, Size: 4}
}

func answer(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// A judgement is what the filter does with one call.
type judgement struct {
	call uint32
	then []bpf.Instruction // which end with an answer
}

// judgements returns what is done with the calls that are not simply allowed.
func (s Surroundings) judgements() []judgement {
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	var all []judgement
	on := func(call uint32, then ...bpf.Instruction) { all = append(all, judgement{call, then}) }
	refused := slices.Concat(refusedCalls[:], machineCalls[:])
	if s.Alone {
		refused = slices.Concat(refused, refusedAlone[:], machineAlone[:])
	}
	for _, call := range refused {
		on(call, answer(unix.EPERM))
	}
	if s.Alone {
		for _, other := range aboutOthers {
			on(other.call, argument32(other.argument), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, answer(unix.EPERM), allow)
		}
	} else {
		// The process group is the launcher's, and the shell's that it is part of.
		on(unix.SYS_SETPRIORITY, ownGroup(unix.PRIO_PGRP)...)
		on(unix.SYS_IOPRIO_SET, ownGroup(ioprioGroup)...)
	}
	if !s.Scoped {
		on(unix.SYS_KILL, argument32(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1}, answer(unix.EPERM), allow)
		on(unix.SYS_PIDFD_SEND_SIGNAL, argument32(3), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: pidfdGroup, SkipFalse: 1}, answer(unix.EPERM), allow)
	}
	// What clone3 is asked for lies in memory, where a filter cannot look. C libraries
	// fall back to clone.
	on(unix.SYS_CLONE3, answer(unix.ENOSYS))
	on(unix.SYS_CLONE, argument32(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags, SkipFalse: 1}, answer(unix.EPERM), allow)
	// Input for a terminal that comes from a program is read by the shell outside, and a
	// line discipline brings a module of the kernel's along.
	on(unix.SYS_IOCTL, argument32(1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: tiocLinux, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSETD, SkipTrue: 1},
		allow, answer(unix.EPERM))
	families := s.families()
	check := []bpf.Instruction{argument32(0)}
	for i, family := range families {
		check = append(check, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipTrue: uint8(len(families) - i)})
	}
	on(unix.SYS_SOCKET, append(check, answer(unix.EAFNOSUPPORT), allow)...)
	return all
}

// filter returns the program that judges each system call.
func (s Surroundings) filter() []bpf.Instruction {
	allow, kill := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}, bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	program := append(make([]bpf.Instruction, 0, 256),
		bpf.LoadAbsolute{Off: offsetArchitecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		kill, // calls of another machine have other numbers
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstForeignCall, SkipTrue: 1},
		kill, // x32, by the same reason
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstUnknownCall, SkipTrue: 1},
		answer(unix.ENOSYS), // nobody knows yet what it reaches
	)
	all := s.judgements()
	slices.SortFunc(all, func(a, b judgement) int { return cmp.Compare(a.call, b.call) })
	// Runs of calls that are judged alike, from the first call on, with what judges them.
	// The search jumps there from wherever it ends.
	blocks := [][]bpf.Instruction{{allow}}
	runs := []run{{0, 0}}
	begin := func(first uint32, block int) {
		if last := len(runs) - 1; runs[last].first == first {
			runs = runs[:last]
		}
		if last := len(runs) - 1; last < 0 || runs[last].block != block {
			runs = append(runs, run{first, block})
		}
	}
	for _, j := range all {
		block := slices.IndexFunc(blocks, func(b []bpf.Instruction) bool { return slices.Equal(b, j.then) })
		if block < 0 {
			block = len(blocks)
			blocks = append(blocks, j.then)
		}
		begin(j.call, block)
		begin(j.call+1, 0)
	}
	starts, next := make([]int, len(blocks)), len(program)+len(runs)-1
	for i, b := range blocks {
		starts[i] = next
		next += len(b)
	}
	program = search(program, runs, starts)
	for _, b := range blocks {
		program = append(program, b...)
	}
	return program
}

// A run is all calls from the first to the next run's, and the block that judges them.
type run struct {
	first uint32
	block int
}

// search finds the block of a call by halves, with one comparison for each run but the
// first: the kernel runs the filter for every call there is when it is installed, to know
// those that are always allowed (Linux 5.11), and for the others each time.
func search(program []bpf.Instruction, runs []run, starts []int) []bpf.Instruction {
	if len(runs) == 1 {
		return program
	}
	half, here := len(runs)/2, len(program)
	program = append(program, nil)
	to := func(runs []run) uint8 {
		at := len(program)
		if len(runs) == 1 {
			at = starts[runs[0].block]
		} else {
			program = search(program, runs, starts)
		}
		return uint8(at - here - 1) // the tests see to it that it fits
	}
	low, high := to(runs[:half]), to(runs[half:])
	program[here] = bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: runs[half].first, SkipTrue: high, SkipFalse: low}
	return program
}

// CallsKnown says that a [Program] can be made for this machine, whose system calls the
// filter must know.
const CallsKnown = true

const tiocLinux = 0x541c // TIOCLINUX: the selection of a console, for one (ioctl_console(2))

// What setpriority(2), ioprio_set(2) and pidfd_send_signal(2) call a process group; the
// last is of Linux 6.9.
const (
	ioprioGroup = 2
	pidfdGroup  = 4
)

// ownGroup refuses a call about the process group of the caller.
func ownGroup(which uint32) []bpf.Instruction {
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	return []bpf.Instruction{
		argument32(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: which, SkipFalse: 3},
		argument32(1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1},
		answer(unix.EPERM), allow,
	}
}

// RefuseCalls has the kernel refuse, for the process and what it starts, the system calls
// that reach around the other layers (seccomp(2)). It must be unable to gain rights, as
// after [Program.Renounce].
func (p *Program) RefuseCalls(s Surroundings) error {
	raw, err := bpf.Assemble(s.filter())
	if err != nil {
		return fmt.Errorf("assembling the filter: %w", err)
	}
	instructions := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		instructions[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	filter := struct { // struct sock_fprog
		length uint16
		filter uintptr
	}{uint16(len(instructions)), elements(p, instructions).value}
	p.call(unix.SYS_SECCOMP, number(unix.SECCOMP_SET_MODE_FILTER), zero(), pointer(p, &filter))
	return nil
}
