package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"maelys.dev/maelys/mir"
)

// The codes of a [Finding].
const (
	CodeInertRule        Code = "inert-rule"        // a rule that can never act
	CodeBroadGrant       Code = "broad-grant"       // a grant of the whole host, a home, or kernel files
	CodeSocketGrant      Code = "socket-grant"      // a grant that holds a socket of a service outside
	CodeOmissibleDeny    Code = "omissible-deny"    // a deny that protects only what exists at the launch
	CodeDirectNetwork    Code = "direct-network"    // a policy that leaves the network open
	CodeTreeUnconfined   Code = "tree-unconfined"   // a policy that does not ask for tree confinement
	CodeUndecidedMissing Code = "undecided-missing" // rules for one path that differ in missing alone
)

// A Finding is something valid in a policy that is probably not meant, or that is
// riskier than it looks.
type Finding struct {
	Code Code
	Place
	Message string // what is odd, and why it matters
	Hint    string // what to write instead
}

// Lint returns what is odd about the manifest src, in source order. A manifest
// that [Compile] refuses is refused with the same [Errors]. Of more than a thousand
// findings the rest is left out, and the last one says so, with [CodeLimitExceeded].
func Lint(src []byte) ([]Finding, error) {
	s := read(src)
	if len(s.errors) > 0 {
		return nil, s.errors
	}
	l := linter{policy: s.policy}
	for _, r := range s.rules {
		l.rules = append(l.rules, r.Rule)
	}
	l.all()
	findings := make([]Finding, 0, len(l.found))
	for _, f := range l.found {
		switch f.rule {
		case aboutMode:
			f.Place = Place{Pointer: "/network/mode", Offset: s.mode.offset}
		case aboutTree:
			f.Place = Place{Pointer: "/process/treeConfinement", Offset: s.tree.offset}
		default:
			f.Place = Place{Pointer: fmt.Sprintf("/filesystem/rules/%d", f.rule), Offset: s.rules[f.rule].offset}
		}
		findings = append(findings, f.Finding)
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return a.Offset - b.Offset })
	places := make([]*Place, len(findings))
	for i := range findings {
		places[i] = &findings[i].Place
	}
	locate(src, places)
	return findings, nil
}

// LintPolicy is [Lint] for a policy without a source. The pointers are those of
// [mir.Policy.Inspect]; there are no offsets and no lines.
func LintPolicy(p *mir.Policy) []Finding {
	l := linter{policy: p, rules: p.Rules()}
	l.all()
	findings := make([]Finding, 0, len(l.found))
	for _, f := range l.found {
		switch f.rule {
		case aboutMode:
			f.Pointer = "/network/mode"
		case aboutTree:
			f.Pointer = "/process/treeConfinement"
		default:
			f.Pointer = fmt.Sprintf("/filesystem/rules/%d", f.rule)
		}
		findings = append(findings, f.Finding)
	}
	return findings
}

// What a finding is about where it is not about a rule.
const (
	aboutMode = -1
	aboutTree = -2
)

type found struct {
	Finding
	rule int // index in linter.rules, or aboutMode or aboutTree
}

type linter struct {
	policy *mir.Policy
	rules  []mir.Rule // as in the source, before duplicates collapse
	found  []found
	cut    bool // there was more to be found

	answers map[place]bool // of denied
}

type place struct {
	path mir.Path
	tree bool
}

func (l *linter) add(rule int, code Code, hint, format string, args ...any) {
	if len(l.found) == maxErrors {
		l.cut = true
		return
	}
	l.found = append(l.found, found{Finding{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}, rule})
}

func (l *linter) all() {
	l.inert()
	for i, r := range l.rules {
		if r.Access != mir.Deny && r.Path.Root() == mir.RootHost {
			l.grant(i, r)
		}
	}
	l.omissible()
	if l.policy.Mode() == mir.ModeDirect {
		l.add(aboutMode, CodeDirectNetwork, `write "mode": "none", or "mediated" with the hosts it needs`,
			"the command reaches every network that this host reaches, its own loopback and metadata services included")
	}
	if l.policy.TreeConfinement() == mir.Disabled {
		l.add(aboutTree, CodeTreeUnconfined, `write "required"`,
			"nothing guarantees that processes which outlive the command stay confined")
	}
	slices.SortStableFunc(l.found, func(a, b found) int { return a.rule - b.rule })
	if l.cut {
		last := l.found[len(l.found)-1].rule
		message := fmt.Sprintf("more than %d findings, the rest is left out", maxErrors)
		l.found = append(l.found, found{Finding{Code: CodeLimitExceeded, Message: message, Hint: "mend the ones above first"}, last})
	}
}

func (l *linter) inert() {
	for _, i := range mir.Inert(l.rules) {
		rule, because := l.rules[i.Rule], l.rules[i.Because]
		switch {
		case rule.Path == because.Path && rule.Access == because.Access && rule.Scope == because.Scope && rule.Missing != because.Missing:
			l.add(i.Rule, CodeUndecidedMissing, "keep one of the two, with the missing that is meant",
				"rule %d says the same but for missing, and %q wins: the path must exist", i.Because, mir.MissingError)
		case because.Access == mir.Deny && rule.Access != mir.Deny:
			l.add(i.Rule, CodeInertRule, "remove one of the two; to leave a hole in a deny, deny its other entries instead",
				"this %s can never act: rule %d denies %s, and a deny wins over every grant", rule.Access, i.Because, because.Path)
		case because.Access != rule.Access:
			l.add(i.Rule, CodeInertRule, "remove it; to make a part read-only, grant write on the other parts",
				"this %s can never act: rule %d grants %s on %s, and grants add up", rule.Access, i.Because, because.Access, because.Path)
		default:
			l.add(i.Rule, CodeInertRule, "remove it",
				"rule %d says the same of %s, so this one adds nothing", i.Because, because.Path)
		}
	}
}

func (l *linter) omissible() {
	indices := l.policy.Omissible()
	if len(indices) == 0 {
		return
	}
	canonical := l.policy.Rules()
	for _, c := range indices {
		if i := slices.Index(l.rules, canonical[c]); i >= 0 {
			l.add(i, CodeOmissibleDeny, `write "missing": "error" and create the path beforehand, or do not grant write above it`,
				"where %s does not exist at the launch this deny is left out, and the command may create it", canonical[c].Path)
		}
	}
}

// A hazard is a place of the host that a policy should hardly ever grant.
type hazard struct {
	path string
	tree bool // the places beneath it count too
	code Code
	why  string
	hint string
}

// hazards are in order of how much they give away: of several that one grant
// holds, the first is named. What is below /run counts below /var/run too.
var hazards = []hazard{
	{"/proc", true, CodeBroadGrant, "the host's /proc shows every process and its environment", "leave it out; a run has a private /proc"},
	{"/sys", true, CodeBroadGrant, "/sys controls devices and the kernel", "leave it out, or name the one file that is read"},
	{"/dev", true, CodeBroadGrant, "/dev holds disks, terminals and memory of the host", "leave it out; a run has a private /dev of harmless nodes"},
	{"/run/docker.sock", false, CodeSocketGrant, "whoever can connect to the Docker socket is root on this host", "deny the socket, or grant a smaller tree"},
	{"/run/podman", true, CodeSocketGrant, "the Podman socket starts containers outside the sandbox", "deny it, or grant a smaller tree"},
	{"/run/containerd", true, CodeSocketGrant, "the containerd socket starts containers outside the sandbox", "deny it, or grant a smaller tree"},
	{"/run/dbus", true, CodeSocketGrant, "D-Bus starts services outside the sandbox", "deny it, or grant a smaller tree"},
	{"/run/user", true, CodeSocketGrant, "/run/user holds the session bus and the sockets of ssh, gpg and audio agents", "deny it, or grant a smaller tree"},
	{"/nix/var/nix/daemon-socket", true, CodeSocketGrant, "the Nix daemon builds outside the sandbox", "deny it, or grant a smaller tree"},
	{"/tmp/.X11-unix", true, CodeSocketGrant, "whoever can connect to the X server reads every key that is typed", "deny it, or use the temp root"},
	{"/run", false, CodeBroadGrant, "/run holds the sockets of the host's services", "name the files below it that are needed"},
}

// agentFiles are the directories of a home whose sockets or keys act for a person.
var agentFiles = []string{".ssh", ".gnupg", ".docker", ".aws", ".kube"}

// grant looks at one grant below the host root.
func (l *linter) grant(index int, r mir.Rule) {
	if l.denied(r.Path, true) {
		return // it is inert, which is said elsewhere
	}
	text := r.Path.Text()
	switch {
	case text == "/" && r.Scope == mir.Tree:
		l.add(index, CodeBroadGrant, "name the directories that are needed",
			"this grants %s on the whole host: every key, token and socket on it", r.Access)
		return
	case isHomes(text) && r.Scope == mir.Tree:
		l.add(index, CodeBroadGrant, "name the directories below it that are needed",
			"this grants %s on whole home directories, with keys, tokens and the files that shells run at login", r.Access)
		return
	}
	if home, rest, ok := inHome(text); ok {
		first, _, _ := strings.Cut(rest, "/")
		if slices.Contains(agentFiles, first) {
			l.add(index, CodeSocketGrant, "leave it out; give the command a key or token of its own",
				"%s holds keys or sockets that act for their owner", path.Join(home, first))
		}
		return
	}
	if i := slices.IndexFunc(hazards, func(h hazard) bool { return l.gives(r, h) }); i >= 0 {
		l.add(index, hazards[i].code, hazards[i].hint, "%s", hazards[i].why)
	}
}

// gives reports whether the grant r gives away what h names.
func (l *linter) gives(r mir.Rule, h hazard) bool {
	places := []string{h.path}
	if strings.HasPrefix(h.path, "/run") {
		places = append(places, "/var"+h.path) // on most hosts a link to it
	}
	for _, place := range places {
		at, err := mir.NewPath(mir.RootHost, place)
		if err != nil {
			continue
		}
		isSocket := h.code == CodeSocketGrant && !h.tree
		switch {
		case r.Scope == mir.Tree && r.Path.Contains(at), isSocket && r.Path == at:
			if !l.denied(at, !isSocket) {
				return true
			}
		case h.tree && r.Path != at && at.Contains(r.Path) && !harmless(r.Path.Text()):
			return true
		}
	}
	return false
}

// denied reports whether a deny takes a place out again: the tree there, or with
// tree false at least the entry itself.
func (l *linter) denied(at mir.Path, tree bool) bool {
	key := place{at, tree}
	answer, known := l.answers[key]
	if !known {
		answer = slices.ContainsFunc(l.rules, func(d mir.Rule) bool {
			return d.Access == mir.Deny && (d.Scope == mir.Tree && d.Path.Contains(at) || !tree && d.Path == at)
		})
		if l.answers == nil {
			l.answers = map[place]bool{}
		}
		l.answers[key] = answer
	}
	return answer
}

// isHomes reports whether a tree at text holds whole home directories.
func isHomes(text string) bool {
	switch text {
	case "/home", "/root", "/Users", "/var/home":
		return true
	}
	_, rest, ok := inHome(text)
	return ok && rest == ""
}

// inHome splits a path that lies in a home directory.
func inHome(text string) (home, rest string, ok bool) {
	for _, homes := range []string{"/home/", "/Users/", "/var/home/"} {
		if after, found := strings.CutPrefix(text, homes); found {
			name, rest, _ := strings.Cut(after, "/")
			return homes + name, rest, true
		}
	}
	if rest, found := strings.CutPrefix(text, "/root/"); found {
		return "/root", rest, true
	}
	return "", "", false
}

// harmless reports whether text is a device that gives nothing away.
func harmless(text string) bool {
	switch text {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty":
		return true
	}
	return false
}
