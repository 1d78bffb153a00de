//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// judge runs a filter on one system call. The machine of the library reads in the order of
// networks, the kernel in its own.
func judge(t *testing.T, vm *bpf.VM, architecture, call uint32, arguments ...uint32) int {
	t.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offsetCall:], call)
	binary.BigEndian.PutUint32(data[offsetArchitecture:], architecture)
	for i, a := range arguments {
		binary.BigEndian.PutUint32(data[offsetArguments+8*i:], a)
	}
	verdict, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

const (
	allowed = unix.SECCOMP_RET_ALLOW
	killed  = unix.SECCOMP_RET_KILL_PROCESS
)

func refused(errno unix.Errno) int { return unix.SECCOMP_RET_ERRNO | int(errno) }

// TestFilter tries every number, whose judgement is looked up in the list without search.
func TestFilter(t *testing.T) {
	for _, s := range []Surroundings{{Scoped: true}, {}, {Alone: true, Scoped: true}, {Alone: true, Scoped: true, Network: true}} {
		vm, err := bpf.NewVM(s.filter())
		if err != nil {
			t.Fatal(err)
		}
		all := s.judgements()
		for call := range uint32(1024) {
			want := allowed
			i := slices.IndexFunc(all, func(j judgement) bool { return j.call == call })
			switch {
			case call >= firstUnknownCall:
				want = refused(unix.ENOSYS)
			case i >= 0 && len(all[i].then) > 1:
				continue // it depends on the arguments; see below
			case i >= 0:
				want = int(all[i].then[0].(bpf.RetConstant).Val)
			}
			if got := judge(t, vm, architecture, call); got != want {
				t.Errorf("%+v: call %d: %x, want %x", s, call, got, want)
			}
		}
		if got := judge(t, vm, architecture^1, unix.SYS_GETPID); got != killed {
			t.Errorf("%+v: a call of another machine: %x", s, got)
		}
		if firstForeignCall == 0x40000000 {
			if got := judge(t, vm, architecture, firstForeignCall|unix.SYS_GETPID); got != killed {
				t.Errorf("%+v: a call of x32: %x", s, got)
			}
		}
	}
	for call := range all(refusedCalls[:], refusedAlone[:], machineCalls[:], machineAlone[:]) {
		if call >= firstUnknownCall {
			t.Errorf("call %d is taken for unknown", call)
		}
	}
}

func all(lists ...[]uint32) func(func(uint32) bool) {
	return slices.Values(slices.Concat(lists...))
}

// TestFilterArguments tries calls that are judged by their arguments.
func TestFilterArguments(t *testing.T) {
	here, unscoped := Surroundings{Scoped: true}, Surroundings{}
	alone, direct := Surroundings{Alone: true, Scoped: true}, Surroundings{Alone: true, Scoped: true, Network: true}
	for _, tt := range []struct {
		name      string
		in        Surroundings
		call      uint32
		arguments []uint32
		want      int
	}{
		{"a thread", here, unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allowed},
		{"a user namespace", here, unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER}, refused(unix.EPERM)},
		{"a time namespace", here, unix.SYS_CLONE, []uint32{unix.CLONE_NEWTIME}, refused(unix.EPERM)},
		{"clone3", here, unix.SYS_CLONE3, nil, refused(unix.ENOSYS)},
		{"the size of a terminal", here, unix.SYS_IOCTL, []uint32{0, unix.TIOCGWINSZ}, allowed},
		{"TIOCSTI", here, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, refused(unix.EPERM)},
		{"TIOCLINUX", here, unix.SYS_IOCTL, []uint32{0, tiocLinux}, refused(unix.EPERM)},
		{"TIOCSETD", here, unix.SYS_IOCTL, []uint32{0, unix.TIOCSETD}, refused(unix.EPERM)},
		{"a unix socket", here, unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, allowed},
		{"a netlink socket", here, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK}, allowed},
		{"a packet socket", here, unix.SYS_SOCKET, []uint32{unix.AF_PACKET}, refused(unix.EAFNOSUPPORT)},
		{"a vsock", here, unix.SYS_SOCKET, []uint32{unix.AF_VSOCK}, refused(unix.EAFNOSUPPORT)},
		{"a unix socket, alone", direct, unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, refused(unix.EAFNOSUPPORT)},
		{"an internet socket, alone", direct, unix.SYS_SOCKET, []uint32{unix.AF_INET}, allowed},
		{"an internet socket, without network", alone, unix.SYS_SOCKET, []uint32{unix.AF_INET}, refused(unix.EAFNOSUPPORT)},
		{"the own group, scoped", here, unix.SYS_KILL, []uint32{0}, allowed},
		{"the own group", unscoped, unix.SYS_KILL, []uint32{0}, refused(unix.EPERM)},
		{"a process", unscoped, unix.SYS_KILL, []uint32{7}, allowed},
		{"a group by a process", unscoped, unix.SYS_PIDFD_SEND_SIGNAL, []uint32{3, 9, 0, pidfdGroup}, refused(unix.EPERM)},
		{"a process by a descriptor", unscoped, unix.SYS_PIDFD_SEND_SIGNAL, []uint32{3, 9, 0, 0}, allowed},
		{"the priority of the group", here, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PGRP, 0}, refused(unix.EPERM)},
		{"the own priority", here, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, 0}, allowed},
		{"the priority of another group", here, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PGRP, 7}, allowed},
		{"the group's disk", here, unix.SYS_IOPRIO_SET, []uint32{ioprioGroup, 0}, refused(unix.EPERM)},
		{"the own limits, alone", alone, unix.SYS_PRLIMIT64, []uint32{0}, allowed},
		{"another's limits, alone", alone, unix.SYS_PRLIMIT64, []uint32{7}, refused(unix.EPERM)},
		{"another's limits", here, unix.SYS_PRLIMIT64, []uint32{7}, allowed},
		{"a mode, alone", alone, unix.SYS_FCHMOD, nil, refused(unix.EPERM)},
		{"a mode", here, unix.SYS_FCHMOD, nil, allowed},
	} {
		vm, err := bpf.NewVM(tt.in.filter())
		if err != nil {
			t.Fatal(err)
		}
		if got := judge(t, vm, architecture, tt.call, tt.arguments...); got != tt.want {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
	}
}
