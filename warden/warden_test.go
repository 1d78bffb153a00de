//go:build linux

package warden_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// A box is a workspace and a policy for it, with a shell and the tools of the host.
type box struct {
	workspace string
	plan      *plan.Plan
}

// newBox resolves a policy of lines such as "write tree workspace:." beside the runtime.
func newBox(t *testing.T, workspace string, lines ...string) box {
	t.Helper()
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for _, line := range append([]string{"read tree minimal-runtime:"}, lines...) {
		f := strings.Fields(line)
		root, text, _ := strings.Cut(f[2], ":")
		of := map[string]mir.Root{"minimal-runtime": mir.RootRuntime, "workspace": mir.RootWorkspace, "temp": mir.RootTemp, "host": mir.RootHost}[root]
		path, err := mir.NewPath(of, text)
		if err != nil {
			t.Fatal(err)
		}
		spec.Rules = append(spec.Rules, mir.Rule{
			Access: map[string]mir.Access{"read": mir.Read, "write": mir.Write, "deny": mir.Deny}[f[0]], Path: path,
			Scope: map[string]mir.Scope{"exact": mir.Exact, "tree": mir.Tree}[f[1]], Missing: mir.MissingError,
		})
	}
	policy, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := plan.Host{Filesystem: host.Filesystem(), Workspace: workspace, Executable: "/bin/sh", RuntimeRoots: []string{"/usr"}, Hardware: host.Hardware}
	p, err := plan.Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	return box{workspace, p}
}

// run has a shell run a script in the workspace.
func (b box) run(ctx context.Context, t *testing.T, script string) (status int, said string, err error) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var text bytes.Buffer
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(&text, out)
		copied <- err
	}()
	receipt, err := warden.Run(ctx, b.plan, warden.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: b.workspace, Stdout: in, Stderr: in,
	})
	in.Close()
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	if receipt != nil {
		status = receipt.Status
	}
	return status, text.String(), err
}

// must is run for scripts that have to be run.
func (b box) must(t *testing.T, script string) (status int, said string) {
	t.Helper()
	status, said, err := b.run(t.Context(), t, script)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return status, said
}

// project makes a workspace of lines "NAME" for directories and "NAME=CONTENT" for files.
func project(t *testing.T, lines ...string) string {
	t.Helper()
	dir := corpus.Scratch(t)
	for _, line := range lines {
		name, content, file := strings.Cut(line, "=")
		var err error
		if file {
			err = os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
		} else {
			err = os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestStatus(t *testing.T) {
	available(t)
	b := newBox(t, project(t), "write tree workspace:")
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143, "exit 255": 255} {
		if status, said := b.must(t, script); status != want {
			t.Errorf("%s: status %d, want %d\n%s", script, status, want, said)
		}
	}
	if _, said := b.must(t, `echo "$0 $PATH $HOME"; pwd; cat`); said != fmt.Sprintf("sh /usr/bin:/bin \n%s\n", b.workspace) {
		t.Errorf("it said %q", said)
	}
}

// TestDenyHolds has a command try everything to get at a denied file in a directory that
// it may write, and to have it lie somewhere else when it runs again.
func TestDenyHolds(t *testing.T) {
	available(t)
	const script = `
cat a/b/secret; echo x >a/b/secret; rm -f a/b/secret; rm -rf a/b/closed; ls a/b/closed; touch a/b/closed/new; chmod 777 a/b/secret a/b/closed
mv a/b/secret out; mv a/b/closed out; mv a/b moved; mv a moved; mv other a/b/secret; ln a/b/secret hard; cp a/b/secret copy
rm -rf a; rmdir a/b; mkdir t && mv -T t a/b; ln -sf /etc/hostname a/b/secret; mv -T --exchange a other
cat out/secret out hard copy moved/secret moved/b/secret a/b/secret /proc/1/root$PWD/a/b/secret /proc/self/root$PWD/a/b/secret
`
	dir := project(t, "a/b/closed", "a/b/secret=hidden", "a/b/closed/key=hidden", "other")
	b := newBox(t, dir, "write tree workspace:", "deny exact workspace:a/b/secret", "deny tree workspace:a/b/closed")
	for run := range 2 {
		if _, said := b.must(t, script); strings.Contains(said, "hidden") {
			t.Fatalf("run %d: %s", run, said)
		}
		for name, want := range map[string]string{"a/b/secret": "hidden", "a/b/closed/key": "hidden"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Fatalf("after run %d %s holds %q (%v)", run, name, got, err)
			}
		}
		b = newBox(t, dir, "write tree workspace:", "deny exact workspace:a/b/secret", "deny tree workspace:a/b/closed")
	}
	// The control: without the denies all of that works.
	free := newBox(t, dir, "write tree workspace:")
	if _, said := free.must(t, script); !strings.Contains(said, "hidden") {
		t.Errorf("the script shows nothing without the denies either: %s", said)
	}
	if _, err := os.Stat(filepath.Join(dir, "a/b/secret")); err == nil {
		t.Error("the script moves nothing without the denies either")
	}
}

// TestReadOnlyHolds tries to change what may only be read, also what its owner may do
// without writing to it.
func TestReadOnlyHolds(t *testing.T) {
	available(t)
	dir := project(t, "src", "src/f=content", "build")
	b := newBox(t, dir, "read tree workspace:", "write tree workspace:build")
	_, said := b.must(t, `echo x >src/f; chmod 700 src/f; touch -d 2001-01-01 src/f; mv src/f build/; rm -f src/f; ln src/f build/hard
ln -s ../src/f build/soft; echo x >build/soft; echo y >src/new; mkdir src/d; echo x >/proc/self/fd/9 9<src/f; cp src/f build/copy; cat build/copy`)
	if !strings.HasSuffix(said, "content") {
		t.Errorf("it said %s", said)
	}
	info, err := os.Stat(filepath.Join(dir, "src/f"))
	if err != nil || info.Mode().Perm() != 0o600 || info.ModTime().Year() == 2001 {
		t.Errorf("%v, %v", info, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "src"))
	if err != nil || len(entries) != 1 {
		t.Errorf("src holds %v (%v)", entries, err)
	}
}

// TestEveryWayToWrite changes a writable tree in all ways that there are.
func TestEveryWayToWrite(t *testing.T) {
	available(t)
	dir := project(t, "a", "b", "a/f=content")
	b := newBox(t, dir, "write tree workspace:", "write tree temp:")
	_, said := b.must(t, `set -e
echo x >a/new; echo y >>a/new; mkdir a/d; mv a/new b/moved; mv a/d b/d; ln b/moved a/hard; ln -s f a/soft; mkfifo a/pipe; truncate -s 100 b/moved
chmod 700 a/f; touch -d 2001-01-01 a/f; cp -p a/f b/copy; mv a/f /tmp/f; mv /tmp/f a/f; dd if=/dev/zero of=a/f bs=1 seek=3 count=2 conv=notrunc 2>/dev/null
rm a/soft a/pipe; rmdir b/d; mv -T b c; mv -T c b; echo done`)
	if said != "done\n" {
		t.Errorf("it said %s", said)
	}
	if text, err := os.ReadFile(dir + "/a/f"); err != nil || string(text) != "con\x00\x00nt" {
		t.Errorf("a/f holds %q (%v)", text, err)
	}
}

// TestDeniedSocket has a command connect to a socket in a tree that it may write.
func TestDeniedSocket(t *testing.T) {
	available(t)
	dir := project(t, "run")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	name := dir + "/run/s"
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: name}), syscall.Listen(fd, 5)); err != nil {
		t.Fatal(err)
	}
	program := corpus.CopyOfTests(t, "attack")
	for _, tt := range []struct {
		rule, want string
	}{
		{"read exact host:" + program, "connect got"}, // the control
		{"deny exact workspace:run/s", "connect refused"},
		{"deny tree workspace:run", "connect refused"},
	} {
		b := newBox(t, dir, "write tree workspace:", "read exact host:"+program, tt.rule)
		_, said := b.must(t, fmt.Sprintf("%s send %d %d %s 2>&1", program, syscall.AF_UNIX, syscall.SOCK_STREAM, name))
		if !strings.HasPrefix(said, tt.want) {
			t.Errorf("%s: it said %q, want %q", tt.rule, said, tt.want)
		}
	}
}

// TestNothingOutside tries to reach a file that is not granted by every way around.
func TestNothingOutside(t *testing.T) {
	available(t)
	outside := project(t, "secret=hidden") + "/secret"
	dir := project(t)
	if err := os.Symlink(outside, dir+"/soft"); err != nil {
		t.Fatal(err)
	}
	b := newBox(t, dir, "write tree workspace:", "write tree temp:")
	script := fmt.Sprintf(`S=%s
for f in $S /..$S /../..$S ./../../..$S soft /proc/1/root$S /proc/self/root$S /proc/self/root/..$S /proc/1/cwd$S /proc/$$/cwd/../../..$S /proc/thread-self/root$S
do cat "$f"; echo x >"$f"; done
ln -s /proc/1/root up; cat up$S; cd ..; cat $S; cd /; cat .$S ..$S; mkdir /tmp/new; mount --bind / /tmp/new; cat /tmp/new$S; chroot / cat $S; ls -R /proc/1/task/ /proc/1/fd`, outside)
	if _, said := b.must(t, script); strings.Contains(said, "hidden") {
		t.Errorf("it said\n%s", said)
	}
	if content, err := os.ReadFile(outside); err != nil || string(content) != "hidden" {
		t.Errorf("outside there is %q now (%v)", content, err)
	}
	// The control: granted, the first of them works.
	free := newBox(t, dir, "write tree workspace:", "write tree temp:", "read exact host:"+outside)
	if _, said := free.must(t, script); !strings.Contains(said, "hidden") {
		t.Errorf("the script shows nothing that is granted either: %s", said)
	}
}

// TestNoKernelFiles tries, as root where the tests run as root, to change the kernel by
// its files.
func TestNoKernelFiles(t *testing.T) {
	available(t)
	b := newBox(t, project(t), "write tree workspace:")
	_, said := b.must(t, `for f in /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/self/oom_score_adj /proc/self/comm /proc/1/oom_score_adj
do (: >>$f) 2>/dev/null && echo "open $f"; done; chmod 777 /proc /proc/sys && echo changed; ls /sys /boot /etc/shadow`)
	if strings.Contains(said, "open /") || strings.Contains(said, "changed") {
		t.Errorf("it said\n%s", said)
	}
}

// TestNoRights looks at what the command is.
func TestNoRights(t *testing.T) {
	available(t)
	t.Setenv("SECRET_OF_THE_CALLER", "leaked")
	open, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	b := newBox(t, project(t), "write tree workspace:")
	_, said := b.must(t, `grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status; ls /proc/self/fd | wc -l; env | grep -c leaked
ls -d /proc/[0-9]* | wc -l; cat /proc/net/dev | wc -l; mount -t tmpfs none /tmp; unshare -r true; echo x >/proc/sys/kernel/hostname; kill -0 1 && echo alive; cat /proc/1/environ`)
	for _, capability := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(said, capability+":\t0000000000000000\n") {
			t.Errorf("%s is not empty", capability)
		}
	}
	lines := strings.Split(said, "\n")
	number := func(i int) int {
		n, _ := strconv.Atoi(strings.TrimSpace(lines[i]))
		return n
	}
	first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Seccomp") }) + 1
	if !strings.Contains(said, "NoNewPrivs:\t1") || number(first) > 4 || number(first+1) != 0 || number(first+2) > 8 || number(first+3) > 3 || strings.Contains(said, "leaked") {
		t.Errorf("it said\n%s", said)
	}
	if host.Read().Landlock >= 6 && strings.Contains(said, "alive") {
		t.Error("the command can send signals to its init")
	}
	if hostname, err := os.ReadFile("/proc/sys/kernel/hostname"); err != nil || string(hostname) == "x\n" {
		t.Errorf("the name of the host is %q now", hostname)
	}
}

// TestNothingIsLeft kills a launch with processes that want to stay.
func TestNothingIsLeft(t *testing.T) {
	available(t)
	dir := project(t)
	b := newBox(t, dir, "write tree workspace:")
	if _, said := b.must(t, `(trap '' TERM HUP; while :; do sleep 0.01; date +%N >alive; done) & echo started`); said != "started\n" {
		t.Fatalf("it said %q", said)
	}
	stays(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err := b.run(ctx, t, `(trap '' TERM; while :; do sleep 0.01; date +%N >alive; done) & wait`)
	var failed *warden.LaunchError
	if !errors.As(err, &failed) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	stays(t, dir)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(dir)) {
		t.Errorf("a mount is left (%v)", err)
	}
}

// stays fails the test when something still writes to the workspace.
func stays(t *testing.T, dir string) {
	t.Helper()
	before, _ := os.ReadFile(filepath.Join(dir, "alive"))
	time.Sleep(100 * time.Millisecond)
	after, _ := os.ReadFile(filepath.Join(dir, "alive"))
	if !bytes.Equal(before, after) {
		t.Error("a process has outlived the command")
	}
}

// TestSignals sends a command a signal.
func TestSignals(t *testing.T) {
	available(t)
	dir := project(t)
	b := newBox(t, dir, "write tree workspace:")
	for signal, want := range map[os.Signal]int{syscall.SIGTERM: 3, syscall.SIGUSR1: 4, syscall.SIGHUP: 129} {
		signals := make(chan os.Signal)
		go func() {
			for {
				if _, err := os.Stat(dir + "/ready"); err == nil {
					signals <- signal
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		receipt, err := warden.Run(t.Context(), b.plan, warden.Command{
			Path: "/bin/sh", Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, Stderr: os.Stderr, Signals: signals,
			Args: []string{"sh", "-c", "trap 'exit 3' TERM; trap 'exit 4' USR1; : >ready; while :; do sleep 0.01; done"},
		})
		if err != nil || receipt.Status != want {
			t.Errorf("%v: %+v, %v; want status %d", signal, receipt, err, want)
		}
		if err := os.Remove(dir + "/ready"); err != nil {
			t.Fatal(err)
		}
	}
}

// talk listens and connects to itself, and to a port of the host's loopback.
func talk(port string) int {
	listener, err := listen()
	if err != nil {
		return 101
	}
	if dial(listener.port) != nil {
		return 102
	}
	of, err := strconv.Atoi(port)
	if err != nil {
		return 103
	}
	if dial(of) == nil {
		return 104
	}
	return 0
}

// A socket that listens on loopback. The package net is not used: it may be linked to
// the C library, which the sandbox does not have.
type socket struct{ fd, port int }

func listen() (socket, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return socket{}, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return socket{}, err
	}
	if err := syscall.Listen(fd, 1); err != nil {
		return socket{}, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return socket{}, err
	}
	return socket{fd, name.(*syscall.SockaddrInet4).Port}, nil
}

func dial(port int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Connect(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
}

// TestNoNetwork has a command talk to itself and to a server on the host's loopback.
func TestNoNetwork(t *testing.T) {
	available(t)
	server, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(server.fd)
	if err := dial(server.port); err != nil { // the control
		t.Fatal(err)
	}
	program := corpus.CopyOfTests(t, "talk")
	b := newBox(t, project(t), "write tree workspace:", "read exact host:"+program)
	receipt, err := warden.Run(t.Context(), b.plan, warden.Command{Path: program, Args: []string{"talk", strconv.Itoa(server.port)}, Dir: "/", Stderr: os.Stderr})
	if err != nil || receipt.Status != 0 {
		t.Errorf("%+v, %v", receipt, err)
	}
}

func TestRefusals(t *testing.T) {
	available(t)
	dir := project(t, "d")
	b := newBox(t, dir, "write exact workspace:d", "write tree temp:")
	var refused *warden.RefusedError
	if _, _, err := b.run(t.Context(), t, "exit 0"); !errors.As(err, &refused) || len(refused.Unmet) != 1 || refused.Unmet[0].Capability != plan.FSExactDirectory {
		t.Errorf("a directory apart from its entries: %v", err)
	}
	b = newBox(t, dir, "write tree workspace:d")
	if err := errors.Join(os.Mkdir(dir+"/other", 0o755), os.Remove(dir+"/d"), os.Rename(dir+"/other", dir+"/d")); err != nil {
		t.Fatal(err)
	}
	var failed *warden.LaunchError
	if _, _, err := b.run(t.Context(), t, "exit 0"); !errors.As(err, &failed) || !errors.Is(err, syscall.ESTALE) || failed.Path != dir+"/d" {
		t.Errorf("a directory that was replaced: %v", err)
	}
	if err := os.Symlink("d", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	b = newBox(t, dir, "write tree workspace:link")
	if err := errors.Join(os.Remove(dir+"/link"), os.Mkdir(dir+"/link", 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.run(t.Context(), t, "exit 0"); !errors.As(err, &refused) || len(refused.Changed) != 1 {
		t.Errorf("a link that was replaced: %v", err)
	}
	b = newBox(t, dir, "write tree workspace:")
	_, err := warden.Run(t.Context(), b.plan, warden.Command{Path: "/no/such/program", Args: []string{"x"}, Dir: "/"})
	if !errors.As(err, &failed) || failed.Step != "starting the command" {
		t.Errorf("a program that is not there: %v", err)
	}
}
