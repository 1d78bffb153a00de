package mir

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
)

// A Rule grants or denies access to the paths it applies to: its path alone when
// Scope is [Exact], everything beneath it too when it is [Tree].
//
// For one path, over the rules that apply, any [Deny] means no access, else any
// [Write] means read and write, else any [Read] means read, else no access.
type Rule struct {
	Access  Access
	Path    Path
	Scope   Scope
	Missing Missing
}

// A Destination is a TCP port of a named host.
type Destination struct {
	Host Hostname
	Port uint16 // 1 to 65535
}

// String returns d as HOST:PORT.
func (d Destination) String() string { return d.Host.text + ":" + strconv.Itoa(int(d.Port)) }

// A Spec is what [Build] makes a policy of. Every field must be said: a zero
// enumeration is refused, so nothing is granted by forgetting one.
type Spec struct {
	Rules           []Rule        // in any order, with duplicates
	Mode            Mode          // the network posture
	Destinations    []Destination // in any order, with duplicates; some exactly when Mode is ModeMediated
	TreeConfinement TreeConfinement
}

// A Policy is one decision in canonical form. It is immutable and safe for
// concurrent use. The zero Policy grants nothing and requires tree confinement.
type Policy struct {
	doc          string // the canonical bytes; paths and hostnames below point into it
	rules        []Rule
	destinations []Destination
	mode         Mode
	tree         TreeConfinement
}

// nothing is the document of the zero Policy.
const nothing = magic + "\x00\x02\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00"

// Build makes a policy of spec: it sorts the rules and destinations, collapses
// duplicates, and keeps the strongest of the rules that share a target, deny
// before write before read. Two rules share a target when root, path, scope and
// missing are equal.
//
// Build does not retain spec. Every failure is a *[SpecError]; the limits count
// what is left after collapsing.
func Build(spec Spec) (*Policy, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	rules := slices.Clone(spec.Rules)
	slices.SortFunc(rules, compareRules)
	// Within a target the strongest access sorts last.
	rules = keepLast(rules, func(r Rule) Rule { r.Access = 0; return r })
	if len(rules) > MaxRules {
		err := specErrorf(CodeLimitExceeded, "%d rules with different targets, the limit is %d", len(rules), MaxRules)
		return nil, err.in("Rules")
	}
	destinations := slices.Clone(spec.Destinations)
	slices.SortFunc(destinations, compareDestinations)
	destinations = slices.Compact(destinations)
	if len(destinations) > MaxDestinations {
		err := specErrorf(CodeLimitExceeded, "%d destinations, the limit is %d", len(destinations), MaxDestinations)
		return nil, err.in("Destinations")
	}
	p := &Policy{rules: rules, destinations: destinations, mode: spec.Mode, tree: spec.TreeConfinement}
	p.encode()
	if len(p.doc) > MaxDocument {
		return nil, specErrorf(CodeLimitExceeded, "the encoded policy has %d bytes, the limit is %d", len(p.doc), MaxDocument)
	}
	return p, nil
}

// check returns the first field of s that no policy can have.
func (s *Spec) check() *SpecError {
	for i, r := range s.Rules {
		switch {
		case !r.Access.valid():
			return invalid("access", r.Access).in("Rules[%d].Access", i)
		case !r.Path.root.valid():
			return specErrorf(CodeInvalidPath, "expected a path that a policy can hold, found the zero Path or a resolved one").in("Rules[%d].Path", i)
		case !r.Scope.valid():
			return invalid("scope", r.Scope).in("Rules[%d].Scope", i)
		case !r.Missing.valid():
			return invalid("missing", r.Missing).in("Rules[%d].Missing", i)
		}
	}
	switch {
	case !s.Mode.valid():
		return invalid("network mode", s.Mode).in("Mode")
	case s.Mode == ModeMediated && len(s.Destinations) == 0:
		return specErrorf(CodeInconsistent, "mode mediated needs at least one destination").in("Destinations")
	case s.Mode != ModeMediated && len(s.Destinations) != 0:
		return specErrorf(CodeInconsistent, "mode %s allows no destinations", s.Mode).in("Destinations")
	}
	for i, d := range s.Destinations {
		switch {
		case d.Host.text == "":
			return specErrorf(CodeInvalidHost, "the zero Hostname is not a hostname").in("Destinations[%d].Host", i)
		case d.Port == 0:
			return specErrorf(CodeInvalidValue, "port 0, expected 1 to 65535").in("Destinations[%d].Port", i)
		}
	}
	if !s.TreeConfinement.valid() {
		return invalid("tree confinement", s.TreeConfinement).in("TreeConfinement")
	}
	return nil
}

func invalid(what string, value interface{ String() string }) *SpecError {
	return specErrorf(CodeInvalidValue, "%s is %s", what, value)
}

// compareRules orders rules as the format does, by wire values.
func compareRules(a, b Rule) int {
	if c := cmp.Compare(a.Path.root, b.Path.root); c != 0 {
		return c
	}
	if c := strings.Compare(a.Path.text, b.Path.text); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Missing, b.Missing), cmp.Compare(a.Access, b.Access))
}

func compareDestinations(a, b Destination) int {
	return cmp.Or(strings.Compare(a.Host.text, b.Host.text), cmp.Compare(a.Port, b.Port))
}

// keepLast keeps, in place, the last of each run of elements with equal keys.
func keepLast[E any, K comparable](s []E, key func(E) K) []E {
	kept := s[:0]
	for i, e := range s {
		if i+1 == len(s) || key(e) != key(s[i+1]) {
			kept = append(kept, e)
		}
	}
	return kept
}

// encode fills in the document of p, whose records are canonical, and makes the
// paths and hostnames of p point into it.
func (p *Policy) encode() {
	size := headerSize + rulePrefix*len(p.rules) + destinationPrefix*len(p.destinations)
	for _, r := range p.rules {
		size += len(r.Path.text)
	}
	for _, d := range p.destinations {
		size += len(d.Host.text)
	}
	tree := byte(wireDisabled)
	if p.tree == Required {
		tree = wireRequired
	}
	b := append(make([]byte, 0, size), magic+"\x00\x02\x00\x00"...)
	b = appendUint32(b, uint32(len(p.rules)))
	b = append(b, byte(p.mode), tree, 0, 0)
	b = appendUint32(b, uint32(len(p.destinations)))
	for _, r := range p.rules {
		b = append(b, kindRule, byte(r.Access), byte(r.Path.root), byte(r.Scope), byte(r.Missing), 0, 0, 0)
		b = appendUint32(b, uint32(len(r.Path.text)))
		b = append(b, r.Path.text...)
	}
	for _, d := range p.destinations {
		b = append(b, kindDestination, protocolTCP, byte(d.Port>>8), byte(d.Port))
		b = appendUint32(b, uint32(len(d.Host.text)))
		b = append(b, d.Host.text...)
	}
	p.doc = string(b)
	p.load()
}

// Decode returns the policy that b encodes. Bytes that [Verify] refuses are
// refused with the same *[DecodeError]. Decode does not retain b.
func Decode(b []byte) (*Policy, error) {
	doc := string(b)
	if err := scan(doc); err != nil {
		return nil, err
	}
	p := &Policy{
		doc:          doc,
		rules:        make([]Rule, uint32At(doc, atRuleCount)),
		destinations: make([]Destination, uint32At(doc, atDestinationCount)),
		mode:         Mode(doc[atMode]),
		tree:         Disabled,
	}
	if doc[atTreeConfinement] == wireRequired {
		p.tree = Required
	}
	p.load()
	return p, nil
}

// load reads the records of p from its document, which is canonical.
func (p *Policy) load() {
	rest := p.doc[headerSize:]
	for i := range p.rules {
		end := rulePrefix + int(uint32At(rest, atPathLength))
		p.rules[i] = Rule{
			Access:  Access(rest[1]),
			Path:    Path{Root(rest[2]), rest[rulePrefix:end]},
			Scope:   Scope(rest[3]),
			Missing: Missing(rest[4]),
		}
		rest = rest[end:]
	}
	for i := range p.destinations {
		end := destinationPrefix + int(uint32At(rest, atHostLength))
		p.destinations[i] = Destination{
			Host: Hostname{rest[destinationPrefix:end]},
			Port: uint16(rest[2])<<8 | uint16(rest[3]),
		}
		rest = rest[end:]
	}
}

func (p *Policy) canonical() string {
	if p.doc == "" {
		return nothing
	}
	return p.doc
}

// Bytes returns the canonical bytes of p, in a slice of the caller's own.
func (p *Policy) Bytes() []byte { return []byte(p.canonical()) }

// Digest returns the SHA-256 of the canonical bytes of p.
func (p *Policy) Digest() Digest {
	return sha256.Sum256(bytesOf(p.canonical()))
}

// Rules returns the rules of p in canonical order, in a slice of the caller's own.
func (p *Policy) Rules() []Rule { return slices.Clone(p.rules) }

// Destinations returns the destinations of p in canonical order, in a slice of
// the caller's own. It is empty unless the mode is [ModeMediated].
func (p *Policy) Destinations() []Destination { return slices.Clone(p.destinations) }

// Mode returns the network posture of p.
func (p *Policy) Mode() Mode {
	if p.mode == 0 {
		return ModeNone
	}
	return p.mode
}

// TreeConfinement returns whether p requires that descendants stay confined.
func (p *Policy) TreeConfinement() TreeConfinement {
	if p.tree == 0 {
		return Required
	}
	return p.tree
}
