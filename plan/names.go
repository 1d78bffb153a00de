package plan

import (
	"errors"
	"io"
	"slices"
	"strings"

	"maelys.dev/maelys/mir"
)

// What says how names are resolved (hosts(5), resolv.conf(5)).
const (
	hostsFile    = "/etc/hosts"
	resolverFile = "/etc/resolv.conf"
	switchFile   = "/etc/nsswitch.conf"
)

// nameFiles are all that a program reads to find out the addresses of a name, where it uses
// the network of the host.
func nameFiles() []string {
	return []string{"/etc/gai.conf", "/etc/host.conf", hostsFile, switchFile, resolverFile}
}

const whyNames = "how names are resolved"

// aboutNetwork is in place of the index of a rule for what the network brings.
const aboutNetwork = -1

// NameFiles returns where the sandbox has files of its own that say which addresses the
// destinations have and who is asked for them (hosts(5), resolv.conf(5)). They are empty unless
// the mode is [mir.ModeMediated].
func (p *Plan) NameFiles() (hosts, resolver string) { return p.at.hosts, p.at.resolver }

// names adds the files by which programs resolve names: those of the host where its network
// is used, and files of the sandbox's own where destinations are named.
func (r *resolver) names(mode mir.Mode) {
	switch mode {
	case mir.ModeNone:
	case mir.ModeDirect:
		for _, path := range nameFiles() {
			// One that is missing, or that nobody can look at, is none that the host goes by.
			if found, err := r.w.resolve(path); err == nil && found.entry.Type == 0 {
				r.record(found)
				r.add(Rule{Access: mir.Read, Path: found.path, Scope: mir.Exact, Policy: aboutNetwork, Identity: found.entry.Identity, Why: whyNames})
			}
		}
	case mir.ModeMediated:
		r.plan.at.hosts, r.plan.at.resolver = r.nameFile(hostsFile), r.nameFile(resolverFile)
	}
}

// nameFile adds a file of the sandbox's own, where a path of the host leads to: a link there
// is seen where its directory is granted, and cannot be replaced.
func (r *resolver) nameFile(path string) string {
	found, err := r.w.resolve(path)
	broken, ok := errors.AsType[*PathError](err)
	at := found.path
	switch {
	case err == nil && found.entry.Type == 0:
	case ok && isMissing(err) && !strings.Contains(broken.Rest, ".."):
		at = broken.end()
		r.unnamed = append(r.unnamed, at)
	case err == nil:
		r.fail(CodeConflict, aboutHost, path, nil, "make it a file", "expected a file, in place of which the sandbox has one of its own, found a %s", found.entry.kind())
		return ""
	default:
		r.fail(CodeConflict, aboutHost, path, err, "make it a file", "expected a file, in place of which the sandbox has one of its own, found: %s", reason(err))
		return ""
	}
	r.record(found)
	r.add(Rule{Access: mir.Read, Path: at, Scope: mir.Exact, Policy: aboutNetwork, Private: true, Why: whyNames})
	return at
}

// withoutPlace finds a file of the sandbox's own that the host has not, in a directory that is
// granted as the host has it: nothing can be put there.
func (r *resolver) withoutPlace() {
	for _, path := range r.unnamed {
		for _, rule := range r.plan.rules {
			if !rule.Private && rule.Access != mir.Deny && rule.Scope == mir.Tree && inside(rule.Path, path) {
				r.fail(CodeConflict, rule.Policy, path, nil, "create the file, empty, or grant less of the directory",
					"expected a file, in place of which the sandbox has one of its own, found none in a directory that is granted")
				break
			}
		}
	}
}

// maxSwitch is how much of nsswitch.conf(5) is read, in bytes.
const maxSwitch = 64 << 10

// nameServices returns the services that glibc asks for the addresses of a name, each of
// which is a library, libnss_NAME.so.2.
func (r *resolver) nameServices(mode mir.Mode) []string {
	usual := []string{"files", "dns"} // where nothing else is said
	switch mode {
	case mir.ModeNone:
		return nil
	case mir.ModeMediated:
		return usual // only these know the names of the sandbox
	case mir.ModeDirect:
	}
	found, err := r.w.resolve(switchFile)
	if err != nil || found.entry.Type != 0 {
		return usual
	}
	f, err := r.w.fs.Open(found.path)
	if err != nil {
		return usual
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxSwitch))
	if err != nil {
		return usual
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		database, services, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(database) != "hosts" {
			continue
		}
		var names []string
		for {
			before, action, ok := strings.Cut(services, "[") // such as [NOTFOUND=return]
			names = append(names, strings.Fields(before)...)
			if !ok {
				break
			}
			_, services, _ = strings.Cut(action, "]")
		}
		return slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "/") })
	}
	return usual
}

// services loads the libraries by which a program of glibc resolves names, as it does itself
// when it is asked for the first one (dlopen(3)), each with what it needs. It goes on
// without one that is not there.
func (l *loading) services(names []string) {
	at := slices.IndexFunc(l.objects, func(o *object) bool { return o.image.soname == "libc.so.6" })
	if at < 0 {
		return
	}
	libc := l.objects[at]
	if slices.Contains(names, "files") || slices.Contains(names, "dns") {
		if f, err := l.c.w.fs.Open(libc.real.path); err == nil {
			own := libc.image.resolvesNames(f)
			f.Close()
			if own {
				names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "files" || name == "dns" })
			}
		}
	}
	for _, name := range names {
		apart := *l
		apart.objects = slices.Clone(l.objects)
		if apart.need(libc, "libnss_"+name+".so.2") == nil {
			_ = apart.complete()
		}
	}
}
