package mir

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// A Path is a root and a path below it in normal form: no empty, "." or ".."
// segment, no trailing slash, valid UTF-8 without NUL. Paths are compared as
// bytes; Unicode is not normalized. The zero Path is invalid and [Build] refuses
// it. Paths are comparable with ==.
type Path struct {
	root Root
	text string
}

// NewPath returns path below root in normal form: repeated slashes, "."
// segments and trailing slashes are removed.
//
// A path below [RootHost] must begin with a slash. A path below any other root
// must not, and "" is the root itself. The failures are *[SpecError] with
// [CodeLimitExceeded] for a path of more than [MaxPath] bytes as written and
// [CodeInvalidPath] for everything else, ".." segments included.
func NewPath(root Root, path string) (Path, error) {
	if !root.valid() {
		return Path{}, specErrorf(CodeInvalidValue, "unknown root %d", uint8(root))
	}
	text, err := normalPath(root, path)
	if err != nil {
		return Path{}, err
	}
	return Path{root, text}, nil
}

// ResolvedPath returns a path that a host has resolved, for a [RuleSet]. Its root is
// none of the exported ones, so that no policy can hold it and it is never taken for
// a path as written. It may have any length and need not be valid UTF-8, as on a
// disk. A text that is not absolute and in normal form gives the zero Path.
func ResolvedPath(text string) Path {
	if !strings.HasPrefix(text, "/") || strings.IndexByte(text, 0) >= 0 {
		return Path{}
	}
	for i := range len(text) {
		if text[i] == '/' && len(text) > 1 && badSegment(text, i+1) {
			return Path{}
		}
	}
	return Path{rootResolved, text}
}

// Root returns the root that p is below.
func (p Path) Root() Root { return p.root }

// absolute reports whether the text of paths below r begins with a slash.
func (r Root) absolute() bool { return r == RootHost || r == rootResolved }

// Text returns the path in normal form: absolute below [RootHost] and when it is
// resolved, relative below every other root, where "" is the root itself.
func (p Path) Text() string { return p.text }

// String returns root and path for people, such as "workspace:src/main.go". The
// root itself is a dot, and minimal-runtime by name. Absolute paths stand for
// themselves.
func (p Path) String() string {
	switch {
	case p.root.absolute():
		return p.text
	case p.text != "":
		return p.root.String() + ":" + p.text
	case p.root == RootRuntime:
		return p.root.String()
	}
	return p.root.String() + ":."
}

// relative returns the path below its root without a leading slash, so that one
// rule of containment serves every root.
func (p Path) relative() string {
	if p.root.absolute() {
		return strings.TrimPrefix(p.text, "/")
	}
	return p.text
}

// join returns the path of an entry named name directly beneath p.
func (p Path) join(name string) Path {
	switch p.text {
	case "", "/":
		return Path{p.root, p.text + name}
	default:
		return Path{p.root, p.text + "/" + name}
	}
}

// Contains reports whether q is p or beneath p: the same root, and the path of p
// a prefix of the path of q that ends at a segment.
func (p Path) Contains(q Path) bool {
	return p.root == q.root && within(p.relative(), q.relative())
}

// within reports whether the relative path inner is outer or beneath it.
func within(outer, inner string) bool {
	return outer == "" || strings.HasPrefix(inner, outer) && (len(inner) == len(outer) || inner[len(outer)] == '/')
}

// normalPath returns path below root in normal form.
func normalPath(root Root, path string) (string, *SpecError) {
	if len(path) > MaxPath {
		return "", specErrorf(CodeLimitExceeded, "the path is %d bytes long, the limit is %d", len(path), MaxPath)
	}
	if isNormal(root, path) {
		return path, nil
	}
	if i := strings.IndexByte(path, 0); i >= 0 {
		return "", specErrorf(CodeInvalidPath, "the path holds a NUL at byte %d", i)
	}
	if !utf8.ValidString(path) {
		return "", specErrorf(CodeInvalidPath, "the path is not valid UTF-8")
	}
	absolute := strings.HasPrefix(path, "/")
	switch {
	case root == RootHost && !absolute:
		return "", specErrorf(CodeInvalidPath, "an absolute path must begin with %.80q, found %.80q", "/", path)
	case root != RootHost && absolute:
		return "", specErrorf(CodeInvalidPath, "a path below %s must not begin with %.80q, found %.80q", root, "/", path)
	}
	normal := make([]byte, 0, len(path))
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
			continue
		case "..":
			return "", specErrorf(CodeInvalidPath, "the path has a %.80q segment: %.80q", "..", path)
		}
		if absolute || len(normal) > 0 {
			normal = append(normal, '/')
		}
		normal = append(normal, segment...)
	}
	if absolute && len(normal) == 0 {
		return "/", nil
	}
	return string(normal), nil
}

// Every byte of a word at once. A byte below 0x80 plus low7 carries into its top
// bit unless the byte is zero, and never into its neighbour.
const (
	ones    = 0x0101010101010101
	tops    = 0x8080808080808080
	low7    = 0x7f7f7f7f7f7f7f7f
	slashes = 0x2f2f2f2f2f2f2f2f
)

// isNormal reports whether path, at most [MaxPath] bytes, is in normal form below
// root. It decides for every input, in one pass and without allocating;
// verification spends most of its time here.
func isNormal(root Root, path string) bool {
	n, i := len(path), 0 // i is where the first segment begins, then how far the pass has come
	if root == RootHost {
		if n == 0 || path[0] != '/' {
			return false
		}
		if n == 1 {
			return true
		}
		i = 1
	}
	if n == 0 {
		return true
	}
	last := path[n-1]
	if last == '/' || last == 0 || badSegment(path, i) {
		return false
	}
	ascii := last < utf8.RuneSelf
	// What is left is to look at each byte but the last, and at the one after it.
	// First four words a step; the last step reaches back so as to end there.
	for n >= 33 && i < n-1 {
		i = min(i, n-33)
		block := path[i : i+33]
		a, b, c, d := load(block, 0), load(block, 8), load(block, 16), load(block, 24)
		odd := oddBytes(a) | oddBytes(b) | oddBytes(c) | oddBytes(d)
		pa, pb := plainPairs(a, load(block, 1)), plainPairs(b, load(block, 9))
		pc, pd := plainPairs(c, load(block, 17)), plainPairs(d, load(block, 25))
		if odd&tops != 0 {
			ascii = false
			if !normalBytes(path, i, i+32) {
				return false
			}
		} else if pa&pb&pc&pd&tops != tops &&
			(badAfter(path, i, pa) || badAfter(path, i+8, pb) || badAfter(path, i+16, pc) || badAfter(path, i+24, pd)) {
			return false
		}
		i += 32
	}
	for ; i+8 < n; i += 8 {
		w := load(path, i)
		if oddBytes(w)&tops != 0 {
			ascii = false
			if !normalBytes(path, i, i+8) {
				return false
			}
		} else if badAfter(path, i, plainPairs(w, load(path, i+1))) {
			return false
		}
	}
	if i < n-1 {
		if !normalBytes(path, i, n-1) {
			return false
		}
		for ; i < n-1; i++ {
			ascii = ascii && path[i] < utf8.RuneSelf
		}
	}
	return ascii || utf8.ValidString(path)
}

// oddBytes returns a word with a top bit set exactly when w holds a byte that is
// NUL or not ASCII.
func oddBytes(w uint64) uint64 { return w | (w - ones) }

// plainPairs compares each byte of w, which are ASCII and not NUL, with the one
// after it, which next holds at the same place. The top bit of a byte is clear
// when it is a slash that a slash or a dot follows, which begins the only segments
// that can be bad, and else set. '.' and '/' are 0x2e and 0x2f, so with the lowest
// bit set both read as '/'; adding low7 carries into the top bit of every byte
// that is not zero.
func plainPairs(w, next uint64) uint64 {
	return ((w ^ slashes) | ((next | ones) ^ slashes)) + low7
}

// badAfter reports whether a bad segment begins after a byte of the word at i
// whose top bit in pairs is clear.
func badAfter(path string, i int, pairs uint64) bool {
	for found := ^pairs & tops; found != 0; found &= found - 1 {
		if badSegment(path, i+bits.TrailingZeros64(found)/8+1) {
			return true
		}
	}
	return false
}

// normalBytes reports whether path[from:to] holds no NUL and no slash that a bad
// segment follows.
func normalBytes(path string, from, to int) bool {
	for i := from; i < to; i++ {
		if path[i] == 0 || path[i] == '/' && badSegment(path, i+1) {
			return false
		}
	}
	return true
}

// badSegment reports whether the segment that begins at i is empty, "." or "..".
func badSegment(path string, i int) bool {
	rest := len(path) - i
	switch {
	case rest == 0 || path[i] == '/':
		return true
	case path[i] != '.':
		return false
	case rest == 1 || path[i+1] == '/':
		return true
	case path[i+1] != '.':
		return false
	}
	return rest == 2 || path[i+2] == '/'
}

// load returns s[i:i+8] as a little-endian word. The compiler makes one load of it.
func load(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
