//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"slices"
	"unsafe"

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

// families are the sockets that stay in a network namespace. AF_VSOCK and AF_PACKET, for
// two, do not.
var families = [...]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// namespaceFlags are those of clone(2) that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// Offsets in struct seccomp_data (seccomp(2)). Of arguments the low half is at the lower
// address on both machines.
const (
	offsetCall         = 0
	offsetArchitecture = 4
	offsetArguments    = 16
)

func argument(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offsetArguments + 8*n, Size: 4} }

func answer(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// filter returns the program that judges each system call.
func filter() []bpf.Instruction {
	kill, allow := bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArchitecture, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		kill, // calls of another machine have other numbers
		bpf.LoadAbsolute{Off: offsetCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstForeignCall, SkipTrue: 1},
		kill, // x32, by the same reason
	}
	on := func(call uint32, then ...bpf.Instruction) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: uint8(len(then))})
		program = append(program, then...)
	}
	for _, call := range slices.Concat(refusedCalls[:], machineCalls[:]) {
		on(call, answer(unix.EPERM))
	}
	// What clone3 is asked for lies in memory, where a filter cannot look. C libraries
	// fall back to clone.
	on(unix.SYS_CLONE3, answer(unix.ENOSYS))
	on(unix.SYS_CLONE, argument(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaceFlags, SkipFalse: 1}, answer(unix.EPERM), allow)
	// Input for a terminal that comes from a program is read by the shell outside.
	on(unix.SYS_IOCTL, argument(1),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: tiocLinux, SkipTrue: 1},
		allow, answer(unix.EPERM))
	check := []bpf.Instruction{argument(0)}
	for i, family := range families {
		check = append(check, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipTrue: uint8(len(families) - i)})
	}
	on(unix.SYS_SOCKET, append(check, answer(unix.EAFNOSUPPORT), allow)...)
	return append(program, allow)
}

// CallsKnown says that [RefuseCalls] knows the calls of this machine.
const CallsKnown = true

const tiocLinux = 0x541c // TIOCLINUX: the selection of a console, for one (ioctl_console(2))

// RefuseCalls has the kernel refuse, for this thread and what it starts, the system
// calls that reach around the other layers (seccomp(2)). The thread must be unable to
// gain rights, as after [Renounce].
func RefuseCalls() error {
	raw, err := bpf.Assemble(filter())
	if err != nil {
		return fmt.Errorf("assembling the filter: %w", err)
	}
	instructions := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		instructions[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
