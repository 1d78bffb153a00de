//go:build linux && (amd64 || arm64)

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A job is what a tool does in a small project under the policy of an example.
type job struct {
	name    string
	example string
	needs   []string          // programs of the host
	project map[string]string // files; a name that ends with a slash is a directory
	before  string            // for a shell outside, in the project
	flags   []string          // of run; ROOT/NAME stands for the toolchain of a program
	script  string            // for a shell inside
	says    string            // in what it prints
	refused string            // for a shell inside: what the policy does not grant
}

// jobs cover every kind of example. /usr is where a distribution has its tools; those that
// live elsewhere are runtime roots of their own.
var jobs = []job{
	{
		name: "go build", example: "go-build.json", needs: []string{"go"},
		project: map[string]string{"go.mod": "module example.com/hello\n\ngo 1.21\n", "main.go": "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"built\\n\") }\n", "build/": ""},
		flags:   []string{"--runtime-root", "ROOT/go", "--env", "GOCACHE=/tmp/go-build", "--env", "GOFLAGS=-mod=mod", "--env", "GOTOOLCHAIN=local", "--env", "CGO_ENABLED=0"},
		script:  "go build -o build/ ./... && build/hello", says: "built\n", refused: "echo x >>main.go",
	},
	{
		name: "go test and vet", example: "go-test-offline.json", needs: []string{"go"},
		project: map[string]string{"go.mod": "module example.com/hello\n\ngo 1.21\n", "hello_test.go": "package hello\n\nimport (\"os\"; \"testing\")\n\nfunc TestIt(t *testing.T) { if os.WriteFile(t.TempDir()+\"/f\", nil, 0o600) != nil || os.WriteFile(\"golden\", nil, 0o600) == nil { t.Fail() } }\n"},
		flags:   []string{"--runtime-root", "ROOT/go", "--env", "HOME=/tmp", "--env", "GOTOOLCHAIN=local", "--env", "CGO_ENABLED=0"},
		script:  "go vet . && go test .", says: "ok  \texample.com/hello", refused: "touch golden",
	},
	{
		name: "make and gcc", example: "make-gcc.json", needs: []string{"make", "gcc"},
		project: map[string]string{
			"Makefile": "build/hello: build/main.o build/lib.o\n\tcc -o $@ $^\nbuild/%.o: %.c\n\tcc -O2 -c -o $@ $<\n",
			"main.c":   "#include <stdio.h>\nint n(void);\nint main(void) { printf(\"made %d\\n\", n()); return 0; }\n", "lib.c": "int n(void) { return 42; }\n", "build/": "",
		},
		script: "make -j2 && build/hello", says: "made 42\n", refused: "cc -c main.c",
	},
	{
		name: "cargo build", example: "cargo-build.json", needs: []string{"cargo", "rustc", "gcc"},
		project: map[string]string{
			"Cargo.toml": "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "Cargo.lock": "version = 3\n\n[[package]]\nname = \"hello\"\nversion = \"0.1.0\"\n",
			"src/main.rs": "fn main() { println!(\"built\"); }\n", "target/": "", ".env": "secret",
		},
		flags:  []string{"--runtime-root", "ROOT/rustc", "--env", "CARGO_HOME=/tmp/cargo"},
		script: "cargo build --offline --locked && target/debug/hello", says: "built\n", refused: "cat .env",
	},
	{
		name: "npm run", example: "npm-install-test.json", needs: []string{"node", "npm"},
		project: map[string]string{
			"package.json": `{"name": "hello", "version": "1.0.0", "scripts": {"test": "node test.js"}}`, "node_modules/greet/index.js": "module.exports = () => 'greeted'\n",
			"test.js": "const fs = require('fs'); console.log(require('greet')()); fs.writeFileSync(require('os').tmpdir() + '/f', 'x')\n", ".env": "secret",
		},
		flags:  []string{"--env", "npm_config_cache=/tmp/npm", "--env", "npm_config_update_notifier=false"},
		script: "npm test --silent && touch node_modules/new", says: "greeted\n", refused: "cat .env",
	},
	{
		name: "python venv", example: "python-venv.json", needs: []string{"python3"},
		project: map[string]string{".venv/": "", "requirements.txt": "", "other.txt": "secret"},
		flags:   []string{"--runtime-root", "ROOT/python3"},
		script:  "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'", says: "True\n", refused: "cat other.txt",
	},
	{
		name: "python tests and processes", example: "pytest.json", needs: []string{"python3"},
		project: map[string]string{"test_it.py": `import multiprocessing, unittest
def double(n): return 2 * n
class T(unittest.TestCase):
    def test(self):
        with multiprocessing.Lock(), multiprocessing.Pool(2) as pool:
            self.assertEqual(pool.map(double, [1, 2]), [2, 4])
`},
		flags:  []string{"--runtime-root", "ROOT/python3", "--env", "PYTHONPYCACHEPREFIX=/tmp/pyc"},
		script: "python3 -m unittest 2>&1", says: "OK\n", refused: "touch new",
	},
	{
		name: "python job", example: "data-job.json", needs: []string{"python3"},
		project: map[string]string{"job/main.py": "open('output/sum', 'w').write(str(sum(map(int, open('input/numbers')))))\n", "input/numbers": "1\n2\n39\n", "output/": "", "other": "secret"},
		flags:   []string{"--runtime-root", "ROOT/python3"},
		script:  "python3 job/main.py && cat output/sum", says: "42", refused: "cat other",
	},
	{
		name: "an agent with git", example: "coding-agent.json", needs: []string{"git"},
		project: map[string]string{"file": "one\n", ".env": "secret", ".gitignore": ".env\n"},
		before:  "git init -q . && git add file .gitignore && git -c user.name=n -c user.email=e commit -qm first && git clone -q --bare . ../temp/agent.git",
		flags:   []string{"--temp", "TEMP", "--env", "HOME=TEMP", "--env", "GIT_DIR=TEMP/agent.git", "--env", "GIT_WORK_TREE=WORKSPACE"},
		script: `git reset -q && git status --short && echo two >>file && git -c user.name=n -c user.email=e commit -qam second && git log --oneline | wc -l &&
git diff HEAD~1 | tail -1 && git gc -q && git stash list && git status --short && echo clean`, says: "2\n+two\nclean\n", refused: "cat .git/config",
	},
	{
		name: "git", example: "git-clone.json", needs: []string{"git"},
		project: map[string]string{"checkout/": "", "other": "secret"},
		flags:   []string{"--env", "HOME=/", "--env", "GIT_CONFIG_NOSYSTEM=1"},
		script: `cd checkout && git init -q . && echo x >f && git add . && git -c user.name=n -c user.email=e commit -qm first && git worktree add -q ../checkout/w 2>/dev/null &&
cd w && echo y >f && git -c user.name=n -c user.email=e commit -qam second && git log --format=%s`, says: "second\nfirst\n", refused: "cat other",
	},
	{
		name: "a generator", example: "static-site.json", needs: []string{"sh"},
		project: map[string]string{"pages/a.md": "# Title\n", "dist/": "", ".env": "secret", ".git/config": ""},
		script:  `for f in pages/*.md; do sed 's/^# \(.*\)/<h1>\1<\/h1>/' $f >dist/$(basename $f .md).html; done; cat dist/a.html`, says: "<h1>Title</h1>\n", refused: "cat .env || cat .git/config",
	},
	{
		name: "a downloaded tool", example: "download-tool-check.json", needs: []string{"gcc"},
		project: map[string]string{"tool.c": "#include <stdio.h>\nint main(int c, char **v) { int n = 0; FILE *f = fopen(v[1], \"r\"); while (f && fgetc(f) != EOF) n++; printf(\"%d bytes\\n\", n); return f == 0; }\n", "input/data": "12345", "other": "secret"},
		before:  "gcc -o tool tool.c", script: "TOOL input/data", says: "5 bytes\n", refused: "TOOL other",
	},
	{
		name: "a shell and its tools", example: "coding-agent.json", needs: []string{"bash", "tar", "find", "script", "vim", "less"},
		project: map[string]string{"a/f": "b\na\n", "configure": "#!/bin/sh\necho configured\n", ".git/config": ""},
		before:  "chmod +x configure",
		script: `set -e
./configure; sort a/f | uniq -c | wc -l; bash -c 'cat <(echo substituted)'; { echo out >/dev/stdout; echo err >/dev/stderr; } 2>&1 | sort -r | head -1; cat /dev/fd/9 9<a/f | head -1
mktemp >/dev/null; seq 200000 -1 1 | sort -n -S 1M | head -1; mkdir b; mv a/f b/f; ln b/f b/g; tar cf - b | tar tf - | sort | tail -1; if command -v rsync >/dev/null; then rsync -a b/ c/; else cp -a b c; fi; find c -type f | wc -l
vim -u NONE -es -c '%s/a/z/' -c wq b/f; cat b/g | tail -1; seq 3 | less | tail -1; script -qc 'tty; stty size' /dev/null </dev/null`,
		says: "configured\n2\nsubstituted\nout\nb\n1\nb/g\n2\n", refused: "ls .git",
	},
	{
		name: "a multiplexer", example: "coding-agent.json", needs: []string{"tmux"},
		project: map[string]string{".git/config": ""},
		script:  `tmux -L t -f /dev/null new-session -d 'echo from a pane >out; sleep 1' && for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; [ ! -s out ] || break; done; cat out`, says: "from a pane\n", refused: "ls .git",
	},
}

// toolchain returns where a program has the rest of it.
func toolchain(t *testing.T, program string) (root, bin string) {
	t.Helper()
	ask := map[string][]string{
		"go": {"go", "env", "GOROOT"}, "rustc": {"rustc", "--print", "sysroot"}, "python3": {"python3", "-c", "import sys; print(sys.base_prefix)"},
	}[program]
	out, err := exec.CommandContext(t.Context(), ask[0], ask[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	root = strings.TrimSpace(string(out))
	return root, root + "/bin"
}

// readyToConfine lets everybody start maelys, where it can confine anything.
func readyToConfine(t *testing.T) {
	t.Helper()
	if ok, err := condition("able"); err != nil || !ok {
		unavailable(t, "this host cannot enforce anything")
	}
	t.Setenv("TMPDIR", "/var/tmp") // /tmp is a private one inside
	maelys, err := exec.LookPath("maelys")
	if err != nil {
		t.Fatal(err)
	}
	openToAll(t, filepath.Dir(maelys))
}

// TestTools does every job as this user, and those of the system's own tools as nobody too.
func TestTools(t *testing.T) {
	readyToConfine(t)
	for _, j := range jobs {
		t.Run(j.name, func(t *testing.T) {
			t.Parallel()
			j.run(t, "maelys")
		})
		if ok, err := condition("ordinary"); err != nil || !ok || os.Geteuid() != 0 {
			continue
		}
		t.Run(j.name+" as nobody", func(t *testing.T) {
			t.Parallel()
			for _, name := range j.needs {
				path, err := exec.LookPath(name)
				if err == nil {
					path, err = filepath.EvalSymlinks(path)
				}
				if err == nil && strings.HasPrefix(path, "/root/") {
					return // tools of root's own are nobody's
				}
			}
			j.run(t, "ordinary", "maelys")
		})
	}
}

func (j job) run(t *testing.T, maelys ...string) {
	for _, name := range j.needs {
		if _, err := exec.LookPath(name); err != nil {
			unavailable(t, "there is no "+name)
		}
	}
	base := t.TempDir()
	openToAll(t, base)
	workspace, temp, policy := base+"/workspace", base+"/temp", base+"/policy.json"
	for _, dir := range []string{workspace, temp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range j.project {
		path := filepath.Join(workspace, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if dir != path {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	j.policy(t, policy)
	if j.before != "" {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", j.before)
		cmd.Dir = workspace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", j.before, err, out)
		}
	}
	if maelys[0] == "ordinary" {
		if out, err := exec.CommandContext(t.Context(), "chown", "-R", fmt.Sprint(nobody), base).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	words := strings.NewReplacer("WORKSPACE", workspace, "TEMP", temp)
	path := "/usr/local/bin:/usr/bin:/bin"
	args := []string{"run", "-p", policy, "-w", workspace}
	if j.example != "download-tool-check.json" { // which starts nothing else
		args = append(args, "--runtime-root", "/usr")
	}
	for _, flag := range j.flags {
		if program, ok := strings.CutPrefix(flag, "ROOT/"); ok {
			root, bin := toolchain(t, program)
			flag, path = root, bin+":"+path
		}
		args = append(args, words.Replace(flag))
	}
	inside := func(script string) (string, error) {
		line := append(append(append([]string{}, args...), "--env", "PATH="+path, "--"), "/bin/sh", "-c", script)
		if rest, ok := strings.CutPrefix(script, "TOOL "); ok {
			line = append(append(append([]string{}, args...), "--"), "./tool", rest)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		line = append(append([]string{}, maelys[1:]...), line...)
		cmd := exec.CommandContext(ctx, maelys[0], line...)
		cmd.Dir = workspace
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			return out.String(), fmt.Errorf("%w\n%s", err, &errs)
		}
		return out.String(), nil
	}
	if out, err := inside(j.script); err != nil || !strings.Contains(out, j.says) {
		t.Errorf("it said %q, want %q (%v)", out, j.says, err)
	}
	if out, err := inside(j.refused); err == nil || strings.Contains(out, "secret") {
		t.Errorf("%s: it said %q, and should be refused", j.refused, out)
	}
}

// policy copies the policy of the example to where an ordinary user reads it.
func (j job) policy(t *testing.T, name string) {
	t.Helper()
	src, err := os.ReadFile("../../examples/" + j.example)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, src, 0o644); err != nil {
		t.Fatal(err)
	}
}
