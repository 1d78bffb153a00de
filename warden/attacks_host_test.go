//go:build linux && (amd64 || arm64)

package warden_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/warden"
)

// signals does to its process group what it can without knowing its number.
func signals([]string) string {
	signal.Ignore(syscall.SIGTERM)
	var told strings.Builder
	told.WriteString(tell("setpriority", syscall.Setpriority(syscall.PRIO_PGRP, 0, 5)))
	told.WriteString(tell("ioprio_set", call(syscall.SYS_IOPRIO_SET, 2, 0, 2<<13|7)))
	own, _, _ := syscall.Syscall(434, uintptr(os.Getpid()), 0, 0)   // pidfd_open
	_ = call(424, own, uintptr(syscall.SIGTERM), 0, 4)              // pidfd_send_signal with PIDFD_SIGNAL_PROCESS_GROUP
	_ = syscall.Kill(0, syscall.SIGTERM)                            // to the group
	if group, err := syscall.Getpgid(0); err == nil && group == 0 { // of another PID namespace
		_ = syscall.Kill(-1, syscall.SIGTERM) // outside that would be everybody
	}
	return told.String()
}

// A bystander is a process that does nothing, in a group.
func bystander(t *testing.T, program string, group *syscall.SysProcAttr) (process *os.Process, ended chan error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Args, cmd.SysProcAttr = []string{"attack", "wait"}, group
	end, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { end.Close() })
	return cmd.Process, ended
}

// TestProcessGroup attacks the process group of the launcher, which a command is in like
// the job of a shell. Of priorities it shows something only for an ordinary user: those of
// root are kept by the kernel from who has no capabilities.
func TestProcessGroup(t *testing.T) {
	available(t)
	if !helped(t, func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }) {
		return
	}
	a := newAttacker(t, mir.ModeNone, project(t))
	other, ended := bystander(t, a.program, nil)
	before, err := syscall.Getpriority(syscall.PRIO_PROCESS, other.Pid)
	if err != nil {
		t.Fatal(err)
	}
	all(t, "inside", a.inside(t, warden.Command{}, "signal"), false, "setpriority", "ioprio_set")
	select {
	case err := <-ended:
		t.Errorf("another process of the group was ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if after, err := syscall.Getpriority(syscall.PRIO_PROCESS, other.Pid); err != nil || after != before {
		t.Errorf("its priority was %d and is %d (%v)", before, after, err)
	}
	// The control: a group of two without any confinement.
	leader, ended := bystander(t, a.program, &syscall.SysProcAttr{Setpgid: true})
	attack := exec.CommandContext(t.Context(), a.program)
	attack.Args, attack.SysProcAttr = []string{"attack", "signal"}, &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Pid}
	told, err := attack.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, told)
	}
	all(t, "outside", string(told), true, "setpriority", "ioprio_set")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("outside it was not a signal that ended it")
		}
	case <-time.After(5 * time.Second):
		t.Error("outside the attack ends nothing either")
	}
}

const tiocLinux = 0x541c

// tty puts input into the terminal that is its standard input.
func tty([]string) string {
	input, code := [1]byte{'\n'}, [1]byte{6} // of TIOCLINUX: shift state
	return tell("TIOCSTI", call(syscall.SYS_IOCTL, 0, syscall.TIOCSTI, uintptr(unsafe.Pointer(&input)))) +
		tell("TIOCLINUX", call(syscall.SYS_IOCTL, 0, tiocLinux, uintptr(unsafe.Pointer(&code))))
}

// terminal makes a pair of pseudoterminals.
func terminal(t *testing.T) (controller, user *os.File) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		unavailable(t, "this host has no pseudoterminals: "+err.Error())
	}
	t.Cleanup(func() { controller.Close() })
	var number, locked int32
	err = errors.Join(call(syscall.SYS_IOCTL, controller.Fd(), syscall.TIOCGPTN, uintptr(unsafe.Pointer(&number))),
		call(syscall.SYS_IOCTL, controller.Fd(), syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&locked))))
	if err == nil {
		user, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	return controller, user
}

// TestTerminal types into the terminal of the launcher, what a shell would read when the
// command is over.
func TestTerminal(t *testing.T) {
	available(t)
	if os.Getenv(helper) == "" {
		_, user := terminal(t)
		helped(t, func(c *exec.Cmd) {
			c.Stdin, c.SysProcAttr = user, &syscall.SysProcAttr{Setsid: true, Setctty: true}
		})
		return
	}
	waiting := func() (n int32) {
		if err := call(syscall.SYS_IOCTL, 0, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))); err != nil {
			t.Fatal(err)
		}
		return n
	}
	a := newAttacker(t, mir.ModeNone, project(t))
	told := a.inside(t, warden.Command{Stdin: os.Stdin}, "tty")
	if want := fmt.Sprintf("TIOCSTI refused: %v\nTIOCLINUX refused: %[1]v\n", syscall.EPERM); told != want || waiting() != 0 {
		t.Errorf("inside, with %d bytes waiting: %s", waiting(), told)
	}
	if setting, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti"); err == nil && setting[0] == '0' && !asRoot() {
		return // outside it takes root
	}
	told = a.outside(t, warden.Command{Stdin: os.Stdin}, "tty")
	all(t, "outside", told, true, "TIOCSTI")
	if waiting() != 1 || strings.Contains(told, syscall.EPERM.Error()) { // TIOCLINUX is only for a console
		t.Errorf("outside, with %d bytes waiting: %s", waiting(), told)
	}
}

// reopen opens a path as a descriptor of its own.
func reopen(args []string) string {
	flags := map[string]int{"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR, "truncate": os.O_RDONLY | os.O_TRUNC, "append": os.O_WRONLY | os.O_APPEND}
	file, err := os.OpenFile(args[0], flags[args[1]]|syscall.O_NONBLOCK, 0)
	if err == nil {
		file.Close()
	}
	return tell("it", err)
}

// TestReopenedDescriptors opens what was handed over once more: a file in the direction
// that it is open in, and no other.
func TestReopenedDescriptors(t *testing.T) {
	available(t)
	a := newAttacker(t, mir.ModeNone, project(t))
	outside := project(t)
	open := func(flags int) *os.File {
		file, err := os.OpenFile(outside+"/file", flags|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	reading, writing := open(os.O_RDONLY), open(os.O_WRONLY)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	third := func(f *os.File) warden.Command { return warden.Command{Files: map[int]*os.File{3: f}} }
	for name, c := range map[string]struct {
		command   warden.Command
		path, way string
		works     bool
	}{
		"write what is read":         {warden.Command{Stdin: reading}, "/proc/self/fd/0", "write", false},
		"write /dev/stdin":           {warden.Command{Stdin: reading}, "/dev/stdin", "write", false},
		"read and write it":          {warden.Command{Stdin: reading}, "/proc/self/fd/0", "both", false},
		"append to what is read":     {warden.Command{Stdin: reading}, "/proc/self/fd/0", "append", false},
		"truncate what is read":      {warden.Command{Stdin: reading}, "/proc/self/fd/0", "truncate", false},
		"write another":              {third(reading), "/dev/fd/3", "write", false},
		"read what is written":       {warden.Command{Stdout: writing}, "/proc/self/fd/1", "read", false},
		"read and write /dev/stdout": {warden.Command{Stdout: writing}, "/dev/stdout", "both", false},
		"read another":               {third(writing), "/dev/fd/3", "read", false},
		"by its own name":            {warden.Command{Stdin: reading}, outside + "/file", "read", false},
		"read /dev/stdin":            {warden.Command{Stdin: reading}, "/dev/stdin", "read", true},
		"write /dev/stdout":          {warden.Command{Stdout: writing}, "/dev/stdout", "write", true},
		"read a pipe":                {warden.Command{Stdin: in}, "/dev/stdin", "read", true},
		"write a pipe":               {warden.Command{Stdout: out}, "/dev/stdout", "write", true},
	} {
		t.Run(name, func(t *testing.T) {
			all(t, "inside", a.inside(t, c.command, "open", c.path, c.way), c.works, "it")
			all(t, "outside", a.outside(t, c.command, "open", c.path, c.way), true, "it")
		})
	}
}

// ipc finds a segment of shared memory by its key and its number, and a queue by its name.
func ipc(args []string) string {
	key, _ := strconv.Atoi(args[0])
	id, _ := strconv.Atoi(args[1])
	queue, err := syscall.BytePtrFromString(args[2])
	if err != nil {
		return err.Error()
	}
	return tell("by key", call(syscall.SYS_SHMGET, uintptr(key), 0, 0)) +
		tell("by number", call(syscall.SYS_SHMAT, uintptr(id), 0, syscall.O_RDONLY)) +
		tell("queue", call(syscall.SYS_MQ_OPEN, uintptr(unsafe.Pointer(queue)), syscall.O_RDONLY, 0, 0))
}

// TestIPCOfTheHost looks for shared memory and a queue of messages that the caller has.
func TestIPCOfTheHost(t *testing.T) {
	available(t)
	key := uintptr(0x6d610000 + os.Getpid()&0xffff)
	id, _, errno := syscall.Syscall(syscall.SYS_SHMGET, key, 4096, 0o1000|0o600) // IPC_CREAT
	if errno != 0 {
		unavailable(t, "this host has no shared memory of System V: "+errno.Error())
	}
	defer func() { _ = call(syscall.SYS_SHMCTL, id, 0, 0) }() // IPC_RMID
	name := fmt.Sprintf("maelys-%d", os.Getpid())
	queue, err := syscall.BytePtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(syscall.SYS_MQ_OPEN, uintptr(unsafe.Pointer(queue)), syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600, 0); err != nil {
		unavailable(t, "this host has no queues of messages: "+err.Error())
	}
	defer func() { _ = call(syscall.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(queue))) }()
	for _, mode := range []mir.Mode{mir.ModeNone, mir.ModeDirect} {
		a := newAttacker(t, mode, project(t))
		args := []string{"ipc", strconv.Itoa(int(key)), strconv.Itoa(int(id)), name}
		all(t, "inside", a.inside(t, warden.Command{}, args...), false, "by key", "by number", "queue")
		all(t, "outside", a.outside(t, warden.Command{}, args...), true, "by key", "by number", "queue")
	}
}

// writable returns the files beneath a directory that can be opened for writing.
func writable(args []string) string {
	var told strings.Builder
	_ = filepath.WalkDir(args[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return nil // what cannot be seen cannot be written
		}
		if d.IsDir() {
			return nil
		}
		fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		if err == nil {
			syscall.Close(fd)
			told.WriteString(path + "\n")
		}
		return nil
	})
	return told.String()
}

// TestKernelIsReadOnly opens each file by which the kernel is changed. There is none of
// it that is not in /proc.
func TestKernelIsReadOnly(t *testing.T) {
	available(t)
	a := newAttacker(t, mir.ModeNone, project(t))
	for _, dir := range []string{"/proc", "/sys"} {
		if told := a.inside(t, warden.Command{}, "writable", dir); told != "" {
			t.Errorf("inside these can be opened for writing:\n%s", told)
		}
	}
	if told := a.outside(t, warden.Command{}, "writable", "/proc/self/."); !strings.Contains(told, "/proc/self/oom_score_adj\n") {
		t.Errorf("outside only these can be: %s", told)
	}
	if told := a.outside(t, warden.Command{}, "writable", "/proc/sys/kernel"); asRoot() && strings.Count(told, "\n") < 20 {
		t.Errorf("outside only these can be: %s", told)
	}
	_, inside := a.must(t, "ls -d /sys /sys/fs/cgroup; cat /proc/self/mountinfo")
	outside, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(mountinfo string) (found []string) {
		for _, kind := range []string{"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "configfs", "mqueue"} {
			if strings.Contains(mountinfo, " - "+kind+" ") {
				found = append(found, kind)
			}
		}
		return found
	}
	if found := kinds(inside); found != nil || strings.Contains(inside, "/sys\n") {
		t.Errorf("inside there are %q: %s", found, inside)
	}
	if kinds(string(outside)) == nil {
		t.Error("outside there is nothing of it either")
	}
}

// TestMounts looks at the flags of what is mounted.
func TestMounts(t *testing.T) {
	available(t)
	for _, mode := range []mir.Mode{mir.ModeNone, mir.ModeDirect} {
		a := newAttacker(t, mode, project(t))
		_, inside := a.must(t, "cat /proc/self/mountinfo")
		outside, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		if bad := loose(inside); bad != nil || strings.Count(inside, "\n") < 5 {
			t.Errorf("inside, of %d mounts: %q", strings.Count(inside, "\n"), bad)
		}
		if loose(string(outside)) == nil {
			t.Error("outside the mounts have these flags too")
		}
	}
}

// loose returns the mounts that have set-user-ID programs, or devices where none belong.
func loose(mountinfo string) (bad []string) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		flags := strings.Split(fields[5], ",")
		devices := strings.HasPrefix(fields[4], "/dev/") // those of the sandbox's own, and pseudoterminals
		if !slices.Contains(flags, "nosuid") || !devices && !slices.Contains(flags, "nodev") {
			bad = append(bad, fields[4]+" "+fields[5])
		}
	}
	return bad
}

// identity says who the process is and what it may do.
func identity([]string) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("user %d group %d\n%s", os.Geteuid(), os.Getegid(), status)
}

// field returns a field of what identity says.
func field(told, name string) string {
	_, after, _ := strings.Cut(told, "\n"+name+":\t")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// TestNoNewPrivileges looks for what keeps programs from gaining rights.
func TestNoNewPrivileges(t *testing.T) {
	available(t)
	a := newAttacker(t, mir.ModeNone, project(t))
	inside, outside := a.inside(t, warden.Command{}, "identity"), a.outside(t, warden.Command{}, "identity")
	if got := field(inside, "NoNewPrivs") + field(inside, "Seccomp"); got != "12" || field(inside, "CapBnd") != "0000000000000000" {
		t.Errorf("inside: %s", inside)
	}
	if field(outside, "NoNewPrivs") == "1" || field(outside, "Seccomp_filters") >= field(inside, "Seccomp_filters") || field(outside, "CapBnd") == field(inside, "CapBnd") {
		t.Errorf("outside it is the same: %s", outside)
	}
}

// TestProgramsGainNothing starts copies of these tests that make whoever starts them
// another user, and that have capabilities. As root, the one who starts them is nobody,
// and root too, who could become somebody else.
func TestProgramsGainNothing(t *testing.T) {
	available(t)
	const variable = "MAELYS_PROGRAMS"
	dir, here := os.Getenv(variable), os.Getenv(helper) != ""
	a := newAttacker(t, mir.ModeNone, cmp.Or(dir, corpus.Scratch(t)))
	owners := map[string]int{"of-root": 0, "of-nobody": corpus.Nobody, "capable": -1}
	if !here {
		dir = a.workspace
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(a.program)
		if err != nil {
			t.Fatal(err)
		}
		for name, owner := range owners {
			if err := os.WriteFile(dir+"/"+name, text, 0o755); err != nil {
				t.Fatal(err)
			}
			if owner >= 0 && asRoot() {
				err = os.Chown(dir+"/"+name, owner, owner)
			}
			if owner >= 0 {
				err = errors.Join(err, syscall.Chmod(dir+"/"+name, 0o6755))
			} else if asRoot() {
				// CAP_CHOWN, permitted and effective (vfs_cap_data in capabilities(7)).
				value := binary.LittleEndian.AppendUint32(nil, 0x02000001)
				value = append(value, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
				err = syscall.Setxattr(dir+"/"+name, "security.capability", value, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if asRoot() {
			for p := dir; p != "/var/tmp"; p = filepath.Dir(p) {
				if err := os.Chmod(p, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			helped(t, func(c *exec.Cmd) {
				c.Env = append(c.Env, variable+"="+dir)
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: corpus.Nobody, Gid: corpus.Nobody}}
			})
		}
	}
	for name, owner := range owners {
		t.Run(name, func(t *testing.T) {
			c := warden.Command{Path: dir + "/" + name}
			told := a.inside(t, c, "identity")
			if !strings.HasPrefix(told, fmt.Sprintf("user %d group %d\n", os.Geteuid(), os.Getegid())) || field(told, "CapPrm") != "0000000000000000" {
				t.Errorf("inside: %s", told)
			}
			told = a.outside(t, c, "identity")
			switch {
			case !here && !asRoot(): // outside it takes root to make them
			case owner >= 0 && !strings.HasPrefix(told, fmt.Sprintf("user %d group %[1]d\n", owner)), owner < 0 && field(told, "CapPrm") == "0000000000000000":
				t.Errorf("outside they gain nothing either: %s", told)
			}
		})
	}
}

// daemon starts a process that outlives it, and waits until that is there.
func daemon(args []string) string {
	c := again(append([]string{"daemonize"}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := c.Run()
	for range 1000 {
		if _, there := os.Stat(args[0]); there == nil {
			return tell("it", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return "it has not started\n"
}

func daemonize(args []string) string {
	c := again(append([]string{"linger"}, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return tell("it", c.Start())
}

// linger closes all that it has and stays for a time.
func linger(args []string) string {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err.Error()
	}
	file.Close()
	for fd := range 3 { // the others end with the start of a program
		syscall.Close(fd)
	}
	time.Sleep(20 * time.Second)
	return ""
}

// TestDaemons starts a process that has left its session, its parents and its
// descriptors behind.
func TestDaemons(t *testing.T) {
	available(t)
	a := newAttacker(t, mir.ModeNone, project(t))
	lingering := func(mark string) (found []int) {
		processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range processes {
			if text, err := os.ReadFile(name); err == nil && bytes.HasPrefix(text, []byte("attack\x00linger\x00"+mark+"\x00")) {
				pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
				found = append(found, pid)
			}
		}
		return found
	}
	all(t, "inside", a.inside(t, warden.Command{}, "daemon", a.workspace+"/inside"), true, "it")
	if left := lingering(a.workspace + "/inside"); left != nil {
		t.Errorf("%d are left", left)
	}
	all(t, "outside", a.outside(t, warden.Command{}, "daemon", a.workspace+"/outside"), true, "it")
	left := lingering(a.workspace + "/outside")
	for _, pid := range left {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if len(left) != 1 {
		t.Errorf("outside %d are left, want one", left)
	}
}

// zombies has children of children end whom nobody knows, and counts what is left of
// them. It takes the place of the init for them where it is to show what is seen then.
func zombies(args []string) string {
	if args[1] == "orphanage" {
		if err := call(syscall.SYS_PRCTL, 36, 1); err != nil { // PR_SET_CHILD_SUBREAPER
			return err.Error()
		}
	}
	c := exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", `i=0; while [ $i -lt $0 ]; do (: &); i=$((i+1)); done`, args[0]}}
	if err := c.Run(); err != nil {
		return err.Error()
	}
	left := 0
	for range 100 { // the last of them may not have ended
		left = 0
		processes, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range processes {
			text, _ := os.ReadFile(name)
			if _, after, _ := bytes.Cut(text, []byte(") ")); bytes.HasPrefix(after, []byte("Z")) {
				left++
			}
		}
		if left == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Sprintf("%d left\n", left)
}

// TestZombies has the init wait for orphans while the command runs.
func TestZombies(t *testing.T) {
	available(t)
	a := newAttacker(t, mir.ModeNone, project(t))
	if told := a.inside(t, warden.Command{}, "zombies", "2000", "init"); told != "0 left\n" {
		t.Errorf("inside: %s", told)
	}
	if told := a.inside(t, warden.Command{}, "zombies", "20", "orphanage"); told != "20 left\n" {
		t.Errorf("without the init: %s", told)
	}
}
