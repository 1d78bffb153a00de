// The number of processors that the kernel gives a cgroup is not looked up and not watched:
// this command ends in milliseconds, and starting is most of them.

//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command maelys runs code that is not trusted, confined to what a manifest grants.
package main

import (
	"os"

	"maelys.dev/maelys/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
