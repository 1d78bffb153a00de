//go:build amd64 || arm64

package warden

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// Run runs a command under a plan and returns when it has ended, with everything that it
// has started. When ctx is done, all of that is killed, and the error is the cause.
//
// The failures are a *[RefusedError], before anything was done, and a *[LaunchError]. The
// receipt is there in any case, and says how far it came.
func Run(ctx context.Context, p *plan.Plan, c Command) (*Receipt, error) {
	receipt := &Receipt{Backend: c.Backend, Outcome: Refused, Started: time.Now()}
	if receipt.Backend == "" {
		receipt.Backend = host.Namespaces
	}
	err := receipt.run(ctx, p, &c)
	receipt.Ended = time.Now()
	return receipt, err
}

func (r *Receipt) run(ctx context.Context, p *plan.Plan, c *Command) error {
	var in linux.Namespaces
	if r.Backend == host.Namespaces {
		var err error
		if in, err = namespacesFor(p); err != nil {
			return r.failedAt("preparing the launch", err)
		}
	}
	run, err := linux.NewProgram()
	if err != nil {
		return r.failedAt("preparing the launch", err)
	}
	// Namespaces take as long to make as it takes to decide what happens in them, which
	// includes whether anything does.
	decided := make(chan error, 1)
	go func() { decided <- r.decide(run, p, c) }()
	// PR_SET_PDEATHSIG is about the thread that starts the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started := run.Start(in)
	err = <-decided
	defer runtime.KeepAlive(c) // its files are open until the child has them
	switch {
	case started != nil:
		run.Discard()
		if err != nil {
			return err // whatever else there is
		}
		return r.failedAt("making namespaces", started)
	case err == nil:
		r.Outcome = Failed
		if err = run.Go(); err != nil {
			err = r.failedAt("preparing the launch", err)
			break
		}
		err = r.follow(ctx, run, c)
	}
	usage, waited := run.Wait()
	r.User, r.System, r.PeakMemory = usage.User, usage.System, usage.PeakMemory
	if err == nil && waited != nil {
		err = &LaunchError{Step: "waiting for the end", Err: waited}
	}
	if err == nil {
		r.Layers = layers(r.Backend, in.Kinds)
	}
	return err
}

// failedAt says that a launch has failed before the child had anything to do.
func (r *Receipt) failedAt(step string, err error) error {
	r.Outcome = Failed
	if fork, ok := errors.AsType[*linux.ForkError](err); ok {
		return &LaunchError{Step: step, Call: fork.Call, Err: fork.Err}
	}
	return &LaunchError{Step: step, Err: err}
}

// decide refuses a plan that cannot be held, and lays out the launch of any other.
func (r *Receipt) decide(run *linux.Program, p *plan.Plan, c *Command) error {
	abi, missing := linux.LandlockABI()
	refused := RefusedError{Backend: r.Backend, Changed: p.Changed(host.Filesystem())}
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
	files, err := c.openFiles()
	if err != nil {
		return r.failedAt("handing over descriptors", err)
	}
	if r.Backend == host.Landlock {
		err = onlyLandlock(run, p, c, files, abi)
	} else {
		err = inNamespaces(run, p, c, files, abi)
	}
	if err != nil {
		return r.failedAt("preparing the launch", err)
	}
	return nil
}

// follow reads what the child reports until it has ended.
func (r *Receipt) follow(ctx context.Context, run *linux.Program, c *Command) error {
	over, passed := make(chan struct{}), make(chan struct{})
	defer func() {
		close(over)
		<-passed // or it might kill another process of the same number
	}()
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
		case linux.Started:
			r.Steps = nil
			for i, s := range e.Steps {
				end := s.Began
				if i+1 < len(e.Steps) {
					end = e.Steps[i+1].Began
				}
				r.Steps = append(r.Steps, Step{s.Name, end - s.Began})
			}
		case linux.Stopped:
			if c.Stopped != nil {
				c.Stopped(e.Signal)
			}
		case linux.Continued:
		case linux.Ended:
			r.Outcome, r.Status = Exited, e.Status.ExitStatus()
			if e.Status.Signaled() {
				r.Outcome, r.Status = Signaled, 128+int(e.Status.Signal())
			}
			return nil
		}
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
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Sprintf("the mounts of this host cannot be read: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		kind, _, _ := strings.Cut(after, " ")
		if len(fields) < 5 || !slices.Contains(kernelFilesystems[:], kind) {
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
