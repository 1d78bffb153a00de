package warden

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/plan"
)

// stageName is what the second stage of a launch is started as.
const stageName = "maelys-stage"

// The descriptors of the second stage.
const (
	ordersFd  = 3 // what is to be done; at its end the launcher is gone
	outcomeFd = 4
)

// orders are what the launcher has the second stage do.
type orders struct {
	Steps   []step
	Command struct {
		Path      string
		Args, Env []string
		Dir       string
	}
	Renounced []uintptr // every capability
}

// An outcome is how a launch went: a status, or why there is none.
type outcome struct {
	Status        int
	Step, Message string
}

// Run runs a command under a plan and returns when it has ended, with everything that it
// has started. When ctx is done, all of that is killed. The failures are a
// *[RefusedError] and a *[LaunchError]; in both cases nothing was started.
//
// The program that calls Run must call [Stage] first of all in its main function.
func Run(ctx context.Context, p *plan.Plan, c Command) (*Receipt, error) {
	refused := RefusedError{Unmet: p.Unmet(Capabilities()), Changed: p.Changed(host.Filesystem())}
	if len(refused.Unmet)+len(refused.Changed) > 0 {
		return nil, &refused
	}
	fail := func(step string, err error) (*Receipt, error) {
		return nil, &LaunchError{step, err.Error(), err}
	}
	capabilities, err := linux.Capabilities()
	if err != nil {
		return fail("counting capabilities", err)
	}
	work := orders{Steps: layout(p), Renounced: capabilities}
	work.Command.Path, work.Command.Args, work.Command.Env, work.Command.Dir = c.Path, c.Args, c.Env, c.Dir

	ordersOut, ordersIn, err := os.Pipe()
	if err != nil {
		return fail("making a pipe", err)
	}
	defer ordersIn.Close()
	outcomeOut, outcomeIn, err := os.Pipe()
	if err != nil {
		ordersOut.Close()
		return fail("making a pipe", err)
	}
	defer outcomeOut.Close()

	stage := exec.CommandContext(ctx, "/proc/self/exe")
	stage.Args, stage.Env, stage.Dir = []string{stageName}, []string{}, "/"
	stage.ExtraFiles = []*os.File{ordersOut, outcomeIn}
	if c.Stdin != nil { // an interface that holds a nil pointer is not nil
		stage.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		stage.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		stage.Stderr = c.Stderr
	}
	if stage.SysProcAttr, err = namespaces(capabilities); err != nil {
		return fail("finding out the users of this host", err)
	}
	// PR_SET_PDEATHSIG is about the thread that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = stage.Start()
	ordersOut.Close()
	outcomeIn.Close()
	if err != nil {
		return fail("making namespaces", err)
	}
	sent := gob.NewEncoder(ordersIn).Encode(work)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-c.Signals:
				_ = stage.Process.Signal(s) // it may have ended just now
			case <-over:
				return
			}
		}
	}()
	var o outcome
	received := gob.NewDecoder(outcomeOut).Decode(&o)
	close(over)
	ended := stage.Wait()
	switch {
	case ctx.Err() != nil:
		return fail("running the command", context.Cause(ctx))
	case received != nil:
		return fail("running the second stage", fmt.Errorf("it ended without a word: %w", errors.Join(sent, received, ended)))
	case o.Step != "":
		return nil, &LaunchError{Step: o.Step, Message: o.Message}
	}
	return &Receipt{Status: o.Status}, nil
}

// namespaces returns how the second stage is started: with every capability, in
// namespaces of its own, which map each user to itself.
func namespaces(capabilities []uintptr) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{
		Cloneflags: linux.NamespaceUser | linux.NamespaceMount | linux.NamespacePID | linux.NamespaceNet |
			linux.NamespaceIPC | linux.NamespaceUTS | linux.NamespaceCgroup,
		// A user other than root loses capabilities when a program is started, if they
		// are not ambient.
		AmbientCaps: capabilities,
		Pdeathsig:   syscall.SIGKILL,
	}
	var err error
	if attr.UidMappings, err = sameIDs("/proc/self/uid_map", os.Geteuid()); err != nil {
		return nil, err
	}
	attr.GidMappings, err = sameIDs("/proc/self/gid_map", os.Getegid())
	return attr, err
}

// sameIDs maps each ID to itself: all that there are for root, who may, and the own one
// for everybody else.
func sameIDs(file string, own int) ([]syscall.SysProcIDMap, error) {
	if os.Geteuid() != 0 {
		return []syscall.SysProcIDMap{{ContainerID: own, HostID: own, Size: 1}}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var first, outside, size int
		if _, err := fmt.Sscan(line, &first, &outside, &size); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
	}
	return all, nil
}

// Stage is the second stage of a launch, when this process is one: it makes the
// command's root, gives up all rights and the calls that reach around, starts the command and waits for its end. Then ok
// is true, and the process must end with the status. Otherwise nothing happens.
func Stage() (status int, ok bool) {
	if len(os.Args) != 1 || os.Args[0] != stageName {
		return 0, false
	}
	in, out := os.NewFile(ordersFd, "orders"), os.NewFile(outcomeFd, "outcome")
	o := besideLeader(func() outcome { return perform(in) })
	if err := gob.NewEncoder(out).Encode(o); err != nil {
		return 1, true
	}
	return 0, true
}

// besideLeader calls do on a thread of its own that is not the first of this process. To
// the kernel a process is its first thread: what is put on the command's alone must not be
// on that one.
func besideLeader(do func() outcome) outcome {
	done := make(chan outcome)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() != os.Getpid() {
			done <- do()
			return
		}
		// This one is kept busy, so that another thread runs the next.
		inner := make(chan outcome)
		go func() {
			runtime.LockOSThread()
			inner <- do()
		}()
		done <- <-inner
	}()
	return <-done
}

// perform carries out the orders, on a thread that nothing else runs on.
func perform(in *os.File) outcome {
	fail := func(step string, err error) outcome { return outcome{Step: step, Message: err.Error()} }
	var work orders
	if err := gob.NewDecoder(in).Decode(&work); err != nil {
		return fail("reading the orders", err)
	}
	if err := linux.LoopbackUp(); err != nil {
		return fail("turning on the loopback interface", err)
	}
	root, err := build(work.Steps)
	if err != nil {
		return fail("making the root", err)
	}
	if err := root.Enter(); err != nil {
		return fail("entering the root", err)
	}
	if err := linux.CloseAbove(2); err != nil {
		return fail("closing descriptors", err)
	}
	if err := linux.Undumpable(); err != nil {
		return fail("shutting out tracers", err)
	}
	if err := linux.Renounce(work.Renounced); err != nil {
		return fail("giving up capabilities", err)
	}
	if abi, err := linux.LandlockABI(); err == nil { // one more layer, where there is one
		if err := linux.Confine(abi, grants(work.Steps)); err != nil {
			return fail("confining by Landlock", err)
		}
	}
	if err := linux.RefuseCalls(); err != nil {
		return fail("refusing system calls", err)
	}
	// From here on signals are the command's; those of a terminal reach it directly.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	// Caught and dropped: ignored, they would be ignored by the command too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	process, err := os.StartProcess(work.Command.Path, work.Command.Args, &os.ProcAttr{
		Dir: work.Command.Dir, Env: work.Command.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fail("starting the command", err)
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends when the launcher does
		close(gone)
	}()
	ended := make(chan syscall.WaitStatus, 1)
	go reap(process.Pid, ended)
	for {
		select {
		case s := <-signals:
			_ = process.Signal(s) // it may have ended just now
		case <-gone:
			return outcome{Step: "waiting for the command", Message: "the launcher is gone"}
		case status := <-ended:
			if status.Signaled() {
				return outcome{Status: 128 + int(status.Signal())}
			}
			return outcome{Status: status.ExitStatus()}
		}
	}
}

// forwarded are the signals that somebody sends to a launch and means for the command.
var forwarded = []os.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGALRM}

// grants returns what the steps of a layout grant, for Landlock to grant it once more.
func grants(steps []step) []linux.Grant {
	var all []linux.Grant
	for _, s := range steps {
		switch s.Action {
		case bindMount:
			all = append(all, linux.Grant{Path: s.Path, Writable: s.Writable, Directory: s.Identity.Type == fs.ModeDir})
		case ownMount, ownDevice:
			all = append(all, linux.Grant{Path: s.Path, Writable: s.Writable, Directory: s.Action == ownMount})
		case makeDirectory, makeLink, pinMount, maskMount: // grant nothing
		}
	}
	return all
}

// reap waits for children, which are all orphans of this namespace too, until one has
// ended.
func reap(command int, ended chan<- syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			return
		}
		if pid == command && err == nil {
			ended <- status
			return
		}
	}
}
