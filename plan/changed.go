package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Changed returns what is no longer as it was when p was resolved: rules whose paths
// name another file or none, links and directories on the way to them, and omitted
// rules whose paths are there now. Whoever starts a command under p must refuse when
// there is any, and then hold on to the files themselves, since paths can change again.
func (p *Plan) Changed(host Filesystem) []*Error {
	return p.changed(host, true)
}

// ChangedAround is Changed without the rules' own paths: for those who hold on to the files
// themselves and compare what they hold.
func (p *Plan) ChangedAround(host Filesystem) []*Error {
	return p.changed(host, false)
}

func (p *Plan) changed(host Filesystem, rules bool) []*Error {
	var changed Errors
	add := func(rule int, path string, cause error, format string, args ...any) {
		changed = append(changed, &Error{Code: CodeChanged, Rule: rule, Path: path, Err: cause, Hint: "resolve the policy again", Message: fmt.Sprintf(format, args...)})
	}
	w := newWalker(host)
	for i := range p.rules {
		r := &p.rules[i]
		if !rules || r.Private || i > 0 && p.rules[i-1].Path == r.Path {
			continue
		}
		// No link may have come to be on the way either.
		switch now, err := w.resolve(r.Path); {
		case err != nil:
			add(r.Policy, r.Path, err, "expected what was there at resolution, %s, found: %v", r.Identity, err)
		case now.path != r.Path || now.entry.Identity != r.Identity:
			add(r.Policy, r.Path, nil, "expected what was there at resolution, %s, found %s at %q", r.Identity, now.entry.Identity, now.path)
		}
	}
	for _, o := range p.omitted {
		if o.private {
			continue
		}
		if _, err := w.resolve(o.Path); !isMissing(err) {
			add(o.Rule, o.Path, err, "expected nothing, as at resolution, when the rule was left out; found something")
		}
	}
	own := ownLinks()
	for _, l := range p.links {
		if slices.Contains(own, l) {
			continue
		}
		dir, err := w.resolve(parent(l.Path))
		if now := w.look(l.Path); err != nil || dir.path != parent(l.Path) || now.err != nil || now.target != l.Target {
			add(aboutHost, l.Path, errors.Join(err, now.err), "expected a link to %q, as at resolution, found another or none", l.Target)
		}
	}
	for _, path := range p.directories {
		if now, err := w.resolve(path); err != nil || now.path != path || now.entry.Type != fs.ModeDir {
			add(aboutHost, path, err, "expected a directory on the way to another, as at resolution, found none")
		}
	}
	changed.sort()
	return changed
}
