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
	ownFile                         // a file of the sandbox's own
	ownDevice                       // a device that does no harm
	listing                         // an empty directory that can be listed, for one apart from its entries
	closedMount                     // a directory that cannot be listed, in which its entries are mounted
)

// A step makes one path of the command's root. Paths come after those above them.
type step struct {
	Action   action
	Path     string
	Target   string // of a link
	Writable bool
	Deep     bool // everything beneath as well
	Hosted   bool // the path is in what the host has, where it exists
	Identity plan.Identity
}

// An entry is one of a directory of the host.
type entry struct {
	Name     string
	Identity plan.Identity
	Target   string // of a link
}

// layout returns the steps that make the root of a command under p: in it every path
// that can be reached is permitted what [plan.Plan.Evaluate] says. The function entries
// reads a directory of the host.
func layout(p *plan.Plan, entries func(dir string) ([]entry, error)) ([]step, error) {
	l := layouter{plan: p, mounted: map[string]mount{}, entries: entries}
	rules := p.Rules()
	for i, r := range rules {
		if i == 0 || rules[i-1].Path != r.Path {
			if err := l.path(r.Path, rules[i:]); err != nil {
				return nil, err
			}
		}
	}
	// A pin is found only when a deny asks for it, and belongs before what is mounted
	// beneath it.
	slices.SortStableFunc(l.steps, func(a, b step) int { return strings.Compare(a.Path, b.Path) })
	for _, dir := range p.Directories() {
		l.steps = append(l.steps, l.placed(step{Action: makeDirectory, Path: dir}))
	}
	for _, link := range p.Links() {
		l.steps = append(l.steps, l.placed(step{Action: makeLink, Path: link.Path, Target: link.Target}))
	}
	return slices.DeleteFunc(l.steps, func(s step) bool {
		return s.Hosted && (s.Action == makeDirectory || s.Action == makeLink) // the host has it
	}), nil
}

// A layouter makes a layout.
type layouter struct {
	plan    *plan.Plan
	entries func(dir string) ([]entry, error)
	steps   []step
	mounted map[string]mount // what is mounted where
}

// A mount is what a path and everything beneath is, as far as nothing else is mounted.
type mount struct {
	permission mir.Permission
	private    bool // what rules give there belongs to the sandbox
	own        bool // what is in it was made for the sandbox
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

// placed says whether the path of a step is in what the host has.
func (l *layouter) placed(s step) step {
	_, outer, inside := l.around(s.Path)
	_, itself := l.mounted[s.Path]
	s.Hosted = inside && !outer.own || itself && s.Action <= makeLink
	return s
}

// path makes what the rules for one path ask for; rules begins with them.
func (l *layouter) path(path string, rules []plan.Rule) error {
	r := rules[0]
	for _, other := range rules {
		if other.Path == path && other.Access != mir.Deny {
			r = other // whose the path is
			break
		}
	}
	node := l.plan.Evaluate(path).Permission
	permission, directory := node, r.Identity.Type == fs.ModeDir
	if directory {
		permission = l.plan.Beneath(path)
	}
	at, outer, inside := l.around(path)
	now := mount{permission, r.Private, r.Private && directory}
	if inside && outer == now && node == permission && permission != mir.PermitNone && r.Access != mir.Deny && !r.Private {
		return nil // it is so already
	}
	switch {
	case node == mir.PermitNone && permission != mir.PermitNone:
		return l.apart(path, r, permission)
	case node != permission:
		l.add(step{Action: listing, Path: path}, mount{own: true})
	case permission == mir.PermitNone && (!inside || outer.permission == mir.PermitNone):
		return nil // there is nothing to be hidden
	case permission == mir.PermitNone:
		if outer.permission == mir.PermitReadWrite && !outer.private {
			l.pin(at, path, outer)
		}
		l.add(step{Action: maskMount, Path: path, Identity: r.Identity}, now)
	case r.Private && directory:
		l.add(step{Action: ownMount, Path: path, Writable: permission == mir.PermitReadWrite}, now)
	case r.Private && r.Identity.Type.IsRegular():
		l.add(step{Action: ownFile, Path: path}, now)
	case r.Private:
		l.add(step{Action: ownDevice, Path: path, Writable: true}, now)
	default:
		l.add(step{
			Action: bindMount, Path: path, Writable: permission == mir.PermitReadWrite,
			Deep: directory, Identity: r.Identity,
		}, now)
	}
	return nil
}

// apart makes a directory that itself is denied, while what is in it can be read: each
// entry that is there now is mounted by itself.
func (l *layouter) apart(path string, r plan.Rule, permission mir.Permission) error {
	l.add(step{Action: closedMount, Path: path, Identity: r.Identity}, mount{own: true})
	if r.Private {
		return nil // it is empty
	}
	entries, err := l.entries(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := strings.TrimSuffix(path, "/") + "/" + e.Name
		if e.Identity.Type == fs.ModeSymlink {
			l.add(step{Action: makeLink, Path: below, Target: e.Target}, mount{permission: permission})
			continue
		}
		l.add(step{Action: bindMount, Path: below, Deep: e.Identity.Type == fs.ModeDir, Identity: e.Identity}, mount{permission: permission})
	}
	return nil
}

func (l *layouter) add(s step, m mount) {
	s = l.placed(s)
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
