//go:build !wasip1 && !js

package cli_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// command returns the command as a process of its own, which the test binary
// becomes when it is started by that name.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"maelys"}, args...)
	return cmd
}

// Every verb that the help names has help of its own with an example, and is
// among those that the script of hard input goes through where it reads files.
func TestVerbs(t *testing.T) {
	status, help, _ := run("", "--help")
	if status != 0 {
		t.Fatalf("maelys --help: status %d", status)
	}
	var verbs []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`).FindAllStringSubmatch(help, -1) {
		verbs = append(verbs, m[1])
	}
	if len(verbs) < 13 {
		t.Fatalf("the help names %q only", verbs)
	}
	for _, verb := range verbs {
		if verb == "help" {
			continue
		}
		status, stdout, stderr := run("", verb, "--help")
		if status != 0 || stderr != "" {
			t.Errorf("maelys %s --help: status %d, standard error %q", verb, status, stderr)
		}
		if !strings.Contains(stdout, "\nUsage:\n  maelys "+verb) {
			t.Errorf("maelys %s --help: no usage in %q", verb, stdout)
		}
		_, examples, _ := strings.Cut(stdout, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		if !strings.Contains(examples, "maelys "+verb) {
			t.Errorf("maelys %s --help: no example of the verb in %q", verb, stdout)
		}
		for line := range strings.Lines(stdout) {
			if utf8.RuneCountInString(line) > 121 {
				t.Errorf("maelys %s --help: a line too long for a terminal: %q", verb, line)
			}
		}
	}
	for _, verb := range verbs {
		reads := slices.ContainsFunc(readers, func(line []string) bool { return line[0] == verb })
		if reads == slices.Contains(nonReaders, verb) {
			t.Errorf("%s belongs either to the readers or to the nonReaders of script_test.go", verb)
		}
	}
}

// As many processes as goroutines in TestParallelOutput, with two policies.
func TestParallelProcesses(t *testing.T) {
	t.Chdir(t.TempDir())
	var wants []string
	for _, name := range []string{"one", "two"} {
		if err := os.WriteFile(name+".json", bigManifest("/"+name, 1000, 200), 0o666); err != nil {
			t.Fatal(err)
		}
		status, out, stderr := run("", "compile", name+".json", "-o", "-")
		if status != 0 {
			t.Fatal(stderr)
		}
		wants = append(wants, out)
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if out, err := command(t, "compile", []string{"one.json", "two.json"}[i%2], "-o", "out.mir").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	if got, err := os.ReadFile("out.mir"); err != nil || !slices.Contains(wants, string(got)) {
		t.Errorf("the output has %d bytes: %v", len(got), err)
	}
	if names := folder(t); !slices.Equal(names, []string{"one.json", "out.mir", "two.json"}) {
		t.Errorf("the folder holds %q", names)
	}
}

// However the command is killed, its output is as before or whole. Only then may a
// temporary file remain.
func TestKilled(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("big.json", bigManifest("/srv", 4000, 200), 0o666); err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	for range 3 {
		began := time.Now()
		if out, err := command(t, "compile", "big.json", "-o", "want.mir").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		longest = max(longest, time.Since(began))
	}
	want, err := os.ReadFile("want.mir")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove("want.mir"); err != nil {
		t.Fatal(err)
	}
	old := bytes.Repeat([]byte("old"), len(want)/2) // longer, so that a mixture would show
	random := rand.New(rand.NewPCG(3, 4))
	killed, before, whole := 0, 0, 0
	runs := 150
	if testing.Short() {
		runs = 30
	}
	for i := range runs {
		_ = os.Remove("out.mir")
		if i%2 == 1 {
			if err := os.WriteFile("out.mir", old, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		start := sizes(t)
		cmd := command(t, "compile", "big.json", "-o", "out.mir")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i%4 < 2 {
			time.Sleep(time.Duration(random.Int64N(int64(longest) * 5 / 4)))
		} else {
			// In the middle of the writing, from when there is anything to be seen of it.
			for end := time.Now().Add(10 * longest); sizes(t) == start && time.Now().Before(end); {
			}
			time.Sleep(time.Duration(random.Int64N(int64(time.Millisecond))))
		}
		_ = cmd.Process.Kill() // it may have ended
		if err := cmd.Wait(); err != nil {
			killed++
		}
		switch got, err := os.ReadFile("out.mir"); {
		case err == nil && bytes.Equal(got, want):
			whole++
		case err == nil && i%2 == 1 && bytes.Equal(got, old), os.IsNotExist(err) && i%2 == 0:
			before++
		default:
			t.Fatalf("killed in run %d, the output has %d bytes of %d: %v", i, len(got), len(want), err)
		}
	}
	t.Logf("%d runs killed; the output was %d times as before and %d times whole", killed, before, whole)
	if killed == 0 || before == 0 {
		t.Error("no run was killed before its end: nothing has been tested")
	}
	for _, name := range folder(t) {
		left, err := filepath.Match(".maelys-*.tmp", name)
		if err != nil || !left && name != "big.json" && name != "out.mir" {
			t.Errorf("%s has been left behind", name)
		}
	}
	if out, err := command(t, "compile", "big.json", "-o", "out.mir").CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "  out.mir\n") {
		t.Errorf("the next run: %v: %s", err, out)
	}
}

// sizes returns how many files the working directory holds and what they come to.
func sizes(t *testing.T) (sum struct{ files, bytes int64 }) {
	t.Helper()
	for _, name := range folder(t) {
		if info, err := os.Lstat(name); err == nil { // else it has just gone
			sum.files++
			sum.bytes += info.Size()
		}
	}
	return sum
}
