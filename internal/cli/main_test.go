package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"maelys.dev/maelys/internal/cli"
	"maelys.dev/maelys/manifest"
)

// smallManifest is a manifest with one rule.
const smallManifest = `{"formatVersion":2,"filesystem":{"default":"deny","rules":[{"access":"read","path":{"root":"workspace"}}]},` +
	`"network":{"mode":"none"},"process":{"treeConfinement":"required"}}`

// bigManifest returns a manifest with many denies below a directory of the host,
// and file names of some length.
func bigManifest(below string, rules, length int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"formatVersion":2,"filesystem":{"default":"deny","rules":[`)
	for i := range rules {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n"+`{"access":"deny","path":{"absolute":"%s/%0*d"}}`, below, length, i)
	}
	b.WriteString(`]},"network":{"mode":"none"},"process":{"treeConfinement":"required"}}`)
	return b.Bytes()
}

// run runs the command in this process.
func run(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = cli.Main(args, strings.NewReader(stdin), &out, &err)
	return status, out.String(), err.String()
}

// inFolder changes to a new folder with the files that the tables below name.
func inFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"good.json":   smallManifest,
		"wider.json":  strings.Replace(smallManifest, `"read"`, `"write"`, 1),
		"faulty.json": strings.Replace(smallManifest, `"rules"`, `"rule"`, 1),
		"odd.json":    strings.Replace(smallManifest, `"none"`, `"direct"`, 1),
		"junk":        "\xff\xfe",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, stderr := run("", "compile", "good.json"); status != 0 {
		t.Fatal(stderr)
	}
	if status, _, stderr := run("", "fmt", "good.json"); status != 0 {
		t.Fatal(stderr)
	}
}

// The exit statuses, as the help says them: 0 yes; 1 no; 2 wrong use, or a file
// that cannot be read or written.
var statuses = []struct {
	status int
	args   string
}{
	{0, "compile good.json"},
	{0, "verify good.mir"},
	{0, "digest good.json good.mir"},
	{0, "inspect good.mir"},
	{0, "inspect --text good.json"},
	{0, "fmt good.mir"},
	{0, "fmt -w good.json"},
	{0, "fmt --check good.json"}, // as the line above has left it
	{0, "lint good.json good.mir"},
	{0, "diff good.json wider.json"},
	{0, "diff --fail-on-widen wider.json good.json"},
	{0, "contains wider.json good.json"},
	{0, "restrict wider.json good.json -o both.mir"},
	{0, "init"},
	{0, "schema"},
	{0, "version"},
	{0, "completion fish"},
	{0, "--help"},
	{0, "help compile"},

	{1, "compile faulty.json"},
	{1, "compile good.mir -o never"},
	{1, "verify good.json"},
	{1, "verify junk"},
	{1, "digest good.json faulty.json"},
	{1, "inspect junk"},
	{1, "fmt faulty.json"},
	{1, "fmt --check wider.json"},
	{1, "lint faulty.json"},
	{1, "lint odd.json"},
	{1, "diff --fail-on-widen good.json wider.json"},
	{1, "diff faulty.json good.json"},
	{1, "contains good.json wider.json"},
	{1, "restrict good.json junk -o never"},
	{1, "verify -"}, // nothing is there

	{2, ""},
	{2, "frobnicate"},
	{2, "--frobnicate"},
	{2, "compile"},
	{2, "compile --frobnicate good.json"},
	{2, "compile missing.json"},
	{2, "compile good.json -o missing/good.mir"},
	{2, "compile good.json -o good.json"},
	{2, "compile -"},
	{2, "verify good.mir missing good.json"},
	{2, "digest missing"},
	{2, "inspect ."},
	{2, "fmt good.json wider.json"},
	{2, "fmt -w --check good.json"},
	{2, "fmt -w good.mir"},
	{2, "lint missing faulty.json odd.json"},
	{2, "diff good.json"},
	{2, "contains missing good.json"},
	{2, "restrict good.json wider.json"},
	{2, "init"}, // it is there by now
	{2, "init --for fun"},
	{2, "schema v2"},
	{2, "completion tcsh"},
}

func TestExitStatus(t *testing.T) {
	inFolder(t)
	for _, tt := range statuses {
		status, stdout, stderr := run(smallManifest[:0], strings.Fields(tt.args)...)
		if status != tt.status {
			t.Errorf("maelys %s: status %d, want %d\n%s%s", tt.args, status, tt.status, stdout, stderr)
		}
		if status == 0 && stderr != "" {
			t.Errorf("maelys %s: status 0, and standard error holds %q", tt.args, stderr)
		}
		if status != 0 && stderr == "" {
			t.Errorf("maelys %s: status %d without a word", tt.args, status)
		}
	}
	if _, err := os.Stat("never"); err == nil {
		t.Error("a refused policy has been written")
	}
}

// The status does not depend on how the result is shown.
func TestExitStatusJSON(t *testing.T) {
	inFolder(t)
	for _, tt := range statuses {
		args := strings.Fields(tt.args)
		if len(args) == 0 || slices.Contains(args, "--help") || args[0] == "help" {
			continue // the help is no result
		}
		if tt.args == "fmt good.json wider.json" {
			continue // that is possible in JSON
		}
		status, stdout, stderr := run("", append(args, "--json")...)
		if status != tt.status {
			t.Errorf("maelys %s --json: status %d, want %d\n%s", tt.args, status, tt.status, stdout)
		}
		if !strings.HasPrefix(stdout, fmt.Sprintf("{\n  \"ok\": %t", tt.status == 0)) || !strings.HasSuffix(stdout, "\n}\n") {
			t.Errorf("maelys %s --json: standard output is %q", tt.args, stdout)
		}
		if stderr != "" {
			t.Errorf("maelys %s --json: standard error holds %q", tt.args, stderr)
		}
	}
}

// A limited writer fails after some bytes.
type limitedWriter struct{ left int }

var errLimited = errors.New("the pigeon is tired")

func (w *limitedWriter) Write(b []byte) (int, error) {
	if len(b) <= w.left {
		w.left -= len(b)
		return len(b), nil
	}
	n := w.left
	w.left = 0
	return n, errLimited
}

// A standard output that fails, at once or later, is said and is no success.
func TestFailingStdout(t *testing.T) {
	inFolder(t)
	for _, tt := range statuses {
		args := strings.Fields(tt.args)
		for _, flags := range [][]string{nil, {"--json"}} {
			args := append(slices.Clone(args), flags...)
			if len(args) == 1 && args[0] == "init" {
				args = []string{"init", "-o", "-"} // it could be done once only
			}
			var whole bytes.Buffer
			run("", args...) // what is done once only has been done now
			cli.Main(args, strings.NewReader(""), &whole, io.Discard)
			for _, left := range []int{0, 1, whole.Len() - 1} {
				if left < 0 || left >= whole.Len() {
					continue // nothing is written, or everything can be
				}
				var stderr bytes.Buffer
				status := cli.Main(args, strings.NewReader(""), &limitedWriter{left}, &stderr)
				if want := "maelys: standard output cannot be written: the pigeon is tired\n"; status != 2 || !strings.HasSuffix(stderr.String(), want) {
					t.Errorf("maelys %q with an output that fails after %d bytes: status %d, standard error %q", args, left, status, stderr.String())
				}
			}
		}
	}
}

// A standard error that fails changes nothing.
func TestFailingStderr(t *testing.T) {
	inFolder(t)
	for _, tt := range statuses {
		if tt.args == "init" {
			continue // that depends on whether it has been done
		}
		var stdout bytes.Buffer
		if status := cli.Main(strings.Fields(tt.args), strings.NewReader(""), &stdout, &limitedWriter{}); status != tt.status {
			t.Errorf("maelys %s with a standard error that fails: status %d, want %d", tt.args, status, tt.status)
		}
	}
}

// A standard input that fails is a file that cannot be read.
func TestFailingStdin(t *testing.T) {
	inFolder(t)
	for _, args := range []string{
		"compile - -o never", "verify -", "digest -", "inspect -", "fmt -", "lint -",
		"diff - good.json", "diff good.json -", "contains - good.json", "contains good.json -",
		"restrict - good.json -o never", "restrict good.json - -o never",
	} {
		var stdout, stderr bytes.Buffer
		stdin := io.MultiReader(strings.NewReader(smallManifest[:20]), failingReader{})
		status := cli.Main(strings.Fields(args), stdin, &stdout, &stderr)
		if want := "-: the file cannot be read: the pigeon is tired [unreadable]\n"; status != 2 || stderr.String() != want || stdout.Len() > 0 {
			t.Errorf("maelys %s: status %d, standard output %q, standard error %q, want %q", args, status, stdout.String(), stderr.String(), want)
		}
	}
	if _, err := os.Stat("never"); err == nil {
		t.Error("a policy that could not be read has been written")
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errLimited }

// Neither goroutines nor open files are left by a run, whatever its end.
func TestNothingLeaks(t *testing.T) {
	inFolder(t)
	all := func() {
		for _, tt := range statuses {
			run("", strings.Fields(tt.args)...)
		}
	}
	all() // what is started once stays
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		all()
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines, %d before", got, goroutines)
	}
	if got := openFiles(t); got > files {
		t.Errorf("%d open files, %d before", got, files)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if runtime.GOOS != "linux" && err != nil {
		return 0 // nothing counts them here
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Many runs that write one file at the same time leave one whole file, and who
// reads meanwhile never sees a part of it.
func TestParallelOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("big.json", bigManifest("/srv", 2000, 200), 0o666); err != nil {
		t.Fatal(err)
	}
	status, want, stderr := run("", "compile", "big.json", "-o", "-")
	if status != 0 {
		t.Fatal(stderr)
	}
	stop, watched := make(chan struct{}), make(chan int)
	go func() {
		seen := 0
		defer func() { watched <- seen }()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.Gosched() // where threads are none, the writers would never get on
			}
			got, err := os.ReadFile("out.mir")
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil || string(got) != want:
				t.Errorf("meanwhile the output has %d of %d bytes: %v", len(got), len(want), err)
				return
			default:
				seen++
			}
		}
	}()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if status, _, stderr := run("", "compile", "big.json", "-o", "out.mir"); status != 0 {
				t.Errorf("status %d: %s", status, stderr)
			}
		})
	}
	group.Wait()
	close(stop)
	t.Logf("the output was read %d times meanwhile", <-watched)
	if got, err := os.ReadFile("out.mir"); err != nil || string(got) != want {
		t.Errorf("the output has %d of %d bytes: %v", len(got), len(want), err)
	}
	if names := folder(t); !slices.Equal(names, []string{"big.json", "out.mir"}) {
		t.Errorf("the folder holds %q", names)
	}
}

// folder returns the names in the working directory.
func folder(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Whatever a file holds, nothing of it comes to standard error that a terminal
// would obey, and a caret stands where the message says.
func TestDiagnosticsOfAnything(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		"\x1b[31m", "\u009b2J", "\u202e", "\u2066", "\u200b", "\ufeff", "\x00", "\a", "\b", "\r", "\n", "\t", "\x7f", "\xff", "\xe6\x97", "\u2028",
		"日本", "e\u0301", "👩‍👩‍👧", `\u001b[31m`, `\u202e`, `\u0000`, `\ud800`, `"`, `{`, `}`, `,`, strings.Repeat("x", 100), strings.Repeat("語", 100), "/..", "MMIR",
	}
	mir := func() string {
		p, err := manifest.Compile([]byte(smallManifest))
		if err != nil {
			t.Fatal(err)
		}
		return string(p.Bytes())
	}()
	place := regexp.MustCompile(`^-:(\d+):(\d+): `)
	refused := 0
	for i := range 3000 {
		src := []string{smallManifest, mir}[i%2]
		for range 1 + random.IntN(3) {
			at := random.IntN(len(src) + 1)
			src = src[:at] + pieces[random.IntN(len(pieces))] + src[at+random.IntN(len(src)-at+1)/4:]
		}
		for _, verb := range []string{"lint", "verify"} {
			status, _, stderr := run(src, verb, "-")
			if status == 0 {
				continue
			}
			refused++
			if bad := strings.IndexFunc(stderr, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); status != 1 || bad >= 0 || !utf8.ValidString(stderr) {
				t.Fatalf("maelys %s of %q: status %d, standard error %q", verb, src, status, stderr)
			}
			lines := strings.Split(stderr, "\n")
			for j, line := range lines {
				m := place.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				if !strings.HasPrefix(lines[j+1], fmt.Sprintf("%5s | ", m[1])) || strings.TrimLeft(lines[j+2], " ") != "|"+strings.Repeat(" ", strings.Count(lines[j+2], " ")-6)+"^" {
					t.Fatalf("maelys %s of %q: no caret below\n%s", verb, src, strings.Join(lines[j:j+3], "\n"))
				}
			}
		}
	}
	if refused < 1000 {
		t.Errorf("only %d refusals", refused)
	}
}

// The examples in the repository compile, and lint has nothing to say of them but
// what is known.
func TestExamples(t *testing.T) {
	const root = "../.."
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		const why = "the tests do not run in the repository, and the examples are not here"
		if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	known := map[string]string{
		"coding-agent.json": "omissible-deny", // not every workspace has an .env
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	code := regexp.MustCompile(`(?m)^\S+:\d+:\d+: .* \[([a-z-]+)\]$`)
	for _, file := range files {
		status, stdout, stderr := run("", "lint", file)
		var codes []string
		for _, m := range code.FindAllStringSubmatch(stderr, -1) {
			codes = append(codes, m[1])
		}
		if want := known[filepath.Base(file)]; strings.Join(codes, " ") != want {
			t.Errorf("maelys lint %s: %q, want %q\n%s", file, codes, want, stderr)
		}
		if passed := stdout == file+": OK\n"; passed != (status == 0) || passed != (len(codes) == 0) {
			t.Errorf("maelys lint %s: status %d, standard output %q", file, status, stdout)
		}
		if status, _, stderr := run("", "compile", file, "-o", filepath.Join(t.TempDir(), "out.mir")); status != 0 {
			t.Errorf("maelys compile %s: status %d\n%s", file, status, stderr)
		}
	}
}
