package plan

import (
	"fmt"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// TestRequirementsOfNetworkAndProcesses has plans without rules.
func TestRequirementsOfNetworkAndProcesses(t *testing.T) {
	for _, tt := range []struct {
		mode mir.Mode
		tree mir.TreeConfinement
		want string
	}{
		{mir.ModeNone, mir.Required, "[{network-none -1 false} {process-tree -1 false}]"},
		{mir.ModeDirect, mir.Required, "[{network-direct -1 false} {process-tree -1 false}]"},
		{mir.ModeMediated, mir.Required, "[{fs-read 0 false} {network-mediated -1 false} {process-tree -1 false}]"},
		{mir.ModeMediated, mir.Disabled, "[{fs-read 0 false} {network-mediated -1 false}]"},
	} {
		spec := mir.Spec{Mode: tt.mode, TreeConfinement: tt.tree}
		if tt.mode == mir.ModeMediated {
			spec.Destinations = []mir.Destination{{Host: hostname(t, "a.example.com"), Port: 443}}
		}
		policy, err := mir.Build(spec)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Resolve(policy, Host{Filesystem: tree{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Requirements()); got != tt.want {
			t.Errorf("%s, %s: needs %s, want %s", tt.mode, tt.tree, got, tt.want)
		}
		if unmet := p.Unmet(nil); len(unmet) != len(p.Requirements()) {
			t.Errorf("%s, %s: %v of %v is unmet where nothing is offered", tt.mode, tt.tree, unmet, p.Requirements())
		}
	}
}

// TestRequirementsOfOwnFiles asks what plans need that have directories of the
// sandbox's own among the host's, and the host's among those.
func TestRequirementsOfOwnFiles(t *testing.T) {
	files := tree{"/tmp": "dir", "/tmp/d": "dir", "/tmp/d/ws": "dir", "/tmp/d/ws/f": "file", "/dev": "dir", "/dev/null": "device", "/proc": "dir", "/a": "dir"}
	for _, tt := range []struct {
		name  string
		rules []string
		want  string // beside those of the network and the processes
	}{
		{"an exact deny of / in a tree of /", []string{"read tree /", "deny exact /"}, "fs-read / fs-exact-directory /"},
		{"the private temp is not what lies around it", []string{"write tree /", "read exact temp:"}, "fs-read / fs-write / fs-exact-directory /tmp"},
		{"an exact write of the private temp", []string{"write exact temp:"}, "fs-read /tmp fs-write /tmp fs-exact-directory /tmp impossible /tmp"},
		{"a deny of the private temp, which is not there then", []string{"read tree /", "deny tree temp:"}, "fs-read / fs-deny /tmp"},
		{"a deny of the host in the private temp", []string{"write tree temp:", "deny tree /tmp/d"}, "fs-read /tmp fs-write /tmp fs-deny /tmp/d"},
		{"an exact grant of the host in the private temp", []string{"write tree temp:", "read exact /tmp/d/ws"}, "fs-read /tmp/d/ws fs-write /tmp fs-exact-directory /tmp/d/ws"},
		{"an exact deny of it", []string{"write tree temp:", "read tree /tmp/d/ws", "deny exact /tmp/d/ws"}, "fs-read /tmp/d/ws fs-write /tmp fs-exact-directory /tmp/d/ws"},
		{"a deny in it", []string{"write tree temp:", "read tree /tmp/d/ws", "deny exact /tmp/d/ws/f"}, "fs-read /tmp/d/ws fs-write /tmp fs-deny /tmp/d/ws/f"},
		{"grants of / come to the host's files in the private temp", []string{"read tree /", "read tree temp:", "write exact /tmp/d/ws/f"}, "fs-read / fs-write /tmp/d/ws/f"},
		{"and to its directories", []string{"read tree /", "read tree temp:", "read exact /tmp/d"}, "fs-read /"},
		{"what minimal-runtime has", []string{"read tree runtime:"}, "fs-read /dev fs-write /dev/full"},
		{"the host's device", []string{"read tree runtime:", "read exact /dev/null", "read tree /a"}, "fs-read /a fs-write /dev/full"},
		{"a deny of minimal-runtime", []string{"read tree /", "deny tree runtime:"}, "fs-read / fs-deny /dev"},
		{"an exact write that an exact deny closes, in a tree", []string{"read tree /a", "write exact workspace:", "deny exact /a"}, "fs-read /a fs-exact-directory /a"},
		{"a grant that a deny closes as a whole", []string{"write tree /a", "deny tree workspace:"}, ""},
		{"an exact read of a directory in a tree", []string{"read tree /", "read exact /a"}, "fs-read /"},
		{"an exact write of a directory in a tree that is read", []string{"read tree /a", "write exact workspace:"}, "fs-read /a fs-write /a fs-exact-directory /a impossible /a"},
		{"nothing", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Resolve(policyOf(t, tt.rules...), Host{Filesystem: files, Workspace: "/a"})
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, r := range p.Requirements() {
				switch {
				case r.Rule < 0:
				case (r.Capability == FSRead || r.Capability == FSWrite) && p.rules[r.Rule].Access == mir.Deny:
					t.Errorf("%s is needed for the deny %+v", r.Capability, p.rules[r.Rule])
				case r.Unenforceable:
					all = append(all, "impossible", p.rules[r.Rule].Path)
				default:
					all = append(all, string(r.Capability), p.rules[r.Rule].Path)
				}
			}
			if got := strings.Join(all, " "); got != tt.want {
				t.Errorf("needs %q, want %q", got, tt.want)
			}
		})
	}
}
