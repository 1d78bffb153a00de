//go:build !linux

package warden

import (
	"context"
	"errors"

	"maelys.dev/maelys/plan"
)

// Run answers that only Linux has what it takes: the failure is
// [errors.ErrUnsupported].
func Run(context.Context, *plan.Plan, Command) (*Receipt, error) {
	return nil, &LaunchError{Step: "making namespaces", Message: "only Linux has them", Err: errors.ErrUnsupported}
}

// Stage does nothing: there is no second stage.
func Stage() (status int, ok bool) { return 0, false }
