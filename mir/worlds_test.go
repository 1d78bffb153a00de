package mir_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

// say makes a policy of lines such as "write a/b", "deny .env skip", "read a exact",
// below the workspace, whose own path is written as a dot.
func say(t testing.TB, lines ...string) *mir.Policy {
	t.Helper()
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for _, line := range lines {
		words := strings.Fields(line)
		access := mir.Access(1 + slices.Index([]string{"read", "write", "deny"}, words[0]))
		r := mir.Rule{Access: access, Path: mustPath(t, mir.RootWorkspace, words[1]), Scope: mir.Tree, Missing: mir.MissingError}
		for _, word := range words[2:] {
			switch word {
			case "skip":
				r.Missing = mir.MissingSkip
			case "exact":
				r.Scope = mir.Exact
			default:
				t.Fatalf("unknown word %q", word)
			}
		}
		spec.Rules = append(spec.Rules, r)
	}
	return mustBuild(t, spec)
}

// said is the inverse of say.
func said(p *mir.Policy) (lines []string) {
	for _, r := range p.Rules() {
		text := r.Path.Text()
		if text == "" {
			text = "."
		}
		line := r.Access.String() + " " + text
		if r.Missing == mir.MissingSkip {
			line += " skip"
		}
		if r.Scope == mir.Exact {
			line += " exact"
		}
		lines = append(lines, line)
	}
	return lines
}

// TestRestrictRules has the rules of the result, where more than permissions is at
// stake: which denies stay firm, and what must exist.
func TestRestrictRules(t *testing.T) {
	for _, tt := range []struct {
		name                string
		base, ceiling, want []string
	}{
		{"the deeper target with the weaker access", []string{"write ."}, []string{"read src"}, []string{"read src"}},
		{"nested both ways", []string{"read .", "write build"}, []string{"write ."}, []string{"read .", "write build"}},
		{"nothing in common", []string{"write a"}, []string{"write b"}, nil},
		{"every deny of both", []string{"write .", "deny a"}, []string{"write .", "deny b skip"}, []string{"write .", "deny a", "deny b skip"}},
		{"a deny without any grant stays", []string{"deny a"}, nil, []string{"deny a"}},
		{"either requires the path", []string{"read a skip"}, []string{"read a"}, []string{"read a"}},
		{"neither requires the path", []string{"read a skip"}, []string{"read a skip"}, []string{"read a skip"}},
		{"exact stays exact", []string{"read a exact"}, []string{"write a"}, []string{"read a exact"}},
		{"exact either requires", []string{"read a exact skip"}, []string{"write a"}, []string{"read a exact"}},
		{"exact above tree", []string{"write a exact", "read a"}, []string{"write a"}, []string{"write a exact", "read a"}},
		{"a grant under a firm deny goes", []string{"write .", "deny a", "write a/b"}, []string{"write ."}, []string{"write .", "deny a"}},
		{
			"a grant under a deny that may be left out stays",
			[]string{"read .", "deny a skip", "write a/b skip"},
			[]string{"write ."},
			[]string{"read .", "deny a skip", "write a/b skip"},
		},
		{
			// In base a/b must exist, so its deny of a is never left out. The ceiling grants
			// nothing there, the result needs no a/b, and the deny becomes firm instead.
			"a deny that a lost rule kept firm",
			[]string{"write .", "deny a skip", "read a/b"},
			[]string{"write .", "deny a/b skip"},
			[]string{"write .", "deny a", "deny a/b skip"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := mir.Restrict(say(t, tt.base...), say(t, tt.ceiling...))
			if err != nil {
				t.Fatal(err)
			}
			want := said(say(t, tt.want...))
			if got := said(r); !slices.Equal(got, want) {
				t.Errorf("Restrict = %q, want %q", got, want)
			}
		})
	}
}

// TestRestrictTooLarge has two policies whose denies together exceed the limit.
func TestRestrictTooLarge(t *testing.T) {
	var lines [2][]string
	for i := range 2 {
		for n := range mir.MaxRules/2 + 1 {
			lines[i] = append(lines[i], fmt.Sprintf("deny %d-%d", i, n))
		}
	}
	r, err := mir.Restrict(say(t, lines[0]...), say(t, lines[1]...))
	fault, ok := errors.AsType[*mir.SpecError](err)
	if r != nil || !ok || fault.Code != mir.CodeLimitExceeded {
		t.Errorf("Restrict = %v, %v; want code %s", r, err, mir.CodeLimitExceeded)
	}
}

// TestCompareAbsent has what may be created where a deny was left out.
func TestCompareAbsent(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after []string
		want          []string // of the changes that widen
	}{
		{"firm to skip", []string{"write .", "deny .env"}, []string{"write .", "deny .env skip"}, []string{"workspace:.env tree none read-write absent"}},
		{"skip to firm", []string{"write .", "deny .env skip"}, []string{"write .", "deny .env"}, nil},
		{"firm to skip where nothing is writable", []string{"deny .env"}, []string{"deny .env skip"}, nil},
		{"skip beneath a read", []string{"read .", "deny .env"}, []string{"read .", "deny .env skip"}, []string{"workspace:.env tree none read absent"}},
		{"exact", []string{"write .", "deny .env exact"}, []string{"write .", "deny .env exact skip"}, []string{"workspace:.env exact none read-write absent"}},
		{"kept firm by a rule beneath", []string{"write .", "deny a", "read a/b"}, []string{"write .", "deny a skip", "read a/b"}, nil},
		{"kept firm by a rule for the same path", []string{"write .", "deny a"}, []string{"write .", "deny a skip", "read a exact"}, nil},
		// What is granted at or beneath the missing path is missing too.
		{"a grant for the denied path", []string{"read .", "deny a"}, []string{"read .", "deny a skip", "write a skip"}, []string{"workspace:a tree none read absent"}},
		{
			"a grant between two denies",
			[]string{"read .", "deny a"},
			[]string{"read .", "deny a skip", "write a/b skip", "deny a/b/c skip"},
			[]string{"workspace:a tree none read absent"},
		},
		{"missing of a grant", []string{"write a"}, []string{"write a skip"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, change := range mir.Compare(say(t, tt.before...), say(t, tt.after...)).Widened {
				c, ok := change.(mir.PathChange)
				if !ok {
					t.Fatalf("%+v", change)
				}
				line := fmt.Sprint(c.Region.Path, " ", c.Region.Extent, " ", c.Before, " ", c.After)
				if c.IfAbsent {
					line += " absent"
				}
				got = append(got, line)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("Compare widens %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOmissible holds the denies that may be left out to their definition.
func TestOmissible(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 18))
	found := 0
	for range rounds(3000) {
		p := randomPolicy(t, random, 8)
		omissible := p.Omissible()
		for i, r := range p.Rules() {
			want := r.Access == mir.Deny && r.Missing == mir.MissingSkip &&
				slowPermission(p, r.Path, nil) == mir.PermitNone && slowAbsent(t, p, r.Path) == mir.PermitReadWrite
			if got := slices.Contains(omissible, i); got != want {
				t.Fatalf("%q: rule %d omissible: %v, want %v", said(p), i, got, want)
			}
			if want {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no deny was omissible")
	}
}
