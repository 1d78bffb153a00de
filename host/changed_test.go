//go:build linux

package host_test

import (
	"os"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// TestChanged swaps files between resolution and use.
func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		swap   func(dir string) error
		rules  []int // that are no longer about what they were
		reason string
	}{
		{"nothing", func(string) error { return nil }, nil, "the host is as it was"},
		{"content and mode", func(dir string) error {
			if err := os.WriteFile(dir+"/ws/file", []byte("other"), 0o600); err != nil {
				return err
			}
			return os.Chmod(dir+"/ws/file", 0o400)
		}, nil, "it is the same file"},
		{"another file renamed over it", func(dir string) error { return os.Rename(dir+"/other", dir+"/ws/file") }, []int{2}, "another inode"},
		{"another directory in its place", func(dir string) error {
			if err := os.Rename(dir+"/ws/d", dir+"/aside"); err != nil {
				return err
			}
			return os.Rename(dir+"/spare", dir+"/ws/d")
		}, []int{1}, "another inode"},
		{"a link to the same file in its place", func(dir string) error {
			if err := os.Rename(dir+"/ws/file", dir+"/moved"); err != nil {
				return err
			}
			return os.Symlink("../moved", dir+"/ws/file")
		}, []int{2}, "the file has another path now"},
		{"a link to the same directory above it", func(dir string) error {
			if err := os.Rename(dir+"/ws", dir+"/moved"); err != nil {
				return err
			}
			return os.Symlink("moved", dir+"/ws")
		}, []int{0, 1, 2}, "the files have other paths now"},
		{"gone", func(dir string) error { return os.Remove(dir + "/ws/file") }, []int{2}, "there is none"},
		{"a directory in the place of a file", func(dir string) error {
			if err := os.Remove(dir + "/ws/file"); err != nil {
				return err
			}
			return os.Mkdir(dir+"/ws/file", 0o755)
		}, []int{2}, "another type"},
		{"what was missing is there", func(dir string) error { return os.WriteFile(dir+"/ws/later", nil, 0o600) }, []int{3}, "the deny would hold now"},
		{"what was missing is a loop", func(dir string) error { return os.Symlink("later", dir+"/ws/later") }, []int{3}, "it is no longer missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := corpus.Scratch(t)
			for _, name := range []string{"/ws", "/ws/d", "/spare"} {
				if err := os.Mkdir(dir+name, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"/ws/file", "/other"} {
				if err := os.WriteFile(dir+name, []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
			for _, text := range []string{"", "d", "file", "later"} {
				path, err := mir.NewPath(mir.RootWorkspace, text)
				if err != nil {
					t.Fatal(err)
				}
				rule := mir.Rule{Access: mir.Read, Path: path, Scope: mir.Tree, Missing: mir.MissingError}
				if text == "later" {
					rule.Access, rule.Missing = mir.Deny, mir.MissingSkip
				}
				spec.Rules = append(spec.Rules, rule)
			}
			policy, err := mir.Build(spec)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Resolve(policy, plan.Host{Filesystem: host.Filesystem(), Workspace: dir + "/ws"})
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.swap(dir); err != nil {
				t.Fatal(err)
			}
			changed := p.Changed(host.Filesystem())
			if len(changed) != len(tt.rules) {
				t.Fatalf("%v, want %v: %s", changed, tt.rules, tt.reason)
			}
			for i, e := range changed {
				if e.Rule != tt.rules[i] || e.Code != plan.CodeChanged || e.Path == "" || e.Message == "" {
					t.Errorf("%+v, want rule %d: %s", e, tt.rules[i], tt.reason)
				}
			}
		})
	}
}
