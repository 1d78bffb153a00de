package cli

import (
	"bytes"
	"math"
	"os"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/manifest"
)

func (a *app) fmtVerb() *cobra.Command {
	var write, check bool
	cmd := &cobra.Command{
		Use:   "fmt [-w | --check] FILE…",
		Short: "Print the canonical manifest",
		Long: `Prints the canonical manifest of each file, a manifest or MIR: rules sorted,
duplicates collapsed, paths in normal form, defaults left out. The decision stays the
same.

With -w each manifest is replaced by its canonical form, whole or not at all. With
--check nothing is written, and manifests in another form are refused.`,
		Example: "  maelys fmt -w policy.json\n  maelys fmt policy.mir >policy.json",
		Args:    files(1, math.MaxInt),
		RunE: a.verb(func(args []string) *result {
			if write && check {
				return usagef("write maelys fmt -w or maelys fmt --check", "-w and --check exclude each other")
			}
			if !write && !check && len(args) > 1 && !a.json {
				return usagef("name one file, or use -w, --check or --json", "the manifests of %d files would run into each other", len(args))
			}
			return a.each(args, func(in *input) *result { return a.format(in, write, check) })
		}),
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "replace the manifests")
	cmd.Flags().BoolVar(&check, "check", false, "refuse manifests that are not in canonical form")
	return cmd
}

func (a *app) format(in *input, write, check bool) *result {
	p, failed := in.policy()
	if failed != nil {
		return failed
	}
	text, err := manifest.Format(p)
	if err != nil {
		return in.refused(err)
	}
	changed := !bytes.Equal(text, in.data)
	one := fileResult{File: in.name, Digest: p.Digest().String(), Changed: &changed}
	switch {
	case write && in.isMIR():
		return failure(diagnostic{File: in.name, Code: codeUsage, Message: "-w would replace MIR by a manifest", Hint: "leave -w out and redirect the output", exit: exitUsage})
	case check && in.isMIR():
		return failure(diagnostic{File: in.name, Code: codeFormatting, Message: "this is MIR and not a manifest", Hint: "redirect the output of maelys fmt to a file", exit: exitNo})
	case check && changed:
		return failure(diagnostic{File: in.name, Code: codeFormatting, Message: "the file is not in canonical form", Hint: "maelys fmt -w writes it", exit: exitNo})
	case check:
		return &result{Files: []fileResult{one}, text: passed(in)}
	case !write:
		one.Manifest = string(text)
		return &result{Files: []fileResult{one}, text: string(text)}
	}
	if info, err := os.Stat(in.name); in.name == "-" || err == nil && !info.Mode().IsRegular() {
		return failure(diagnostic{File: in.name, Code: codeUsage, Message: "-w can replace regular files only", Hint: "leave -w out", exit: exitUsage})
	}
	if !changed {
		return &result{Files: []fileResult{one}, text: passed(in)}
	}
	if failed := output(in.name, text); failed != nil {
		return failed
	}
	return &result{Files: []fileResult{one}, text: printable(in.name) + ": formatted\n"}
}
