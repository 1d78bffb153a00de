// Package linux is the only door to the Linux kernel beyond what the standard library
// offers. On other systems it is empty.
package linux
