package cli

import (
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

func (a *app) lintVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE…",
		Short: "Point at what is wrong or probably not meant",
		Long: `Says everything that is wrong with each file, as compile does, and else what is valid
and probably not meant: rules that can never act, grants of the whole host, of homes,
of kernel files and of sockets of services outside, denies that protect only what
exists already, direct networking, a policy that the command could rewrite. Each with
why it matters and what to write instead.

The workspace is taken to be the current directory.`,
		Example: "  maelys lint policy.json",
		Args:    files(1, math.MaxInt),
		RunE:    a.verb(func(args []string) *result { return a.each(args, lint) }),
	}
}

func lint(in *input) *result {
	p, failed := in.policy()
	if failed != nil {
		return failed
	}
	var findings []manifest.Finding
	var err error
	if in.isMIR() {
		findings = manifest.LintPolicy(p)
	} else if findings, err = manifest.Lint(in.data); err != nil {
		return in.refused(err)
	}
	r := new(result)
	for _, f := range findings {
		d := placed(f.Place)
		d.File, d.Code, d.Message, d.Hint = in.name, string(f.Code), f.Message, f.Hint
		d.exit, d.in = exitNo, in
		r.Diagnostics = append(r.Diagnostics, d)
	}
	if reached(p, in.name) {
		r.Diagnostics = append(r.Diagnostics, diagnostic{
			File: in.name, Code: codeWritablePolicy, exit: exitNo,
			Message: "the command can rewrite this file, and so what the next run grants",
			Hint:    "deny it in the policy, or keep it outside what the policy lets the command write",
		})
	}
	if len(r.Diagnostics) > 0 {
		return r
	}
	return &result{Files: []fileResult{{File: in.name}}, text: passed(in)}
}

// reached reports whether p lets the command write to the named file, when the
// workspace is the current directory.
func reached(p *mir.Policy, name string) bool {
	for _, path := range pathsOf(name) {
		if p.Permission(path) == mir.PermitReadWrite {
			return true
		}
	}
	return false
}

// pathsOf returns how a policy can name a file: below the workspace, when that is
// the current directory and the file is in it, and on the host.
func pathsOf(name string) []mir.Path {
	if name == "-" {
		return nil
	}
	var paths []mir.Path
	add := func(root mir.Root, text string) {
		if path, err := mir.NewPath(root, filepath.ToSlash(text)); err == nil {
			paths = append(paths, path)
		}
	}
	file, err := filepath.Abs(name)
	if err != nil {
		return nil
	}
	// The file may not exist yet, but its directory may be behind a link.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		file = filepath.Join(dir, filepath.Base(file))
	}
	add(mir.RootHost, file)
	here, err := os.Getwd()
	if err != nil {
		return paths
	}
	if resolved, err := filepath.EvalSymlinks(here); err == nil {
		here = resolved
	}
	if below, err := filepath.Rel(here, file); err == nil && filepath.IsLocal(below) {
		add(mir.RootWorkspace, below)
	}
	return paths
}
