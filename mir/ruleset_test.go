package mir_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

func resolvedPath(t testing.TB, text string) mir.Path {
	t.Helper()
	p := mir.ResolvedPath(text)
	if p.Text() != text || p == (mir.Path{}) {
		t.Fatalf("ResolvedPath(%q) = %q", text, p)
	}
	return p
}

func TestResolvedPath(t *testing.T) {
	for _, text := range []string{"/", "/a", "/a/b", "/\xff\n", "/a/...", "/.a", "/a." + strings.Repeat("/b", 5000)} {
		if p := resolvedPath(t, text); p.String() != text {
			t.Errorf("%q is shown as %q", text, p)
		}
	}
	for _, text := range []string{"", "a", "//", "/a/", "/a//b", "/.", "/a/.", "/./a", "/..", "/a/../b", "/a\x00"} {
		if p := mir.ResolvedPath(text); p != (mir.Path{}) {
			t.Errorf("ResolvedPath(%q) = %#v, want the zero path", text, p)
		}
	}
	resolved, written := resolvedPath(t, "/a"), mustPath(t, mir.RootHost, "/a")
	if resolved == written || resolved.Contains(written) || written.Contains(resolved) {
		t.Error("a resolved path passes for one as written")
	}
	if !resolved.Contains(resolvedPath(t, "/a/b")) || resolved.Contains(resolvedPath(t, "/ab")) || !resolvedPath(t, "/").Contains(resolved) {
		t.Error("containment of resolved paths is wrong")
	}
	_, err := mir.Build(mir.Spec{
		Rules: []mir.Rule{{Access: mir.Read, Path: resolved, Scope: mir.Tree, Missing: mir.MissingError}},
		Mode:  mir.ModeNone, TreeConfinement: mir.Required,
	})
	var fault *mir.SpecError
	if !errors.As(err, &fault) || fault.Code != mir.CodeInvalidPath {
		t.Errorf("a policy with a resolved path: %v", err)
	}
}

// randomRuleSet has fresh paths, most of which some rule names too.
func randomRuleSet(t testing.TB, random *rand.Rand) mir.RuleSet {
	var s mir.RuleSet
	path := func() mir.Path {
		text := ""
		for range random.IntN(4) {
			text += "/" + []string{"a", "b", "a-b", "\xff"}[random.IntN(4)]
		}
		if text == "" {
			text = "/"
		}
		return resolvedPath(t, text)
	}
	for range random.IntN(8) {
		r := mir.Rule{Access: mir.Access(1 + random.IntN(3)), Path: path(), Scope: mir.Scope(1 + random.IntN(2)), Missing: mir.MissingError}
		s.Rules = append(s.Rules, r)
		if random.IntN(3) == 0 {
			s.Fresh = append(s.Fresh, r.Path)
		}
	}
	for range random.IntN(2) {
		s.Fresh = append(s.Fresh, path())
	}
	return s
}

// slowRuleSet is what s permits on path, said as plainly as can be.
func slowRuleSet(s mir.RuleSet, path mir.Path) mir.Permission {
	granted := mir.PermitNone
	for _, r := range s.Rules {
		if r.Path != path && (r.Scope == mir.Exact || !beneathOrAt(r.Path, path)) {
			continue
		}
		if r.Access == mir.Deny {
			return mir.PermitNone
		}
		hidden := false
		for _, fresh := range s.Fresh {
			hidden = hidden || fresh != r.Path && beneathOrAt(r.Path, fresh) && beneathOrAt(fresh, path)
		}
		if !hidden {
			granted = max(granted, mir.Permission(r.Access))
		}
	}
	return granted
}

func TestRuleSetsAgainstBruteForce(t *testing.T) {
	var paths []mir.Path
	var grow func(text string, depth int)
	grow = func(text string, depth int) {
		paths = append(paths, resolvedPath(t, "/"+strings.TrimPrefix(text, "/")))
		for _, name := range []string{"a", "b", "a-b", "\xff", "other"} {
			if depth > 0 {
				grow(text+"/"+name, depth-1)
			}
		}
	}
	grow("", 4)
	random := rand.New(rand.NewPCG(31, 32))
	seen := map[[2]mir.Permission]int{}
	for range rounds(2000) {
		a, b := randomRuleSet(t, random), randomRuleSet(t, random)
		compared, overlaps, common := mir.CompareRules(a, b), mir.OverlapRules(a, b), mir.RestrictRules(a, b)
		for _, path := range paths {
			pa, pb := slowRuleSet(a, path), slowRuleSet(b, path)
			seen[[2]mir.Permission{pa, pb}]++
			checkRegions(t, compared, path, false, pa, pb)
			var in []mir.Overlap
			for _, o := range overlaps {
				if o.Region.Contains(path) {
					in = append(in, o)
				}
			}
			switch {
			case min(pa, pb) == mir.PermitNone && len(in) > 0:
				t.Fatalf("%s: %v and %v do not overlap, and %+v does", path, pa, pb, in)
			case min(pa, pb) != mir.PermitNone && (len(in) != 1 || in[0].First != pa || in[0].Second != pb):
				t.Fatalf("%s: %v and %v overlap, found %+v", path, pa, pb, in)
			}
			if got := slowRuleSet(common, path); got != min(pa, pb) {
				t.Fatalf("%s: %v and %v restrict to %v\n%+v\n%+v\n%+v", path, pa, pb, got, a, b, common)
			}
		}
		for _, o := range overlaps {
			if !o.Region.Contains(o.Witness) || slowRuleSet(a, o.Witness) != o.First || slowRuleSet(b, o.Witness) != o.Second {
				t.Fatalf("%+v: the witness is none", o)
			}
		}
		for _, r := range common.Rules {
			if r.Missing != mir.MissingError {
				t.Fatalf("%+v may be left out", r)
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("the test has seen only the permissions %v", seen)
	}
	if mir.OverlapRules(mir.RuleSet{}, mir.RuleSet{}) != nil {
		t.Error("nothing overlaps with nothing")
	}
}
