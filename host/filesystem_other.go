//go:build !linux && !darwin

package host

import (
	"errors"
	"fmt"
	"runtime"

	"maelys.dev/maelys/plan"
)

// Filesystem returns a filesystem that answers nothing: on this system a policy has
// no meaning. Every failure is [errors.ErrUnsupported].
func Filesystem() plan.Filesystem { return unsupported{} }

type unsupported struct{}

var errUnsupported = fmt.Errorf("policies have a meaning on Linux, not on %s: %w", runtime.GOOS, errors.ErrUnsupported)

// Lstat implements [plan.Filesystem].
func (unsupported) Lstat(string) (plan.Entry, error) { return plan.Entry{}, errUnsupported }

// Readlink implements [plan.Filesystem].
func (unsupported) Readlink(string) (string, error) { return "", errUnsupported }

// Open implements [plan.Filesystem].
func (unsupported) Open(string) (plan.File, error) { return nil, errUnsupported }
