package mir

import "unsafe"

// viewOf returns the bytes of b as a string without copying them, so that one
// scanner serves bytes and strings. The view must not outlive the call that made
// it: a caller may change b afterwards.
func viewOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns the bytes of s without copying them. They must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
