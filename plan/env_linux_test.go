package plan

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestEnvLinesOfThisMachine asks the env of this machine whether envLines is right.
func TestEnvLinesOfThisMachine(t *testing.T) {
	if out, _ := exec.Command("/usr/bin/env", "--version").Output(); !bytes.HasPrefix(out, []byte("env (GNU coreutils)")) {
		unavailable(t, "no GNU env")
	}
	for _, tt := range envLines {
		cmd := exec.Command("/usr/bin/env", "-v", tt.argument, "/nonexistent/script")
		cmd.Env = []string{"LC_ALL=C", "PATH=/nonexistent"}
		out, _ := cmd.CombinedOutput()
		got := ""
		if _, after, ok := strings.Cut(string(out), "executing: "); ok {
			got, _, _ = strings.Cut(after, "\n")
		}
		if got != tt.program {
			t.Errorf("%q: env starts %q, want %q; it says\n%s", tt.argument, got, tt.program, out)
		}
	}
}
