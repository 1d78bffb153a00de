package plan

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The format of /etc/ld.so.cache since glibc 2.2, with the extension of 2.33 for
// glibc-hwcaps. Older ldconfig writes it behind a table of the format before, or
// that table alone.
const (
	cacheMagic     = "glibc-ld.so.cache1.1"
	cacheOldMagic  = "ld.so-1.7.0"
	cacheHeader    = 48
	cacheEntry     = 24
	cacheOldHeader = 16
	cacheOldEntry  = 12

	cacheExtension      = 0xeaa42174 // magic
	cacheHardware       = 1          // tag of the section that names the hwcaps
	cacheNamedHardware  = 1 << 30    // in the upper half of an entry's hwcap: the lower is an index
	maxCache            = 32 << 20   // bytes; Debian with everything installed has less than one
	maxCacheSections    = 64
	cacheLittle, cacheB = 2, 3 // flags of the header
)

// A cacheLibrary is one line of ld.so.cache.
type cacheLibrary struct {
	path     string
	flags    int32
	hardware string // glibc-hwcaps subfolder, empty for none
	legacy   bool   // of hardware named by bits, as glibc before 2.37 knew it
}

// An ldCache finds libraries by name.
type ldCache map[string][]cacheLibrary

var errCacheFormat = errors.New("expected the format glibc-ld.so.cache1.1")

// parseCache reads an ld.so.cache for programs of the given byte order. As the
// loader does, it refuses the whole of a file whose tables do not fit, and passes
// over a line that points outside.
func parseCache(data []byte, order binary.ByteOrder) (ldCache, error) {
	if bytes.HasPrefix(data, []byte(cacheOldMagic)) {
		if len(data) < cacheOldHeader {
			return nil, fmt.Errorf("%w, found a header of %d bytes", errCacheFormat, len(data))
		}
		count := uint64(order.Uint32(data[12:]))
		if count > uint64(len(data)-cacheOldHeader)/cacheOldEntry {
			return nil, fmt.Errorf("%w, found %d libraries of the one before in %d bytes", errCacheFormat, count, len(data))
		}
		end := cacheOldHeader + cacheOldEntry*count
		// What comes behind begins at a multiple of eight.
		next := min((end+7)&^7, uint64(len(data)))
		if !bytes.HasPrefix(data[next:], []byte(cacheMagic)) {
			return parseOldCache(data[cacheOldHeader:end], data[end:], order), nil
		}
		data = data[next:]
	}
	if len(data) < cacheHeader || string(data[:len(cacheMagic)]) != cacheMagic {
		return nil, fmt.Errorf("%w, found %q", errCacheFormat, data[:min(len(data), len(cacheMagic))])
	}
	switch flags := data[28] & 3; {
	case flags == 0: // written before there were flags
	case flags == cacheLittle && order == binary.ByteOrder(binary.LittleEndian):
	case flags == cacheB && order == binary.ByteOrder(binary.BigEndian):
	default:
		return nil, fmt.Errorf("%w in %v, found the flags %d", errCacheFormat, order, flags)
	}
	count := uint64(order.Uint32(data[20:]))
	if count > uint64(len(data)-cacheHeader)/cacheEntry {
		return nil, fmt.Errorf("%w, found %d libraries in %d bytes", errCacheFormat, count, len(data))
	}
	text := func(offset uint32) (string, bool) { return cacheText(data, offset) }
	hardware := cacheHardwareNames(data, order, text)
	cache := ldCache{}
	for i := range count {
		e := data[cacheHeader+i*cacheEntry:]
		l := cacheLibrary{flags: int32(order.Uint32(e))}
		name, ok := text(order.Uint32(e[4:]))
		if !ok {
			continue
		}
		if l.path, ok = text(order.Uint32(e[8:])); !ok || !strings.HasPrefix(l.path, "/") {
			continue
		}
		if hwcap := order.Uint64(e[16:]); hwcap>>32 == cacheNamedHardware {
			n := hwcap & 0xffffffff
			if n >= uint64(len(hardware)) || hardware[n] == "" {
				continue
			}
			l.hardware = hardware[n]
		} else {
			l.legacy = hwcap != 0
		}
		cache[name] = append(cache[name], l)
	}
	return cache, nil
}

// parseOldCache reads the table of the format before, whose strings come behind it.
func parseOldCache(table, strs []byte, order binary.ByteOrder) ldCache {
	cache := ldCache{}
	for e := range slices.Chunk(table, cacheOldEntry) {
		l := cacheLibrary{flags: int32(order.Uint32(e))}
		name, ok := cacheText(strs, order.Uint32(e[4:]))
		if !ok {
			continue
		}
		if l.path, ok = cacheText(strs, order.Uint32(e[8:])); ok && strings.HasPrefix(l.path, "/") {
			cache[name] = append(cache[name], l)
		}
	}
	return cache
}

// cacheText returns the zero-terminated string at an offset.
func cacheText(data []byte, offset uint32) (string, bool) {
	if uint64(offset) >= uint64(len(data)) {
		return "", false
	}
	b, _, ok := bytes.Cut(data[offset:min(uint64(len(data)), uint64(offset)+maxTarget+1)], []byte{0})
	return string(b), ok
}

// cacheHardwareNames reads the names that entries refer to by index, an empty one
// where it cannot be read.
func cacheHardwareNames(data []byte, order binary.ByteOrder, text func(uint32) (string, bool)) []string {
	size := uint64(len(data))
	at := uint64(order.Uint32(data[32:]))
	if at == 0 || at%4 != 0 || at+8 > size || order.Uint32(data[at:]) != cacheExtension {
		return nil
	}
	sections := min(uint64(order.Uint32(data[at+4:])), maxCacheSections)
	for i := range sections {
		s := at + 8 + i*16
		if s+16 > size {
			return nil
		}
		if order.Uint32(data[s:]) != cacheHardware {
			continue
		}
		from, length := uint64(order.Uint32(data[s+8:])), uint64(order.Uint32(data[s+12:]))
		if from+length > size {
			return nil
		}
		names := make([]string, length/4)
		for n := range names {
			names[n], _ = text(order.Uint32(data[from+uint64(n)*4:]))
		}
		return names
	}
	return nil
}

// hasHardware reports whether what name stands for depends on the processor.
func (c ldCache) hasHardware(name string) bool {
	return slices.ContainsFunc(c[name], func(l cacheLibrary) bool { return l.hardware != "" })
}

// lookup returns the paths that the loader would take for name, the one that it
// would prefer first. Only the first counts where the cache says which programs a
// library is for; other machines' libraries are told apart by their ELF header.
func (c ldCache) lookup(name string, m *image, hardware []string) []string {
	id, known := cacheID(m)
	var found []cacheLibrary
	for _, l := range c[name] {
		if l.legacy || l.hardware != "" && !slices.Contains(hardware, l.hardware) || known && l.flags != id && l.flags != 1 {
			continue
		}
		found = append(found, l)
	}
	rank := func(l cacheLibrary) int {
		switch n := slices.Index(hardware, l.hardware); {
		case l.hardware != "":
			return n
		case l.flags == 1: // for any libc: only when nothing is for this one
			return len(hardware) + 1
		}
		return len(hardware)
	}
	slices.SortStableFunc(found, func(a, b cacheLibrary) int { return rank(a) - rank(b) })
	if known && len(found) > 1 {
		found = found[:1]
	}
	var paths []string
	for _, l := range found {
		paths = append(paths, l.path)
	}
	return paths
}

// cacheID returns the flags of libraries for programs like m, where one machine has
// one value. The others' depend on its calling convention.
func cacheID(m *image) (int32, bool) {
	const libc6 = 3
	wide := m.class == elf.ELFCLASS64
	switch m.machine { //nolint:exhaustive // see above
	case elf.EM_386:
		return libc6, true
	case elf.EM_X86_64:
		if wide {
			return libc6 | 0x300, true
		}
		return libc6 | 0x800, true
	case elf.EM_AARCH64:
		return libc6 | 0xa00, wide
	case elf.EM_S390:
		return libc6 | 0x400, wide
	case elf.EM_PPC64:
		return libc6 | 0x500, true
	}
	return 0, false
}
