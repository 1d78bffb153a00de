package mir

import "strconv"

// Access is what a filesystem [Rule] does with the paths it applies to. The
// values are those on the wire; the zero Access is invalid and [Build] refuses it.
type Access uint8

// The accesses, weakest first: of two rules for one target the later one stays.
const (
	Read  Access = 1 // the path may be read, listed and executed
	Write Access = 2 // the path may be read and changed
	Deny  Access = 3 // nothing may be done, whatever other rules grant
)

// Root is what the path of a [Rule] is relative to. The values are those on the
// wire; the zero Root is invalid.
type Root uint8

// The roots. All but RootHost are symbolic: which directory they stand for is
// decided on a host, never by the policy.
const (
	RootRuntime   Root = 1 // the files needed to load and start the executable
	RootWorkspace Root = 2 // the directory the command works on
	RootTemp      Root = 3 // the directory for temporary files
	RootHost      Root = 4 // the host's filesystem; its paths are absolute

	rootResolved Root = 5 // where a host has found the path; in no policy, see ResolvedPath
)

// Scope is how far down a [Rule] reaches. The values are those on the wire; the
// zero Scope is invalid and [Build] refuses it.
type Scope uint8

// The scopes.
const (
	Exact Scope = 1 // the named entry alone
	Tree  Scope = 2 // the named entry and everything beneath it
)

// Missing is what happens when the path of a [Rule] does not exist on a host.
// The values are those on the wire; the zero Missing is invalid.
type Missing uint8

// The ways to treat a path that does not exist. Only "not found" and "not a
// directory" count as missing; every other failure is an error in both.
const (
	MissingError Missing = 1 // the policy is refused on that host
	MissingSkip  Missing = 2 // the rule is left out on that host
)

// Mode is the network posture of a [Policy]. The values are those on the wire;
// the zero Mode is invalid and [Build] refuses it.
type Mode uint8

// The modes, narrowest first.
const (
	ModeNone     Mode = 1 // no network
	ModeMediated Mode = 3 // the listed destinations and no others
	ModeDirect   Mode = 2 // the host's network as it is
)

// TreeConfinement says whether the boundary must hold for every descendant of
// the command. The zero TreeConfinement is invalid and [Build] refuses it, so
// that the guarantee is never given up by leaving a field out; the wire values
// are therefore not the Go values.
type TreeConfinement uint8

// The tree confinements.
const (
	Required TreeConfinement = 1 // children inherit the boundary, or nothing starts
	Disabled TreeConfinement = 2 // that guarantee is not asked for; nothing is granted by it
)

// The names are those of the manifest language, in order of value from 1.
const (
	accessNames  = "read write deny"
	rootNames    = "minimal-runtime workspace temp host resolved"
	scopeNames   = "exact tree"
	missingNames = "error skip"
	modeNames    = "none direct mediated"
	treeNames    = "required disabled"
)

func (a Access) String() string          { return name(accessNames, uint8(a)) }
func (r Root) String() string            { return name(rootNames, uint8(r)) }
func (s Scope) String() string           { return name(scopeNames, uint8(s)) }
func (m Missing) String() string         { return name(missingNames, uint8(m)) }
func (m Mode) String() string            { return name(modeNames, uint8(m)) }
func (t TreeConfinement) String() string { return name(treeNames, uint8(t)) }

func (a Access) valid() bool          { return Read <= a && a <= Deny }
func (r Root) valid() bool            { return RootRuntime <= r && r <= RootHost }
func (s Scope) valid() bool           { return Exact <= s && s <= Tree }
func (m Missing) valid() bool         { return MissingError <= m && m <= MissingSkip }
func (m Mode) valid() bool            { return ModeNone <= m && m <= ModeMediated }
func (t TreeConfinement) valid() bool { return Required <= t && t <= Disabled }

// narrower orders modes by what they let through: none, mediated, direct.
func (m Mode) narrower(than Mode) bool { return m.width() < than.width() }

func (m Mode) width() int {
	switch m {
	case ModeNone:
		return 0
	case ModeMediated:
		return 1
	case ModeDirect:
		return 2
	}
	return 0
}

// name returns the n-th word of names, counted from 1.
func name(names string, n uint8) string {
	start, word := 0, uint8(1)
	for i := 0; i <= len(names); i++ {
		if i < len(names) && names[i] != ' ' {
			continue
		}
		if word == n {
			return names[start:i]
		}
		word, start = word+1, i+1
	}
	return "invalid(" + strconv.Itoa(int(n)) + ")"
}
