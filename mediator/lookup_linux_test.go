package mediator

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// TestLookup resolves what the host has in its files, and localhost whatever they say.
func TestLookup(t *testing.T) {
	found, err := lookup(t.Context(), "localhost")
	if fmt.Sprint(found) != "[127.0.0.1 ::1]" || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	file, err := os.Open("/etc/hosts")
	if err == nil {
		defer file.Close()
	}
	tried := 0
	for lines := bufio.NewScanner(file); lines.Scan(); { // of no file there are none
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) < 2 || strings.ToLower(fields[1]) == localhost {
			continue
		}
		want, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		tried++
		found, err := lookup(t.Context(), fields[1])
		if err != nil {
			t.Errorf("%s: %v", fields[1], err)
		}
		has := false
		for _, a := range found {
			has = has || a.Unmap() == want
		}
		if !has {
			t.Errorf("%s: %v, want %s", fields[1], found, want)
		}
	}
	t.Logf("%d names", tried)
	if _, err := lookup(t.Context(), "maelys.invalid"); err == nil {
		t.Error("a name is found that nobody has")
	}
}
