//go:build linux && !amd64 && !arm64

package linux

import "errors"

// CallsKnown says that [RefuseCalls] knows the calls of this machine.
const CallsKnown = false

// RefuseCalls answers that the calls of this machine are not known here.
func RefuseCalls() error { return errors.ErrUnsupported }
