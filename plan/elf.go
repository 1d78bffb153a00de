package plan

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// What is read of one ELF file is bounded, whatever its headers claim. The
// bounds are far above what linkers write.
const (
	maxELFRead     = 4 << 20  // bytes in all
	maxELFHeaders  = 64 << 10 // bytes of program headers, as Linux has it
	maxInterpreter = 4096     // bytes of a PT_INTERP, as Linux has it
	maxDynamic     = 1 << 16  // entries of a PT_DYNAMIC
	maxNeeded      = 4096     // names that one file needs
	maxNeededName  = 4096     // bytes in one of them
	maxSearchList  = 1 << 18  // bytes in a DT_RPATH or DT_RUNPATH
)

// An image is what the kernel and the loader go by when they start an ELF file.
// It is read by program headers: sections are for linkers, and may be absent.
type image struct {
	class   elf.Class
	order   binary.ByteOrder
	machine elf.Machine
	kind    elf.Type
	flags   uint32 // e_flags

	interpreter string // of PT_INTERP, empty when there is none
	soname      string
	needed      []dependency
	rpath       string // empty when there is a RUNPATH: that one counts then
	runpath     string
	audit       []string // of DT_AUDIT and DT_DEPAUDIT: names of libraries that watch the loader
	hasRunpath  bool     // it may be empty, and counts all the same
	noDefault   bool     // DF_1_NODEFLIB

	versions uint64 // where the definitions of versions are loaded; 0 where there are none
}

// A dependency is a library that an image names.
type dependency struct {
	name     string
	optional bool // DT_AUXILIARY: taken when it is there
}

// architecture says what a machine must be able to run to run m.
func (m *image) architecture() string {
	return fmt.Sprintf("%d-bit %s", m.bits(), m.machine)
}

func (m *image) bits() int {
	if m.class == elf.ELFCLASS64 {
		return 64
	}
	return 32
}

// runsWith reports whether m and other can be in one process.
func (m *image) runsWith(other *image) bool {
	return m.class == other.class && m.machine == other.machine
}

// An elfReader reads parts of one file until its budget is used up.
type elfReader struct {
	file   io.ReaderAt
	budget int
	image  *image
	loads  []segment
}

type segment struct {
	kind            elf.ProgType
	offset, address uint64
	size            uint64 // in the file
}

var errELFTooLarge = errors.New("expected an ELF file whose headers are of ordinary size, found more")

// at fills b from offset on.
func (r *elfReader) at(b []byte, offset uint64) error {
	if r.budget -= len(b); r.budget < 0 {
		return errELFTooLarge
	}
	if offset > 1<<62 {
		return fmt.Errorf("expected bytes at offset %#x, found the end of the file", offset)
	}
	if n, err := r.file.ReadAt(b, int64(offset)); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			return fmt.Errorf("expected %d bytes at offset %#x, found the end of the file", len(b), offset)
		}
		return err
	}
	return nil
}

// readELF reads the image of a file that begins with the magic of ELF.
func readELF(file io.ReaderAt) (*image, error) {
	m := &image{}
	r := &elfReader{file: file, budget: maxELFRead, image: m}
	var ident [elf.EI_NIDENT]byte
	if err := r.at(ident[:], 0); err != nil {
		return nil, err
	}
	if string(ident[:4]) != elf.ELFMAG {
		return nil, fmt.Errorf("expected the magic of ELF, found %q", ident[:4])
	}
	m.class = elf.Class(ident[elf.EI_CLASS])
	if m.class != elf.ELFCLASS32 && m.class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("expected a class of 32 or 64 bits, found %d", ident[elf.EI_CLASS])
	}
	switch ident[elf.EI_DATA] {
	case byte(elf.ELFDATA2LSB):
		m.order = binary.LittleEndian
	case byte(elf.ELFDATA2MSB):
		m.order = binary.BigEndian
	default:
		return nil, fmt.Errorf("expected little or big endian data, found %d", ident[elf.EI_DATA])
	}
	segments, err := r.segments()
	if err != nil {
		return nil, err
	}
	var dynamic *segment
	for i, s := range segments {
		switch {
		case s.kind == elf.PT_INTERP && m.interpreter == "": // the kernel takes the first
			if m.interpreter, err = r.interpreter(s); err != nil {
				return nil, err
			}
		case s.kind == elf.PT_LOAD:
			r.loads = append(r.loads, s)
		case s.kind == elf.PT_DYNAMIC: // the loader takes the last
			dynamic = &segments[i]
		}
	}
	if dynamic != nil {
		if err := r.dynamic(dynamic.address); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// segments reads the file's header and its program headers.
func (r *elfReader) segments() ([]segment, error) {
	m, order := r.image, r.image.order
	header, phentsize := make([]byte, 52), 32
	if m.class == elf.ELFCLASS64 {
		header, phentsize = make([]byte, 64), 56
	}
	if err := r.at(header, 0); err != nil {
		return nil, err
	}
	m.kind = elf.Type(order.Uint16(header[16:]))
	m.machine = elf.Machine(order.Uint16(header[18:]))
	var table uint64
	rest := header[36:] // from e_flags on
	if m.class == elf.ELFCLASS64 {
		table, rest = order.Uint64(header[32:]), header[48:]
	} else {
		table = uint64(order.Uint32(header[28:]))
	}
	m.flags = order.Uint32(rest)
	size, count := int(order.Uint16(rest[6:])), int(order.Uint16(rest[8:]))
	if count == 0 {
		return nil, nil
	}
	if size != phentsize {
		return nil, fmt.Errorf("expected program headers of %d bytes, found %d", phentsize, size)
	}
	if count*size > maxELFHeaders {
		return nil, fmt.Errorf("expected at most %d bytes of program headers, found %d", maxELFHeaders, count*size)
	}
	raw := make([]byte, count*size)
	if err := r.at(raw, table); err != nil {
		return nil, err
	}
	segments := make([]segment, count)
	for i := range segments {
		p := raw[i*size:]
		s := &segments[i]
		s.kind = elf.ProgType(order.Uint32(p))
		if m.class == elf.ELFCLASS64 {
			s.offset, s.address, s.size = order.Uint64(p[8:]), order.Uint64(p[16:]), order.Uint64(p[32:])
		} else {
			s.offset, s.address, s.size = uint64(order.Uint32(p[4:])), uint64(order.Uint32(p[8:])), uint64(order.Uint32(p[16:]))
		}
	}
	return segments, nil
}

func (r *elfReader) interpreter(s segment) (string, error) {
	if s.size < 2 || s.size > maxInterpreter {
		return "", fmt.Errorf("expected an ELF interpreter's path of 1 to %d bytes, found %d with the final zero", maxInterpreter-1, s.size)
	}
	b := make([]byte, s.size)
	if err := r.at(b, s.offset); err != nil {
		return "", err
	}
	if b[len(b)-1] != 0 {
		return "", errors.New("expected a zero at the end of the ELF interpreter's path, found none")
	}
	name, _, _ := bytes.Cut(b, []byte{0})
	if len(name) == 0 {
		return "", errors.New("expected the path of an ELF interpreter, found an empty one")
	}
	return string(name), nil
}

// locate returns where the file holds what is loaded at address, and how many
// bytes follow there.
func (r *elfReader) locate(address uint64) (offset, size uint64, err error) {
	for _, s := range r.loads {
		if d := address - s.address; address >= s.address && d < s.size {
			if s.offset+d < s.offset {
				break
			}
			return s.offset + d, s.size - d, nil
		}
	}
	return 0, 0, fmt.Errorf("expected a loaded segment at address %#x, found none", address)
}

// text reads a zero-terminated string.
func (r *elfReader) text(address uint64, limit int) (string, error) {
	offset, size, err := r.locate(address)
	if err != nil {
		return "", err
	}
	var text []byte
	for size > 0 {
		// A piece may not go beyond the segment, which can be the file's end.
		b := make([]byte, min(size, 64))
		if err := r.at(b, offset); err != nil {
			return "", err
		}
		head, _, end := bytes.Cut(b, []byte{0})
		text = append(text, head...)
		if len(text) >= limit {
			return "", fmt.Errorf("expected a string of less than %d bytes at address %#x, found a longer one", limit, address)
		}
		if end {
			return string(text), nil
		}
		offset, size = offset+uint64(len(b)), size-uint64(len(b))
	}
	return "", fmt.Errorf("expected a zero at the end of the string at address %#x, found none", address)
}

// dynamic reads the entries at address up to DT_NULL, as a loader does.
func (r *elfReader) dynamic(address uint64) error {
	m, order := r.image, r.image.order
	offset, size, err := r.locate(address)
	if err != nil {
		return err
	}
	word := m.bits() / 8
	var strings uint64
	var soname, rpath, runpath, audit, depaudit *uint64 // offsets of strings; of two the last counts
	var needed []uint64
	var optional []bool
	b := make([]byte, 2*word)
	for n := 0; ; n++ {
		if n == maxDynamic {
			return errELFTooLarge
		}
		if size < uint64(len(b)) {
			break
		}
		if err := r.at(b, offset); err != nil {
			return err
		}
		offset, size = offset+uint64(len(b)), size-uint64(len(b))
		var tag elf.DynTag
		var value uint64
		if word == 8 {
			tag, value = elf.DynTag(order.Uint64(b)), order.Uint64(b[8:])
		} else {
			tag, value = elf.DynTag(int32(order.Uint32(b))), uint64(order.Uint32(b[4:]))
		}
		if tag == elf.DT_NULL {
			break
		}
		switch tag { //nolint:exhaustive // the others are about code, not about files
		case elf.DT_STRTAB:
			strings = value
		case elf.DT_SONAME:
			soname = &value
		case elf.DT_RPATH:
			rpath = &value
		case elf.DT_RUNPATH:
			runpath = &value
		case elf.DT_AUDIT:
			audit = &value
		case elf.DT_DEPAUDIT:
			depaudit = &value
		case elf.DT_VERDEF:
			m.versions = value
		case elf.DT_FLAGS_1:
			m.noDefault = elf.DynFlag1(value)&elf.DF_1_NODEFLIB != 0
		case elf.DT_NEEDED, elf.DT_FILTER, elf.DT_AUXILIARY:
			if len(needed) == maxNeeded {
				return errELFTooLarge
			}
			needed, optional = append(needed, value), append(optional, tag == elf.DT_AUXILIARY)
		}
	}
	if runpath != nil {
		rpath, m.hasRunpath = nil, true
	}
	var audits, depaudits string
	for _, s := range []struct {
		from *uint64
		to   *string
	}{{soname, &m.soname}, {rpath, &m.rpath}, {runpath, &m.runpath}, {audit, &audits}, {depaudit, &depaudits}} {
		if s.from == nil {
			continue
		}
		if *s.to, err = r.text(strings+*s.from, maxSearchList); err != nil {
			return err
		}
	}
	m.audit = slices.Concat(searchNames(audits), searchNames(depaudits))
	for i, n := range needed {
		name, err := r.text(strings+n, maxNeededName)
		if err != nil {
			return err
		}
		m.needed = append(m.needed, dependency{name, optional[i]})
	}
	return nil
}

// glibc234 is the hash of "GLIBC_2.34", a version that glibc defines since it has the
// services files and dns of nsswitch.conf(5) in itself.
const glibc234 = 0x69691b4

// maxVersions is how many versions of a library are looked at. glibc 2.42 has about fifty.
const maxVersions = 512

// resolvesNames reports whether the glibc in a file, which m is the image of, needs no library
// for the services files and dns, by the versions that it defines (DT_VERDEF of the System V
// ABI). What is malformed there defines none. It takes as many reads as there are versions.
func (m *image) resolvesNames(file io.ReaderAt) bool {
	r := &elfReader{file: file, budget: maxELFRead, image: m}
	segments, err := r.segments()
	if m.versions == 0 || err != nil {
		return false
	}
	for _, s := range segments {
		if s.kind == elf.PT_LOAD {
			r.loads = append(r.loads, s)
		}
	}
	address := m.versions
	for range maxVersions {
		offset, size, err := r.locate(address)
		if err != nil || size < 20 {
			return false
		}
		var b [20]byte // vd_hash and vd_next are the same in both classes
		if r.at(b[:], offset) != nil {
			return false
		}
		next := r.image.order.Uint32(b[16:])
		if r.image.order.Uint32(b[8:]) == glibc234 {
			return true
		}
		if next == 0 {
			return false
		}
		address += uint64(next)
	}
	return false
}
