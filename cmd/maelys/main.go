// Command maelys runs code that is not trusted, confined to what a manifest grants.
package main

import (
	"os"

	"maelys.dev/maelys/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
