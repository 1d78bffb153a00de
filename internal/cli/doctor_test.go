//go:build linux

package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/plan"
)

// TestLacks resolves a policy for hosts that can hold less than it needs.
func TestLacks(t *testing.T) {
	able := host.Facts{System: "linux", Machine: "amd64", CallsKnown: true, MaxUserNamespaces: 15000, UnprivilegedClone: -1, AppArmorRestriction: -1, Landlock: 6}
	noNetwork := able
	noNetwork.Namespaces.Net = syscall.EINVAL
	src := []byte(`{"formatVersion":2,"filesystem":{"default":"deny","rules":[
{"access":"write","path":{"absolute":"/usr"},"scope":"exact"},
{"access":"read","path":{"absolute":"/usr"},"scope":"exact","missing":"skip"}]},
"network":{"mode":"none"},"process":{"treeConfinement":"required"}}`)
	source, err := manifest.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	in := &input{name: "policy.json", data: src, source: source}
	p, err := plan.Resolve(source.Policy(), plan.Host{Filesystem: host.Filesystem()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		facts host.Facts
		want  []string
	}{
		{"able", able, []string{"2 cannot be held by anything"}},
		{"no network namespaces", noNetwork, []string{"2 cannot be held by anything", "0 cannot hold network-none: network namespaces"}},
		{"macOS", host.Facts{System: "darwin"}, []string{"3 cannot hold fs-read: only Linux", "2 fs-write", "3 fs-exact-directory", "2 by anything", "0 network-none", "0 process-tree"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := in.lacks(p, tt.facts)
			if len(list) != len(tt.want) {
				t.Fatalf("%+v, want %q", list, tt.want)
			}
			for i, d := range list {
				line, text, _ := strings.Cut(tt.want[i], " ")
				if fmt.Sprint(d.Line) != line || !strings.Contains(d.Message, text) || d.Code != codeCapability || d.Hint == "" {
					t.Errorf("%+v, want %q", d, tt.want[i])
				}
			}
		})
	}
}

// TestDiagnose shows what doctor says of a host that can hold little, of one without a
// layer, and of one that can hold nothing.
func TestDiagnose(t *testing.T) {
	hardened := host.Facts{
		System: "linux", Release: "6.1.0", Machine: "amd64", CallsKnown: true, MaxUserNamespaces: 15000, UnprivilegedClone: 0, AppArmorRestriction: -1, Landlock: 2,
	}
	layerless := hardened
	layerless.UnprivilegedClone, layerless.Landlock, layerless.LandlockError = -1, 0, syscall.EOPNOTSUPP
	layerless.Namespaces.Net = syscall.ENOSPC
	hardened.Namespaces.User = syscall.EPERM
	for _, tt := range []struct {
		name   string
		facts  host.Facts
		golden string
	}{
		{"hardened", hardened, "testdata/doctor-hardened.txt"},
		{"no landlock", layerless, "testdata/doctor-no-landlock.txt"},
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
