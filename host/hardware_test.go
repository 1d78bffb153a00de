//go:build !wasip1 && !js

package host

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestLevels(t *testing.T) {
	const (
		first  = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
		second = first + " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
		third  = second + " avx512f avx512bw avx512cd avx512dq avx512vl"
	)
	text := func(flags string) string { return "processor\t: 0\nflags\t\t: fpu " + flags + "\nbugs\t\t: none\n" }
	for name, tt := range map[string]struct{ cpuinfo, want string }{
		"all":            {text(third), "x86-64-v4 x86-64-v3 x86-64-v2"},
		"third":          {text(second), "x86-64-v3 x86-64-v2"},
		"second":         {text(first), "x86-64-v2"},
		"none":           {text("sse2"), ""},
		"a hole below":   {text(strings.Replace(third, " fma", "", 1)), "x86-64-v2"},
		"a longer name":  {text(strings.Replace(first, "popcnt", "popcnt2", 1)), ""},
		"no flags":       {"processor\t: 0\n", ""},
		"another's":      {text("sse2") + text(third), ""},
		"cut off":        {text(third)[:60], ""},
		"nothing at all": {"", ""},
	} {
		if got := strings.Join(levels(tt.cpuinfo), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	for flag := range strings.FieldsSeq(third) { // each of them is needed
		var others []string
		for other := range strings.FieldsSeq(third) {
			if other != flag {
				others = append(others, other)
			}
		}
		if slices.Equal(levels(text(strings.Join(others, " "))), levels(text(third))) {
			t.Errorf("without %s the levels are the same", flag)
		}
	}
}

// TestHardware asks glibc's loader what it searches.
func TestHardware(t *testing.T) {
	const loader = "/lib64/ld-linux-x86-64.so.2"
	out, err := exec.Command(loader, "--help").Output()
	if runtime.GOARCH != "amd64" || err != nil || !strings.Contains(string(out), "glibc-hwcaps") {
		if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
			t.Fatalf("MAELYS_REQUIRE_ALL=1: no loader to compare with: %v", err)
		}
		t.Skipf("no loader to compare with: %v", err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " (supported, searched)"); ok && strings.HasPrefix(name, "x86-64-") {
			want = append(want, name)
		}
	}
	if got := Hardware(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q as the loader says", got, want)
	}
}
