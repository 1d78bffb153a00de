package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

//go:embed starters/*.json
var starters embed.FS

// purposes are what a starter manifest can be for, with what it grants.
var purposes = []struct{ name, grants, edit string }{
	{"build", "reads the workspace, writes build/ and temp, no network", "make the directory build first, or name another one"},
	{"test", "reads the workspace, writes temp, no network", "grant write on the directories that the tests change"},
	{"agent", "writes the workspace but not .git, writes temp, reaches one host", "replace api.example.com by the host of your agent's API"},
}

func (a *app) initVerb() *cobra.Command {
	var purpose, out string
	var about strings.Builder
	for _, p := range purposes {
		fmt.Fprintf(&about, "  %-6s %s\n", p.name, p.grants)
	}
	cmd := &cobra.Command{
		Use:   "init [--for PURPOSE] [-o FILE]",
		Short: "Write a manifest to start from",
		Long: "Writes a starter manifest. It is valid, grants little, and is meant to be edited:\n\n" + about.String() +
			"\nA file that exists is never overwritten.",
		Example: "  maelys init --for agent\n  maelys init --for test -o ci/test.json",
		Args:    files(0, 0),
		RunE:    a.verb(func([]string) *result { return a.init(purpose, out) }),
	}
	cmd.Flags().StringVar(&purpose, "for", "build", "what the manifest is for, the `PURPOSE`: build, test or agent")
	cmd.Flags().StringVarP(&out, "output", "o", "maelys.json", "the `FILE` to write, - for standard output")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"build", "test", "agent"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) init(purpose, out string) *result {
	for _, p := range purposes {
		if p.name != purpose {
			continue
		}
		data, err := starter(p.name, out)
		if err != nil {
			panic("maelys: internal error: the starter " + p.name + ": " + err.Error())
		}
		if out == "-" {
			return a.raw(data)
		}
		if out == "" {
			return usagef("name a file with -o", "the output has no name")
		}
		err = createFile(out, data)
		if errors.Is(err, fs.ErrExist) {
			return failure(diagnostic{File: out, Code: codeUnwritable, Message: "the file exists", Hint: "name another one with -o", exit: exitUsage})
		}
		if err != nil {
			return unwritten(out, err)
		}
		shown := printable(out)
		return &result{
			Files: []fileResult{{File: out, Output: out}},
			text:  fmt.Sprintf("%s: written; it %s\nNext: %s, then maelys lint %s\n", shown, p.grants, p.edit, shown),
		}
	}
	return usagef("write --for build, test or agent", "unknown purpose %q", purpose)
}

// starter returns the starter manifest of a purpose. Where it would let the command
// rewrite the manifest itself, to be written to the file out, it denies that file.
func starter(purpose, out string) ([]byte, error) {
	data, err := starters.ReadFile("starters/" + purpose + ".json")
	if err != nil {
		return nil, err
	}
	p, err := manifest.Compile(data)
	if err != nil {
		return nil, err
	}
	spec := mir.Spec{Rules: p.Rules(), Mode: p.Mode(), Destinations: p.Destinations(), TreeConfinement: p.TreeConfinement()}
	for _, path := range pathsOf(out) {
		if p.Permission(path) == mir.PermitReadWrite {
			spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Deny, Path: path, Scope: mir.Tree, Missing: mir.MissingError})
		}
	}
	if p, err = mir.Build(spec); err != nil {
		return nil, err
	}
	return manifest.Format(p)
}

// raw returns a result that is data itself, on standard output.
func (a *app) raw(data []byte) *result {
	if a.json {
		return usagef("write to a file, or leave --json out", "standard output cannot hold both the file and JSON")
	}
	return &result{raw: data}
}
