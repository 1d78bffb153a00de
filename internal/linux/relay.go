//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sigaction is struct sigaction of the kernel, on both machines.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

const (
	ignored = 1 // SIG_IGN

	// With the flags that the runtime of Go asks of every handler.
	relayFlags = 0x00000004 | 0x08000000 | 0x10000000 // SA_SIGINFO, SA_ONSTACK, SA_RESTART
)

// relayTo is one more than the socket that signals go to, 0 for none. It is for the whole
// process, as what that does with a signal is.
var relayTo atomic.Int32

// relayPC is where the handler begins, and restorerPC what it returns to, where the kernel
// has nothing of its own for that.
var relayPC, restorerPC uintptr

var errRelayed = errors.New("signals are passed on to another command already")

// Relay has the signals that this process gets sent to the command, as by [Program.Send],
// from within their handler: that takes neither a thread nor a goroutine, as os/signal
// does, and loses none. SIGTTIN and SIGTTOU are only caught. Those that are ignored stay
// so. It is for one program at a time, and until the function that it returns is called.
func (p *Program) Relay(signals []syscall.Signal) (stop func(), err error) {
	if len(signals) == 0 {
		return func() {}, nil
	}
	if !relayTo.CompareAndSwap(0, int32(p.process.ends[0]+1)) {
		return nil, errRelayed
	}
	before := map[syscall.Signal]sigaction{}
	stop = func() {
		for s, action := range before {
			_ = setAction(s, &action, nil) // it was set
		}
		relayTo.Store(0)
	}
	flags := uintptr(relayFlags)
	if restorerPC != 0 {
		flags |= 0x04000000 // SA_RESTORER
	}
	for _, s := range signals {
		var old sigaction
		if err = setAction(s, nil, &old); err == nil && old.handler != ignored {
			err = setAction(s, &sigaction{relayPC, flags, restorerPC, ^uint64(0)}, nil)
			before[s] = old
		}
		if err != nil {
			stop()
			return nil, &ForkError{"rt_sigaction", err}
		}
	}
	return stop, nil
}

func setAction(s syscall.Signal, to, old *sigaction) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 8, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
