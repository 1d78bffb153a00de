// Package plan says what a policy means on one host: which absolute paths its
// rules are about, as the kernel resolves them, and what follows for any path.
//
// The package sees a host only through a [Filesystem]. It changes nothing and
// starts nothing; the same policy on the same filesystem gives the same plan on
// every machine that looks.
//
// # Where to start
//
// [Resolve] makes a [Plan] of a policy and a [Host], or says everything that is
// wrong. [Plan.Evaluate] answers what is permitted on a path, and why; a path that
// somebody has typed goes through [Plan.Locate] first. [Diff], [Contains],
// [Overlaps] and [Restrict] compare and combine plans, exactly over absolute paths.
//
// Who starts a command under a plan asks [Plan.Unmet] whether what enforces it can
// hold all of it, [Plan.Warnings] for what to be strict about, and [Plan.Changed]
// whether the host is still what was resolved.
//
// # Files
//
// walk.go follows paths. resolve.go makes plans, private.go is what a sandbox has of
// its own, runtime.go, script.go, env.go, loader.go, loaderpath.go, elf.go and
// ldcache.go find out what an executable needs to start. evaluate.go is the
// permission contract, compare.go and restrict.go are the algebra.
package plan
