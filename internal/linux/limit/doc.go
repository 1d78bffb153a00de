// Package limit knows the limit of open files that this process was started with. The
// package os raises it, and what is started should have what the caller had. Packages
// are initialized in order of their import paths where their imports permit it (Go 1.21),
// and this one imports nothing that imports os: its turn comes first.
package limit
