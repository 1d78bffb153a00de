//go:build linux && (amd64 || arm64)

package linux

import (
	"encoding/binary"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (p *Poller) mustWatch(t *testing.T, s Socket, token uint64, before, now Readiness) {
	t.Helper()
	if err := p.Watch(s, token, before, now); err != nil {
		t.Fatal(err)
	}
}

func (p *Poller) mustWait(t *testing.T, atMost time.Duration) []PollEvent {
	t.Helper()
	ready, err := p.Wait(atMost, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ready
}

// interruptions is how often a signal of Go's own scheduler can end a wait before its time, at most,
// in these tests.
const interruptions = 5

// idle waits while nothing is ready, and returns how long that has taken when nothing has
// interrupted it.
func (p *Poller) idle(t *testing.T, atMost time.Duration) (took time.Duration) {
	t.Helper()
	for range interruptions {
		began := time.Now()
		if ready := p.mustWait(t, atMost); len(ready) > 0 {
			t.Errorf("at most %s: %v", atMost, ready)
		}
		if took = time.Since(began); took >= atMost {
			break
		}
	}
	return took
}

// spoken returns a socket that something can be read from.
func spoken(t *testing.T) Socket {
	t.Helper()
	client, server := pair(t)
	t.Cleanup(client.Close)
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	await(t, server, unix.POLLIN)
	return server
}

// TestPollerTokens has sockets known by tokens of which each differs from another in one half.
func TestPollerTokens(t *testing.T) {
	p := newPoller(t)
	want := map[uint64]Readiness{}
	for _, token := range []uint64{0, 1, 1 << 31, 1<<31 + 1, 1 << 32, 1<<32 + 1, 1 << 63, 1<<63 + 1, 1<<63 + 1<<31, 1<<32 - 1, wakeToken - (1<<32 - 1), wakeToken - 1} {
		p.mustWatch(t, spoken(t), token, 0, Readable)
		want[token] = Readable
	}
	got := map[uint64]Readiness{}
	for _, e := range p.mustWait(t, -1) {
		got[e.Token] = e.For
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPollerWatch has one socket, which can be read from and written to, watched for one thing
// after another.
func TestPollerWatch(t *testing.T) {
	p := newPoller(t)
	s := spoken(t)
	const token = 7
	was := Readiness(0)
	for _, now := range []Readiness{
		0, Readable, Readable, Readable | Writable, Writable, Watched, Watched, Watched | Readable, Watched | Writable, 0,
		Watched, 0, 0, Writable, Watched, Readable, 0, Watched | Readable | Writable, 0,
	} {
		p.mustWatch(t, s, token, was, now)
		var want []PollEvent
		if what := now &^ Watched; what != 0 {
			want = []PollEvent{{token, what}}
		}
		for range 2 { // what is ready is told of until it is not
			if got := p.mustWait(t, 0); !slices.Equal(got, want) {
				t.Errorf("watched for %b, after %b: %v, want %v", now, was, got, want)
			}
		}
		was = now
	}
	// What is said of it before has to be true.
	if err := p.Watch(s, token, Readable, Writable); !errors.Is(err, unix.ENOENT) {
		t.Errorf("it was not watched: %v, want %v", err, unix.ENOENT)
	}
	p.mustWatch(t, s, token, 0, Readable)
	if err := p.Watch(s, token, 0, Readable); !errors.Is(err, unix.EEXIST) {
		t.Errorf("it was watched: %v, want %v", err, unix.EEXIST)
	}
	// It is known by another token from now on.
	p.mustWatch(t, s, token+1, Readable, Writable)
	if got, want := p.mustWait(t, -1), []PollEvent{{token + 1, Writable}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var file [2]int
	if err := unix.Pipe2(file[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	CloseFd(file[0])
	CloseFd(file[1])
	if err := p.Watch(Socket(file[0]), token, 0, Readable); !errors.Is(err, unix.EBADF) {
		t.Errorf("a closed one: %v, want %v", err, unix.EBADF)
	}
}

// TestPollerEnds has one side end in different ways, and the other watched for different things.
func TestPollerEnds(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	half := func(client, _ Socket) { must(client.CloseWrite()) }
	both := func(client, server Socket) { must(errors.Join(client.CloseWrite(), server.CloseWrite())) }
	words := func(client, server Socket) {
		_, err := client.Write([]byte("hello"))
		must(err)
		both(client, server)
	}
	reset := func(client, _ Socket) { client.Reset() }
	for name, test := range map[string]struct {
		end  func(client, server Socket)
		what int16 // that is waited for
		now  Readiness
		want Readiness // 0 for nothing
	}{
		"one direction, watched for nothing":        {half, unix.POLLRDHUP, Watched, 0},
		"one direction, watched for reading":        {half, unix.POLLRDHUP, Readable, Readable},
		"both directions, not watched":              {both, unix.POLLHUP, 0, 0},
		"both directions, watched for nothing":      {both, unix.POLLHUP, Watched, HungUp},
		"both directions, watched for reading":      {both, unix.POLLHUP, Readable, Readable | HungUp},
		"something is left, watched for nothing":    {words, unix.POLLHUP, Watched, HungUp},
		"something is left, watched for reading":    {words, unix.POLLHUP, Readable, Readable | HungUp},
		"a reset, not watched":                      {reset, unix.POLLERR, 0, 0},
		"a reset, watched for nothing":              {reset, unix.POLLERR, Watched, Broken | HungUp},
		"a reset, watched for reading":              {reset, unix.POLLERR, Readable, Readable | Broken | HungUp},
		"a reset, watched for writing":              {reset, unix.POLLERR, Writable, Writable | Broken | HungUp},
		"a reset, watched for reading and watching": {reset, unix.POLLERR, Watched | Readable, Readable | Broken | HungUp},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPoller(t)
			client, server := pair(t)
			p.mustWatch(t, server, 1, 0, Watched) // before anything has happened
			test.end(client, server)
			await(t, server, test.what)
			p.mustWatch(t, server, 1, Watched, test.now)
			var want []PollEvent
			if test.want != 0 {
				want = []PollEvent{{1, test.want}}
			}
			for range 2 {
				if got := p.mustWait(t, 0); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			}
		})
	}
	t.Run("the error has been asked for", func(t *testing.T) {
		p := newPoller(t)
		client, server := pair(t)
		client.Reset()
		await(t, server, unix.POLLERR)
		if err := server.Failure(); !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%v, want %v", err, unix.ECONNRESET)
		}
		p.mustWatch(t, server, 1, 0, Watched)
		if got, want := p.mustWait(t, 0), []PollEvent{{1, HungUp}}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
	t.Run("it is closed", func(t *testing.T) {
		p := newPoller(t)
		s := spoken(t)
		other, err := unix.FcntlInt(uintptr(s), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.mustWatch(t, Socket(other), 1, 0, Readable)
		p.mustWatch(t, Socket(other), 1, Readable, 0) // or the kernel goes on, since there is another descriptor
		CloseFd(other)
		if got := p.mustWait(t, 0); len(got) > 0 {
			t.Errorf("%v", got)
		}
	})
}

// TestPollerTime waits for nothing: not for less than it is told, or a loop would turn until it is
// late enough.
func TestPollerTime(t *testing.T) {
	p := newPoller(t)
	for _, atMost := range []time.Duration{0, 1, time.Microsecond, time.Millisecond, time.Millisecond + 1, 2*time.Millisecond - 1, 2500 * time.Microsecond, 20 * time.Millisecond} {
		if took := p.idle(t, atMost); took < atMost || took > 5*time.Second {
			t.Errorf("at most %s: it took %s", atMost, took)
		}
	}
	s := spoken(t)
	p.mustWatch(t, s, 1, 0, Readable)
	for _, atMost := range []time.Duration{0, time.Hour, 1<<63 - 1, -1, -time.Hour, -1 << 63} {
		if ready := p.mustWait(t, atMost); !slices.Equal(ready, []PollEvent{{1, Readable}}) {
			t.Errorf("at most %s: %v", atMost, ready)
		}
	}
}

// TestPollerKeeps waits in two parts, of which the first keeps the place of the goroutine: together
// they take as long as they may, and what is ready ends both.
func TestPollerKeeps(t *testing.T) {
	const short, long = 3 * time.Millisecond, 12 * time.Millisecond
	spoken := spoken(t)
	for _, test := range []struct {
		name         string
		atMost, keep time.Duration
		takes        time.Duration
	}{
		{"no time", 0, long, 0},
		{"less than it may wait", long, short, long},
		{"as long as it may wait", long, long, long},
		{"longer than it may wait", short, time.Hour, short},
		{"a part of a millisecond less", long, long - 1, long},
		{"never", long, -1, long},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPoller(t)
			var took time.Duration
			for range interruptions {
				began := time.Now()
				if ready, err := p.Wait(test.atMost, test.keep); err != nil || len(ready) > 0 {
					t.Fatal(ready, err)
				}
				if took = time.Since(began); took >= test.takes {
					break
				}
			}
			if took < test.takes || took > 5*time.Second {
				t.Errorf("it took %s, want %s", took, test.takes)
			}
			p.mustWatch(t, spoken, 1, 0, Readable)
			for _, atMost := range []time.Duration{test.atMost, time.Hour, -1} {
				if ready, err := p.Wait(atMost, test.keep); err != nil || !slices.Equal(ready, []PollEvent{{1, Readable}}) {
					t.Errorf("at most %s: %v, %v", atMost, ready, err)
				}
			}
		})
	}
	t.Run("is woken", func(t *testing.T) {
		for _, keep := range []time.Duration{time.Millisecond, time.Hour} { // in the second part, and in the first
			p := newPoller(t)
			ended := make(chan error)
			go func() {
				time.Sleep(long)
				p.Wake()
			}()
			go func() {
				for began := time.Now(); time.Since(began) < long; {
					if _, err := p.Wait(-1, keep); err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("fails", func(t *testing.T) {
		p := &Poller{epoll: -1}
		if _, err := p.Wait(-1, time.Hour); !errors.Is(err, unix.EBADF) {
			t.Error(err)
		}
	})
}

// TestPollerPlace has one place for all goroutines: another gets it while a poller waits, but not
// while that keeps it.
func TestPollerPlace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPoller(t)
	ran := func(atMost, keep time.Duration) (before bool, took time.Duration) {
		time.Sleep(25 * time.Millisecond) // what takes places away sleeps now, and is awake at once when a call may wait
		runtime.Gosched()                 // the place is had anew, and not since before the sleep
		var ran atomic.Bool
		began := time.Now()
		go ran.Store(true)
		ready, err := p.Wait(atMost, keep)
		before = ran.Load() // at once: any call may give it away
		if err != nil || len(ready) > 0 {
			t.Error(ready, err)
		}
		return before, time.Since(began)
	}
	for kept, tries := 0, 0; kept < 5; tries++ {
		switch ran, took := ran(5*time.Millisecond, time.Hour); {
		case took < 8*time.Millisecond && ran:
			t.Fatal("it has been given away")
		case took < 8*time.Millisecond: // the scheduler takes it from whoever has it for ten
			kept++
		case tries == 200:
			t.Fatal("there is too much to do here for anything to be seen")
		}
	}
	for range interruptions {
		if ran, _ := ran(50*time.Millisecond, 0); ran {
			return
		}
	}
	t.Error("it has not been given away")
}

// TestPollerWake wakes a poller that waits without end, or will.
func TestPollerWake(t *testing.T) {
	const rest = 20 * time.Millisecond
	// rests checks that nothing is left of what woke the poller.
	rests := func(t *testing.T, p *Poller) {
		t.Helper()
		if took := p.idle(t, rest); took < rest {
			t.Errorf("it is awake still after %s", took)
		}
	}
	t.Run("while it waits", func(t *testing.T) {
		for _, atMost := range []time.Duration{-1, -time.Hour, time.Hour, 1<<63 - 1} {
			p := newPoller(t)
			var woken atomic.Bool
			begins, ended := make(chan struct{}), make(chan error)
			go func() {
				close(begins)
				ready, err := p.Wait(atMost, 0)
				for i := 0; i < interruptions && err == nil && !woken.Load(); i++ {
					ready, err = p.Wait(atMost, 0)
				}
				switch {
				case err != nil:
				case len(ready) > 0:
					err = errors.New("something is ready")
				case !woken.Load():
					err = errors.New("it has not waited")
				}
				ended <- err
			}()
			<-begins
			time.Sleep(rest) // it begins to wait meanwhile, most likely
			woken.Store(true)
			p.Wake()
			if err := <-ended; err != nil {
				t.Errorf("at most %s: %v", atMost, err)
			}
			rests(t, p)
		}
	})
	for name, test := range map[string]struct {
		counted uint64 // of wakes before, by the kernel
		times   int
	}{
		"before it waits":          {0, 1},
		"many times":               {0, 1000},
		"more than can be counted": {1<<64 - 2, 1}, // without waiting
	} {
		t.Run(name, func(t *testing.T) {
			p := newPoller(t)
			if _, err := unix.Write(p.event, binary.NativeEndian.AppendUint64(nil, test.counted)); err != nil {
				t.Fatal(err)
			}
			for range test.times {
				p.Wake()
			}
			if ready := p.mustWait(t, -1); len(ready) > 0 {
				t.Errorf("%v", ready)
			}
			rests(t, p)
		})
	}
	t.Run("while something is ready", func(t *testing.T) {
		p := newPoller(t)
		p.mustWatch(t, spoken(t), 1, 0, Readable)
		p.Wake()
		if got, want := p.mustWait(t, -1), []PollEvent{{1, Readable}}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestPollerMany has more sockets ready than are told of at once: none is forgotten, although those
// that are told of stay ready.
func TestPollerMany(t *testing.T) {
	p := newPoller(t)
	const many = 200
	for i := range many {
		both, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			CloseFd(both[0])
			CloseFd(both[1])
		})
		p.mustWatch(t, Socket(both[0]), uint64(i), 0, Readable|Writable)
	}
	got := map[uint64]bool{}
	for range 20 {
		ready := p.mustWait(t, 0)
		if len(ready) == 0 || len(ready) > len(p.events) {
			t.Fatalf("%d are ready", len(ready))
		}
		for _, e := range ready {
			if e.Token >= many || e.For != Writable {
				t.Errorf("%v", e)
			}
			got[e.Token] = true
		}
	}
	if len(got) != many {
		t.Errorf("%d were told of, want %d", len(got), many)
	}
}

// TestPollerSignal interrupts a poller by a signal, as the scheduler of Go does.
func TestPollerSignal(t *testing.T) {
	p := newPoller(t)
	thread, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		ready, err := p.Wait(-1, 0) // which nobody wakes
		if len(ready) > 0 {
			err = errors.New("something is ready")
		}
		ended <- err
	}()
	tid := <-thread
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for range 10_000 {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		case <-again.C:
			if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Error("it goes on waiting")
}

// TestPollerFails makes pollers without descriptors, of which nothing is left, and uses one that
// there is no more.
func TestPollerFails(t *testing.T) {
	for free := range 2 { // it needs two
		before := open(t)
		var err error
		withDescriptors(t, free, func() { _, err = NewPoller() })
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("with %d: %v, want %v", free, err, unix.EMFILE)
		}
		if after := open(t); after != before {
			t.Errorf("with %d: %d descriptors, before there were %d", free, after, before)
		}
	}
	before := open(t)
	p, err := NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := p.Wait(0, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("%v, want %v", err, unix.EBADF)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, before there were %d", after, before)
	}
}
