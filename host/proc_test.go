//go:build linux

package host

import (
	"strings"
	"testing"
)

// TestUncovered reads mounts that hosts and containers have.
func TestUncovered(t *testing.T) {
	const (
		root   = "20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
		own    = "22 20 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
		sys    = "23 22 0:21 /sys /proc/sys ro,relatime - proc proc rw\n"
		kcore  = "24 22 0:5 /null /proc/kcore rw - devtmpfs devtmpfs rw\n"
		binfmt = "25 22 0:30 / /proc/sys/fs/binfmt_misc rw shared:13 - autofs systemd-1 rw,fd=29\n"
		second = "26 20 0:40 / /mnt/a\\040b rw - proc proc rw\n"
		over   = "27 22 0:41 / /proc rw - tmpfs none rw\n"
		above  = "28 22 0:42 / /proc rw - proc proc rw\n"
	)
	for name, tt := range map[string]struct{ mounts, want string }{
		"as it should be":         {root + own, ""},
		"what systemd mounts":     {root + own + binfmt, ""},
		"docker":                  {root + own + sys + kcore, "over /proc/sys"},
		"one file":                {root + own + kcore, "over /proc/kcore"},
		"after what is harmless":  {root + own + binfmt + kcore, "over /proc/kcore"},
		"another one is whole":    {root + own + sys + second, ""},
		"a whole one comes first": {root + second + own + sys, ""},
		"all of it":               {root + own + over, "over /proc"},
		"by another one":          {root + own + above, ""},
		"none":                    {root, "none on this host"},
		"only a part of one":      {root + sys, "none on this host"},
		"no mounts":               {"", "none on this host"},
		"not understood":          {"22 20 - proc\n - \nproc\n", "none on this host"},
	} {
		err := uncovered(tt.mounts)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
