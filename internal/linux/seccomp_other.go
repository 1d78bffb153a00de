//go:build linux && !amd64 && !arm64

package linux

import "errors"

// RefuseCalls answers that the calls of this machine are not known here.
func RefuseCalls() error { return errors.ErrUnsupported }
