//go:build linux && (amd64 || arm64)

package warden_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// launcher runs a command in a workspace, after it has done to itself what args say, and
// prints how that went. It is a program of its own, so that it can be killed and limited.
func launcher(args []string) int {
	workspace, script := args[0], args[1]
	destinations := 0
	for _, what := range args[2:] {
		kind, value, _ := strings.Cut(what, "=")
		n, _ := strconv.Atoi(value)
		var err error
		switch kind {
		case "files":
			err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(n), Max: uint64(n)})
		case "namespaces": // in a user namespace the limit is that namespace's own
			err = os.WriteFile("/proc/sys/user/max_"+value+"_namespaces", []byte("0"), 0)
		case "destinations":
			destinations = n
		case "fail":
			err = failCalls(value)
		}
		if err != nil {
			fmt.Println("launcher:", err)
			return 1
		}
	}
	p, err := launcherPlan(workspace, destinations)
	if err != nil {
		fmt.Println("launcher:", err)
		return 1
	}
	receipt, err := warden.Run(context.Background(), p, warden.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: workspace, Stdout: os.Stdout,
	})
	refused, wasRefused := errors.AsType[*warden.RefusedError](err)
	failed, hasFailed := errors.AsType[*warden.LaunchError](err)
	switch {
	case wasRefused:
		fmt.Printf("refused: %v\n", refused)
	case hasFailed:
		fmt.Printf("failed: %s: %s: %v\n", failed.Step, failed.Call, failed.Err)
	default:
		fmt.Printf("%s: %d\n", receipt.Outcome, receipt.Status)
	}
	return 0
}

func launcherPlan(workspace string, destinations int) (*plan.Plan, error) {
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for i := range destinations {
		name, err := mir.NewHostname(fmt.Sprintf("h%d.example.com", i))
		if err != nil {
			return nil, err
		}
		spec.Mode, spec.Destinations = mir.ModeMediated, append(spec.Destinations, mir.Destination{Host: name, Port: 443})
	}
	for _, r := range []struct {
		access mir.Access
		root   mir.Root
		path   string
	}{{mir.Read, mir.RootRuntime, ""}, {mir.Write, mir.RootWorkspace, ""}, {mir.Write, mir.RootTemp, ""}, {mir.Deny, mir.RootWorkspace, "secret"}} {
		path, err := mir.NewPath(r.root, r.path)
		if err != nil {
			return nil, err
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: r.access, Path: path, Scope: mir.Tree, Missing: mir.MissingError})
	}
	policy, err := mir.Build(spec)
	if err != nil {
		return nil, err
	}
	return plan.Resolve(policy, plan.Host{
		Filesystem: host.Filesystem(), Workspace: workspace, Executable: "/bin/sh", RuntimeRoots: []string{"/usr"}, Hardware: host.Hardware,
	})
}

// A world is what must be the same before and after: processes of a name, with the
// namespaces that they hold, mounts, and files.
type world struct {
	processes, mounts string
	files             []string
}

func look(t *testing.T, dir, mark string) world {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	w := world{mounts: string(mounts)}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		w.files = append(w.files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range all {
		line, err := os.ReadFile(process + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(mark)) {
			w.processes += string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})) + "\n"
		}
	}
	return w
}

// same fails the test when anything is left.
func (w world) same(t *testing.T, dir, mark, when string) {
	t.Helper()
	var now world
	for range 100 { // what is killed is gone soon, and not at once
		if now = look(t, dir, mark); now.processes == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if now.processes != "" {
		t.Fatalf("%s: left running: %s", when, now.processes)
	}
	if now.mounts != w.mounts {
		t.Fatalf("%s: the mounts have changed:\n%s\nbefore\n%s", when, now.mounts, w.mounts)
	}
	if !slices.Equal(now.files, w.files) {
		t.Fatalf("%s: the files are\n%q\nbefore\n%q", when, now.files, w.files)
	}
}

// TestKilledLauncher kills 200 launchers at random moments of a launch.
func TestKilledLauncher(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "launcher")
	dir := project(t, "secret=hidden", "kept=content")
	mark := fmt.Sprintf("mark-%d", rand.Uint64())
	before := look(t, dir, mark)
	// It leaves its parent, its session and its descriptors behind, and would go on for long.
	script := "(setsid sh -c ': " + mark + "; exec >&- 2>&-; while :; do sleep 1; done' &) ; sleep 60 #" + mark
	random := rand.New(rand.NewPCG(7, 7))
	started := 0
	launch := launchTime(t, program, dir)
	for i := range 200 {
		cmd := exec.CommandContext(t.Context(), program, dir, "echo run; "+script)
		var said bytes.Buffer
		cmd.Stdout = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(3 * launch))))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if said.Len() > 0 {
			started++
		}
		before.same(t, dir, mark, fmt.Sprintf("kill %d", i))
	}
	if text, err := os.ReadFile(dir + "/secret"); err != nil || string(text) != "hidden" {
		t.Errorf("the denied file holds %q (%v)", text, err)
	}
	if started < 20 || started > 180 {
		t.Errorf("of 200 launchers %d were killed after the command was started: the moments are badly chosen", started)
	}
}

// launchTime is how long a launcher takes until the command runs, on this machine as it is now.
func launchTime(t *testing.T, program, dir string) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 9 {
		began := time.Now()
		cmd := exec.CommandContext(t.Context(), program, dir, "echo run")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Since(began))
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// limited runs the launcher with what it does to itself.
func limited(t *testing.T, program, dir string, attr *syscall.SysProcAttr, what ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{dir, "echo ran"}, what...)...)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", what, err, out)
	}
	return string(out)
}

// TestFewDescriptors launches with every small limit of open files: it works, or says why
// not, and the command was not run.
func TestFewDescriptors(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "launcher")
	dir := project(t, "secret=hidden")
	before := look(t, dir, program)
	answers := map[bool]int{}
	for i := range 62 {
		n := 9 + i/2
		said := limited(t, program, dir, nil, fmt.Sprintf("files=%d", n), fmt.Sprintf("destinations=%d", i%2*7))
		works := said == "ran\nexited: 0\n"
		if !works && (strings.Contains(said, "ran") || !strings.Contains(said, "too many open files") && !strings.Contains(said, "invalid argument")) {
			t.Errorf("with %d descriptors: %s", n, said)
		}
		answers[works]++
		before.same(t, dir, program, "too few descriptors")
	}
	if answers[true] == 0 || answers[false] == 0 {
		t.Errorf("%v: the limits are badly chosen", answers)
	}
}

// TestNoNamespaces launches where no more namespaces of a kind can be made.
func TestNoNamespaces(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "launcher")
	dir := project(t, "secret=hidden")
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		attr := &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		call := "unshare"
		if kind == "user" || kind == "pid" {
			call = "clone"
		}
		want := "failed: making namespaces: " + call + ": no space left on device\n"
		if said := limited(t, program, dir, attr, "namespaces="+kind); said != want {
			t.Errorf("no %s namespaces: %q, want %q", kind, said, want)
		}
	}
}

// TestOtherFilesystems runs in a workspace on tmpfs and on an overlay, with /tmp read-only.
func TestOtherFilesystems(t *testing.T) {
	available(t)
	program := corpus.CopyOfTests(t, "launcher")
	base := corpus.Scratch(t)
	script := fmt.Sprintf(`set -e
mount -t tmpfs -o ro none /tmp
mkdir %[1]s/t %[1]s/o; mount -t tmpfs none %[1]s/t; mkdir %[1]s/t/ws %[1]s/t/lower %[1]s/t/upper %[1]s/t/work
echo hidden >%[1]s/t/ws/secret; echo hidden >%[1]s/t/lower/secret
mount -t overlay -o lowerdir=%[1]s/t/lower,upperdir=%[1]s/t/upper,workdir=%[1]s/t/work none %[1]s/o
for ws in %[1]s/t/ws %[1]s/o; do
%[2]s $ws 'cat secret; rm -f secret; mv secret gone; echo x >secret; echo ran >made; cat made; echo tmp >/tmp/x; cat /tmp/x' 2>/dev/null
cat $ws/secret; ls $ws; rm $ws/made
done`, base, program)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	const one = "ran\ntmp\nexited: 0\nhidden\nmade\nsecret\n"
	if err != nil || string(out) != one+one {
		t.Errorf("%v\n%s", err, out)
	}
}

// failCalls has the kernel refuse, for all threads of this process and what it starts, a
// system call by NUMBER,ERRNO[,ARGUMENT,VALUE], which is how a kernel or a container
// without it looks from inside.
func failCalls(what string) error {
	var n [4]uint32
	fields := strings.Split(what, ",")
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 0, 32)
		if err != nil {
			return err
		}
		n[i] = uint32(v)
	}
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	const load, equal, answer = 0x20, 0x15, 0x06
	program := []instruction{{load, 0, 0, 0}, {equal, 0, 1, n[0]}, {answer, 0, 0, 0x00050000 | n[1]}, {answer, 0, 0, 0x7fff0000}}
	if len(fields) == 4 {
		program = []instruction{{load, 0, 0, 0}, {equal, 0, 3, n[0]}, {load, 0, 0, 16 + 8*n[2]}, {equal, 0, 1, n[3]}, {answer, 0, 0, 0x00050000 | n[1]}, {answer, 0, 0, 0x7fff0000}}
	}
	filter := struct {
		length uint16
		at     *instruction
	}{uint16(len(program)), &program[0]}
	const noNewPrivileges, allThreads = 38, 1
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(sysSeccomp, 1, allThreads, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return errno
	}
	return nil
}
