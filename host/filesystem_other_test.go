//go:build !linux && !darwin

package host_test

import (
	"errors"
	"io/fs"
	"testing"

	"maelys.dev/maelys/host"
)

// TestUnsupported asks for what only Linux has: no answer may look like that of a host
// where nothing is there.
func TestUnsupported(t *testing.T) {
	files := host.Filesystem()
	for call, f := range map[string]func() error{
		"Lstat":    func() error { _, err := files.Lstat("/"); return err },
		"Readlink": func() error { _, err := files.Readlink("/"); return err },
		"Open":     func() error { _, err := files.Open("/"); return err },
	} {
		if err := f(); !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if best, ok := host.Read().Best(); ok {
		t.Errorf("%s can enforce something here", best)
	}
	if names := host.Hardware(); len(names) > 0 {
		t.Errorf("%q of another system's loader", names)
	}
}
