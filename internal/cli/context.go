package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// A hostContext is what the flags of a verb say about the host: what is trusted, and
// never comes from a policy.
type hostContext struct {
	workspace    string
	temp         string
	runtimeRoots list
	strict       bool
	allowPrivate list
	pins         list
	searchPath   []string // in place of PATH, for verbs that start a command with another
}

// A list is what a flag that may be repeated was given. That of pflag writes its default as
// CSV when it is registered, which is a part of every start.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Type() string       { return "list" }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func (c *hostContext) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&c.workspace, "workspace", "w", "", "the `DIR` that workspace stands for (default: the current directory)")
	flags.StringVar(&c.temp, "temp", "", "the `DIR` that temp stands for (default: a private one, seen at "+plan.PrivateTemp+")")
	flags.Var(&c.runtimeRoots, "runtime-root", "a `DIR` that joins minimal-runtime with everything beneath; may be repeated")
	flags.Var(&c.allowPrivate, "allow-private", "a `HOST` of network.allow that may be at a private address; may be repeated")
	flags.Var(&c.pins, "pin", "where a destination is, as `HOST:PORT=ADDR:PORT`; may be repeated")
	flags.BoolVar(&c.strict, "strict", false, "refuse what is a warning otherwise")
}

// resolveBoth resolves two policies in one context, and says what is wrong with either.
func (c *hostContext) resolveBoth(first, second *input, p, q *mir.Policy, command []string) (a, b *plan.Plan, failed *result) {
	a, failed = c.without(p, q).resolve(first, p, command)
	b, other := c.without(q, p).resolve(second, q, command)
	return a, b, bothFailed(failed, other)
}

// readPlan reads a policy and returns what it means on this host.
func (a *app) readPlan(name string, c *hostContext, command []string) (*input, *plan.Plan, *result) {
	in, p, failed := a.readSource(name)
	if failed != nil {
		return nil, nil, failed
	}
	resolved, failed := c.resolve(in, p, command)
	return in, resolved, failed
}

// resolve returns what a policy means on this host when command is to be started,
// which may be empty. The policy was read from in.
func (c *hostContext) resolve(in *input, p *mir.Policy, command []string) (*plan.Plan, *result) {
	h, failed := c.host(p, command)
	if failed != nil {
		return nil, failed
	}
	resolved, err := plan.Resolve(p, h)
	return resolved, c.refusal(in, resolved, err)
}

// refusal returns why what [plan.Resolve] answered is not taken, if it is not.
func (c *hostContext) refusal(in *input, resolved *plan.Plan, err error) *result {
	switch {
	case err != nil:
		return in.unresolved(err)
	case c.strict && len(resolved.Warnings()) > 0:
		return failure(in.about(resolved.Warnings())...)
	}
	return nil
}

// suppose is resolve for those who want to know what a policy permits once the paths
// that it needs exist: those that are missing are taken for directories, and returned.
func (c *hostContext) suppose(in *input, p *mir.Policy, command []string) (*plan.Plan, []*plan.Error, *result) {
	h, failed := c.host(p, command)
	if failed != nil {
		return nil, nil, failed
	}
	resolved, err := plan.Resolve(p, h)
	var missing plan.Errors
	if faults, ok := errors.AsType[plan.Errors](err); ok && !c.strict {
		supposed := supposition{h.Filesystem, nil}
		for _, e := range faults {
			broken, known := errors.AsType[*plan.PathError](e.Err)
			if e.Code != plan.CodeMissing || !known || !errors.Is(e.Err, fs.ErrNotExist) {
				return nil, nil, in.unresolved(err)
			}
			supposed.paths = append(supposed.paths, path.Join(broken.At, broken.Rest))
		}
		h.Filesystem, missing = supposed, faults
		resolved, err = plan.Resolve(p, h)
	}
	return resolved, missing, c.refusal(in, resolved, err)
}

// A supposition is a filesystem on which some paths exist that do not.
type supposition struct {
	plan.Filesystem
	paths []string
}

// Lstat implements [plan.Filesystem].
func (s supposition) Lstat(path string) (plan.Entry, error) {
	entry, err := s.Filesystem.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(s.paths, func(p string) bool { return covers(path, p) }) {
		return plan.Entry{Identity: plan.Identity{Type: fs.ModeDir}}, nil
	}
	return entry, err
}

// host returns the host context for a policy.
func (c *hostContext) host(p *mir.Policy, command []string) (plan.Host, *result) {
	h := plan.Host{
		Filesystem: host.Filesystem(),
		SearchPath: filepath.SplitList(os.Getenv("PATH")),
		Hardware:   host.Hardware,
	}
	fail := func(hint, format string, args ...any) (plan.Host, *result) {
		return h, failure(diagnostic{Code: string(plan.CodeHostContext), Message: fmt.Sprintf(format, args...), Hint: hint, exit: exitNo})
	}
	workspace := c.workspace
	if workspace == "" && needs(p, mir.RootWorkspace) {
		here, err := os.Getwd()
		if err != nil {
			return fail("name the workspace with -w", "the current directory cannot be found out: %v", err)
		}
		home, _ := os.UserHomeDir()
		if here == "/" || home != "" && sameFile(here, home) {
			return fail("go to the directory of the project, or name it with -w DIR",
				"expected a project as workspace, found %s: that would be granted because nothing was said", printable(here))
		}
		workspace = here
	}
	var err error
	absolute := func(path string) string {
		full, failed := filepath.Abs(path)
		err = errors.Join(err, failed)
		return filepath.ToSlash(full)
	}
	if workspace != "" {
		h.Workspace = absolute(workspace)
	}
	if c.searchPath != nil {
		h.SearchPath = c.searchPath
	}
	if c.temp != "" {
		h.Temp = absolute(c.temp)
	}
	for _, root := range c.runtimeRoots {
		h.RuntimeRoots = append(h.RuntimeRoots, absolute(root))
	}
	if len(command) > 0 {
		h.Executable = command[0]
		if !strings.Contains(command[0], "/") {
			found, failed := host.LookPath(command[0], h.SearchPath)
			if failed != nil {
				return fail("write its path, or mend PATH", "expected a command that can be started, found none called %q: %v", command[0], failed)
			}
			h.Executable = found
		}
		h.Executable = absolute(h.Executable)
	}
	if failed := c.network(&h); failed != nil {
		return h, failed
	}
	if err != nil {
		return fail("name directories by absolute paths", "the current directory cannot be found out: %v", err)
	}
	return h, nil
}

func needs(p *mir.Policy, root mir.Root) bool {
	for _, rule := range p.Rules() {
		if rule.Path.Root() == root {
			return true
		}
	}
	return false
}

// unresolved returns the diagnostics of an error of [plan.Resolve].
func (in *input) unresolved(err error) *result {
	faults, ok := errors.AsType[plan.Errors](err)
	if !ok {
		return failure(diagnostic{File: in.name, Code: string(plan.CodeHostContext), Message: err.Error(), exit: exitNo})
	}
	return failure(in.about(faults)...)
}

// about returns faults or warnings of a plan as diagnostics, at the rules that they
// are about.
func (in *input) about(faults []*plan.Error) []diagnostic {
	list := make([]diagnostic, 0, len(faults))
	for _, e := range faults {
		d := in.atRule(e.Rule)
		d.Code, d.Message, d.Hint, d.exit = string(e.Code), e.Message, e.Hint, exitNo
		if e.Path != "" {
			d.HostPath = e.Path
			d.Message = printable(e.Path) + ": " + d.Message
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b diagnostic) int { return a.Line - b.Line }) // as they stand in the manifest
	return list
}

// atRule returns a diagnostic that points at rule i of the policy in the input: into
// the manifest, or at the rule of what inspect shows. Less than 0 is no rule.
func (in *input) atRule(i int) diagnostic {
	if i < 0 {
		return diagnostic{File: in.name}
	}
	pointer := fmt.Sprintf("/filesystem/rules/%d", i)
	d := diagnostic{Pointer: &pointer}
	if places := in.places(i); len(places) > 0 {
		d = placed(places[0])
		d.in = in
	}
	d.File, d.Rule = in.name, &i
	return d
}
