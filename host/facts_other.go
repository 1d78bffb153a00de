//go:build !linux

package host

import (
	"os"
	"runtime"
)

// Read returns the facts of this host: that it is not Linux.
func Read() Facts {
	return Facts{
		System: runtime.GOOS, Machine: runtime.GOARCH, Root: os.Geteuid() == 0,
		MaxUserNamespaces: -1, UnprivilegedClone: -1, AppArmorRestriction: -1,
	}
}
