//go:build linux && (amd64 || arm64)

package linux

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// newProgram returns a program without calls, which is let go of in the end if it was not
// started.
func newProgram(t *testing.T) *Program {
	t.Helper()
	p, err := NewProgram()
	if err != nil {
		t.Fatal(err)
	}
	p.Step("trying")
	return p
}

// TestTooMuch fills a program: it says so, and nothing is started.
func TestTooMuch(t *testing.T) {
	for name, fill := range map[string]func(*Program){
		"calls": func(p *Program) {
			for range len(p.memory.call) + 1 {
				p.Restrict(Ruleset{})
			}
		},
		"values": func(p *Program) {
			p.values = len(p.memory.value)
			p.NoMask()
		},
		"bytes": func(p *Program) {
			p.Chdir(strings.Repeat("x", len(p.bytes)/2))
			p.Chdir(strings.Repeat("x", len(p.bytes)/2))
		},
		"one string":  func(p *Program) { p.Chdir(strings.Repeat("x", len(p.bytes))) },
		"and goes on": func(p *Program) { p.Chdir(strings.Repeat("x", len(p.bytes))); p.Chdir("/") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			defer p.Discard()
			fill(p)
			if err := p.Go(); !errors.Is(err, errTooMuch) {
				t.Errorf("%v, want %v", err, errTooMuch)
			}
		})
	}
	p := newProgram(t) // the control
	p.Chdir(strings.Repeat("x", len(p.bytes)/2))
	if p.failed != nil {
		t.Error(p.failed)
	}
	p.Discard()
}

// ended starts a program and returns how it ended.
func ended(t *testing.T, p *Program) Event {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := errors.Join(p.Start(0, nil), p.Go()); err != nil {
		t.Fatal(err)
	}
	event, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, failed := event.(Failed); failed {
		p.Kill() // an init, if there is one, has more to say
	}
	for err == nil {
		_, err = p.Next()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	return event
}

// TestFailures has single calls fail.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		add  func(*Program)
		want Failed
	}{
		"a path":        {func(p *Program) { p.About("/none"); p.Chdir("/none") }, Failed{"trying", "/none", "chdir", unix.ENOENT}},
		"the next step": {func(p *Program) { p.Chdir("/"); p.Step("more"); p.Chdir("/none") }, Failed{"more", "", "chdir", unix.ENOENT}},
		"another file": {
			func(p *Program) {
				fd := p.value(unix.SYS_OPENAT, here(), p.string("/"), number(unix.O_PATH), zero())
				p.Match(fd, Identity{1, 2, unix.S_IFDIR})
			}, Failed{"trying", "", "comparing it with what was resolved", unix.ESTALE},
		},
		"in the command": {func(p *Program) { p.StayBehind(); p.Exec("/none", []string{"none"}, nil) }, Failed{"trying", "", "execve", unix.ENOENT}},
		"no command":     {func(p *Program) { p.StayBehind(); p.Chdir("/") }, Failed{"trying", "", "chdir", unix.ENOEXEC}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			tt.add(p)
			if got := ended(t, p); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestFiles hands over descriptors whose numbers get in each other's way.
func TestFiles(t *testing.T) {
	a, b, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	p := newProgram(t)
	// The reading end in place of the writing one and the other way round, and /dev/null.
	p.Files([]File{{int(b.Fd()), int(a.Fd())}, {int(a.Fd()), int(b.Fd())}, {-1, 0}, {-1, 1}, {int(os.Stderr.Fd()), 2}})
	p.StayBehind()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	const script = `echo through >&$1; read x <&$2; [ "$x" = through ] && ! read x || exit 8
n=0; while [ $n -lt 100 ]; do [ ! -e /proc/$$/fd/$n ] || open="$open $n"; n=$((n+1)); done; [ "$open" = " 0 1 2 $1 $2" ] || exit 9`
	p.Exec(sh, []string{"sh", "-c", script, "sh", strconv.Itoa(int(a.Fd())), strconv.Itoa(int(b.Fd()))}, []string{"PATH=/usr/bin:/bin"})
	if got, ok := ended(t, p).(Ended); !ok || got.Status != 0 {
		t.Errorf("%+v", got)
	}
}

// TestReset looks at the limit and the signals that a command gets.
func TestReset(t *testing.T) {
	p := newProgram(t)
	p.StayBehind()
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "ulimit -n").Output() // os/exec gives it back
	if err != nil {
		t.Fatal(err)
	}
	p.Exec("/bin/sh", []string{"sh", "-c", "[ $(ulimit -n) = " + strings.TrimSpace(string(out)) + " ] && grep -q 'SigBlk:.0000000000000000' /proc/self/status"}, []string{"PATH=/usr/bin:/bin"})
	if got, ok := ended(t, p).(Ended); !ok || got.Status != 0 {
		t.Errorf("%+v; the limit here is %d, of another program %s", got, now.Cur, out)
	}
}

// TestRelay sends this process signals for the command, which counts them.
func TestRelay(t *testing.T) {
	signal.Ignore(syscall.SIGUSR2)
	t.Cleanup(func() { signal.Reset(syscall.SIGUSR2) })
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := newProgram(t)
	p.Files([]File{{-1, 0}, {int(in.Fd()), 1}, {int(os.Stderr.Fd()), 2}})
	p.StayBehind()
	p.Exec("/bin/sh", []string{"sh", "-c", "trap 'echo USR1' USR1; trap 'echo USR2' USR2; trap 'exit 7' TERM; trap 'exit 9' TTIN; echo ready; while :; do sleep 0.01; done"},
		[]string{"PATH=/usr/bin:/bin"})
	if err := p.Start(0, nil); err != nil {
		t.Fatal(err)
	}
	stop, err := p.Relay([]syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGTTIN})
	if err != nil {
		t.Fatal(err)
	}
	other := newProgram(t)
	defer other.Discard()
	if _, err := other.Relay([]syscall.Signal{syscall.SIGHUP}); !errors.Is(err, errRelayed) {
		t.Errorf("two commands at a time: %v, want %v", err, errRelayed)
	}
	if err := p.Go(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	lines := bufio.NewScanner(out)
	for _, step := range []struct {
		line string
		then syscall.Signal
	}{{"ready", syscall.SIGUSR2}, {"", syscall.SIGTTIN}, {"", syscall.SIGUSR1}, {"USR1", syscall.SIGUSR1}, {"USR1", syscall.SIGTERM}} {
		if step.line != "" && (!lines.Scan() || lines.Text() != step.line) {
			t.Errorf("%q, want %q", lines.Text(), step.line)
		}
		if err := syscall.Kill(os.Getpid(), step.then); err != nil {
			t.Fatal(err)
		}
	}
	event, err := p.Next()
	if ended, ok := event.(Ended); !ok || ended.Status.ExitStatus() != 7 {
		t.Errorf("%+v, %v", event, err)
	}
	stop()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	// Afterwards they are the runtime's again.
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1)
	defer signal.Stop(got)
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	<-got
}
