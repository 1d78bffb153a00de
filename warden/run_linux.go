//go:build amd64 || arm64

package warden

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// A Launch is a child that has been forked into namespaces of its own and waits to be told
// what to do there. Making namespaces takes as long as resolving a policy, so those who
// are about to do that can have both at once.
type Launch struct {
	receipt *Receipt
	kinds   uintptr
	run     *linux.Program
	mask    linux.Value
	network *mediation    // nil for none
	forked  func() error  // waits for the fork, and returns why there is no child
	over    chan struct{} // closed when nobody needs the child any more
}

// Prepare begins a launch by a backend, of a plan with or without a network of its own.
// It must be followed by one of Run and Discard.
func Prepare(backend host.Backend, direct bool) *Launch {
	if backend == "" {
		backend = host.Namespaces
	}
	l := &Launch{
		receipt: &Receipt{Backend: backend, Outcome: Refused, Started: time.Now()}, over: make(chan struct{}),
	}
	if backend == host.Namespaces {
		l.kinds = namespaceKinds
		if direct {
			l.kinds &^= linux.NamespaceNet
		}
	}
	if err := l.begin(); err != nil {
		err = launchError("preparing the launch", err)
		l.forked = func() error { return err }
		return l
	}
	// PR_SET_PDEATHSIG is about the thread that starts the child: it has to stay. The first
	// of a process does so. Of others one is not used for anything else afterwards.
	if linux.OnFirstThread() {
		err := l.fork()
		l.forked = func() error { return err }
		return l
	}
	begun := make(chan error, 1)
	l.forked = sync.OnceValue(func() error { return <-begun })
	go func() {
		runtime.LockOSThread()
		begun <- l.fork()
		<-l.over
	}()
	return l
}

// begin lays out what the child does whatever the plan.
func (l *Launch) begin() error {
	run, err := linux.NewProgram()
	if err != nil {
		return err
	}
	step := "preparing the launch"
	if l.kinds != 0 {
		step = "making namespaces"
	}
	run.Step(step)
	l.mask = run.NoMask()
	if l.kinds != 0 {
		err = beginNamespaces(run, l.kinds)
	}
	if err == nil {
		err = run.Go()
	}
	if err != nil {
		run.Discard()
		return err
	}
	l.run = run
	return nil
}

// fork makes the child.
func (l *Launch) fork() error {
	if err := l.run.Start(l.kinds&forkedInto, users); err != nil {
		return launchError("making namespaces", err)
	}
	return nil
}

// Discard ends a launch that is not needed.
func (l *Launch) Discard() {
	switch err := l.forked(); {
	case err == nil:
		_, _ = l.run.Wait() // a child that is told nothing ends
	case l.run != nil:
		l.run.Discard()
	}
	close(l.over)
}

// Run runs a command under a plan and returns when it has ended, with everything that it
// has started. When ctx is done, all of that is killed, and the error is the cause.
//
// The failures are a *[RefusedError], before anything was done, and a *[LaunchError]. The
// receipt is there in any case, and says how far it came.
func Run(ctx context.Context, p *plan.Plan, c Command) (*Receipt, error) {
	return Prepare(c.Backend, p.Mode() == mir.ModeDirect).Run(ctx, p, c)
}

// Run is the function Run for a launch that was prepared, whose backend it is.
func (l *Launch) Run(ctx context.Context, p *plan.Plan, c Command) (*Receipt, error) {
	if direct := p.Mode() == mir.ModeDirect; l.kinds != 0 && direct == (l.kinds&linux.NamespaceNet != 0) {
		l.Discard()
		l = Prepare(l.receipt.Backend, direct)
	}
	err := l.runs(ctx, p, &c)
	close(l.over)
	l.receipt.Ended = time.Now()
	return l.receipt, err
}

func (l *Launch) runs(ctx context.Context, p *plan.Plan, c *Command) error {
	r := l.receipt
	err := r.refuse(p)
	if err == nil && l.run != nil {
		r.Outcome = Failed
		if l.network, err = mediate(p, c, r); err == nil {
			err = l.layOut(p, c)
		}
	}
	defer l.network.close()
	if failed := l.forked(); failed != nil {
		if l.run != nil {
			l.run.Discard()
		}
		if err != nil && r.Outcome == Refused { // which says what to do
			return err
		}
		r.Outcome = Failed
		return failed
	}
	if err == nil {
		err = l.follow(ctx, c)
	}
	runtime.KeepAlive(c) // its files are open until the child has them
	usage, waited := l.run.Wait()
	r.User, r.System, r.PeakMemory = usage.User, usage.System, usage.PeakMemory
	if err == nil && waited != nil {
		err = &LaunchError{Step: "waiting for the end", Err: waited}
	}
	if err == nil {
		r.Layers = layers(r.Backend, l.kinds)
		if l.network != nil {
			r.Layers = append(r.Layers, NetworkMediator)
		}
	}
	return err
}

// layOut has the child's program do what the plan and the command ask for.
func (l *Launch) layOut(p *plan.Plan, c *Command) error {
	files, err := c.openFiles()
	if err != nil {
		return &LaunchError{Step: "handing over descriptors", Err: err}
	}
	abi, err := linux.LandlockABI()
	switch {
	case err != nil:
	case l.receipt.Backend == host.Landlock:
		err = onlyLandlock(l.run, l.mask, p, c, files, abi)
	default:
		err = inNamespaces(l.run, l.goOn, l.mask, p, c, l.network, files, abi)
	}
	if err != nil {
		return launchError("preparing the launch", err)
	}
	return nil
}

// goOn has the child, if there is one, make the calls so far. What it makes belongs to users
// whom it must know.
func (l *Launch) goOn() error {
	if err := l.forked(); err != nil {
		return err
	}
	return l.run.Go()
}

// launchError returns a failure of a step as the error that it is.
func launchError(step string, err error) error {
	if fork, ok := errors.AsType[*linux.ForkError](err); ok {
		return &LaunchError{Step: step, Call: fork.Call, Err: fork.Err}
	}
	return &LaunchError{Step: step, Err: err}
}

// refuse returns why a plan cannot be held, if it cannot.
func (r *Receipt) refuse(p *plan.Plan) error {
	abi, missing := linux.LandlockABI()
	refused := RefusedError{Backend: r.Backend, Changed: p.ChangedAround(host.Filesystem())} // the child compares the files that it mounts
	for _, requirement := range p.Requirements() {
		ability := r.Backend.Offers(requirement.Capability, abi, missing)
		if requirement.Unenforceable || !ability.Holds() {
			refused.Unmet = append(refused.Unmet, Unmet{requirement, ability.Reason, ability.Fix})
		}
	}
	if r.Backend == host.Landlock {
		refused.Reasons = append(refused.Reasons, unmetByLandlock(p)...)
	}
	if reason := kernelFiles(p); reason != "" {
		refused.Reasons = append(refused.Reasons, reason)
	}
	if len(refused.Unmet)+len(refused.Changed)+len(refused.Reasons) > 0 {
		return &refused
	}
	return nil
}

// settle is how long a command that was stopped may take to go on before the caller hears
// of it.
const settle = 20 * time.Millisecond

// follow has the command started, and reads what the child reports until it has ended.
func (l *Launch) follow(ctx context.Context, c *Command) error {
	r, run := l.receipt, l.run
	var relayed []syscall.Signal
	for _, s := range c.Relayed {
		if signal, ok := s.(syscall.Signal); ok {
			relayed = append(relayed, signal)
		}
	}
	stop, err := run.Relay(relayed)
	if err == nil {
		defer stop()
		err = run.Go()
	}
	if err != nil {
		return launchError("preparing the launch", err)
	}
	if c.Signals != nil || ctx.Done() != nil {
		end := passOn(ctx, run, c)
		defer end()
	}
	for {
		event, err := run.Next()
		if err != nil {
			run.Kill()
			if ctx.Err() != nil {
				r.Outcome = Canceled
				return &LaunchError{Step: "running the command", Err: context.Cause(ctx)}
			}
			if errors.Is(err, io.EOF) {
				err = errors.New("it was killed from outside, with everything in it")
			}
			return &LaunchError{Step: "running the init of the command", Err: err}
		}
		switch e := event.(type) {
		case linux.Failed:
			run.Kill()
			return &LaunchError{Step: e.Step, Path: e.Path, Call: e.Call, Err: e.Err}
		case linux.Stopped:
			// It may run again by now, when this process was stopped too.
			if c.Stopped != nil && run.Silent(settle) {
				c.Stopped(e.Signal)
			}
		case linux.Continued:
		case linux.Handed:
			l.network.handed = append(l.network.handed, e.Fds...)
			run.Watch(l.network.handed)
		case linux.Ready:
			if err := l.network.serve(); err != nil {
				run.Kill()
				return &LaunchError{Step: "connecting the command", Err: err}
			}
		case linux.Ended:
			for i, s := range e.Steps {
				end := s.Began
				if i+1 < len(e.Steps) {
					end = e.Steps[i+1].Began
				}
				r.Steps = append(r.Steps, Step{s.Name, end - s.Began})
			}
			r.Outcome, r.Status = Exited, e.Status.ExitStatus()
			if e.Status.Signaled() {
				r.Outcome, r.Status = Signaled, 128+int(e.Status.Signal())
			}
			return nil
		}
	}
}

// passOn passes signals on, and the end of ctx, until the function that it returns is called.
func passOn(ctx context.Context, run *linux.Program, c *Command) (end func()) {
	over, passed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case s := <-c.Signals:
				// Those of a terminal for processes in the background always go to the group.
				if signal, ok := s.(syscall.Signal); ok && signal != syscall.SIGTTIN && signal != syscall.SIGTTOU {
					_ = run.Send(signal) // it may have ended just now
				}
			case <-ctx.Done():
				run.Kill()
				return
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-passed // or it might kill another process of the same number
	}
}

// layers returns what confined a command.
func layers(b host.Backend, kinds uintptr) []Layer {
	var all []Layer
	for _, l := range []struct {
		kind  uintptr
		layer Layer
	}{
		{linux.NamespaceUser, UserNamespace},
		{linux.NamespaceMount, MountNamespace},
		{linux.NamespacePID, PIDNamespace},
		{linux.NamespaceIPC, IPCNamespace},
		{linux.NamespaceUTS, UTSNamespace},
		{linux.NamespaceCgroup, CgroupNamespace},
		{linux.NamespaceNet, NetworkNamespace},
	} {
		if b == host.Namespaces && kinds&l.kind != 0 {
			all = append(all, l.layer)
		}
	}
	return append(all, NoCapabilities, LandlockRules, SystemCalls)
}

// kernelFilesystems are those whose files change the kernel: no grant of a policy reaches
// so far, also not for root.
var kernelFilesystems = [...]string{
	"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "configfs", "efivarfs", "pstore",
	"binfmt_misc", "selinuxfs", "smackfs", "apparmorfs", "resctrl", "nfsd",
}

// kernelFiles returns why a plan is refused that would have the command write to a
// filesystem of the kernel, if it would.
func kernelFiles(p *plan.Plan) string {
	var writable []string
	for _, r := range p.Rules() {
		if r.Access == mir.Write && !r.Private {
			writable = append(writable, r.Path)
		}
	}
	if len(writable) == 0 {
		return ""
	}
	text, err := linux.ReadProc("/proc/self/mountinfo")
	if err != nil {
		return fmt.Sprintf("the mounts of this host cannot be read: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(after, " ")
		if !slices.Contains(kernelFilesystems[:], kind) {
			continue
		}
		fields := strings.Fields(before)
		if len(fields) < 5 {
			continue
		}
		at := fields[4]
		if strings.Contains(at, `\`) { // proc_pid_mountinfo(5)
			at = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(at)
		}
		for _, w := range writable {
			if within(w, at) || within(at, w) && p.Beneath(at) == mir.PermitReadWrite {
				return fmt.Sprintf("the grant of %q for writing reaches %q, a filesystem of the kernel (%s) that no command may change: grant less of it, or reading", w, at, kind)
			}
		}
	}
	return ""
}

// within reports whether a path is dir or beneath it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
