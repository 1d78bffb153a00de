//go:build linux

package cli

import (
	"flag"
	"os"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/host"
)

// TestDiagnose shows what doctor says of a host that can hold little, and of one that
// can hold nothing.
func TestDiagnose(t *testing.T) {
	hardened := host.Facts{
		System: "linux", Release: "6.1.0", MaxUserNamespaces: 15000, UnprivilegedClone: 0, AppArmorRestriction: -1, Landlock: 2,
	}
	hardened.Namespaces.User = syscall.EPERM
	for _, tt := range []struct {
		name   string
		facts  host.Facts
		golden string
	}{
		{"hardened", hardened, "testdata/doctor-hardened.txt"},
		{"macOS", host.Facts{System: "darwin", Root: true}, "testdata/doctor-macos.txt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs strings.Builder
			a := &app{stdout: &checkedWriter{w: &out}, stderr: &errs}
			if status := a.show(diagnose(tt.facts, painter{})); status != exitNo {
				t.Errorf("status %d, want %d", status, exitNo)
			}
			got := out.String() + errs.String()
			if flag.Lookup("update").Value.String() == "true" { // of the other tests in this folder
				if err := os.WriteFile(tt.golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(tt.golden)
			if err != nil || got != string(want) {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}
