//go:build linux

package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"maelys.dev/maelys/internal/cli"
	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// BenchmarkRatioExplain prints the milliseconds that explain takes for the slowest of
// the examples, of the medians: reading the manifest, resolving it on this host with
// what the shell needs to start, and answering for three paths and a destination.
func BenchmarkRatioExplain(b *testing.B) {
	examples, err := filepath.Glob("../../examples/*.json")
	if err != nil || len(examples) == 0 {
		b.Fatal("no examples: ", err)
	}
	slowest := time.Duration(0)
	for _, example := range examples {
		workspace := b.TempDir()
		furnish(b, example, workspace)
		var took []time.Duration
		b.Run(filepath.Base(example), func(b *testing.B) {
			for b.Loop() {
				var errs strings.Builder
				start := time.Now()
				status := cli.Main([]string{
					"explain", "-w", workspace, example, "README.md", "/etc/passwd", "/bin/sh", "example.com:443", "--", "sh",
				}, strings.NewReader(""), io.Discard, &errs)
				took = append(took, time.Since(start))
				if status != 0 {
					b.Fatal(errs.String())
				}
			}
		})
		slices.Sort(took)
		if len(took) > 0 {
			slowest = max(slowest, took[len(took)/2])
		}
	}
	ratio.Print(os.Stdout, "explain-examples-milliseconds", float64(slowest.Microseconds())/1000, 10)
}

// TestExamplesKeepSecrets asks every example about files that hold secrets on many
// hosts. What no rule names is denied.
func TestExamplesKeepSecrets(t *testing.T) {
	home := t.TempDir()
	var secrets []string
	for name := range strings.FieldsSeq(`.ssh/id_ed25519 .ssh/id_rsa .ssh/config .ssh/known_hosts .netrc .git-credentials .gitconfig
		.docker/config.json .kube/config .aws/credentials .config/gcloud/credentials.db .azure/accessTokens.json .npmrc .pypirc
		.cargo/credentials.toml .gnupg/secring.gpg .password-store/x.gpg .bash_history .zshrc .config/gh/hosts.yml .env`) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, path)
	}
	secrets = append(secrets, "/etc/shadow", "/proc/1/root"+home+"/.netrc", "/proc/self/root/etc/shadow", "/root")
	examples, err := filepath.Glob("../../examples/*.json")
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples: ", err)
	}
	for _, example := range examples {
		workspace := filepath.Join(home, "project")
		furnish(t, example, workspace)
		var out, errs strings.Builder
		args := append([]string{"explain", "--json", "-w", workspace, "--temp", t.TempDir(), example}, secrets...)
		if status := cli.Main(args, strings.NewReader(""), &out, &errs); status != 0 {
			t.Errorf("%s: status %d\n%s%s", example, status, out.String(), errs.String())
		}
		var said struct {
			Answers []struct{ Query, Permission, Reason string }
		}
		if err := json.Unmarshal([]byte(out.String()), &said); err != nil || len(said.Answers) != len(secrets) {
			t.Fatalf("%s: %d answers (%v)", example, len(said.Answers), err)
		}
		for _, a := range said.Answers {
			if a.Permission != "none" {
				t.Errorf("%s: %s may be %s: %s", example, a.Query, a.Permission, a.Reason)
			}
		}
	}
}

// furnish makes what the policy of an example needs to find in its workspace.
func furnish(t testing.TB, example, workspace string) {
	t.Helper()
	src, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := manifest.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.Rules()
	slices.SortFunc(rules, func(a, b mir.Rule) int { return strings.Compare(a.Path.Text(), b.Path.Text()) })
	for _, r := range rules {
		if r.Path.Root() != mir.RootWorkspace {
			continue
		}
		if err := os.MkdirAll(filepath.Join(workspace, r.Path.Text()), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExamplesHere resolves every example on this host, with nothing to warn of but
// denies of what a fresh project does not have.
func TestExamplesHere(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*.json")
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples: ", err)
	}
	for _, example := range examples {
		workspace := t.TempDir()
		furnish(t, example, workspace)
		src, err := os.ReadFile(example)
		if err != nil {
			t.Fatal(err)
		}
		strict := "--strict"
		if bytes.Contains(src, []byte(`"mediated"`)) {
			strict = "--strict=false" // it is being built, of which plan warns
		}
		for _, args := range [][]string{
			{"plan", strict, "-w", workspace, example, "--", "sh"},
			{"explain", "-w", workspace, example, ".", "/", "/bin/sh", "/dev/null", "/tmp/x", "example.com:443"},
		} {
			var out, errs strings.Builder
			if status := cli.Main(args, strings.NewReader(""), &out, &errs); status != 0 || out.Len() == 0 {
				t.Errorf("%q: status %d\n%s", args, status, errs.String())
			}
		}
	}
}
