//go:build !linux || !(amd64 || arm64)

package warden

import (
	"context"
	"errors"
	"time"

	"maelys.dev/maelys/plan"
)

// Run answers that only Linux, on x86-64 and ARM64, has what it takes: the failure is
// [errors.ErrUnsupported].
func Run(_ context.Context, _ *plan.Plan, c Command) (*Receipt, error) {
	now := time.Now()
	return &Receipt{Backend: c.Backend, Outcome: Failed, Started: now, Ended: now},
		&LaunchError{Step: "making namespaces", Err: errors.ErrUnsupported}
}
