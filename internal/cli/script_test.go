//go:build !wasip1 && !js

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/internal/cli"
)

var update = flag.Bool("update", false, "write what the command prints into the golden files of testdata/script")

// The test binary is also the command, and a program that runs another one as an
// ordinary user: it is told apart by the name it is started by.
func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // else a command built with -race waits a second before it ends
	}
	testscript.Main(m, map[string]func(){
		"maelys":   func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"ordinary": func() { os.Exit(ordinary(os.Args[1:])) },
		"fetch":    func() { os.Exit(fetch(os.Args[1:])) },
	})
}

const scripts = "testdata/script"

func TestScripts(t *testing.T) {
	setUmask()
	if found, err := filepath.Glob(scripts + "/*.txtar"); err != nil || len(found) == 0 {
		t.Fatalf("no script in %s (%v): nothing would be tested", scripts, err)
	}
	// An ordinary user must be able to start the command, and to work below $WORK.
	maelys, err := exec.LookPath("maelys")
	if err != nil {
		t.Fatal(err)
	}
	openToAll(t, filepath.Dir(maelys))
	testscript.Run(t, testscript.Params{
		Dir:                 scripts,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptT{}] = env.T()
			env.Vars = append(env.Vars, "NL=\n", "CR=\r", "TAB=\t", "ESC=\x1b", "DEL=\x7f", "BAD=\xff", "CSI=\u009b", "RLO=\u202e")
			return errors.Join(
				os.Chmod(filepath.Dir(env.WorkDir), 0o755),
				os.Chmod(env.WorkDir, 0o777),
				os.Chmod(filepath.Join(env.WorkDir, ".tmp"), 0o777))
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"broken":      brokenCmd,
			"bytes":       bytesCmd,
			"clean":       cleanCmd,
			"exits":       exitsCmd,
			"json":        jsonCmd,
			"manifest":    manifestCmd,
			"masked":      maskedCmd,
			"mode":        modeCmd,
			"readers":     readersCmd,
			"serve":       serveCmd,
			"sparse":      sparseCmd,
			"unavailable": unavailableCmd,
			"writers":     writersCmd,
		},
	})
}

// openToAll lets everybody into a directory of these tests.
func openToAll(t *testing.T, dir string) {
	t.Helper()
	for _, dir := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// scriptT is the key of the testscript.T of a script.
type scriptT struct{}

func condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Geteuid() == 0, nil
	case "ordinary":
		return exec.Command("ordinary", "maelys", "version").Run() == nil, nil
	case "able":
		lacks := slices.ContainsFunc(host.Read().Abilities(host.Namespaces), func(a host.Ability) bool { return !a.Holds() })
		return !lacks, nil
	case "mount":
		return exec.Command("unshare", "-rm", "true").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition")
}

// fetch connects to each HOST:PORT and prints what is said there.
func fetch(all []string) int {
	status := 0
	for _, at := range all {
		c, err := net.DialTimeout("tcp", at, 10*time.Second)
		if err == nil {
			_, err = io.Copy(os.Stdout, c)
		}
		if err != nil {
			fmt.Println("fetch:", err)
			status = 1
		}
	}
	return status
}

// serveCmd has somebody say hello on a loopback address, which a variable then holds.
func serveCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0]+"_PORT", port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			_ = c.Close()
		}
	}()
}

// unavailableCmd skips the rest of the script for a reason, or fails where nothing
// may be skipped.
func unavailableCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unavailable REASON")
	}
	t := ts.Value(scriptT{}).(testscript.T)
	if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
		ts.Fatalf("MAELYS_REQUIRE_ALL=1 and %s", args[0])
	}
	t.Skip(args[0])
}

// exitsCmd runs a program and checks its exit status.
func exitsCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG…]")
	}
	checkStatus(ts, args[0], ts.Exec(args[1], args[2:]...))
}

// brokenCmd is exitsCmd with a standard output that nobody reads.
func brokenCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: broken STATUS PROGRAM [ARG…]")
	}
	reader, writer, err := os.Pipe()
	ts.Check(err)
	ts.Check(reader.Close())
	defer writer.Close()
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), writer, ts.Stderr()
	checkStatus(ts, args[0], cmd.Run())
}

func checkStatus(ts *testscript.TestScript, status string, err error) {
	want, parseErr := strconv.Atoi(status)
	ts.Check(parseErr)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d (%v), want %d", got, err, want)
	}
}

// The command lines of the verbs that read files, with FILE for each file in turn.
// Others, where a verb needs them, are policy.json and policy.mir.
var readers = [][]string{
	{"compile", "FILE", "-o", "unwanted"},
	{"verify", "FILE"},
	{"digest", "FILE"},
	{"inspect", "FILE"},
	{"fmt", "FILE"},
	{"fmt", "-w", "FILE"},
	{"fmt", "--check", "FILE"},
	{"lint", "FILE"},
	{"diff", "FILE", "policy.json"},
	{"diff", "policy.json", "FILE"},
	{"contains", "FILE", "policy.mir"},
	{"contains", "policy.mir", "FILE"},
	{"restrict", "FILE", "policy.json", "-o", "unwanted"},
	{"restrict", "policy.json", "FILE", "-o", "unwanted"},
	{"plan", "FILE"},
	{"explain", "FILE", "x"},
	{"diff", "-w", ".", "FILE", "policy.json"},
	{"contains", "-w", ".", "policy.json", "FILE"},
}

// The verbs that read no file.
var nonReaders = []string{"init", "schema", "version", "completion", "help", "doctor", "run"} // run has statuses of its own

// readersCmd runs every verb that reads files on one that it must refuse.
func readersCmd(ts *testscript.TestScript, neg bool, args []string) {
	var prefix []string
	if len(args) > 0 && args[0] == "-ordinary" {
		prefix, args = []string{"ordinary"}, args[1:]
	}
	if neg || len(args) != 3 {
		ts.Fatalf("usage: readers [-ordinary] STATUS PATTERN FILE")
	}
	for _, line := range readers {
		line = append(slices.Clone(prefix), append([]string{"maelys"}, line...)...)
		for i := range line {
			line[i] = strings.ReplaceAll(line[i], "FILE", args[2])
		}
		refusedBy(ts, line, args[0], args[1])
		if _, err := os.Lstat(ts.MkAbs("unwanted")); err == nil {
			ts.Fatalf("%q has written its output", line)
		}
	}
}

// writersCmd runs every verb that makes a file, told to write one that it cannot.
func writersCmd(ts *testscript.TestScript, neg bool, args []string) {
	var prefix []string
	if len(args) > 0 && args[0] == "-ordinary" {
		prefix, args = []string{"ordinary"}, args[1:]
	}
	if neg || len(args) != 3 {
		ts.Fatalf("usage: writers [-ordinary] STATUS PATTERN FILE")
	}
	for _, line := range [][]string{
		{"compile", "policy.json", "-o", args[2]},
		{"restrict", "policy.json", "policy.mir", "-o", args[2]},
		{"init", "-o", args[2]},
	} {
		refusedBy(ts, append(slices.Clone(prefix), append([]string{"maelys"}, line...)...), args[0], args[1])
	}
	cleanCmd(ts, false, nil)
}

// refusedBy runs a command line that must end with status, say why on standard
// error alone, and not send there anything that a terminal would obey.
func refusedBy(ts *testscript.TestScript, line []string, status, pattern string) {
	ts.Logf("> %q", line)
	checkStatus(ts, status, ts.Exec(line[0], line[1:]...))
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output holds %q", out)
	}
	said := ts.ReadFile("stderr")
	if !regexp.MustCompile("(?m)" + pattern).MatchString(said) {
		ts.Fatalf("standard error does not match %q", pattern)
	}
	if r, bad := unprintable(said); bad {
		ts.Fatalf("standard error holds %q", r)
	}
}

// unprintable returns the first character of s that could do more on a terminal
// than appear on it.
func unprintable(s string) (r rune, found bool) {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) || r != '\n' && !unicode.IsGraphic(r) {
			return r, true
		}
	}
	return 0, false
}

// jsonCmd checks that the last standard output is what every verb prints with
// --json: one object that begins with "ok", and with diagnostics when that is false.
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || args[0] != "ok" && args[0] != "refused" {
		ts.Fatalf("usage: json ok|refused")
	}
	if err := checkJSON([]byte(ts.ReadFile("stdout")), args[0] == "ok"); err != nil {
		ts.Fatalf("%v", err)
	}
	if said := ts.ReadFile("stderr"); said != "" {
		ts.Fatalf("with --json standard error holds %q", said)
	}
}

func checkJSON(text []byte, ok bool) error {
	if !bytes.HasPrefix(text, fmt.Appendf(nil, "{\n  \"ok\": %t", ok)) {
		return fmt.Errorf("the output does not begin with \"ok\": %t: %.60q", ok, text)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) || !bytes.HasSuffix(text, []byte("}\n")) {
		return fmt.Errorf("more than one object and a line break")
	}
	list, has := object["diagnostics"].([]any)
	if has == ok || has && len(list) == 0 {
		return fmt.Errorf("ok is %t and there are %d diagnostics", ok, len(list))
	}
	for _, one := range list {
		d, _ := one.(map[string]any)
		for _, member := range []string{"file", "code", "message", "hint"} {
			if _, is := d[member].(string); !is {
				return fmt.Errorf("a diagnostic whose %q is no string: %v", member, d)
			}
		}
		if d["code"] == "" || d["message"] == "" {
			return fmt.Errorf("a diagnostic that says nothing: %v", d)
		}
		_, pointer := d["pointer"].(string)
		_, offset := d["offset"].(json.Number)
		_, line := d["line"].(json.Number)
		_, column := d["column"].(json.Number)
		if pointer && offset || line != column || line && !pointer {
			return fmt.Errorf("a diagnostic with members of both a manifest and MIR: %v", d)
		}
	}
	return nil
}

// bytesCmd writes a file of what a Go string literal holds.
func bytesCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes FILE TEXT, with the escapes of Go")
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// sparseCmd makes a file of a size that it does not take on the disk, after a text
// where one is given.
func sparseCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: sparse FILE SIZE [TEXT]")
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(args[2:], "")), 0o666))
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// manifestCmd writes a manifest with a number of rules.
func manifestCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: manifest FILE ROOT RULES")
	}
	rules, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bigManifest(args[1], rules, 8), 0o666))
}

// maskedCmd writes what the last command has printed to files, with what differs from
// host to host replaced: $WORK, plan digests, device and inode numbers.
func maskedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: masked STDOUT STDERR")
	}
	work, err := filepath.EvalSymlinks(ts.Getenv("WORK"))
	ts.Check(err)
	mask := strings.NewReplacer(ts.Getenv("WORK"), "$WORK", work, "$WORK")
	numbers := regexp.MustCompile(`("device"|"inode"): \d+`)
	columns := regexp.MustCompile(`(\S) {2,}`)
	digests := regexp.MustCompile(`(plan +|"planDigest": ")[0-9a-f]{64}`)
	for i, stream := range []string{"stdout", "stderr"} {
		text := mask.Replace(ts.ReadFile(stream))
		text = columns.ReplaceAllString(text, "$1  ") // as wide as $WORK is long
		text = digests.ReplaceAllString(numbers.ReplaceAllString(text, "${1}: 0"), "${1}DIGEST")
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), []byte(text), 0o666))
	}
}

// modeCmd checks the permissions of a file.
func modeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("the mode of %s is %s, want %s", args[1], got, args[0])
	}
}

// cleanCmd checks that no temporary file has been left below $WORK.
func cleanCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: clean")
	}
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if strings.HasPrefix(filepath.Base(path), ".maelys-") {
			return fmt.Errorf("%s has been left behind", path)
		}
		return err
	}))
}
