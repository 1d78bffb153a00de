//go:build linux && (amd64 || arm64)

package cli_test

import (
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// TestRunCollects reads policies of different sizes: for a small one nothing is collected otherwise than
// by the default, and for a large one nothing is until there is much, but then it is.
func TestRunCollects(t *testing.T) {
	t.Chdir(t.TempDir())
	if status, _, stderr := run(smallManifest, "compile", "-", "-o", "small.mir"); status != 0 {
		t.Fatal(stderr)
	}
	for name, data := range map[string][]byte{"small.json": []byte(smallManifest), "large.json": bigManifest("/srv", 1000, 100)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const percent = 77
	for name, want := range map[string]struct {
		percent int
		limit   int64
	}{
		"small.json": {percent, math.MaxInt64},
		"small.mir":  {percent, math.MaxInt64},
		"large.json": {-1, 128 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			oldPercent, oldLimit := debug.SetGCPercent(percent), debug.SetMemoryLimit(math.MaxInt64)
			// It ends when the policy has been read, since no decision has this digest.
			status, _, stderr := run("", "run", "-p", name, "-w", ".", "--expect-digest", strings.Repeat("0", 64), "--", "true")
			limit := debug.SetMemoryLimit(oldLimit)
			got := debug.SetGCPercent(oldPercent)
			if status != 125 || !strings.Contains(stderr, "another-decision") {
				t.Errorf("status %d, %q", status, stderr)
			}
			if got != want.percent || limit != want.limit {
				t.Errorf("collected at %d%% and %d bytes, want %d%% and %d bytes", got, limit, want.percent, want.limit)
			}
		})
	}
}
