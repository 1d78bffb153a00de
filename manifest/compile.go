package manifest

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"maelys.dev/maelys/mir"
)

// SchemaURL is the only value that "$schema" may have, and the $id of [Schema].
const SchemaURL = "https://schemas.maelys.dev/mir-source/v2/schema.json"

// Compile returns the policy that the manifest src says. When src is refused the
// error is [Errors], with every fault in source order; a fault of the JSON syntax
// ends the reading, so nothing after it is judged. Compile does not retain src.
func Compile(src []byte) (*mir.Policy, error) {
	s := read(src)
	if len(s.errors) > 0 {
		return nil, s.errors
	}
	return s.policy, nil
}

// A source is a manifest that has been read: the policy, or why there is none.
type source struct {
	policy *mir.Policy
	errors Errors

	// What the manifest says before duplicates collapse, for lint. Only what is
	// valid by itself is here.
	rules        []sourceRule
	destinations []sourceDestination
	mode         sourceMode
	tree         sourceTree
	rulesOffset  int // of the array
	allowOffset  int // of the array; 0 where there is none
}

type sourceRule struct {
	mir.Rule
	offset int
}

type sourceDestination struct {
	mir.Destination
	offset int
}

type sourceMode struct {
	mir.Mode
	offset int
}

type sourceTree struct {
	mir.TreeConfinement
	offset int
}

func read(src []byte) *source {
	s := new(source)
	if len(src) > MaxSize {
		s.errors = Errors{{
			Code:    CodeLimitExceeded,
			Place:   Place{Offset: MaxSize},
			Message: fmt.Sprintf("a manifest may have %d bytes at most", MaxSize),
		}}
		s.locate(src[:MaxSize])
		return s
	}
	m := &manifestReader{reader: newReader(src), source: s}
	m.document()
	m.end()
	m.build()
	s.errors = m.errors.sorted()
	s.locate(src)
	return s
}

func (s *source) locate(src []byte) {
	places := make([]*Place, len(s.errors))
	for i, e := range s.errors {
		places[i] = &e.Place
	}
	locate(src, places)
}

// A manifestReader reads the members of a manifest by what they mean.
type manifestReader struct {
	*reader
	source *source
}

const pathForms = `write {"root": "workspace", "relative": …} or {"absolute": "/…"}`

// The shapes of the objects, required members first, and the words of the members
// that have a set of them. The order of words is that of the values in package mir.
var (
	documentShape = shape{[]string{"formatVersion", "filesystem", "network", "process", "$schema"}, 4, ""}
	filesShape    = shape{[]string{"default", "rules"}, 2, `write {"default": "deny", "rules": […]}`}
	ruleShape     = shape{[]string{"access", "path", "scope", "missing"}, 2, `write {"access": …, "path": …}`}
	pathShape     = shape{[]string{"special", "root", "relative", "absolute"}, 0, pathForms}
	networkShape  = shape{[]string{"mode", "allow"}, 1, `write {"mode": "none"}`}
	allowShape    = shape{[]string{"protocol", "host", "port"}, 3, `write {"protocol": "tcp", "host": …, "port": …}`}
	processShape  = shape{[]string{"treeConfinement"}, 1, `write {"treeConfinement": "required"}`}

	accessWords   = []string{"read", "write", "deny"}
	scopeWords    = []string{"exact", "tree"}
	missingWords  = []string{"error", "skip"}
	defaultWords  = []string{"deny"}
	specialWords  = []string{"minimal-runtime"}
	rootWords     = []string{"workspace", "temp"}
	modeWords     = []string{"none", "direct", "mediated"}
	protocolWords = []string{"tcp"}
	treeWords     = []string{"required", "disabled"}
)

const schemaHint = `write "` + SchemaURL + `", or leave the member out`

func (m *manifestReader) document() {
	m.object(documentShape, func(member, _ int) {
		switch documentShape.names[member] {
		case "formatVersion":
			if text, offset, ok := m.number(); ok && text != "2" {
				m.report(CodeInvalidValue, offset, "write 2", "expected the number 2 written as 2, found %.40s", text)
			}
		case "filesystem":
			m.filesystem()
		case "network":
			m.network()
		case "process":
			m.process()
		case "$schema":
			if text, offset, ok := m.string(schemaHint); ok && text != SchemaURL {
				m.report(CodeInvalidValue, offset, schemaHint, "unknown schema %.100q", text)
			}
		}
	})
}

func (m *manifestReader) filesystem() {
	m.object(filesShape, func(member, _ int) {
		switch filesShape.names[member] {
		case "default":
			m.word(defaultWords)
		case "rules":
			_, m.source.rulesOffset, _ = m.array(m.rule)
		}
	})
}

func (m *manifestReader) rule() {
	rule := sourceRule{Rule: mir.Rule{Scope: mir.Tree, Missing: mir.MissingError}}
	failed := len(m.errors)
	_, offset, ok := m.object(ruleShape, func(member, _ int) {
		switch ruleShape.names[member] {
		case "access":
			rule.Access = mir.Access(m.word(accessWords))
		case "path":
			rule.Path = m.path()
		case "scope":
			rule.Scope = mir.Scope(m.word(scopeWords))
		case "missing":
			rule.Missing = mir.Missing(m.word(missingWords))
		}
	})
	if ok && len(m.errors) == failed {
		rule.offset = offset
		m.source.rules = append(m.source.rules, rule)
	}
}

// path reads one of the path forms. It returns the zero Path after an error.
func (m *manifestReader) path() mir.Path {
	const special, root, relative, absolute = 0, 1, 2, 3 // in pathShape
	var text [4]string
	var place [4]int
	var valid [4]bool
	at := mir.RootWorkspace // where a relative path is judged when root is bad
	seen, offset, ok := m.object(pathShape, func(member, _ int) {
		switch member {
		case special:
			valid[special] = m.word(specialWords) != 0
		case root:
			w := m.word(rootWords)
			if valid[root] = w != 0; w == 2 {
				at = mir.RootTemp
			}
		default:
			text[member], place[member], valid[member] = m.string("")
		}
	})
	if !ok {
		return mir.Path{}
	}
	has := func(member int) bool { return seen&(1<<member) != 0 }
	switch {
	case has(absolute) && seen != 1<<absolute, has(special) && seen != 1<<special:
		m.report(CodeConflictingMembers, offset, "keep one form: special, root with relative, or absolute",
			"the members %s exclude each other", m.listed(seen))
	case seen == 0:
		m.report(CodeMissingMember, offset, pathForms,
			"a path needs one of %s", oneOf([]string{"special", "root", "absolute"}))
	case has(relative) && !has(root):
		m.report(CodeMissingMember, offset, `add "root": "workspace" or "root": "temp"`, `the member "root" is missing`)
	}
	// The texts are judged even when their form is wrong, to say everything at once.
	var path mir.Path
	if valid[absolute] {
		path = m.text(pathShape.names[absolute], mir.RootHost, text[absolute], place[absolute])
	}
	if valid[relative] {
		path = m.text(pathShape.names[relative], at, text[relative], place[relative])
	}
	switch {
	case valid[special]:
		path, _ = mir.NewPath(mir.RootRuntime, "")
	case valid[root] && !has(relative):
		path, _ = mir.NewPath(at, "")
	}
	return path
}

func (m *manifestReader) listed(seen uint) string {
	var names []string
	for member, name := range pathShape.names {
		if seen&(1<<member) != 0 {
			names = append(names, strconv.Quote(name))
		}
	}
	return strings.Join(names, ", ")
}

// text makes a path of the text of the named member.
func (m *manifestReader) text(member string, root mir.Root, text string, offset int) mir.Path {
	path, err := mir.NewPath(root, text)
	if err == nil {
		return path
	}
	m.enter(member)
	defer m.leave()
	code, message := specFault(err)
	m.report(code, offset, pathHint(root, text), "%s", message)
	return mir.Path{}
}

func pathHint(root mir.Root, text string) string {
	switch {
	case len(text) > mir.MaxPath:
		return ""
	case strings.IndexByte(text, 0) >= 0:
		return "no file name can hold a NUL"
	case root != mir.RootHost && strings.HasPrefix(text, "/"):
		return `remove the leading slash, or write {"absolute": …} for a path of the host`
	case root == mir.RootHost && strings.HasPrefix(text, "~"):
		return "~ is not expanded; write the whole path"
	case root == mir.RootHost && !strings.HasPrefix(text, "/"):
		return `begin with a slash, or write {"root": "workspace", "relative": …}`
	}
	return "name the directory itself; a policy must not depend on what .. leads to"
}

func (m *manifestReader) network() {
	const modeMember, allowMember = 0, 1 // in networkShape
	var allowName, modeOffset int
	var mode mir.Mode
	count, isArray := 0, false
	seen, offset, ok := m.object(networkShape, func(member, offset int) {
		switch member {
		case modeMember:
			if m.kind() != 0 {
				modeOffset = m.offset()
			}
			mode = mir.Mode(m.word(modeWords))
		case allowMember:
			allowName = offset
			count, m.source.allowOffset, isArray = m.array(m.destination)
		}
	})
	if !ok || mode == 0 {
		return
	}
	m.source.mode = sourceMode{mode, modeOffset}
	switch allowed := seen&(1<<allowMember) != 0; {
	case mode != mir.ModeMediated && allowed:
		m.enter("allow")
		m.report(CodeUnknownMember, allowName, `remove it, or write "mode": "mediated"`, `"allow" has no meaning with mode %q`, mode)
		m.leave()
	case mode == mir.ModeMediated && !allowed:
		m.report(CodeMissingMember, offset, `add "allow", or write "mode": "none"`, `mode "mediated" needs the member "allow"`)
	case mode == mir.ModeMediated && isArray && count == 0:
		m.enter("allow")
		m.report(CodeInvalidValue, m.source.allowOffset, `for no network write "mode": "none" without "allow"`, `"allow" must name at least one destination`)
		m.leave()
	}
}

func (m *manifestReader) destination() {
	var d mir.Destination
	failed := len(m.errors)
	_, offset, ok := m.object(allowShape, func(member, _ int) {
		switch allowShape.names[member] {
		case "protocol":
			m.word(protocolWords)
		case "host":
			text, offset, ok := m.string("")
			if !ok {
				return
			}
			host, err := mir.NewHostname(text)
			if err != nil {
				_, message := specFault(err)
				m.report(CodeInvalidHost, offset, hostHint(text), "%s", message)
			}
			d.Host = host
		case "port":
			text, offset, ok := m.number()
			if !ok {
				return
			}
			if d.Port, ok = port(text); !ok {
				hint := ""
				if strings.ContainsAny(text, ".eE") {
					hint = "write it in plain digits"
				}
				m.report(CodeInvalidValue, offset, hint, "expected a port from 1 to 65535, found %.40s", text)
			}
		}
	})
	if ok && len(m.errors) == failed {
		m.source.destinations = append(m.source.destinations, sourceDestination{d, offset})
	}
}

// port reads [1-9][0-9]* up to 65535. JSON numbers have other spellings of the
// same values; those are refused.
func port(text string) (uint16, bool) {
	if text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil
}

func hostHint(text string) string {
	bare, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://"), "/")
	switch {
	case strings.Contains(text, "*"):
		return "wildcards are not supported; name each host"
	case strings.HasSuffix(text, ".") && isHost(strings.TrimRight(text, ".")):
		return fmt.Sprintf("write %q", strings.TrimRight(text, "."))
	case bare != text && isHost(bare):
		return fmt.Sprintf("write the name alone: %q", bare)
	case strings.Count(text, ":") == 1 && isHost(text[:strings.IndexByte(text, ':')]):
		return fmt.Sprintf(`write "host": %q and the port in "port"`, text[:strings.IndexByte(text, ':')])
	case strings.Contains(text, "_"):
		return "names of hosts have no underscores; those that do name other records"
	case strings.IndexFunc(text, func(c rune) bool { return c > 0x7f }) >= 0:
		return "write an international name in its ASCII form, xn--…"
	}
	last := text[strings.LastIndexByte(text, '.')+1:]
	_, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err == nil || last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(strings.ToLower(last), "0x") {
		return "addresses are not supported; write the DNS name of the host"
	}
	return ""
}

func isHost(text string) bool {
	_, err := mir.NewHostname(text)
	return err == nil
}

func (m *manifestReader) process() {
	m.object(processShape, func(int, int) {
		offset := 0
		if m.kind() != 0 {
			offset = m.offset()
		}
		if w := m.word(treeWords); w != 0 {
			m.source.tree = sourceTree{mir.TreeConfinement(w), offset}
		}
	})
}

// build makes the policy, or reports which limit keeps it from being one.
func (m *manifestReader) build() {
	spec := mir.Spec{Mode: m.source.mode.Mode, TreeConfinement: m.source.tree.TreeConfinement}
	spec.Rules = make([]mir.Rule, len(m.source.rules))
	for i, r := range m.source.rules {
		spec.Rules[i] = r.Rule
	}
	spec.Destinations = make([]mir.Destination, len(m.source.destinations))
	for i, d := range m.source.destinations {
		spec.Destinations[i] = d.Destination
	}
	if len(m.errors) > 0 {
		// There will be no policy. Only the limits are still to be judged, and those
		// do not depend on what is wrong elsewhere.
		if m.done || len(spec.Rules) <= mir.MaxRules && len(spec.Destinations) <= mir.MaxDestinations {
			return
		}
		spec.TreeConfinement, spec.Mode = mir.Required, mir.ModeNone
		if len(spec.Destinations) > 0 {
			spec.Mode = mir.ModeMediated
		}
	}
	policy, err := mir.Build(spec)
	m.source.policy = policy
	var fault *mir.SpecError
	if !errors.As(err, &fault) {
		return
	}
	_, message := specFault(err)
	switch fault.Field {
	case "Rules":
		m.reportAt(CodeLimitExceeded, pointer{{"filesystem", -1}, {"rules", -1}}, m.source.rulesOffset, "", "%s", message)
	case "Destinations":
		m.reportAt(CodeLimitExceeded, pointer{{"network", -1}, {"allow", -1}}, m.source.allowOffset, "", "%s", message)
	default:
		m.reportAt(CodeLimitExceeded, nil, 0, "use fewer or shorter paths", "%s", message)
	}
}

// specFault takes an error of package mir apart.
func specFault(err error) (Code, string) {
	var fault *mir.SpecError
	if !errors.As(err, &fault) {
		return CodeInvalidValue, err.Error()
	}
	return Code(fault.Code), fault.Message
}
