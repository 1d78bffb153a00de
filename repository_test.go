//go:build !wasip1 && !js

// The tests in this folder are about the repository as a whole: which package may
// import which, and whether what the documents show is what the code does.
package maelys_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/internal/cli"
	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/plan"
)

const module = "maelys.dev/maelys"

// rooms are the packages in order: each may import only those above it. A package
// that is not here fails the test; give it a place in the design first.
var rooms = []string{
	"mir",
	"manifest",
	"plan",
	"internal/linux/limit",
	"internal/linux",
	"host",
	"mediator",
	"warden",
	"internal/cli",
	"cmd/maelys",
	"internal/ratio",  // benchmarks only; imports nothing of the others and only tests import it
	"internal/corpus", // tests only: the written cases of the permission contract
}

// forTests are rooms that only tests may import.
var forTests = map[string]bool{"internal/ratio": true, "internal/corpus": true}

// forbidden says what a room must not import itself, with the reason.
var forbidden = map[string]map[string]string{
	"mir": {
		"os": "pure: takes bytes", "net": "pure", "syscall": "pure", "time": "pure: no clock", "math/rand/v2": "pure: no chance",
		"maps": "nothing may depend on the order of a map",
	},
	"manifest": {
		"os": "pure: takes bytes", "net": "use net/netip", "syscall": "pure", "time": "pure: no clock", "math/rand/v2": "pure: no chance",
		"encoding/json": "takes the last of two members and replaces bad UTF-8; use jsontext",
	},
	"host":           {"net": "reads the host", "os/exec": "starts nothing", "math/rand/v2": "no chance"},
	"mediator":       {"os/exec": "starts nothing", "syscall": "is given its sockets", "math/rand/v2": "no chance"},
	"warden":         {"math/rand/v2": "no chance"},
	"internal/linux": {"net": "the kernel alone", "os/exec": "starts nothing"},
	"plan":           {"os": "sees a host through its Filesystem", "net": "use net/netip", "syscall": "pure", "time": "pure: no clock", "math/rand/v2": "pure: no chance"},
}

// unwanted are packages that no room may depend on, by way of others either.
var unwanted = map[string]map[string]string{
	"mir":      {"os/exec": "pure", "net": "pure", "net/http": "pure", "golang.org/x/sys/unix": "pure", "unsafe/cgo": "pure"},
	"manifest": {"os/exec": "pure", "net": "pure", "net/http": "pure", "golang.org/x/sys/unix": "pure"},
	"plan":     {"os/exec": "pure", "net": "pure", "net/http": "pure", "golang.org/x/sys/unix": "pure"},
	"internal/cli": {
		"net/http": "start-up time is a feature", "crypto/tls": "start-up time is a feature", "testing": "for tests only", "os/user": "start-up time is a feature",
	},
}

type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func TestRooms(t *testing.T) {
	for _, target := range []string{"linux/amd64", "wasip1/wasm", "windows/amd64"} {
		goos, goarch, _ := strings.Cut(target, "/")
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
		list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%s: go list: %v", target, err)
		}
		standard := map[string]bool{}
		var ours []listed
		for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
			var p listed
			if err := decoder.Decode(&p); err != nil {
				t.Fatal(err)
			}
			standard[p.ImportPath] = p.Standard
			if strings.HasPrefix(p.ImportPath, module) {
				ours = append(ours, p)
			}
		}
		if len(ours) < len(rooms) {
			t.Fatalf("%s: %d packages, want at least %d", target, len(ours), len(rooms))
		}
		for _, p := range ours {
			checkRoom(t, target, p, standard)
		}
	}
}

func checkRoom(t *testing.T, target string, p listed, standard map[string]bool) {
	t.Helper()
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	if name == "" {
		return // these tests
	}
	place := slices.Index(rooms, name)
	if place < 0 {
		t.Errorf("%s: package %s has no room", target, name)
		return
	}
	for _, i := range p.Imports {
		if why, ok := forbidden[name][i]; ok {
			t.Errorf("%s: %s imports %s: %s", target, name, i, why)
		}
		if name == "mir" && !standard[i] {
			t.Errorf("%s: mir imports %s: standard library only", target, i)
		}
		if inner, ok := strings.CutPrefix(i, module+"/"); ok && (slices.Index(rooms, inner) >= place || forTests[inner]) {
			t.Errorf("%s: %s imports %s, which is not above it", target, name, inner)
		}
	}
	for _, d := range p.Deps {
		if why, ok := unwanted[name][d]; ok {
			t.Errorf("%s: %s depends on %s: %s", target, name, d, why)
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, room := range rooms {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(room), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", room, err)
		}
		commented := false
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			commented = commented || parsed.Doc != nil && !strings.HasSuffix(file, "_test.go")
		}
		if !commented {
			t.Errorf("package %s has no comment", room)
		}
	}
}

// maelys runs the command and returns what it prints and its status.
func maelys(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = cli.Main(args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), status
}

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// blocks returns the fenced blocks of a document in one language, "" for none.
func blocks(text, language string) (list []string) {
	inside, current, block := false, "", ""
	for line := range strings.Lines(text) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && inside:
			if inside = false; current == language {
				list = append(list, block)
			}
		case isFence:
			inside, current, block = true, fence, ""
		case inside:
			block += line
		}
	}
	return list
}

// shows checks that a document holds a text, line for line.
func shows(t *testing.T, document, text, what string) {
	t.Helper()
	if !strings.Contains(document, "\n"+text) {
		t.Errorf("the document does not show what %s prints:\n%s", what, text)
	}
}

// TestREADME runs what the README shows.
func TestREADME(t *testing.T) {
	readme := document(t, "README.md")
	dir := t.TempDir()
	out, errs, status := maelys(t, "explain", "examples/go-test-offline.json", "example.com:443")
	if status != 0 {
		t.Fatal(errs)
	}
	shows(t, readme, out, "explain")

	changed := strings.Replace(document(t, "examples/coding-agent.json"), `".git"`, `".git/hooks"`, 1)
	after := filepath.Join(dir, "changed.json")
	if err := os.WriteFile(after, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, status = maelys(t, "diff", "--fail-on-widen", "examples/coding-agent.json", after)
	if status != 1 {
		t.Errorf("diff --fail-on-widen: status %d, want 1", status)
	}
	shows(t, readme, out+strings.ReplaceAll(errs, after, "bin/changed.json"), "diff")

	out, _, _ = maelys(t, "--help")
	shows(t, readme, out, "--help")
	examples := document(t, "mir/example_test.go") + document(t, "manifest/example_test.go")
	snippets := blocks(readme, "go")
	if len(snippets) == 0 {
		t.Error("the README shows no Go")
	}
	for _, snippet := range snippets {
		indented := "\t" + strings.ReplaceAll(strings.TrimSpace(snippet), "\n", "\n\t")
		if !strings.Contains(examples, indented+"\n") {
			t.Errorf("no example has these lines of the README:\n%s", snippet)
		}
	}
	if n := strings.Count(readme, "\n"); n > 150 {
		t.Errorf("the README has %d lines, nobody reads more than 150", n)
	}
}

// TestDocuments compiles every manifest in the documents, and checks the dump, the
// digest and the diagnostics that they print.
func TestDocuments(t *testing.T) {
	for _, name := range []string{"docs/manifest.md", "docs/format.md"} {
		text := document(t, name)
		found := blocks(text, "json")
		if len(found) == 0 {
			t.Fatalf("%s: no JSON", name)
		}
		for _, block := range found {
			if !strings.Contains(block, "formatVersion") {
				continue
			}
			if _, err := manifest.Compile([]byte(block)); err != nil {
				t.Errorf("%s: %v\n%s", name, err, block)
			}
		}
	}

	format := document(t, "docs/format.md")
	p, err := manifest.Compile([]byte(blocks(format, "json")[0]))
	if err != nil {
		t.Fatal(err)
	}
	shows(t, format, fmt.Sprintf("The digest is `%s`.", p.Digest()), "digest")
	var dump []byte
	for _, block := range blocks(format, "") {
		if !strings.HasPrefix(block, "00  4d 4d 49 52") {
			continue
		}
		for line := range strings.Lines(block) {
			var offset int
			if _, err := fmt.Sscanf(line, "%x", &offset); err != nil {
				continue
			}
			if offset != len(dump) {
				t.Errorf("docs/format.md: a line of the dump says offset %x, want %x", offset, len(dump))
			}
			for field := range strings.FieldsSeq(line[4:min(len(line), 35)]) {
				var b byte
				if _, err := fmt.Sscanf(field, "%02x", &b); err == nil && len(field) == 2 {
					dump = append(dump, b)
				}
			}
		}
	}
	if !bytes.Equal(dump, p.Bytes()) {
		t.Errorf("docs/format.md: the dump is\n%x, want\n%x", dump, p.Bytes())
	}

	host := document(t, "docs/plan.md")
	words := []string{
		string(plan.CodeOmissibleDeny), string(plan.CodeReplaceableLink), string(plan.CodeHardLinkedDeny),
		string(plan.CodeDeniedRuntime), string(plan.CodeWritableRuntime), plan.PrivateTemp,
	}
	for _, c := range plan.Capabilities() {
		words = append(words, string(c))
	}
	help, _, _ := maelys(t, "plan", "--help")
	for _, m := range regexp.MustCompile(`--[a-z-]+`).FindAllString(help, -1) {
		if m != "--json" && m != "--help" && m != "--" {
			words = append(words, m)
		}
	}
	for _, word := range words {
		if !strings.Contains(host, word) {
			t.Errorf("docs/plan.md does not say what %s is", word)
		}
	}

	language := document(t, "docs/manifest.md")
	policy := filepath.Join(t.TempDir(), "policy.json")
	for i, block := range blocks(language, "") {
		if !strings.HasPrefix(block, "{ \"formatVersion\": 2, \"formatVersion\": 2,") {
			continue
		}
		if err := os.WriteFile(policy, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, status := maelys(t, "compile", policy, "-o", "-")
		if status != 1 {
			t.Errorf("docs/manifest.md: block %d has status %d, want 1", i, status)
		}
		shows(t, language, strings.ReplaceAll(errs, policy, "policy.json"), "compile of the faulty manifest")
		return
	}
	t.Error("docs/manifest.md: the faulty manifest is not there")
}
