//go:build linux

package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/corpus"
)

// TestCorpus resolves and evaluates the written cases on real directories, and looks
// whether they are left as they were.
func TestCorpus(t *testing.T) {
	cases, err := corpus.Load(corpus.Folder())
	if err != nil || len(cases) < 60 {
		t.Fatalf("%d cases (%v), want at least 60", len(cases), err)
	}
	for _, c := range cases {
		locked := slices.ContainsFunc(c.Tree, func(n corpus.Node) bool { return n.Kind == "locked" })
		if locked && os.Geteuid() == 0 {
			continue // nothing is locked to root; TestAsOrdinaryUser comes by here too
		}
		t.Run(c.Name, func(t *testing.T) {
			root := corpus.Scratch(t)
			corpus.Plant(t, c, root)
			before := snapshot(t, root)
			corpus.Check(t, c, root, host.Filesystem())
			if after := snapshot(t, root); !slices.Equal(before, after) {
				t.Errorf("resolution has changed the host\n%q\n%q", before, after)
			}
		})
	}
}

// snapshot returns names, types, times and contents below root.
func snapshot(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			all = append(all, path+" "+err.Error())
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := path + " " + info.Mode().String() + " " + info.ModTime().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(content)
		}
		all = append(all, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
