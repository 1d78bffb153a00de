// Package corpus reads the written cases of the permission contract: small trees of
// files, policies for them, and what each path may be used for. The cases are data, so
// that the evaluator and what the kernel enforces are held to the same answers. Only
// tests use it, and what they share to try them on a real host, as root and as anyone.
//
// A case is a txtar file. Its comment says what it shows. A name in it is below the
// root of the tree unless it begins with a slash; "$R" in a path or in the target of a
// link stands for that root; a field may be written as a Go string. The sections:
//
//	-- tree --       dir NAME | file NAME | link NAME TARGET | hard NAME EXISTING | fifo NAME | locked NAME (a directory nobody may search)
//	-- policy --     ACCESS SCOPE PATH [skip], a path as maelys shows it: workspace:src, temp:., /etc, minimal-runtime
//	-- context --    workspace NAME | temp NAME
//	-- answers --    PERMISSION RULE NAME: RULE is the deciding rule of the policy as inspect numbers them, or "-"
//	-- omitted --    RULE
//	-- warnings --   CODE RULE
//	-- refused --    CODE RULE, instead of answers, omitted and warnings
//	-- needs --      a capability; "impossible" for what no backend can hold
//
// The order of lines matters only in the tree.
//
// Whoever makes a tree on a real disk chooses a root without links in its path, and not
// below /tmp, /dev or /proc: there a sandbox may have directories of its own.
package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"maelys.dev/maelys/mir"
)

// A Case is one situation and what is true in it.
type Case struct {
	Name string
	Tree []Node

	Workspace, Temp string // names; empty for none, and for a private temp

	Answers  []Answer
	Omitted  []int
	Warnings []Fault
	Refused  []Fault
	Needs    []string // capabilities

	rules []rule
}

// A Node is an entry of the tree.
type Node struct {
	Kind   string // dir, file, link, hard, fifo or locked
	Name   string
	Target string // of a link, with "$R" in it; of a hard link, a name
}

// An Answer is what may be done with one path.
type Answer struct {
	Permission mir.Permission
	Rule       int // of the policy, -1 for none
	Name       string
}

// A Fault is the code of an error or a warning, and the rule that it is about.
type Fault struct {
	Code string
	Rule int
}

type rule struct {
	access, scope, path string
	skip                bool
}

// Load reads the cases of a folder.
func Load(folder string) ([]Case, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	cases := make([]Case, 0, len(names))
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.Name = strings.TrimSuffix(filepath.Base(name), ".txt")
		cases = append(cases, c)
	}
	return cases, nil
}

func parse(data []byte) (Case, error) {
	var c Case
	archive := txtar.Parse(data)
	if len(strings.TrimSpace(string(archive.Comment))) == 0 {
		return c, fmt.Errorf("expected a comment that says what the case shows, found none")
	}
	for _, section := range archive.Files {
		for line := range strings.Lines(string(section.Data)) {
			fields, err := split(line)
			if err == nil && len(fields) > 0 {
				err = c.line(section.Name, fields)
			}
			if err != nil {
				return c, fmt.Errorf("section %s: %q: %w", section.Name, line, err)
			}
		}
	}
	switch {
	case len(c.Answers)+len(c.Refused) == 0:
		return c, fmt.Errorf("expected answers, or why the policy is refused, found neither")
	case len(c.Refused) > 0 && len(c.Answers)+len(c.Omitted)+len(c.Warnings)+len(c.Needs) > 0:
		return c, fmt.Errorf("expected a policy that is refused to have no plan, found what is true of one")
	}
	return c, nil
}

// split takes a line apart at spaces; a field may be a Go string.
func split(line string) ([]string, error) {
	var fields []string
	for {
		line = strings.TrimLeft(line, " \n")
		if line == "" {
			return fields, nil
		}
		if line[0] != '"' {
			end := strings.IndexAny(line, " \n")
			if end < 0 {
				end = len(line)
			}
			fields, line = append(fields, line[:end]), line[end:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, err
		}
		field, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		fields, line = append(fields, field), line[len(quoted):]
	}
}

func (c *Case) line(section string, fields []string) error {
	want := func(low, high int) error {
		if len(fields) < low || len(fields) > high {
			return fmt.Errorf("expected %d to %d fields, found %d", low, high, len(fields))
		}
		return nil
	}
	fault := func(to *[]Fault) error {
		if err := want(2, 2); err != nil {
			return err
		}
		n, err := number(fields[1])
		*to = append(*to, Fault{fields[0], n})
		return err
	}
	switch section {
	case "tree":
		if err := want(2, 3); err != nil {
			return err
		}
		n := Node{Kind: fields[0], Name: fields[1]}
		needsTarget := n.Kind == "link" || n.Kind == "hard"
		if (len(fields) == 3) != needsTarget || !needsTarget && n.Kind != "dir" && n.Kind != "file" && n.Kind != "fifo" && n.Kind != "locked" {
			return fmt.Errorf("expected an entry of a tree")
		}
		if needsTarget {
			n.Target = fields[2]
		}
		c.Tree = append(c.Tree, n)
	case "policy":
		if err := want(3, 4); err != nil {
			return err
		}
		r := rule{access: fields[0], scope: fields[1], path: fields[2]}
		if r.skip = len(fields) == 4; r.skip && fields[3] != "skip" {
			return fmt.Errorf("expected skip")
		}
		c.rules = append(c.rules, r)
	case "context":
		if err := want(2, 2); err != nil {
			return err
		}
		switch {
		case fields[0] == "workspace" && c.Workspace == "":
			c.Workspace = fields[1]
		case fields[0] == "temp" && c.Temp == "":
			c.Temp = fields[1]
		default:
			return fmt.Errorf("expected workspace or temp, each once")
		}
	case "answers":
		if err := want(3, 3); err != nil {
			return err
		}
		a := Answer{Name: fields[2]}
		switch fields[0] {
		case "none":
		case "read":
			a.Permission = mir.PermitRead
		case "read-write":
			a.Permission = mir.PermitReadWrite
		default:
			return fmt.Errorf("expected none, read or read-write")
		}
		var err error
		a.Rule, err = number(fields[1])
		c.Answers = append(c.Answers, a)
		return err
	case "omitted":
		if err := want(1, 1); err != nil {
			return err
		}
		n, err := number(fields[0])
		c.Omitted = append(c.Omitted, n)
		return err
	case "warnings":
		return fault(&c.Warnings)
	case "refused":
		return fault(&c.Refused)
	case "needs":
		c.Needs = append(c.Needs, fields...)
	default:
		return fmt.Errorf("unknown section")
	}
	return nil
}

func number(s string) (int, error) {
	if s == "-" {
		return -1, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err
}

// At returns the path that a name of the case stands for when its tree is at root.
func At(root, name string) string {
	if strings.HasPrefix(name, "/") {
		return Fill(root, name)
	}
	return strings.TrimSuffix(root+"/"+Fill(root, name), "/")
}

// Fill returns text with root in place of "$R".
func Fill(root, text string) string { return strings.ReplaceAll(text, "$R", root) }

// Policy returns the policy of the case when its tree is at root. Its network mode is
// none, and tree confinement is required.
func (c Case) Policy(root string) (*mir.Policy, error) {
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for _, r := range c.rules {
		rule := mir.Rule{Missing: mir.MissingError}
		for access := mir.Read; access <= mir.Deny; access++ {
			if access.String() == r.access {
				rule.Access = access
			}
		}
		for scope := mir.Exact; scope <= mir.Tree; scope++ {
			if scope.String() == r.scope {
				rule.Scope = scope
			}
		}
		if r.skip {
			rule.Missing = mir.MissingSkip
		}
		var err error
		if rule.Path, err = pathOf(Fill(root, r.path)); err != nil {
			return nil, err
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return mir.Build(spec)
}

// pathOf reads what [mir.Path.String] writes.
func pathOf(s string) (mir.Path, error) {
	switch root, text, colon := strings.Cut(s, ":"); {
	case strings.HasPrefix(s, "/"):
		return mir.NewPath(mir.RootHost, s)
	case s == "minimal-runtime":
		return mir.NewPath(mir.RootRuntime, "")
	case colon && root == "workspace":
		return mir.NewPath(mir.RootWorkspace, text)
	case colon && root == "temp":
		return mir.NewPath(mir.RootTemp, text)
	}
	return mir.Path{}, fmt.Errorf("expected a path such as workspace:src or /etc, found %q", s)
}
