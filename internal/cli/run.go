package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
	"maelys.dev/maelys/warden"
)

// The exit statuses of run besides the command's own, as env(1) has them.
const (
	exitSandbox       = 125 // the sandbox could not be made, or the policy was refused
	exitNotExecutable = 126
	exitNotFound      = 127
)

// The codes of diagnostics that only run has.
const (
	codeLaunch     = "launch-failed"    // a step of the launch failed
	codeRefused    = "refused"          // the plan cannot be enforced as it is
	codeDigest     = "another-decision" // --expect-digest names another one
	codeNoCommand  = "no-command"       // it is not there, or cannot be started
	codeNotGranted = "not-granted"      // the policy does not let the command be started
	codeTimeout    = "timeout"
)

// backendAuto is the better backend. Where that cannot hold a plan, the other one is not
// tried: less confinement has to be asked for by its name.
const backendAuto = "auto"

// A runFlags is what the flags of run say.
type runFlags struct {
	hostContext
	policy       string
	env          list
	inheritEnv   bool
	passFds      []int
	expectDigest string
	receipt      string
	timeout      time.Duration
	backend      string
	verbose      bool
}

func (a *app) runVerb() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run -p POLICY [flags] [--] COMMAND [ARG…]",
		Short: "Run a command with what a policy grants it, and nothing more",
		Long: `Resolves a manifest or MIR on this host and runs COMMAND, with all that it starts,
confined to it. The plan is held as a whole or nothing is started. When the command ends,
or this one does by any signal, everything that was started is gone.

The command starts in the current directory where that is part of the workspace, else in
the workspace. Of the environment it gets PATH, HOME, USER, LOGNAME, SHELL, TERM,
COLORTERM, LANG, LC_*, TZ and NO_COLOR, TMPDIR where the policy has a temp, and what --env
names; of descriptors 0, 1, 2 and those of --pass-fd. A mediated network goes through the
proxy that HTTPS_PROXY, ALL_PROXY and NO_PROXY name here; the command needs none of them.

Exit status: the command's own; 128 and N when signal N ended it; 125 when the policy was
refused or the sandbox could not be made; 126 when the command cannot be executed, 127
when it is not found; 2 wrong use, or a file that cannot be read or written. A receipt
tells them apart.`,
		Example: "  maelys run -p policy.json -- make test\n  maelys run -p policy.mir -w ~/src/project --receipt run.json -- ./configure\n  maelys run -p policy.json --pin api.example.com:443=127.0.0.1:8443 -- npm test",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{"expected a command, found none", "write " + cmd.UseLine()}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if status := a.run(&flags, args); status != exitYes {
				return &statusError{status}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.StringVarP(&flags.policy, "policy", "p", "", "the manifest or MIR `FILE` that is enforced")
	flags.register(cmd)
	f.Var(&flags.env, "env", "a variable `NAME[=VALUE]` for the command, from here without VALUE; may be repeated")
	f.BoolVar(&flags.inheritEnv, "inherit-env", false, "give the command all variables")
	f.IntSliceVar(&flags.passFds, "pass-fd", nil, "a descriptor `N` that stays open in the command; may be repeated")
	f.StringVar(&flags.expectDigest, "expect-digest", "", "refuse every decision but the one with this digest, in `HEX`")
	f.StringVar(&flags.receipt, "receipt", "", "write what was done and how it ended to `FILE`, as JSON")
	f.DurationVar(&flags.timeout, "timeout", 0, "kill everything after a `DURATION`, such as 90s")
	f.StringVar(&flags.backend, "backend", backendAuto, "how it is enforced, `NAME`: auto, namespaces or landlock")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "show the plan, the layers in force and the time of each step, on standard error")
	return cmd
}

// A running is one use of run.
type running struct {
	*runFlags
	app       *app
	in        *input
	decision  mir.Digest
	plan      *plan.Plan
	path      string // of the program
	args      []string
	dir       string
	variables map[string]string
	receipt   *warden.Receipt
}

// run does what the verb does and returns the exit status.
func (a *app) run(flags *runFlags, command []string) int {
	r := &running{runFlags: flags, app: a, args: command, receipt: &warden.Receipt{Outcome: warden.Refused, Started: time.Now()}}
	file, failed := newReceiptFile(flags.receipt, flags.policy)
	if failed != nil {
		return a.show(failed)
	}
	defer file.close()
	if failed = r.words(); failed == nil {
		if failed = r.prepare(); failed == nil {
			failed = r.execute()
		}
	}
	var status int
	if failed != nil {
		for i := range failed.Diagnostics {
			if failed.Diagnostics[i].exit == exitNo {
				failed.Diagnostics[i].exit = exitSandbox
			}
		}
		status = a.show(failed)
	} else {
		status = r.receipt.Status
		r.hint()
	}
	if flags.verbose {
		a.complain(r.epilogue())
	}
	if flags.receipt == "" {
		return status
	}
	if err := file.write(r.receiptJSON(failed, status)); err != nil {
		_ = a.show(unwritten(flags.receipt, err))
		return exitSandbox
	}
	return status
}

// words checks the words of the command line.
func (r *running) words() *result {
	backends := map[string]host.Backend{backendAuto: host.Namespaces, string(host.Namespaces): host.Namespaces, string(host.Landlock): host.Landlock}
	backend, ok := backends[r.backend]
	switch {
	case r.policy == "":
		return usagef("name the manifest or MIR with -p FILE", "expected a policy, found none")
	case !ok:
		return usagef("write auto, namespaces or landlock", "unknown backend %q", r.backend)
	case r.timeout < 0:
		return usagef("write how long the command may take, such as 90s", "expected a time, found %s", r.timeout)
	}
	for _, n := range r.passFds {
		if n <= 2 {
			return usagef("0, 1 and 2 are handed over as they are", "expected a descriptor above 2, found %d", n)
		}
		if !inherited(n) { // it may be one that this process has opened for itself
			return failure(diagnostic{
				Code: codeLaunch, exit: exitSandbox, Message: fmt.Sprintf("descriptor %d: it is not open", n), Hint: "open it in the shell, as in 5<FILE",
			})
		}
	}
	r.receipt.Backend = backend
	return nil
}

// prepare decides everything else that is decided before the launch.
func (r *running) prepare() *result {
	env, failed := r.environment()
	if failed != nil {
		return failed
	}
	in, policy, failed := r.app.readSource(r.policy)
	if failed != nil {
		return failed
	}
	r.in = in
	if len(in.data) > 1<<16 {
		// What a policy takes is bounded, and is not needed for long. What the connections
		// of a command take in time is not.
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(128 << 20)
	}
	// Whatever the policy was read from, it is the bytes that are enforced.
	verified := policy
	if !in.isMIR() { // which was verified when it was read
		var err error
		if verified, err = mir.Decode(policy.Bytes()); err != nil {
			return in.refused(err)
		}
	}
	r.decision = verified.Digest()
	if r.expectDigest != "" && !strings.EqualFold(r.expectDigest, r.decision.String()) {
		return failure(diagnostic{
			File: in.name, Code: codeDigest, exit: exitSandbox, Hint: "look at what has changed with maelys diff",
			Message: fmt.Sprintf("expected the decision %s, found %s", r.expectDigest, r.decision),
		})
	}
	r.searchPath = filepath.SplitList(env["PATH"])
	if failed := r.find(); failed != nil {
		return failed
	}
	r.plan, failed = r.resolve(in, verified, append([]string{r.path}, r.args[1:]...))
	if failed != nil {
		return failed
	}
	if r.plan.Evaluate(r.plan.Executable()).Permission == mir.PermitNone {
		return failure(diagnostic{
			File: in.name, Code: codeNotGranted, exit: exitNotExecutable, HostPath: r.path,
			Message: fmt.Sprintf("%s: the policy does not grant reading the command", printable(r.path)),
			Hint:    "grant minimal-runtime, which has what it takes to start a command",
		})
	}
	r.dir = r.startDirectory()
	if needs(verified, mir.RootTemp) && !r.named("TMPDIR") {
		env["TMPDIR"], _ = r.plan.Temp()
	}
	if r.plan.Mode() == mir.ModeMediated {
		maps.DeleteFunc(env, func(name, _ string) bool { return isProxyVariable(name) && !r.named(name) })
	}
	r.variables = env
	return nil
}

// find finds the program, as a shell does with PATH of the command's environment.
func (r *running) find() *result {
	name := r.args[0]
	missing := func(err error) *result {
		d := diagnostic{Code: codeNoCommand, exit: exitNotFound, Message: fmt.Sprintf("%s: expected a command, found none: %v", printable(name), err)}
		switch {
		case errors.Is(err, fs.ErrPermission):
			d.exit, d.Message = exitNotExecutable, fmt.Sprintf("%s: expected a command, found a file that cannot be executed", printable(name))
			d.Hint = "make it executable with chmod +x"
		case strings.Contains(name, "/"):
			d.Hint = "check the path; it is looked up from the current directory"
		default:
			d.Hint = "write its path, or add its directory to PATH"
		}
		return failure(d)
	}
	if !strings.Contains(name, "/") {
		found, err := host.LookPath(name, r.searchPath)
		if err != nil {
			return missing(err)
		}
		r.path = found
		return nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return missing(err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return missing(fs.ErrPermission)
	case err != nil:
		return missing(cause(err))
	case info.IsDir() || info.Mode()&0o111 == 0:
		return missing(fs.ErrPermission)
	}
	r.path = path
	return nil
}

// startDirectory returns the directory that the command starts in: the current one where it is
// part of the workspace, or where there is none.
func (r *running) startDirectory() string {
	workspace := r.plan.Workspace()
	if here, err := os.Getwd(); err == nil {
		if here, err = filepath.EvalSymlinks(here); err == nil && (workspace == "" || covers(workspace, here)) && r.seen(here) {
			return here
		}
	}
	if workspace != "" && r.seen(workspace) {
		return workspace
	}
	return "/"
}

// seen reports whether a directory is there for the command, if only to pass through.
func (r *running) seen(dir string) bool {
	if r.plan.Beneath(dir) != mir.PermitNone || r.plan.Evaluate(dir).Permission != mir.PermitNone {
		return true
	}
	for _, rule := range r.plan.Rules() {
		if rule.Access != mir.Deny && covers(dir, rule.Path) && r.plan.Evaluate(rule.Path).Permission != mir.PermitNone {
			return true
		}
	}
	return false
}

// execute runs the command. It returns nil when that was started and has ended by itself.
func (r *running) execute() *result {
	for _, w := range r.in.about(r.plan.Warnings()) {
		w.Message = "warning: " + w.Message
		r.app.complain(w.text(painter{color: colorful(r.app.stderr)}))
	}
	network, said, failed := r.connect()
	if failed != nil {
		return failed
	}
	if r.verbose {
		r.app.complain(planTable(r.plan, painter{color: colorful(r.app.stderr)}))
	}
	command := warden.Command{
		Path: r.path, Args: r.args, Env: assignments(r.variables), Dir: r.dir,
		Stdin: fileOf(r.app.stdin), Stdout: fileOf(r.app.stdout.w), Stderr: fileOf(r.app.stderr),
		Files: map[int]*os.File{}, Relayed: forwarded(), Stopped: stopSelf, Network: network,
	}
	for _, n := range r.passFds {
		command.Files[n] = os.NewFile(uintptr(n), strconv.Itoa(n))
	}
	ctx := context.Background()
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, errTimeout)
		defer cancel()
	}
	var err error
	launch := r.app.launch
	r.app.launch = nil
	if r.receipt.Backend != host.Namespaces {
		launch.Discard()
		launch = warden.Prepare(r.receipt.Backend, false)
	}
	r.receipt, err = launch.Run(ctx, r.plan, command)
	said()
	if err == nil {
		return nil
	}
	return r.failed(err)
}

var errTimeout = errors.New("its time is over")

// fileOf returns what a stream is, if it is a file.
func fileOf(stream any) *os.File {
	file, _ := stream.(*os.File)
	return file
}

// failed returns why there was no launch, or no end of it.
func (r *running) failed(err error) *result {
	if refused, ok := errors.AsType[*warden.RefusedError](err); ok {
		return r.refused(refused)
	}
	d := diagnostic{File: r.in.name, Code: codeLaunch, exit: exitSandbox, Message: strings.TrimPrefix(err.Error(), "warden: ")}
	launch, ok := errors.AsType[*warden.LaunchError](err)
	switch {
	case errors.Is(err, errTimeout):
		d.File, d.Code, d.exit = "", codeTimeout, 128+int(syscall.SIGKILL)
		d.Message = fmt.Sprintf("everything was killed after %s", r.timeout)
		d.Hint = "--timeout says how long the command may take"
	case ok && launch.Step == warden.StepStart:
		d.File, d.Code, d.exit, d.HostPath = "", codeNoCommand, exitNotExecutable, launch.Path
		d.Message = fmt.Sprintf("%s cannot be executed in the sandbox: %v", printable(launch.Path), launch.Err)
		if errors.Is(err, fs.ErrNotExist) {
			d.exit = exitNotFound
			d.Hint = "its interpreter or loader is not granted; grant minimal-runtime, which has what it takes"
		}
	case errors.Is(err, errors.ErrUnsupported):
		d.Hint = "run it on Linux, in a virtual machine for example"
	case ok:
		d.Hint = r.launchHint(launch)
	}
	return failure(d)
}

// launchHint says what helps where a step of a launch fails.
func (r *running) launchHint(e *warden.LaunchError) string {
	switch {
	case e.Step == "handing over descriptors" && e.Call == "":
		return "redirect to or from a file or a pipe"
	case errors.Is(e.Err, syscall.ESTALE):
		return "the path was replaced after it was resolved: run it again"
	}
	for _, ability := range host.Read().Abilities(r.receipt.Backend) {
		if !ability.Holds() {
			return fmt.Sprintf("%s; to have it: %s", ability.Reason, ability.Fix)
		}
	}
	switch {
	case errors.Is(e.Err, syscall.EAGAIN):
		return "a limit of processes is reached: look at ulimit -u and the pids.max of the cgroup"
	case errors.Is(e.Err, syscall.EMFILE), errors.Is(e.Err, syscall.ENFILE):
		return "a limit of open files is reached: look at ulimit -n"
	case errors.Is(e.Err, syscall.ENOSPC):
		return "a limit of the kernel is reached: look at fs.mount-max and user.max_*_namespaces with sysctl"
	case errors.Is(e.Err, syscall.ENOMEM):
		return "there is not enough memory"
	}
	return "see what this host can hold with maelys doctor"
}

// refused returns why a plan is not enforced, at the rules that cannot be.
func (r *running) refused(e *warden.RefusedError) *result {
	rules := r.plan.Rules()
	all := failure(r.in.about(e.Changed)...)
	for _, u := range e.Unmet {
		policy := -1
		if u.Rule >= 0 {
			policy = rules[u.Rule].Policy
		}
		d := r.in.atRule(policy)
		d.Code, d.exit, d.Hint = codeCapability, exitSandbox, u.Fix
		d.Message = fmt.Sprintf("%s cannot hold %s: %s", e.Backend, u.Capability, u.Reason)
		if u.Unenforceable {
			d.Message, d.Hint = unenforceable, unenforceableHint
		}
		all.Diagnostics = append(all.Diagnostics, d)
	}
	for _, reason := range e.Reasons {
		all.Diagnostics = append(all.Diagnostics, diagnostic{File: r.in.name, Code: codeRefused, Message: reason, exit: exitSandbox})
	}
	return all
}

// hint says where to look when the command has failed, to people at a terminal.
func (r *running) hint() {
	if r.receipt.Status == 0 || r.app.json || !colorful(r.app.stderr) {
		return
	}
	r.app.complain(fmt.Sprintf("maelys: exit status %d; whether a path is granted says: maelys explain -w %s %s PATH\n",
		r.receipt.Status, quoted(r.plan.Workspace()), quoted(r.policy)))
}

// quoted returns a word as a shell takes it.
func quoted(s string) string {
	s = printable(s)
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.,/:@", c)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// epilogue shows what confined the command, and how long each step took.
func (r *running) epilogue() string {
	var b strings.Builder
	paint := painter{color: colorful(r.app.stderr)}
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", paint.bold(fmt.Sprintf("%-9s", name)), fmt.Sprintf(format, args...))
	}
	field("backend", "%s", r.receipt.Backend)
	for i, layer := range r.receipt.Layers {
		name := ""
		if i == 0 {
			name = "layers"
		}
		field(name, "%s", layer)
	}
	for i, step := range r.receipt.Steps {
		name := ""
		if i == 0 {
			name = "steps"
		}
		field(name, "%8.3f ms  %s", float64(step.Took.Nanoseconds())/1e6, step.Name)
	}
	for i, line := range trafficText(&r.receipt.Traffic) {
		name := ""
		if i == 0 {
			name = "network"
		}
		field(name, "%s", printable(line))
	}
	field("outcome", "%s", r.outcome())
	if !r.receipt.Ended.IsZero() {
		field("time", "%s, peak memory %d KiB", r.receipt.Ended.Sub(r.receipt.Started).Round(time.Microsecond), r.receipt.PeakMemory/1024)
	}
	return b.String()
}

// outcome says how it ended: exited:3, signaled:9, or another word by itself.
func (r *running) outcome() string {
	switch o := r.receipt.Outcome; o {
	case warden.Exited:
		return fmt.Sprintf("%s:%d", o, r.receipt.Status)
	case warden.Signaled:
		return fmt.Sprintf("%s:%d", o, r.receipt.Status-128)
	case warden.Refused, warden.Failed, warden.Canceled:
		return string(o)
	default:
		return string(o)
	}
}
