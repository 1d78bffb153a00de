package plan

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// An elfSpec is an ELF file to be made for a test.
type elfSpec struct {
	class    elf.Class
	order    binary.ByteOrder
	machine  elf.Machine
	kind     elf.Type
	interp   string
	soname   string
	needed   []string
	rpath    string
	runpath  string
	audit    string
	depaudit string
	versions []uint32 // that it defines, by their hashes
}

// make lays the file out as one loaded segment at 0x10000.
func (s elfSpec) make() string {
	if s.class == 0 {
		s.class = elf.ELFCLASS64
	}
	if s.order == nil {
		s.order = binary.LittleEndian
	}
	if s.machine == 0 {
		s.machine = elf.EM_X86_64
	}
	if s.kind == 0 {
		s.kind = elf.ET_DYN
	}
	const base = 0x10000
	wide := s.class == elf.ELFCLASS64
	header, phentsize, word := 52, 32, 4
	if wide {
		header, phentsize, word = 64, 56, 8
	}
	number := func(b []byte, v uint64) {
		if wide {
			s.order.PutUint64(b, v)
		} else {
			s.order.PutUint32(b, uint32(v))
		}
	}
	strings := []byte{0}
	var dynamic []byte
	entry := func(tag elf.DynTag, v uint64) {
		b := make([]byte, 2*word)
		number(b, uint64(tag))
		number(b[word:], v)
		dynamic = append(dynamic, b...)
	}
	text := func(tag elf.DynTag, v string) {
		if v != "" {
			entry(tag, uint64(len(strings)))
			strings = append(append(strings, v...), 0)
		}
	}
	for _, n := range s.needed {
		text(elf.DT_NEEDED, n)
	}
	text(elf.DT_SONAME, s.soname)
	text(elf.DT_RPATH, s.rpath)
	text(elf.DT_RUNPATH, s.runpath)
	text(elf.DT_AUDIT, s.audit)
	text(elf.DT_DEPAUDIT, s.depaudit)
	at := header + 3*phentsize // the interpreter, the strings, the dynamic section
	interp := append([]byte(s.interp), 0)
	var versions []byte
	for i, hash := range s.versions {
		definition := make([]byte, 20)
		s.order.PutUint32(definition[8:], hash)
		if i+1 < len(s.versions) {
			s.order.PutUint32(definition[16:], uint32(len(definition)))
		}
		versions = append(versions, definition...)
	}
	entry(elf.DT_STRTAB, uint64(base+at+len(interp)))
	if versions != nil {
		entry(elf.DT_VERDEF, uint64(base+at+len(interp)+len(strings)))
	}
	entry(elf.DT_NULL, 0)
	strings = append(strings, versions...)
	end := at + len(interp) + len(strings) + len(dynamic)
	b := make([]byte, at, end)
	copy(b, elf.ELFMAG)
	b[4], b[5], b[6] = byte(s.class), 1, 1
	if s.order == binary.ByteOrder(binary.BigEndian) {
		b[5] = 2
	}
	s.order.PutUint16(b[16:], uint16(s.kind))
	s.order.PutUint16(b[18:], uint16(s.machine))
	s.order.PutUint32(b[20:], 1)
	number(b[24+word:], uint64(header))
	counts := b[24+3*word+4:]
	s.order.PutUint16(counts, uint16(header))
	s.order.PutUint16(counts[2:], uint16(phentsize))
	s.order.PutUint16(counts[4:], 3)
	segment := func(n int, kind elf.ProgType, from, size int) {
		p := b[header+n*phentsize:]
		s.order.PutUint32(p, uint32(kind))
		if p = p[4:]; wide {
			p = p[4:]
		}
		for i, v := range []int{from, base + from, base + from, size, size} {
			number(p[i*word:], uint64(v))
		}
	}
	segment(0, elf.PT_LOAD, 0, end)
	if s.interp != "" {
		segment(1, elf.PT_INTERP, at, len(interp))
	}
	segment(2, elf.PT_DYNAMIC, at+len(interp)+len(strings), len(dynamic))
	return string(slices.Concat(b, interp, strings, dynamic))
}

// A meter counts the bytes that are asked for.
type meter struct {
	io.ReaderAt
	bytes int
}

func (m *meter) ReadAt(b []byte, at int64) (int, error) {
	m.bytes += len(b)
	return m.ReaderAt.ReadAt(b, at)
}

func TestELFMalformed(t *testing.T) {
	samples := map[string][]byte{
		"64": []byte(elfSpec{interp: "/ld", soname: "s", needed: []string{"liba", "libb"}, rpath: "/r", runpath: "/rr"}.make()),
		"32": []byte(elfSpec{class: elf.ELFCLASS32, order: binary.BigEndian, machine: elf.EM_PPC, interp: "/ld", needed: []string{"liba"}}.make()),
	}
	if b, err := os.ReadFile("/bin/true"); err == nil && bytes.HasPrefix(b, []byte(elf.ELFMAG)) && len(b) < 1<<20 {
		samples["true"] = b
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, sample := range samples {
		read := func(b []byte) (*image, error) {
			m := &meter{ReaderAt: bytes.NewReader(b)}
			image, err := readELF(m)
			if m.bytes > maxELFRead+maxELFHeaders {
				t.Fatalf("%s: expected at most %d bytes read, found %d", name, maxELFRead, m.bytes)
			}
			return image, err
		}
		whole, err := read(sample)
		if err != nil || whole.interpreter == "" || len(whole.needed) == 0 {
			t.Fatalf("%s: %+v, %v", name, whole, err)
		}
		for end := 0; end < len(sample); end += 1 + end/512 {
			_, _ = read(sample[:end])
			if end < 52 {
				if _, err := read(sample[:end]); err == nil {
					t.Errorf("%s: expected an error for %d bytes", name, end)
				}
			}
		}
		failed := 0
		for range 50000 {
			b := slices.Clone(sample[:min(len(sample), 64<<10)])
			for range 1 + random.IntN(4) {
				// Mostly in the headers, where it matters.
				at := random.IntN(min(len(b), 1<<(6+random.IntN(11))))
				b[at] ^= 1 << random.IntN(8)
			}
			if _, err := read(b); err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("%s: expected some flips to be noticed", name)
		}
	}
}

// TestELFGreedy gives readELF headers that claim as much as they can.
func TestELFGreedy(t *testing.T) {
	for name, make := range map[string]func() elfSpec{
		"needed": func() elfSpec { return elfSpec{needed: slices.Repeat([]string{"l"}, maxNeeded+1)} },
		"rpath":  func() elfSpec { return elfSpec{rpath: strings.Repeat("r", maxSearchList+1)} },
		"name":   func() elfSpec { return elfSpec{needed: []string{strings.Repeat("n", maxNeededName+1)}} },
		"interp": func() elfSpec { return elfSpec{interp: "/" + strings.Repeat("n", maxInterpreter)} },
		"all":    func() elfSpec { return elfSpec{needed: slices.Repeat([]string{strings.Repeat("l", 4000)}, 2000)} },
	} {
		if _, err := readELF(strings.NewReader(make().make())); err == nil {
			t.Errorf("%s: expected an error", name)
		} else if !strings.HasPrefix(err.Error(), "expected ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
