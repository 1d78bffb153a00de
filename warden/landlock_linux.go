//go:build amd64 || arm64

package warden

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// onlyLandlock lays out a launch without namespaces: the command sees the host's own
// paths, and can read those that are granted.
func onlyLandlock(run *linux.Program, mask linux.Value, p *plan.Plan, c *Command, files []file, abi int) error {
	direct := p.Mode() == mir.ModeDirect
	run.Step("handing over descriptors")
	run.Files(descriptors(files))
	run.Step("granting paths")
	rules := run.Ruleset(abi, direct)
	for _, r := range p.Rules() {
		directory := r.Identity.Type == fs.ModeDir
		rights := linux.ReadFile
		if directory {
			rights = linux.ReadBeneath
		}
		granted := p.Evaluate(r.Path).Permission
		if directory {
			granted = p.Beneath(r.Path)
		}
		if r.Access != mir.Deny && granted != mir.PermitNone { // it may be denied as a whole
			run.About(r.Path)
			run.PermitPath(rules, r.Path, identity(r.Identity), rights)
		}
	}
	run.Step("permitting descriptors")
	for _, f := range files {
		run.PermitFile(rules, f.Number, f.rights)
	}
	run.Step("giving up capabilities")
	run.Undumpable()
	if err := run.Renounce(os.Geteuid() == 0); err != nil {
		return err
	}
	return finish(run, c, rules, mask, linux.Surroundings{Scoped: true, Alone: true, Network: direct})
}

// unmetByLandlock returns why Landlock alone cannot hold a plan of which it has all
// capabilities: it can only show what the host has, and of a file grant every name.
func unmetByLandlock(p *plan.Plan) []string {
	for _, r := range p.Rules() {
		if r.Private {
			return []string{fmt.Sprintf("the landlock backend cannot give the command %s of its own, as minimal-runtime and a private temp have it", r.Path)}
		}
	}
	var reasons []string
	for _, r := range p.Rules() {
		if r.Access == mir.Deny || r.Identity.Type != 0 {
			continue
		}
		if info, err := os.Lstat(r.Path); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
				reasons = append(reasons, fmt.Sprintf("the landlock backend would grant %q by its other names too, of which it has %d", r.Path, st.Nlink-1))
			}
		}
	}
	return reasons
}
