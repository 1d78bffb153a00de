package plan

import (
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// makeCache writes an ld.so.cache of lines "NAME PATH FLAGS HARDWARE".
func makeCache(order binary.ByteOrder, old bool, lines ...string) []byte {
	var entries, strs []byte
	var hardware []string
	at := uint32(cacheHeader + len(lines)*cacheEntry)
	put := func(s string) uint32 {
		n := at + uint32(len(strs))
		strs = append(append(strs, s...), 0)
		return n
	}
	for _, line := range lines {
		f := strings.Fields(line)
		e := make([]byte, cacheEntry)
		flags := map[string]uint32{"x86": 3, "x64": 0x303, "any": 1, "ppc": 0x503}[f[2]]
		order.PutUint32(e, flags)
		order.PutUint32(e[4:], put(f[0]))
		order.PutUint32(e[8:], put(f[1]))
		switch {
		case len(f) > 3 && f[3] == "legacy":
			order.PutUint64(e[16:], 4)
		case len(f) > 3:
			if !slices.Contains(hardware, f[3]) {
				hardware = append(hardware, f[3])
			}
			order.PutUint64(e[16:], cacheNamedHardware<<32|uint64(slices.Index(hardware, f[3])))
		}
		entries = append(entries, e...)
	}
	var names []byte
	for _, h := range hardware {
		names = append32(order, names, put(h))
	}
	for len(strs)%4 != 0 {
		strs = append(strs, 0)
	}
	extension := at + uint32(len(strs))
	head := make([]byte, cacheHeader)
	copy(head, cacheMagic)
	order.PutUint32(head[20:], uint32(len(lines)))
	order.PutUint32(head[24:], uint32(len(strs)))
	if head[28] = cacheLittle; order == binary.ByteOrder(binary.BigEndian) {
		head[28] = cacheB
	}
	order.PutUint32(head[32:], extension)
	b := slices.Concat(head, entries, strs)
	for _, v := range []uint32{cacheExtension, 1, cacheHardware, 0, extension + 24, uint32(len(names))} {
		b = append32(order, b, v)
	}
	b = append(b, names...)
	if old {
		before := make([]byte, cacheOldHeader+3*cacheOldEntry)
		copy(before, cacheOldMagic)
		order.PutUint32(before[12:], 3)
		for len(before)%8 != 0 {
			before = append(before, 0)
		}
		b = append(before, b...)
	}
	return b
}

func TestCacheLookup(t *testing.T) {
	lines := []string{
		"liba /x86/liba x86", "liba /x64/v2/liba x64 v2", "liba /x64/v4/liba x64 v4", "liba /x64/v3/liba x64 v3", "liba /x64/liba x64",
		"libb /legacy/libb x64 legacy", "libb /any/libb any", "libb /x64/libb x64", "libc /any/libc any", "libd /x86/libd x86", "liba /ppc/liba ppc",
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, old := range []bool{false, true} {
			data := makeCache(order, old, lines...)
			c, err := parseCache(data, order)
			if err != nil {
				t.Fatal(order, err)
			}
			x64 := &image{class: elf.ELFCLASS64, machine: elf.EM_X86_64}
			for _, tt := range []struct {
				name     string
				m        *image
				hardware string
				want     string
			}{
				{"liba", x64, "v4 v3 v2", "/x64/v4/liba"},
				{"liba", x64, "v3 v2", "/x64/v3/liba"},
				{"liba", x64, "", "/x64/liba"},
				{"libb", x64, "v3", "/x64/libb"},
				{"libc", x64, "", "/any/libc"},
				{"libd", x64, "", ""},
				{"libz", x64, "", ""},
				{"liba", &image{class: elf.ELFCLASS32, machine: elf.EM_386}, "v3", "/x86/liba"},
				{"liba", &image{class: elf.ELFCLASS64, machine: elf.EM_PPC64}, "v3", "/ppc/liba"},
				{"liba", &image{class: elf.ELFCLASS64, machine: elf.EM_RISCV}, "", "/x86/liba /x64/liba /ppc/liba"},
			} {
				if got := strings.Join(c.lookup(tt.name, tt.m, strings.Fields(tt.hardware)), " "); got != tt.want {
					t.Errorf("%v %s with %q: got %s, want %s", order, tt.name, tt.hardware, got, tt.want)
				}
			}
			other := binary.ByteOrder(binary.BigEndian)
			if order == other {
				other = binary.LittleEndian
			}
			if _, err := parseCache(data, other); err == nil {
				t.Errorf("%v: expected an error in the other order", order)
			}
		}
	}
}

// makeOldCache writes an ld.so.cache of the format before alone, of lines "NAME PATH FLAGS".
func makeOldCache(order binary.ByteOrder, lines ...string) []byte {
	b := make([]byte, cacheOldHeader)
	copy(b, cacheOldMagic)
	order.PutUint32(b[12:], uint32(len(lines)))
	var strs []byte
	for _, line := range lines {
		f := strings.Fields(line)
		b = append32(order, b, map[string]uint32{"x86": 3, "x64": 0x303, "any": 1}[f[2]])
		for _, s := range f[:2] {
			b = append32(order, b, uint32(len(strs)))
			strs = append(append(strs, s...), 0)
		}
	}
	return append(b, strs...)
}

func TestCacheOld(t *testing.T) {
	x64 := &image{class: elf.ELFCLASS64, machine: elf.EM_X86_64}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, lines := range [][]string{
			{"liba /x86/liba x86", "liba /x64/liba x64", "libb /any/libb any", "libc relative x64"},
			{"liba /x86/liba x86", "liba /x64/liba x64", "libb /any/libb any"}, // an odd number: no padding before the strings
		} {
			c, err := parseCache(makeOldCache(order, lines...), order)
			if err != nil {
				t.Fatal(order, err)
			}
			for name, want := range map[string]string{"liba": "/x64/liba", "libb": "/any/libb", "libc": "", "libz": ""} {
				if got := strings.Join(c.lookup(name, x64, nil), " "); got != want || c.hasHardware(name) {
					t.Errorf("%v %s: got %s, want %s", order, name, got, want)
				}
			}
		}
	}
	short := makeOldCache(binary.LittleEndian, "liba /liba x64")
	for _, size := range []int{cacheOldHeader - 1, cacheOldHeader, cacheOldHeader + cacheOldEntry - 1} {
		if _, err := parseCache(short[:size], binary.LittleEndian); err == nil {
			t.Errorf("expected an error for %d bytes", size)
		}
	}
}

func TestCacheMalformed(t *testing.T) {
	samples := [][]byte{
		makeCache(binary.LittleEndian, false, "liba /liba x64 v2", "libb /libb x86", "libc /libc any legacy"),
		makeCache(binary.LittleEndian, true, "liba /liba x64 v2", "libb /libb x86"),
		makeOldCache(binary.LittleEndian, "liba /liba x64", "libb /libb x86"),
	}
	if data, err := os.ReadFile("/etc/ld.so.cache"); err == nil && len(data) < 1<<20 {
		samples = append(samples, data)
	}
	m := &image{class: elf.ELFCLASS64, machine: elf.EM_X86_64}
	use := func(b []byte) {
		if c, err := parseCache(b, binary.LittleEndian); err == nil {
			c.lookup("liba", m, []string{"v2"})
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, sample := range samples {
		step := 1 + len(sample)/8192
		for end := 0; end <= len(sample); end += step {
			use(sample[:end])
		}
		small := sample[:min(len(sample), 4096)]
		for at := range small {
			for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, byte(random.IntN(256))} {
				b := slices.Clone(small)
				b[at] = v
				use(b)
			}
		}
		for range 5000 {
			b := slices.Clone(small)
			for range 1 + random.IntN(8) {
				b[random.IntN(len(b))] = byte(random.IntN(256))
			}
			use(b)
		}
	}
}

func append32(order binary.ByteOrder, b []byte, v uint32) []byte {
	b = append(b, 0, 0, 0, 0)
	order.PutUint32(b[len(b)-4:], v)
	return b
}
