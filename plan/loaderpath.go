package plan

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
	"strings"
)

// searchList takes apart a list of directories. Relative ones are left out: what
// they mean depends on where a program happens to be started.
func searchList(s string) []string {
	var dirs []string
	for dir := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ':' || r == '\n' }) {
		if dir[0] == '/' {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// searchNames takes apart a list of names.
func searchNames(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ':' })
}

// loaderFile returns the path by which a loader with this text knows one of its files
// in /etc. One that was built to live elsewhere has its own.
func loaderFile(text []byte, path string) string {
	end := bytes.Index(text, []byte(path+"\x00"))
	if end < 0 {
		return path
	}
	before := text[max(0, end-maxTarget):end]
	before = before[bytes.LastIndexByte(before, 0)+1:]
	if !bytes.HasPrefix(before, []byte("/")) {
		return path // what is before it is something else
	}
	return string(before) + path
}

// defaultDirs returns what loaders for m search in the end, on Debian and its kin
// and elsewhere.
func defaultDirs(m *image) []string {
	triplet := ""
	little := m.order.Uint16([]byte{1, 0}) == 1
	switch m.machine { //nolint:exhaustive // the others have no triplet in use
	case elf.EM_X86_64:
		if triplet = "x86_64-linux-gnu"; m.class == elf.ELFCLASS32 {
			triplet = "x86_64-linux-gnux32"
		}
	case elf.EM_386:
		triplet = "i386-linux-gnu"
	case elf.EM_AARCH64:
		triplet = "aarch64-linux-gnu"
	case elf.EM_ARM:
		if triplet = "arm-linux-gnueabi"; strings.HasSuffix(m.interpreter, "hf.so.3") {
			triplet = "arm-linux-gnueabihf"
		}
	case elf.EM_RISCV:
		triplet = "riscv64-linux-gnu"
	case elf.EM_PPC64:
		if triplet = "powerpc64-linux-gnu"; little {
			triplet = "powerpc64le-linux-gnu"
		}
	case elf.EM_S390:
		triplet = "s390x-linux-gnu"
	case elf.EM_LOONGARCH:
		triplet = "loongarch64-linux-gnu"
	case elf.EM_MIPS:
		if triplet = "mips64-linux-gnuabi64"; little {
			triplet = "mips64el-linux-gnuabi64"
		}
	}
	var dirs []string
	if triplet != "" {
		dirs = append(dirs, "/lib/"+triplet, "/usr/lib/"+triplet)
	}
	if m.machine == elf.EM_RISCV {
		dirs = append(dirs, "/lib64/lp64d", "/usr/lib64/lp64d")
	}
	if m.class == elf.ELFCLASS64 {
		dirs = append(dirs, "/lib64", "/usr/lib64")
	} else if m.machine == elf.EM_X86_64 {
		dirs = append(dirs, "/libx32", "/usr/libx32")
	}
	return append(dirs, "/lib", "/usr/lib")
}

// searchPath returns the directories that files name for what by needs.
func (l *loading) searchPath(by *object) []string {
	var dirs []string
	list := func(o *object, s string) {
		for _, dir := range l.searchExpanded(o, s) {
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	if l.musl {
		for o := by; o != nil; o = o.loader {
			list(o, cmp.Or(o.image.runpath, o.image.rpath))
		}
		return dirs
	}
	if !by.image.hasRunpath {
		for o := by; o != nil; o = o.loader {
			list(o, o.image.rpath)
		}
		list(l.main, l.main.image.rpath)
	}
	if l.auditing { // as glibc 2.36 does
		list(l.main, l.main.image.runpath)
	}
	list(by, by.image.runpath)
	return dirs
}

// searchExpanded takes apart a DT_RPATH or DT_RUNPATH of o. glibc drops a directory
// that it cannot expand, musl the whole list.
func (l *loading) searchExpanded(o *object, s string) []string {
	var dirs []string
	for dir := range strings.SplitSeq(s, ":") {
		dir, ok := l.expand(o, dir)
		if !ok && l.musl {
			return nil
		}
		if ok && strings.HasPrefix(dir, "/") {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// expand puts in what $ORIGIN, $LIB and $PLATFORM stand for in a string of o. It
// fails where the loader would not know either.
func (l *loading) expand(o *object, s string) (string, bool) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "$")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		name, rest := dollar(after)
		value := ""
		switch {
		case name == "ORIGIN":
			value = parent(o.path)
		case name == "LIB" && !l.musl:
			value = l.lib
		case name == "PLATFORM" && !l.musl:
			value = l.platform()
		case l.musl:
			return "", false
		default:
			b.WriteByte('$')
			s = after
			continue
		}
		if value == "" {
			return "", false
		}
		b.WriteString(value)
		s = rest
	}
}

// nameBytes are those that make a longer name of one after a dollar.
const nameBytes = "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// dollar returns the name at the beginning of s, in braces or not, and what
// follows. The name is empty when it is none that a loader knows.
func dollar(s string) (name, rest string) {
	for _, name := range []string{"ORIGIN", "LIB", "PLATFORM"} {
		if rest, ok := strings.CutPrefix(s, "{"+name+"}"); ok {
			return name, rest
		}
		rest, ok := strings.CutPrefix(s, name)
		if ok && (rest == "" || !strings.ContainsAny(rest[:1], nameBytes)) {
			return name, rest
		}
	}
	return "", s
}

// platform returns what the loader calls the machine, where that is one name.
func (l *loading) platform() string {
	m := l.main.image
	switch m.machine { //nolint:exhaustive // the others' depends on the processor
	case elf.EM_X86_64:
		if slices.Contains(l.c.hardware(), "x86-64-v3") {
			return "" // versions of glibc have a name of their own for some of these: haswell
		}
		return "x86_64"
	case elf.EM_386:
		return "i686"
	case elf.EM_AARCH64:
		if m.order.Uint16([]byte{1, 0}) == 1 {
			return "aarch64"
		}
		return "aarch64_be"
	}
	return ""
}
