package plan_test

import (
	"path"
	"slices"
	"testing"

	"maelys.dev/maelys/internal/corpus"
	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

// TestCorpus resolves and evaluates the written cases, at a short root and at a deep
// one. Package host does the same on real directories.
func TestCorpus(t *testing.T) {
	for _, c := range cases(t) {
		for _, root := range []string{"/r", "/some/deeper/root"} {
			t.Run(c.Name+root, func(t *testing.T) { corpus.Check(t, c, root, planted(c, root)) })
		}
	}
}

func cases(t *testing.T) []corpus.Case {
	t.Helper()
	all, err := corpus.Load("testdata/corpus")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Fatalf("%d cases, want at least 60", len(all))
	}
	return all
}

// planted returns the tree of a case at root, in what every host has.
func planted(c corpus.Case, root string) plan.Tree {
	files := plan.Tree{"/tmp": "dir", "/dev": "dir", "/dev/null": "device", "/proc": "dir"}
	for at := root; at != "/"; at = path.Dir(at) {
		files[at] = "dir"
	}
	for _, n := range c.Tree {
		what := n.Kind
		switch n.Kind {
		case "link":
			what = "-> " + corpus.Fill(root, n.Target)
		case "hard":
			what = "= " + corpus.At(root, n.Target)
		}
		files[corpus.At(root, n.Name)] = what
	}
	return files
}

// TestCorpusOrder has the rules of every case in another order: it is the same policy.
func TestCorpusOrder(t *testing.T) {
	for _, c := range cases(t) {
		policy, err := c.Policy("/r")
		if err != nil {
			t.Fatal(err)
		}
		rules := policy.Rules()
		slices.Reverse(rules)
		reversed, err := mir.Build(mir.Spec{Rules: rules, Mode: policy.Mode(), TreeConfinement: policy.TreeConfinement()})
		if err != nil || reversed.Digest() != policy.Digest() {
			t.Errorf("%s: another order is another policy (%v)", c.Name, err)
		}
	}
}
