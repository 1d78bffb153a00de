//go:build !linux || !(amd64 || arm64)

package warden

import (
	"context"
	"errors"
	"time"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/plan"
)

// Run answers that only Linux, on x86-64 and ARM64, has what it takes: the failure is
// [errors.ErrUnsupported].
func Run(_ context.Context, _ *plan.Plan, c Command) (*Receipt, error) {
	now := time.Now()
	return &Receipt{Backend: c.Backend, Outcome: Failed, Started: now, Ended: now},
		&LaunchError{Step: "making namespaces", Err: errors.ErrUnsupported}
}

// A Launch is nothing on this system.
type Launch struct{ backend host.Backend }

// Prepare does nothing.
func Prepare(backend host.Backend, _ bool) *Launch { return &Launch{backend} }

// Discard does nothing.
func (l *Launch) Discard() {}

// Run answers what the function Run does.
func (l *Launch) Run(ctx context.Context, p *plan.Plan, c Command) (*Receipt, error) {
	c.Backend = l.backend
	return Run(ctx, p, c)
}
