// Package plan says what a policy means on one host: which absolute paths its
// rules are about, as the kernel resolves them, and what follows for any path.
//
// The package sees a host only through a [Filesystem]. It changes nothing and
// starts nothing; the same policy on the same filesystem gives the same plan on
// every machine that looks.
//
// Resolution itself is being built. What is here is its ground: how a path is
// followed through symbolic links, and which files it takes to load and start an
// executable, which is what a policy calls minimal-runtime.
package plan
