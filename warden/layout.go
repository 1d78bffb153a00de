package warden

import (
	"io/fs"
	"slices"
	"strings"

	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// What a step of a layout does.
type action uint8

const (
	makeDirectory action = iota + 1 // an empty directory, where there is none
	makeLink                        // a symbolic link, where there is nothing
	bindMount                       // what the host has at a path
	pinMount                        // a directory over itself, so that it cannot be renamed
	maskMount                       // something that cannot be opened, listed or changed
	ownMount                        // a directory of the sandbox's own
	ownDevice                       // a device that does no harm
)

// A step makes one path of the command's root. Paths come after those above them.
type step struct {
	Action   action
	Path     string
	Target   string // of a link
	Writable bool
	Deep     bool // everything beneath as well
	Identity plan.Identity
}

// layout returns the steps that make the root of a command under p: in it every path
// that can be reached is permitted what [plan.Plan.Evaluate] says.
func layout(p *plan.Plan) []step {
	l := layouter{plan: p, mounted: map[string]mount{}}
	rules := p.Rules()
	for i, r := range rules {
		if i == 0 || rules[i-1].Path != r.Path {
			l.path(r.Path, rules[i:])
		}
	}
	// A pin is found only when a deny asks for it, and belongs before what is mounted
	// beneath it.
	slices.SortStableFunc(l.steps, func(a, b step) int { return strings.Compare(a.Path, b.Path) })
	for _, dir := range p.Directories() {
		l.steps = append(l.steps, step{Action: makeDirectory, Path: dir})
	}
	for _, link := range p.Links() {
		l.steps = append(l.steps, step{Action: makeLink, Path: link.Path, Target: link.Target})
	}
	return l.steps
}

// A layouter makes a layout.
type layouter struct {
	plan    *plan.Plan
	steps   []step
	mounted map[string]mount // what is mounted where
}

type mount struct {
	permission mir.Permission
	private    bool
}

// around returns the nearest mount above a path.
func (l *layouter) around(path string) (at string, m mount, ok bool) {
	for path != "/" {
		path = path[:max(1, strings.LastIndexByte(path, '/'))]
		if m, ok := l.mounted[path]; ok {
			return path, m, true
		}
	}
	return "", mount{}, false
}

// path makes what the rules for one path ask for; rules begins with them.
func (l *layouter) path(path string, rules []plan.Rule) {
	r := rules[0]
	for _, other := range rules {
		if other.Path == path && other.Access != mir.Deny {
			r = other // whose the path is
			break
		}
	}
	decision := l.plan.Evaluate(path)
	permission := decision.Permission
	if r.Identity.Type == fs.ModeDir {
		permission = l.plan.Beneath(path) // equal, or the plan needs what is not offered
	}
	at, outer, inside := l.around(path)
	if inside && outer == (mount{permission, r.Private}) && permission != mir.PermitNone && r.Access != mir.Deny && !r.Private {
		return // it is so already
	}
	now := mount{permission, r.Private}
	switch {
	case permission == mir.PermitNone && (!inside || outer.permission == mir.PermitNone):
		return // there is nothing to be hidden
	case permission == mir.PermitNone:
		if outer.permission == mir.PermitReadWrite && !outer.private {
			l.pin(at, path, outer)
		}
		l.add(step{Action: maskMount, Path: path, Identity: r.Identity}, now)
	case r.Private && r.Identity.Type == fs.ModeDir:
		l.add(step{Action: ownMount, Path: path, Writable: permission == mir.PermitReadWrite}, now)
	case r.Private:
		l.add(step{Action: ownDevice, Path: path, Writable: true}, now)
	default:
		l.add(step{
			Action: bindMount, Path: path, Writable: permission == mir.PermitReadWrite,
			Deep: r.Identity.Type == fs.ModeDir, Identity: r.Identity,
		}, now)
	}
}

func (l *layouter) add(s step, m mount) {
	l.steps = append(l.steps, s)
	l.mounted[s.Path] = m
}

// pin mounts the directories between a writable mount and a path in it over themselves.
// A mount point cannot be renamed or removed (EBUSY), but a directory above one could be.
func (l *layouter) pin(from, path string, outer mount) {
	for i := len(from) + 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if _, ok := l.mounted[path[:i]]; !ok {
			l.add(step{Action: pinMount, Path: path[:i]}, outer)
		}
	}
}
