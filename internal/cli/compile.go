package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/manifest"
)

func (a *app) compileVerb() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "compile MANIFEST [-o FILE]",
		Short: "Make MIR of a manifest",
		Long: `Compiles a manifest to MIR and prints its digest and the file's name, in the form
that sha256sum -c accepts. All that is wrong with a manifest is said at once.

The file is written whole or not at all. Without -o it has the manifest's name with
the ending .mir. With -o - the bytes go to standard output and nothing else does.`,
		Example: "  maelys compile policy.json\n  maelys compile policy.json -o - | sha256sum",
		Args:    files(1, 1),
		RunE:    a.verb(func(args []string) *result { return a.compile(args[0], out) }),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `FILE` to write, - for standard output (default MANIFEST with the ending .mir)")
	return cmd
}

func (a *app) compile(name, out string) *result {
	if out == "" {
		if name == "-" {
			return usagef("say where with -o", "a manifest from standard input has no name to derive the output's from")
		}
		out = strings.TrimSuffix(name, filepath.Ext(name)) + ".mir"
	}
	in, failed := a.read(name)
	if failed != nil {
		return failed
	}
	p, err := manifest.Compile(in.data)
	if err != nil {
		return in.refused(err)
	}
	if out == "-" {
		return a.raw(p.Bytes())
	}
	if failed := output(out, p.Bytes(), name); failed != nil {
		return failed
	}
	return &result{
		Files: []fileResult{{File: name, Output: out, Digest: p.Digest().String()}},
		text:  checksum(p.Digest(), out),
	}
}
