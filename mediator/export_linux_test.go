//go:build amd64 || arm64

package mediator

import (
	"slices"
	"time"
)

// Hurry has a mediator give what takes long other times than the usual. It is called before it
// serves.
func (m *Mediator) Hurry(dial, hello, lost time.Duration) { m.times = times{dial, hello, lost} }

// Loops are those of a mediator.
type Loops struct{ first *loop }

// Loops is called when a mediator serves, before there are connections.
func (m *Mediator) Loops() Loops {
	l := Loops{m.loops[0]}
	do(l.first, func() {}) // whatever it does to the list of loops is after it was read
	return l
}

// do has a loop do something, and returns when it has, or will not.
func do(l *loop, something func()) {
	done := make(chan struct{})
	if l.post(func() {
		something()
		close(done)
	}) {
		<-done
	}
}

// Pause has the first loop do nothing, until the function that it returns is called.
func (l Loops) Pause() (resume func()) {
	paused, resumed := make(chan struct{}), make(chan struct{})
	l.first.post(func() {
		close(paused)
		<-resumed
	})
	<-paused
	return func() { close(resumed) }
}

// A LoopState is what a loop has.
type LoopState struct {
	Load int // connections
	Kept int // of places among goroutines
	Left int // bytes that sides have said and others have not taken
	Held int // bytes of the buffers that some of these are in
}

// State returns what each loop has.
func (l Loops) State() (all []LoopState) {
	var loops []*loop
	do(l.first, func() { loops = slices.Clone(l.first.m.loops) })
	for _, each := range loops {
		do(each, func() {
			state := LoopState{Load: int(each.load.Load()), Held: each.held}
			if each.keep > 0 {
				state.Kept = 1
			}
			for _, s := range each.sides {
				state.Left += len(s.left)
			}
			all = append(all, state)
		})
	}
	return all
}

// What the loops hold at most, and read at once.
const (
	MaxHeld  = maxHeld
	MinRead  = minRead
	MaxRead  = maxRead
	MaxLoops = maxLoops
)
