//go:build linux && (amd64 || arm64)

package warden_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// attacks are what a copy of these tests does, inside and, as the control, outside. Each
// returns a line "NAME got" for what has worked and "NAME refused: WHY" for the rest.
var attacks = map[string]func(args []string) string{
	"chmod": chmod, "connects": connects, "crowd": crowd, "hold": hold, "show": show,
	"daemon": daemon, "daemonize": daemonize, "descriptors": descriptors, "identity": identity, "ipc": ipc, "linger": linger, "nothing": nothing,
	"open": reopen, "privilege": privilege, "reach": reach, "send": send, "signal": signals, "tty": tty, "wait": wait, "writable": writable, "zombies": zombies,
}

func attack(args []string) int {
	fmt.Fprint(os.Stderr, attacks[args[0]](args[1:]))
	return 0
}

func tell(name string, err error) string {
	if err != nil {
		return fmt.Sprintf("%s refused: %v\n", name, err)
	}
	return name + " got\n"
}

func call(number uintptr, arguments ...uintptr) error {
	var a [6]uintptr
	copy(a[:], arguments)
	if _, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// again returns a command that is this program with another attack, to come after it.
func again(args ...string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"attack"}, args...), Dir: "/"}
}

func nothing([]string) string { return "" }

// wait says when it is there, and stays until its standard input ends, as it does with
// whoever has started it.
func wait([]string) string {
	fmt.Println("here")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return ""
}

// An attacker is a copy of these tests and what it may do inside.
type attacker struct {
	box
	program string
}

func newAttacker(t *testing.T, mode mir.Mode, workspace string) attacker {
	t.Helper()
	program := corpus.CopyOfTests(t, "attack")
	spec := mir.Spec{Mode: mode, TreeConfinement: mir.Required}
	rule := func(access mir.Access, root mir.Root, text string, scope mir.Scope) {
		path, err := mir.NewPath(root, text)
		if err != nil {
			t.Fatal(err)
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: access, Path: path, Scope: scope, Missing: mir.MissingError})
	}
	rule(mir.Read, mir.RootRuntime, "", mir.Tree)
	rule(mir.Write, mir.RootWorkspace, ".", mir.Tree)
	rule(mir.Read, mir.RootHost, program, mir.Exact)
	policy, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := plan.Host{Filesystem: host.Filesystem(), Workspace: workspace, Executable: "/bin/sh", RuntimeRoots: []string{"/usr"}, Hardware: host.Hardware}
	p, err := plan.Resolve(policy, h)
	if err != nil {
		t.Fatal(err)
	}
	return attacker{box{workspace, p}, program}
}

// inside makes an attack under the plan, and returns what it told. What c does not say is
// filled in.
func (a attacker) inside(t *testing.T, c warden.Command, args ...string) string {
	t.Helper()
	if c.Path == "" {
		c.Path = a.program
	}
	c.Args, c.Dir = append([]string{"attack"}, args...), a.workspace
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	told := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(out)
		told <- text
	}()
	c.Stderr = in
	receipt, err := warden.Run(t.Context(), a.plan, c)
	in.Close()
	text := string(<-told)
	if err != nil || receipt.Status != 0 {
		t.Fatalf("%v inside: %+v, %v\n%s", args, receipt, err, text)
	}
	return text
}

// outside makes the same attack without any confinement.
func (a attacker) outside(t *testing.T, c warden.Command, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), a.program)
	cmd.Args, cmd.Dir, cmd.Env = append([]string{"attack"}, args...), a.workspace, c.Env
	if c.Path != "" {
		cmd.Path = c.Path
	}
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	for number := 3; number < 3+len(c.Files); number++ {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.Files[number])
	}
	var told bytes.Buffer
	cmd.Stderr = &told
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v outside: %v\n%s", args, err, &told)
	}
	return told.String()
}

// all fails the test unless everything that was told has worked, or nothing has.
func all(t *testing.T, where, told string, worked bool, names ...string) {
	t.Helper()
	if len(names) == 0 {
		t.Fatal("the test shows nothing")
	}
	for _, name := range names {
		got, refused := strings.Contains("\n"+told, "\n"+name+" got\n"), strings.Contains("\n"+told, "\n"+name+" refused: ")
		if got != worked || refused == worked {
			t.Errorf("%s %s: worked is %t, want %t\n%s", where, name, got, worked, told)
		}
	}
}

// unavailable is for what a test needs of this host beyond [available].
func unavailable(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		t.Fatal("MAELYS_REQUIRE_ALL=1: " + reason)
	}
	t.Skip(reason)
}

func asRoot() bool { return os.Geteuid() == 0 }

const helper = "MAELYS_HELPER_OF_TEST"

// helped runs the test that calls it once more in a process of its own, changed before
// it starts, and reports whether this is that process.
func helped(t *testing.T, change func(*exec.Cmd)) bool {
	t.Helper()
	if os.Getenv(helper) == t.Name() {
		return true
	}
	program := corpus.CopyOfTests(t, "helper.test")
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = filepath.Dir(program), append(os.Environ(), helper+"="+t.Name())
	change(cmd)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("the helper: %v\n%s", err, out)
	}
	return false
}

// descriptors reads every open one in three ways.
func descriptors([]string) string {
	var told strings.Builder
	for fd := 3; fd < 1024; fd++ {
		var text [6]byte
		if _, err := syscall.Pread(fd, text[:], 0); err == nil && string(text[:]) == "hidden" {
			told.WriteString("number got\n")
		}
		for name, path := range map[string]string{"path": fmt.Sprintf("/proc/self/fd/%d", fd), "directory": fmt.Sprintf("/proc/self/fd/%d/secret", fd)} {
			again, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				continue
			}
			if n, err := syscall.Read(again, text[:]); err == nil && string(text[:n]) == "hidden" {
				told.WriteString(name + " got\n")
			}
			syscall.Close(again)
		}
	}
	return told.String()
}

// TestOpenDescriptors has the caller leave descriptors open that a program would inherit.
func TestOpenDescriptors(t *testing.T) {
	available(t)
	outside := project(t, "secret=hidden")
	a := newAttacker(t, mir.ModeNone, project(t))
	for _, name := range []string{outside, outside + "/secret"} {
		fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		high, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD, 700)
		if errno != 0 {
			t.Fatal(errno)
		}
		t.Cleanup(func() { syscall.Close(int(high)) })
	}
	if told := a.inside(t, warden.Command{}, "descriptors"); told != "" {
		t.Errorf("inside: %s", told)
	}
	told := a.outside(t, warden.Command{}, "descriptors")
	for _, name := range []string{"number", "path", "directory"} {
		if strings.Count(told, name+" got\n") != 2 {
			t.Errorf("outside the attack shows nothing by %s: %s", name, told)
		}
	}
}

// TestRefusedDescriptors hands over what leads out. Nothing may run then.
func TestRefusedDescriptors(t *testing.T) {
	available(t)
	dir := project(t, "f=x")
	open := func(path string, flags int) *os.File {
		fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(fd), path)
		t.Cleanup(func() { file.Close() })
		return file
	}
	file, directory, place := open(dir+"/f", syscall.O_RDONLY), open("/", syscall.O_RDONLY), open(dir+"/f", 0x200000 /* O_PATH */)
	b := newBox(t, dir, "write tree workspace:")
	for name, c := range map[string]struct {
		command warden.Command
		runs    bool
	}{
		"a file":                  {warden.Command{Stdin: file, Files: map[int]*os.File{7: file}}, true}, // the control
		"a directory as stdin":    {warden.Command{Stdin: directory}, false},
		"a directory as stdout":   {warden.Command{Stdout: directory}, false},
		"a directory as another":  {warden.Command{Files: map[int]*os.File{3: directory}}, false},
		"a place":                 {warden.Command{Stdin: place}, false},
		"a standard one as other": {warden.Command{Files: map[int]*os.File{2: file}}, false},
		"none":                    {warden.Command{Files: map[int]*os.File{3: nil}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.command.Path, c.command.Args, c.command.Dir = "/bin/sh", []string{"sh", "-c", ": >ran"}, dir
			receipt, err := warden.Run(t.Context(), b.plan, c.command)
			failed, ok := errors.AsType[*warden.LaunchError](err)
			if c.runs != (err == nil) || !c.runs && (!ok || failed.Step != "handing over descriptors" || receipt.Outcome != warden.Failed) {
				t.Errorf("%+v, %v", receipt, err)
			}
			if err := os.Remove(dir + "/ran"); c.runs != (err == nil) {
				t.Errorf("it has run is %t, want %t", err == nil, c.runs)
			}
		})
	}
}

// landmark is at the same place in each process of this program.
var landmark = [6]byte{'l', 'a', 'n', 'd', 'e', 'd'}

// reach gets at the memory and the state of another process: its init, or a child that it
// starts.
func reach(args []string) string {
	runtime.LockOSThread() // whose tracees are its own
	pid := 1
	if args[0] == "child" {
		child := again("wait")
		end, err := child.StdinPipe()
		said, failed := child.StdoutPipe()
		if err = errors.Join(err, failed); err == nil {
			err = child.Start()
		}
		if err == nil {
			_, err = said.Read(make([]byte, 1)) // before, its environment may not be there yet
		}
		if err != nil {
			return err.Error()
		}
		defer end.Close()
		pid = child.Process.Pid
	}
	var told strings.Builder
	at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	for _, name := range []string{"environ", "maps", "auxv"} {
		text, err := os.ReadFile(at(name))
		if name == "environ" && err == nil && !bytes.Contains(text, []byte("leaked")) {
			err = errors.New("there is no secret")
		}
		told.WriteString(tell(name, err))
	}
	for _, name := range []string{"exe", "cwd", "root", "ns/user"} {
		_, err := os.Readlink(at(name))
		told.WriteString(tell(name, err))
	}
	line, err := os.ReadFile(at("cmdline")) // of the launcher, which the init is a fork of
	if err == nil && len(line) == 0 {
		err = errors.New("it is empty")
	}
	told.WriteString(tell("cmdline", err))
	err = syscall.ENOENT
	for fd := 0; fd < 64 && err != nil; fd++ { // their numbers are nothing that could be used
		_, err = os.Readlink(fmt.Sprintf("%s/%d", at("fd"), fd))
	}
	told.WriteString(tell("fd", err))
	address := uintptr(unsafe.Pointer(&landmark))
	var text [6]byte
	memory, err := os.Open(at("mem"))
	if err == nil {
		_, err = memory.ReadAt(text[:], int64(address))
		memory.Close()
	}
	told.WriteString(tell("mem", err))
	local := syscall.Iovec{Base: &text[0], Len: 6}
	remote := struct{ base, length uintptr }{address, 6}
	told.WriteString(tell("process_vm_readv", call(processVMReadv, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)))
	told.WriteString(tell("process_vm_writev", call(processVMReadv+1, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)))
	pidfd, _, _ := syscall.Syscall(434, uintptr(pid), 0, 0) // pidfd_open
	told.WriteString(tell("pidfd_getfd", call(438, pidfd, 0, 0)))
	err = syscall.PtraceAttach(pid)
	told.WriteString(tell("ptrace", err))
	if err == nil {
		_, _ = syscall.Wait4(pid, nil, syscall.WALL, nil)
		_ = syscall.PtraceDetach(pid)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, 0, nil)
	if err == nil && status.Signal() != syscall.SIGKILL {
		err = errors.New("it has ended otherwise")
	}
	time.Sleep(20 * time.Millisecond) // in which an init that is killed would take this along
	return told.String() + tell("kill", err)
}

// TestInitIsOutOfReach attacks the init, which has the memory of the launcher. It is not
// to be seen there what the environment of the launcher was, nor its files.
func TestInitIsOutOfReach(t *testing.T) {
	available(t)
	if !helped(t, func(c *exec.Cmd) { c.Env = append(c.Env, "MAELYS_SECRET=leaked") }) {
		return
	}
	if text, err := os.ReadFile("/proc/self/environ"); err != nil || !bytes.Contains(text, []byte("leaked")) {
		t.Fatalf("the launcher has no secret (%v)", err)
	}
	ways := []string{"cmdline", "environ", "maps", "auxv", "exe", "cwd", "root", "ns/user", "fd", "mem", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "ptrace", "kill"}
	a := newAttacker(t, mir.ModeNone, project(t))
	all(t, "inside, of the init,", a.inside(t, warden.Command{}, "reach", "1"), false, ways...)
	secret := warden.Command{Env: []string{"MAELYS_SECRET=leaked"}}
	all(t, "inside, of a child,", a.inside(t, secret, "reach", "child"), true, ways...)
	all(t, "outside, of a child,", a.outside(t, secret, "reach", "child"), true, ways...)
	const script = `cat /proc/*/environ /proc/*/task/*/environ; env; set`
	if status, said := a.must(t, script+"; kill -9 1; kill -9 1; exit 7"); status != 7 || strings.Contains(said, "leaked") {
		t.Errorf("status %d, %s", status, said)
	}
	if said, _ := exec.CommandContext(t.Context(), "/bin/sh", "-c", script).Output(); strings.Count(string(said), "leaked") < 3 {
		t.Error("the script shows nothing outside either")
	}
}

// An endpoint is a socket of the host, which is outside.
type endpoint struct {
	kind   int
	name   syscall.Sockaddr
	direct bool // it can be reached with the network of the host
}

// send sends a datagram or connects.
func send(args []string) string {
	family, _ := strconv.Atoi(args[0])
	kind, _ := strconv.Atoi(args[1])
	port, _ := strconv.Atoi(args[2])
	var to syscall.Sockaddr
	switch family {
	case syscall.AF_UNIX:
		to = &syscall.SockaddrUnix{Name: args[2]}
	case syscall.AF_INET:
		to = &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}
	case syscall.AF_INET6:
		to = &syscall.SockaddrInet6{Addr: [16]byte{15: 1}, Port: port}
	}
	fd, err := syscall.Socket(family, kind, 0)
	if err != nil {
		return tell("socket", err)
	}
	if kind == syscall.SOCK_DGRAM {
		return tell("send", syscall.Sendto(fd, []byte("hello"), 0, to))
	}
	return tell("connect", syscall.Connect(fd, to))
}

// reached reports whether something has come to a socket.
func reached(fd, kind int) bool {
	for range 20 { // what is sent by way of loopback is there at once
		var err error
		if kind == syscall.SOCK_DGRAM {
			_, _, err = syscall.Recvfrom(fd, make([]byte, 8), syscall.MSG_DONTWAIT)
		} else {
			var connection int
			if connection, _, err = syscall.Accept(fd); err == nil {
				syscall.Close(connection)
			}
		}
		if err == nil {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// TestSocketsOfTheHost sends to sockets of the host, with no network and with that of the
// host.
func TestSocketsOfTheHost(t *testing.T) {
	available(t)
	if host.Read().Landlock < 6 {
		unavailable(t, "this kernel cannot keep abstract sockets of the host apart")
	}
	outside := corpus.Scratch(t)
	abstract := fmt.Sprintf("@maelys-%d-", os.Getpid())
	none, direct := newAttacker(t, mir.ModeNone, project(t)), newAttacker(t, mir.ModeDirect, project(t))
	for name, e := range map[string]endpoint{
		"TCP over IPv4":            {syscall.SOCK_STREAM, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, true},
		"UDP over IPv4":            {syscall.SOCK_DGRAM, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, true},
		"TCP over IPv6":            {syscall.SOCK_STREAM, &syscall.SockaddrInet6{Addr: [16]byte{15: 1}}, true},
		"UDP over IPv6":            {syscall.SOCK_DGRAM, &syscall.SockaddrInet6{Addr: [16]byte{15: 1}}, true},
		"abstract, of connections": {syscall.SOCK_STREAM, &syscall.SockaddrUnix{Name: abstract + "stream"}, false},
		"abstract, of packets":     {syscall.SOCK_SEQPACKET, &syscall.SockaddrUnix{Name: abstract + "packet"}, false},
		"abstract, of datagrams":   {syscall.SOCK_DGRAM, &syscall.SockaddrUnix{Name: abstract + "datagram"}, false},
		"a path, of connections":   {syscall.SOCK_STREAM, &syscall.SockaddrUnix{Name: outside + "/stream"}, false},
		"a path, of datagrams":     {syscall.SOCK_DGRAM, &syscall.SockaddrUnix{Name: outside + "/datagram"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			family := syscall.AF_UNIX
			switch e.name.(type) {
			case *syscall.SockaddrInet4:
				family = syscall.AF_INET
			case *syscall.SockaddrInet6:
				family = syscall.AF_INET6
			}
			fd, err := syscall.Socket(family, e.kind|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
			if err == nil {
				defer syscall.Close(fd)
				err = syscall.Bind(fd, e.name)
			}
			if family == syscall.AF_INET6 && (errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)) {
				unavailable(t, "this host has no IPv6")
			}
			if err == nil && e.kind != syscall.SOCK_DGRAM {
				err = syscall.Listen(fd, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			address, err := syscall.Getsockname(fd)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"send", strconv.Itoa(family), strconv.Itoa(e.kind), ""}
			switch at := address.(type) {
			case *syscall.SockaddrInet4:
				args[3] = strconv.Itoa(at.Port)
			case *syscall.SockaddrInet6:
				args[3] = strconv.Itoa(at.Port)
			case *syscall.SockaddrUnix:
				args[3] = at.Name
			}
			if told := none.inside(t, warden.Command{}, args...); reached(fd, e.kind) {
				t.Errorf("inside, with no network: %s", told)
			}
			if told := direct.inside(t, warden.Command{}, args...); reached(fd, e.kind) != e.direct {
				t.Errorf("inside, with the network of the host: %s", told)
			}
			if told := none.outside(t, warden.Command{}, args...); !reached(fd, e.kind) {
				t.Errorf("outside it is not reached either: %s", told)
			}
		})
	}
}

// privileges are what only some may do; each is tried in a process of its own, in a
// directory that may be written.
var privileges = map[string]struct {
	try     func() error
	refused syscall.Errno
	root    bool // outside it takes root
}{
	"AF_VSOCK":      {socketOf(40, syscall.SOCK_STREAM, 0), syscall.EAFNOSUPPORT, false},
	"AF_PACKET":     {socketOf(syscall.AF_PACKET, syscall.SOCK_RAW, 0), syscall.EAFNOSUPPORT, true},
	"raw IPv4":      {socketOf(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP), syscall.EPERM, true},
	"raw IPv6":      {socketOf(syscall.AF_INET6, syscall.SOCK_RAW, 58), syscall.EPERM, true},
	"a device":      {func() error { return syscall.Mknod("device", syscall.S_IFCHR|0o600, 1<<8|3) }, syscall.EPERM, true},
	"a disk":        {func() error { return syscall.Mknod("disk", syscall.S_IFBLK|0o600, 7<<8) }, syscall.EPERM, true},
	"chroot":        {func() error { return syscall.Chroot(".") }, syscall.EPERM, true},
	"setns":         {joinNamespace, syscall.EPERM, true},
	"clone3":        {cloneThree, syscall.ENOSYS, false},
	"unshare user":  {unshared(syscall.CLONE_NEWUSER), syscall.EPERM, false},
	"unshare mount": {unshared(syscall.CLONE_NEWNS), syscall.EPERM, false},
	"unshare PID":   {unshared(syscall.CLONE_NEWPID), syscall.EPERM, false},
	"unshare net":   {unshared(syscall.CLONE_NEWNET), syscall.EPERM, false},
	"unshare IPC":   {unshared(syscall.CLONE_NEWIPC), syscall.EPERM, false},
	"unshare UTS":   {unshared(syscall.CLONE_NEWUTS), syscall.EPERM, false},
	"unshare group": {unshared(syscall.CLONE_NEWCGROUP), syscall.EPERM, false},
	"unshare time":  {unshared(syscall.CLONE_NEWTIME), syscall.EPERM, false},
	"clone user":    {cloned(syscall.CLONE_NEWUSER), syscall.EPERM, false},
	"clone mount":   {cloned(syscall.CLONE_NEWNS), syscall.EPERM, false},
	"clone PID":     {cloned(syscall.CLONE_NEWPID), syscall.EPERM, false},
	"clone net":     {cloned(syscall.CLONE_NEWNET), syscall.EPERM, false},
	"clone IPC":     {cloned(syscall.CLONE_NEWIPC), syscall.EPERM, false},
	"clone UTS":     {cloned(syscall.CLONE_NEWUTS), syscall.EPERM, false},
	"clone group":   {cloned(syscall.CLONE_NEWCGROUP), syscall.EPERM, false},
}

func socketOf(family, kind, protocol int) func() error {
	return func() error {
		_, err := syscall.Socket(family, kind, protocol)
		return err
	}
}

// unshared starts a program that makes a namespace, and a user namespace along with it,
// in which everybody may make others.
func unshared(flag uintptr) func() error {
	return func() error {
		// Not this program: it would have threads, for which the namespace of processes is wrong.
		c := exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", ":"}, SysProcAttr: &syscall.SysProcAttr{Unshareflags: flag | syscall.CLONE_NEWUSER}}
		return c.Run()
	}
}

func cloned(flag uintptr) func() error {
	return func() error {
		c := again("nothing")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag | syscall.CLONE_NEWUSER}
		return c.Run()
	}
}

// cloneThree makes a child in a user namespace, which ends at once.
func cloneThree() error {
	arguments := [8]uint64{0: syscall.CLONE_NEWUSER, 4: uint64(syscall.SIGCHLD)}
	child, _, errno := syscall.RawSyscall(435, uintptr(unsafe.Pointer(&arguments)), unsafe.Sizeof(arguments), 0)
	switch {
	case errno != 0:
		return errno
	case child == 0:
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := syscall.Wait4(int(child), nil, 0, nil)
	return err
}

// joinNamespace enters the namespace that the process is in already.
func joinNamespace() error {
	runtime.LockOSThread()
	file, err := os.Open("/proc/self/ns/uts")
	if err != nil {
		return err
	}
	return call(setns, file.Fd(), 0)
}

func privilege(args []string) string {
	err := privileges[args[0]].try()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = fmt.Errorf("%d %w", int(errno), errno)
	}
	return tell("it", err)
}

// TestPrivileges tries what makes or enters something that the other layers do not see.
func TestPrivileges(t *testing.T) {
	available(t)
	for name, p := range privileges {
		t.Run(name, func(t *testing.T) {
			a := newAttacker(t, mir.ModeNone, project(t))
			if told := a.inside(t, warden.Command{}, "privilege", name); !strings.HasPrefix(told, fmt.Sprintf("it refused: %d ", p.refused)) {
				t.Errorf("inside: %s", told)
			}
			if p.root && !asRoot() {
				return
			}
			told := a.outside(t, warden.Command{}, "privilege", name)
			if strings.HasPrefix(told, fmt.Sprintf("it refused: %d ", syscall.EAFNOSUPPORT)) {
				unavailable(t, "this host has no such sockets")
			}
			all(t, "outside", told, true, "it")
		})
	}
}
