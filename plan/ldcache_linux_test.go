package plan

import (
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestCacheOfThisMachine(t *testing.T) {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		unavailable(t, "%v", err)
	}
	ldconfig, err := exec.LookPath("ldconfig")
	if err != nil {
		ldconfig = "/sbin/ldconfig"
	}
	out, err := exec.Command(ldconfig, "-p").Output()
	if err != nil {
		unavailable(t, "%v", err)
	}
	c, err := parseCache(data, nativeOrder())
	if err != nil {
		t.Fatal(err)
	}
	want, got := 0, 0
	for line := range strings.Lines(string(out)) {
		left, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		want++
		name, rest, _ := strings.Cut(left, " ")
		if !slices.ContainsFunc(c[name], func(l cacheLibrary) bool {
			return l.path == path && strings.Contains(rest, l.hardware) && strings.Contains(rest, "hwcap") == (l.hardware != "" || l.legacy)
		}) {
			t.Errorf("expected %s, found %v", line, c[name])
		}
	}
	for _, l := range c {
		got += len(l)
	}
	if got != want || want == 0 {
		t.Errorf("expected %d libraries, found %d", want, got)
	}
	t.Logf("%d libraries", got)
}

func nativeOrder() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}
