//go:build linux && (amd64 || arm64)

package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

const everything = `{"formatVersion": 2, "filesystem": {"default": "deny", "rules": [
	{"access": "read", "path": {"special": "minimal-runtime"}}, {"access": "write", "path": {"root": "workspace"}},
	{"access": "read", "path": {"absolute": "/usr"}}, {"access": "read", "path": {"absolute": "/bin"}}, {"access": "read", "path": {"absolute": "/lib"}}]},
	"network": {"mode": "none"}, "process": {"treeConfinement": "required"}}`

// A terminal is a person at a shell that knows "run", which runs a command confined.
type terminal struct {
	t    *testing.T
	file *os.File
	said chan []byte
	all  bytes.Buffer
	dir  string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	if ok, err := condition("able"); err != nil || !ok {
		unavailable(t, "this host cannot enforce anything")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		unavailable(t, "there is no bash")
	}
	maelys, err := exec.LookPath("maelys")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "/var/tmp")
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.json")
	workspace := filepath.Join(dir, "workspace")
	rc := "run() { '" + maelys + "' run -p '" + policy + "' -w '" + workspace + "' -- \"$@\"; }\nPS1='OUT> '\n"
	for name, text := range map[string]string{policy: everything, filepath.Join(dir, "rc"): rc} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), bash, "--rcfile", filepath.Join(dir, "rc"), "--noprofile", "-i")
	shell.Dir = workspace
	file, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 31, Cols: 97})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, file: file, said: make(chan []byte, 64), dir: workspace}
	go func() {
		defer close(term.said)
		for {
			b := make([]byte, 4096)
			n, err := file.Read(b)
			if err != nil {
				return
			}
			term.said <- b[:n]
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = shell.Wait() // it was killed
		file.Close()
	})
	term.expect("OUT> ")
	return term
}

func unavailable(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatal("MAELYS_REQUIRE_ALL=1 and " + reason)
	}
	t.Skip(reason)
}

// send types a text.
func (term *terminal) send(text string) {
	term.t.Helper()
	if _, err := term.file.WriteString(text); err != nil {
		term.t.Fatal(err)
	}
}

// expect waits until a text has come since the last one, and returns what came before it.
func (term *terminal) expect(text string) string {
	term.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		if before, after, ok := strings.Cut(term.all.String(), text); ok {
			term.all.Reset()
			term.all.WriteString(after)
			return before
		}
		select {
		case b := <-term.said:
			term.all.Write(b)
		case <-deadline:
			term.t.Fatalf("expected %q, found %q", text, &term.all)
		}
	}
}

// sleeping runs a command that waits, and returns once it does.
func (term *terminal) sleeping() {
	term.t.Helper()
	term.send("run sh -c 'echo sta''rted; exec sleep 100'\n")
	term.expect("started")
}

func (term *terminal) status(want string) {
	term.t.Helper()
	term.expect("OUT> ")
	term.send("echo \"=$?=\"\n")
	term.expect("=" + want + "=")
	term.expect("OUT> ")
}

// TestTerminal has a person use a shell with confined commands in it as with others.
func TestTerminal(t *testing.T) {
	t.Run("interrupt and quit", func(t *testing.T) {
		term := newTerminal(t)
		term.sleeping()
		term.send("\x03")
		term.status("130")
		term.sleeping()
		term.send("\x1c")
		term.status("131")
		term.send("run sh -c 'trap \"echo cau\"\"ght; exit 9\" INT; echo sta''rted; while :; do sleep 0.05; done'\n")
		term.expect("started")
		term.send("\x03")
		term.expect("caught")
		term.status("9")
	})
	t.Run("stop and go on", func(t *testing.T) {
		term := newTerminal(t)
		for range 3 {
			term.sleeping()
			term.send("\x1a")
			term.expect("Stopped")
			term.expect("OUT> ")
			term.send("fg\n")
			time.Sleep(50 * time.Millisecond) // a stop that comes late would come now
			term.send("\x1a")
			term.expect("Stopped")
			term.expect("OUT> ")
			term.send("bg; kill %1; wait %1\n") // a job of a shell is a group
			term.expect("Exit 143")
			term.expect("OUT> ")
		}
	})
	t.Run("the background must not read", func(t *testing.T) {
		term := newTerminal(t)
		term.send("run sh -c 'read x; echo \"go\"\"t $x\"; read x; echo \"go\"\"t $x\"' &\n")
		term.expect("OUT> ")
		time.Sleep(200 * time.Millisecond)
		term.send("jobs\n")
		term.expect("Stopped")
		term.expect("OUT> ")
		term.send("fg\n")
		term.send("this\n")
		term.expect("got this")
		term.send("that\n")
		term.expect("got that")
		term.expect("OUT> ")
	})
	t.Run("a shell inside", func(t *testing.T) {
		term := newTerminal(t)
		term.send("run bash --norc --noprofile -i\n")
		term.expect("# ")
		term.send("PS1='I''N> '\n")
		term.expect("IN> ")
		term.send("stty size; test -w /dev/tty && echo wri''table; [ -t 0 ] && [ -t 2 ] && echo termi''nal\n")
		term.expect("31 97")
		term.expect("writable")
		term.expect("terminal")
		term.send("sleep 100\n")
		time.Sleep(100 * time.Millisecond)
		term.send("\x1a")
		term.expect("Stopped")
		term.send("fg\n")
		time.Sleep(100 * time.Millisecond)
		term.send("\x03")
		term.expect("IN> ")
		term.send("suspend\n")
		term.expect("OUT> ")
		term.send("fg\n")
		term.expect("IN> ")
		if err := pty.Setsize(term.file, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
			t.Fatal(err)
		}
		term.send("stty size\n")
		term.expect("40 120")
		term.send("exit 5\n")
		term.status("5")
	})
	t.Run("a pager", func(t *testing.T) {
		term := newTerminal(t)
		term.send("run seq 1000 | less\n")
		term.expect("30\r\n")
		term.send("q")
		term.status("0")
		term.send("seq 1000 | run less\n")
		term.expect("30\r\n")
		term.send("q")
		term.status("0")
	})
}

// TestForwarded sends signals to the launcher alone, as a supervisor does.
func TestForwarded(t *testing.T) {
	if ok, err := condition("able"); err != nil || !ok {
		unavailable(t, "this host cannot enforce anything")
	}
	t.Setenv("TMPDIR", "/var/tmp")
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.json")
	if err := os.WriteFile(policy, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `n=0; for s in INT TERM HUP QUIT USR1 USR2 ALRM WINCH; do trap "echo $s" $s; done; echo ready; while :; do sleep 0.01; done`
	cmd := exec.CommandContext(t.Context(), "maelys", "run", "-p", policy, "-w", dir, "--", "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		var text strings.Builder
		for b := make([]byte, 1); ; {
			if _, err := out.Read(b); err != nil {
				return
			}
			if b[0] == '\n' {
				lines <- text.String()
				text.Reset()
				continue
			}
			text.WriteByte(b[0])
		}
	}()
	next := func() string {
		select {
		case line := <-lines:
			return line
		case <-time.After(time.Second):
			return "nothing"
		}
	}
	if line := next(); line != "ready" {
		t.Fatalf("expected it to be ready, found %q", line)
	}
	for _, s := range []struct {
		name   string
		signal syscall.Signal
	}{
		{"INT", syscall.SIGINT},
		{"TERM", syscall.SIGTERM},
		{"HUP", syscall.SIGHUP},
		{"QUIT", syscall.SIGQUIT},
		{"USR1", syscall.SIGUSR1},
		{"USR2", syscall.SIGUSR2},
		{"ALRM", syscall.SIGALRM},
		{"WINCH", syscall.SIGWINCH},
	} {
		for what, pid := range map[string]int{"the launcher": cmd.Process.Pid, "its process group": -cmd.Process.Pid} {
			time.Sleep(50 * time.Millisecond) // or it could be one that came before
			if err := syscall.Kill(pid, s.signal); err != nil {
				t.Fatal(err)
			}
			if line := next(); line != s.name {
				t.Errorf("%s sent to %s: the command says %q", s.name, what, line)
			}
		}
	}
	select {
	case line := <-lines:
		t.Errorf("a signal came twice: %q", line)
	case <-time.After(100 * time.Millisecond):
	}
	if err := syscall.Kill(cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for range lines {
		continue // ends when everything that could write is gone
	}
}
