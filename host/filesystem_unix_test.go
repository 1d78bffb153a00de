//go:build linux || darwin

package host

import (
	"errors"
	"syscall"
	"testing"
)

// TestAgain interrupts a call.
func TestAgain(t *testing.T) {
	for _, last := range []error{nil, syscall.EIO} {
		calls := 0
		err := again(func() error {
			if calls++; calls < 3 {
				return syscall.EINTR
			}
			return last
		})
		if calls != 3 || !errors.Is(err, last) {
			t.Errorf("%d calls and %v, want 3 and %v", calls, err, last)
		}
	}
}
