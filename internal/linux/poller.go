//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Readiness is what can be done with a socket, or what a [Poller] watches it for.
type Readiness uint32

// What a socket can be ready for. Nothing is a watch for the last two, which are always told
// of.
const (
	Watched  Readiness = 1 << iota // it is watched, if only for these
	Readable                       // something, or the end, or an error
	Writable
	Broken // it has an error
	HungUp // both directions have ended
)

// A PollEvent is a socket that something can be done with.
type PollEvent struct {
	Token uint64 // by which it is watched
	For   Readiness
}

// A Poller waits for many sockets at once (epoll(7)). All but [Poller.Wake] is for one
// goroutine.
type Poller struct {
	epoll, event int
	events       [64]unix.EpollEvent
	ready        [64]PollEvent
}

// wakeToken is that of the poller's own descriptor.
const wakeToken = ^uint64(0)

// NewPoller returns a poller.
func NewPoller() (*Poller, error) {
	p := &Poller{}
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		CloseFd(p.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err := p.Watch(Socket(p.event), wakeToken, 0, Readable); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Watch has a socket watched for something, in place of what it was watched for: 0 is for one
// that is not. The token is what it is known by, and less than all ones.
func (p *Poller) Watch(s Socket, token uint64, before, now Readiness) error {
	call := unix.EPOLL_CTL_MOD
	switch {
	case before == now:
		return nil
	case before == 0:
		call = unix.EPOLL_CTL_ADD
	case now == 0:
		call = unix.EPOLL_CTL_DEL
	}
	event := unix.EpollEvent{Fd: int32(uint32(token)), Pad: int32(uint32(token >> 32))}
	if now&Readable != 0 {
		event.Events |= unix.EPOLLIN
	}
	if now&Writable != 0 {
		event.Events |= unix.EPOLLOUT
	}
	if err := unix.EpollCtl(p.epoll, call, int(s), &event); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Wait returns what is ready, which is nothing when that has taken longer than it may, somebody
// has called [Poller.Wake] or a signal has come; a negative time is without end. What is
// returned is good until the next call.
//
// For the first part of that time, keep, no other goroutine gets the place of this one (its P)
// while it waits. To be given a place again takes Go's scheduler two other threads, and as much
// processor time as to pass on a small message.
func (p *Poller) Wait(atMost, keep time.Duration) ([]PollEvent, error) {
	keep, limit := max(0, keep), -1
	if atMost >= 0 {
		keep = min(keep, atMost)
		limit = milliseconds(atMost - keep)
	}
	var n int
	var err error
	if keep > 0 {
		n, err = p.keep(milliseconds(keep))
	}
	if n == 0 && err == nil {
		n, err = unix.EpollWait(p.epoll, p.events[:], limit)
	}
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("epoll_wait: %w", err)
	}
	ready := p.ready[:0]
	for _, e := range p.events[:max(n, 0)] {
		r := PollEvent{Token: uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32}
		if r.Token == wakeToken {
			var count [8]byte
			_, _ = unix.Read(p.event, count[:]) // it was woken
			continue
		}
		for _, bit := range [...]struct {
			event uint32
			what  Readiness
		}{{unix.EPOLLIN, Readable}, {unix.EPOLLOUT, Writable}, {unix.EPOLLERR, Broken}, {unix.EPOLLHUP, HungUp}} {
			if e.Events&bit.event != 0 {
				r.For |= bit.what
			}
		}
		ready = append(ready, r)
	}
	return ready, nil
}

// keep waits without the scheduler being told.
func (p *Poller) keep(limit int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), uintptr(limit), 0, 0)
	return result(n, errno)
}

// milliseconds are not fewer than the time has.
func milliseconds(t time.Duration) int {
	return int(min((t+time.Millisecond-1)/time.Millisecond, 1<<30))
}

// Wake has [Poller.Wait] return, now or the next time.
func (p *Poller) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.event, one[:]) // it is awake where that is full
}

// Close lets go of the poller. Nobody may wake it any more.
func (p *Poller) Close() {
	CloseFd(p.event)
	CloseFd(p.epoll)
}
