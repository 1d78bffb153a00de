package host

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// Hardware returns the names of the directories below glibc-hwcaps that fit the
// processor of this machine, the best first, as glibc's loader knows them. It is
// empty for processors other than x86-64, and when the processor cannot be found out.
func Hardware() []string {
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		return nil
	}
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	first := make([]byte, 1<<13) // one processor takes less, and all of them take time
	n, _ := file.Read(first)
	return levels(string(first[:n]))
}

// levels returns the levels of the x86-64 psABI that a text of /proc/cpuinfo has, the
// highest first. Each level needs those below it.
func levels(cpuinfo string) []string {
	_, line, _ := strings.Cut(cpuinfo, "\nflags")
	line, _, _ = strings.Cut(line, "\n")
	flags := strings.Fields(line)
	var names []string
	for _, level := range []struct{ name, flags string }{
		{"x86-64-v2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"},
		{"x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"},
		{"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"},
	} {
		for flag := range strings.FieldsSeq(level.flags) {
			if !slices.Contains(flags, flag) {
				return names
			}
		}
		names = slices.Insert(names, 0, level.name)
	}
	return names
}
