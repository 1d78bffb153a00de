package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/mir"
	"maelys.dev/maelys/plan"
)

const (
	symbolicNote = `Each root is compared by itself: workspace, temp and host paths are taken for different
files, although on a host one may lie in the other.`
	resolvedNote = ` With --workspace both are
resolved on this host first, as plan shows, and compared by absolute paths.`
)

func (a *app) diffVerb() *cobra.Command {
	var failOnWiden bool
	var at hostContext
	cmd := &cobra.Command{
		Use:   "diff [flags] BEFORE AFTER [-- COMMAND [ARG…]]",
		Short: "Show what a change of policy widens and narrows",
		Long: `Compares what two policies permit, manifests or MIR: the regions of each root, the
destinations, the network mode and the tree confinement that AFTER permits and BEFORE
does not, and the other way round, each with a witness. "if absent" means paths that
are missing at the launch and created later, where a deny may have been left out.

` + symbolicNote + resolvedNote,
		Example: "  maelys diff --fail-on-widen main.json branch.json",
		Args:    filesBeforeDash(2, 2),
		RunE: a.verbOn(func(args, command []string) *result {
			pair, failed := a.readPair(args, &at, command)
			if failed != nil {
				return failed
			}
			return a.diff(pair, failOnWiden)
		}),
	}
	at.register(cmd)
	cmd.Flags().BoolVar(&failOnWiden, "fail-on-widen", false, "exit with 1 when AFTER permits anything that BEFORE does not")
	return cmd
}

// A pair is two policies to compare, and what they mean on this host when that was
// asked for.
type pair struct {
	name   string // of the second
	first  *mir.Policy
	second *mir.Policy

	resolved [2]*plan.Plan // nil for a comparison of the policies alone
	warnings []diagnostic
}

// readPair reads the two policies that a verb compares.
func (a *app) readPair(args []string, at *hostContext, command []string) (*pair, *result) {
	first, p, failed := a.readSource(args[0])
	second, q, other := a.readSource(args[1])
	if failed = bothFailed(failed, other); failed != nil {
		return nil, failed
	}
	both := &pair{name: args[1], first: p, second: q}
	if at.workspace == "" {
		if len(command) > 0 || at.temp != "" || len(at.runtimeRoots) > 0 || at.strict || len(at.allowPrivate)+len(at.pins) > 0 {
			return nil, usagef("name the workspace with -w DIR", "policies are compared on a host only with --workspace")
		}
		return both, nil
	}
	before, after, failed := at.resolveBoth(first, second, p, q, command)
	if failed != nil {
		return nil, failed
	}
	both.resolved = [2]*plan.Plan{before, after}
	both.warnings = append(first.about(before.Warnings()), second.about(after.Warnings())...)
	return both, nil
}

func (p *pair) compare() mir.Comparison {
	if p.resolved[0] == nil {
		return mir.Compare(p.first, p.second)
	}
	return plan.Diff(p.resolved[0], p.resolved[1])
}

func (a *app) diff(p *pair, failOnWiden bool) *result {
	c := p.compare()
	paint := painter{color: colorful(a.stdout.w)}
	r := &result{Comparison: &comparison{Widened: changes(c.Widened, true), Narrowed: changes(c.Narrowed, false)}, Warnings: p.warnings}
	var b strings.Builder
	for _, part := range []struct {
		title string
		list  []change
	}{{paint.red("widened"), r.Comparison.Widened}, {paint.bold("narrowed"), r.Comparison.Narrowed}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintln(&b, part.title)
		for _, c := range part.list {
			fmt.Fprintf(&b, "  %s\n", c.text())
		}
	}
	switch {
	case b.Len() > 0:
	case p.first.Digest() == p.second.Digest():
		b.WriteString("the same decision\n")
	default:
		b.WriteString("the same permissions; the digests differ because other rules say them, or some path must exist\n")
	}
	r.text = b.String()
	if n := len(r.Comparison.Widened); failOnWiden && n > 0 {
		d := widened(p.name, r.Comparison.Widened[0])
		if n > 1 {
			d.Message = fmt.Sprintf("%d changes widen, the first: %s", n, d.Message)
		}
		r.Diagnostics = append(r.Diagnostics, d)
	}
	return r
}

func widened(name string, c change) diagnostic {
	return diagnostic{File: name, Code: codeWidened, Message: c.text(), exit: exitNo}
}

// A comparison is a [mir.Comparison] as JSON.
type comparison struct {
	Widened  []change `json:"widened"`
	Narrowed []change `json:"narrowed"`
}

// A change is a [mir.Change] as JSON: a dimension, before and after, and a witness
// (a path, a destination, a mode or a tree confinement). The members from root to
// ifAbsent are there for the dimension path only; the root of what was compared on a
// host is "resolved".
type change struct {
	Dimension string   `json:"dimension"` // path, mode, destination or process
	Root      string   `json:"root,omitempty"`
	Path      *string  `json:"path,omitempty"`
	Extent    string   `json:"extent,omitempty"` // exact, tree, or beneath: the tree without its root
	Except    []except `json:"except,omitempty"`
	IfAbsent  bool     `json:"ifAbsent,omitempty"`
	Before    string   `json:"before"`
	After     string   `json:"after"`
	Witness   string   `json:"witness"`

	of mir.Change
}

type except struct {
	Path   string `json:"path"`
	Extent string `json:"extent"`
}

func changes(list []mir.Change, widened bool) []change {
	all := make([]change, 0, len(list))
	for _, one := range list {
		all = append(all, newChange(one, widened))
	}
	return all
}

func newChange(one mir.Change, widened bool) change {
	c := change{of: one}
	switch one := one.(type) {
	case mir.PathChange:
		text := one.Region.Path.Text()
		c.Dimension, c.Root, c.Path = "path", one.Region.Path.Root().String(), &text
		c.Extent, c.IfAbsent = one.Region.Extent.String(), one.IfAbsent
		c.Before, c.After, c.Witness = one.Before.String(), one.After.String(), one.Witness.Text()
		for _, hole := range one.Region.Holes {
			c.Except = append(c.Except, except{hole.Path.Text(), hole.Extent.String()})
		}
	case mir.ModeChange:
		c.Dimension, c.Before, c.After, c.Witness = "mode", one.Before.String(), one.After.String(), one.After.String()
	case mir.DestinationChange:
		c.Dimension, c.Before, c.After, c.Witness = "destination", "refused", "allowed", one.Destination.String()
		if !widened {
			c.Before, c.After = c.After, c.Before
		}
	case mir.ProcessChange:
		c.Dimension, c.Before, c.After, c.Witness = "process", one.Before.String(), one.After.String(), one.After.String()
	}
	return c
}

// text returns c in one line.
func (c change) text() string {
	step := c.Before + " → " + c.After
	switch of := c.of.(type) {
	case mir.PathChange:
		return pathText(of, step)
	case mir.ModeChange:
		return "network mode " + step
	case mir.DestinationChange:
		return "destination " + c.Witness + " " + step
	case mir.ProcessChange:
		return "tree confinement " + step
	}
	return step
}

func pathText(c mir.PathChange, step string) string {
	text := shown(c.Region.Path)
	switch c.Region.Extent {
	case mir.ExtentExact:
		text += " itself"
	case mir.ExtentTree:
		text += " and beneath"
	case mir.ExtentBeneath:
		text = "beneath " + text
	}
	if c.IfAbsent {
		text += ", if absent"
	}
	text += ": " + step
	if c.Witness != c.Region.Path {
		text += ", for example " + shown(c.Witness)
	}
	const most = 3
	for i, hole := range c.Region.Holes {
		switch i {
		case most:
			return text + fmt.Sprintf(" and %d more", len(c.Region.Holes)-most)
		case 0:
			text += "; except "
		default:
			text += ", "
		}
		if hole.Extent == mir.ExtentBeneath {
			text += "beneath "
		}
		text += shown(hole.Path)
		if hole.Extent == mir.ExtentExact {
			text += " itself"
		}
	}
	return text
}
