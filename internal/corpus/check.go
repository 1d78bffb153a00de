package corpus

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/plan"
)

// Check resolves and evaluates a case whose tree is at root of a filesystem, and holds
// what comes of it to what is written.
func Check(t *testing.T, c Case, root string, host plan.Filesystem) {
	t.Helper()
	h := plan.Host{Filesystem: host}
	if c.Workspace != "" {
		h.Workspace = At(root, c.Workspace)
	}
	if c.Temp != "" {
		h.Temp = At(root, c.Temp)
	}
	policy, err := c.Policy(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Resolve(policy, h)
	if len(c.Refused) > 0 {
		var faults plan.Errors
		if !errors.As(err, &faults) {
			t.Fatalf("the policy was resolved (%v), want %v", err, c.Refused)
		}
		sameFaults(t, "refused", faults, c.Refused)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Answers) == 0 {
		t.Error("the case has no answers")
	}
	rules := p.Rules()
	for _, a := range c.Answers {
		at, err := p.Locate(host, At(root, a.Name))
		if err != nil {
			t.Errorf("%q: %v", a.Name, err)
			continue
		}
		d := p.Evaluate(at.Path)
		rule := -1
		if d.Rule >= 0 {
			rule = rules[d.Rule].Policy
		}
		if d.Permission != a.Permission || rule != a.Rule {
			t.Errorf("%q, which is %q: %s by rule %d, want %s by rule %d", a.Name, at.Path, d.Permission, rule, a.Permission, a.Rule)
		}
	}
	var omitted []int
	for _, o := range p.Omitted() {
		omitted = append(omitted, o.Rule)
	}
	slices.Sort(omitted)
	if !slices.Equal(omitted, c.Omitted) {
		t.Errorf("omitted %v, want %v", omitted, c.Omitted)
	}
	sameFaults(t, "warnings", p.Warnings(), c.Warnings)
	if changed := p.Changed(host); len(changed) > 0 {
		t.Errorf("nothing has changed, and %v", changed)
	}
	if len(c.Needs) == 0 {
		return
	}
	var needs []string
	for _, r := range p.Requirements() {
		if r.Unenforceable {
			needs = append(needs, "impossible")
		} else {
			needs = append(needs, string(r.Capability))
		}
	}
	if !slices.Equal(needs, c.Needs) {
		t.Errorf("needs %v, want %v", needs, c.Needs)
	}
}

func sameFaults(t *testing.T, what string, got []*plan.Error, want []Fault) {
	t.Helper()
	list := make([]Fault, 0, len(got))
	for _, e := range got {
		list = append(list, Fault{Code: string(e.Code), Rule: e.Rule})
		if e.Message == "" || strings.HasSuffix(e.Message, ".") {
			t.Errorf("%s: %q is no sentence without its full stop", what, e.Message)
		}
	}
	byRule := func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), strings.Compare(a.Code, b.Code)) }
	want = slices.SortedFunc(slices.Values(want), byRule)
	slices.SortFunc(list, byRule)
	if !slices.Equal(list, want) {
		t.Errorf("%s: %v, want %v", what, list, want)
	}
}
