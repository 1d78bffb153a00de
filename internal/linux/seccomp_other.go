//go:build linux && !amd64 && !arm64

package linux

// CallsKnown says that a [Program] can be made for this machine, whose system calls the
// filter must know.
const CallsKnown = false
