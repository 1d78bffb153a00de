package cli

import (
	"github.com/spf13/cobra"

	"maelys.dev/maelys/manifest"
)

func (a *app) schemaVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of manifests",
		Long: `Prints the JSON Schema (draft 2020-12) of manifests, with a description of every
member, for editors. It accepts whatever compile accepts.`,
		Example: "  maelys schema >maelys.schema.json",
		Args:    files(0, 0),
		RunE: a.verb(func([]string) *result {
			return &result{Schema: manifest.Schema(), text: string(manifest.Schema())}
		}),
	}
}
