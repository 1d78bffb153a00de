// Package host is this machine: its filesystem as package plan wants to see it, and
// what its kernel and processor can do. It reads and changes nothing.
package host
