package manifest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// lintSource is a manifest with each rule on a line of its own, from line 5.
func lintSource(rules []string, network, tree string) string {
	return "{\n  \"formatVersion\": 2,\n  \"filesystem\": { \"default\": \"deny\", \"rules\": [\n\n    " +
		strings.Join(rules, ",\n    ") + "\n  ] },\n  \"network\": " + network +
		",\n  \"process\": { \"treeConfinement\": \"" + tree + "\" }\n}\n"
}

// The rules of the tests, by what they grant or deny. The path begins with a slash,
// or with the name of its root and a colon.
func read(path string, more ...string) string  { return lintRule("read", path, more) }
func write(path string, more ...string) string { return lintRule("write", path, more) }
func deny(path string, more ...string) string  { return lintRule("deny", path, more) }

const (
	exactly    = `"scope": "exact"`
	orSkip     = `"missing": "skip"`
	noNetwork  = `{ "mode": "none" }`
	anyNetwork = `{ "mode": "direct" }`
)

func lintRule(access, path string, more []string) string {
	text := fmt.Sprintf(`"absolute": %q`, path)
	if root, relative, ok := strings.Cut(path, ":"); ok {
		text = fmt.Sprintf(`"root": %q, "relative": %q`, root, relative)
	}
	fields := append([]string{fmt.Sprintf(`"access": %q`, access), `"path": { ` + text + ` }`}, more...)
	return "{ " + strings.Join(fields, ", ") + " }"
}

// at is a finding as the tests name it: code and line.
func at(f manifest.Finding) string { return fmt.Sprintf("%s %d", f.Code, f.Line) }

func TestLintRules(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules []string
		want  string // of each finding its code and line; the first rule is in line 5
	}{
		{"nothing", nil, ""},
		{"what jobs need", []string{read("workspace:"), write("workspace:build"), write("temp:"), read("/etc/ssl/certs", orSkip)}, ""},

		{"a rule twice", []string{read("workspace:a"), read("workspace:a")}, "inert-rule 6"},
		{"a rule in another spelling", []string{read("workspace:a"), read("workspace:./a/")}, "inert-rule 6"},
		{"read beneath write", []string{write("workspace:"), read("workspace:a")}, "inert-rule 6"},
		{"read above write", []string{read("workspace:"), write("workspace:a")}, ""},
		{"read beneath read", []string{read("workspace:a/b"), read("workspace:a")}, "inert-rule 5"},
		{"read beside read, one a prefix of the other", []string{read("workspace:a"), read("workspace:a-b")}, ""},
		{"read beneath exact read", []string{read("workspace:a", exactly), read("workspace:a/b")}, ""},
		{"exact read of a tree that is read", []string{read("workspace:a"), read("workspace:a", exactly)}, "inert-rule 6"},
		{"grant beneath deny", []string{deny("workspace:a"), write("workspace:a/b")}, "inert-rule 6"},
		{"deny beneath grant", []string{write("workspace:"), deny("workspace:a")}, ""},
		{"deny beneath deny", []string{deny("workspace:a"), deny("workspace:a/b")}, "inert-rule 6"},
		{"same path below other roots", []string{read("workspace:a"), read("temp:a"), read("/a")}, ""},

		{"entry of /proc denied, and not what is beneath", []string{read("/proc"), deny("/proc", exactly)}, "broad-grant 5"},
		{"entry of a sockets' folder denied, and not what is beneath", []string{read("/run/podman"), deny("/run/podman", exactly)}, "socket-grant 5"},
		{"socket denied by its entry", []string{read("/run/docker.sock"), deny("/run/docker.sock", exactly, orSkip)}, ""},
		{"D-Bus below /var/run", []string{read("/var/run/dbus")}, "socket-grant 5"},
		{"agents below /var/run", []string{read("/var/run/user/1000")}, "socket-grant 5"},
		{"homes denied again", []string{read("/home"), deny("/home")}, "inert-rule 5"},
		{"the entry /dev alone", []string{read("/dev", exactly)}, ""},

		{"grant for two missings", []string{read("workspace:a", orSkip), read("workspace:a")}, "undecided-missing 6"},
		{"deny for two missings", []string{deny("workspace:a", orSkip), deny("workspace:a")}, "undecided-missing 5"},
		{"two missings of two scopes", []string{read("workspace:a", exactly), read("workspace:a", orSkip)}, "inert-rule 5"},

		{"deny that may be left out beneath write", []string{write("workspace:"), deny("workspace:.env", orSkip)}, "omissible-deny 6"},
		{"deny that may be left out beneath read", []string{read("workspace:"), deny("workspace:.env", orSkip)}, ""},
		{"deny that may be left out beside write", []string{write("workspace:a"), deny("workspace:b", orSkip)}, ""},
		{"deny that must hold beneath write", []string{write("workspace:"), deny("workspace:.env")}, ""},
		{"deny that may be left out, held up by one that must hold", []string{write("workspace:"), deny("workspace:a"), deny("workspace:a/b", orSkip)}, "inert-rule 7"},

		{"the host", []string{read("/")}, "broad-grant 5"},
		{"the host, to write", []string{write("/")}, "broad-grant 5"},
		{"the top of the host alone", []string{read("/", exactly)}, ""},
		{"deny of the host", []string{deny("/")}, ""},
		{"homes", []string{read("/home")}, "broad-grant 5"},
		{"homes of macOS", []string{read("/Users")}, "broad-grant 5"},
		{"homes of image based systems", []string{read("/var/home")}, "broad-grant 5"},
		{"a home", []string{write("/home/me")}, "broad-grant 5"},
		{"the home of root", []string{read("/root")}, "broad-grant 5"},
		{"the entry of a home alone", []string{read("/home/me", exactly)}, ""},
		{"a directory of a home", []string{read("/home/me/src")}, ""},
		{"like a home by name only", []string{read("/homepage"), read("/opt/home/me"), read("/rooted")}, ""},
		{"ssh", []string{read("/home/me/.ssh")}, "socket-grant 5"},
		{"one file of ssh", []string{read("/root/.ssh/config", exactly)}, "socket-grant 5"},
		{"gpg", []string{read("/Users/me/.gnupg/S.gpg-agent")}, "socket-grant 5"},
		{"docker", []string{read("/var/home/me/.docker")}, "socket-grant 5"},
		{"aws", []string{read("/home/me/.aws")}, "socket-grant 5"},
		{"kube", []string{read("/home/me/.kube/config")}, "socket-grant 5"},
		{"like ssh by name only", []string{read("/home/me/.sshd"), read("/home/me/src/.ssh"), read("/etc/.ssh")}, ""},

		{"proc", []string{read("/proc")}, "broad-grant 5"},
		{"one file of proc", []string{read("/proc/1/environ", exactly)}, "broad-grant 5"},
		{"sys", []string{read("/sys")}, "broad-grant 5"},
		{"dev", []string{write("/dev")}, "broad-grant 5"},
		{"a disk", []string{read("/dev/sda")}, "broad-grant 5"},
		{"harmless devices", []string{write("/dev/null"), read("/dev/zero"), read("/dev/full"), read("/dev/random"), read("/dev/urandom"), write("/dev/tty")}, ""},
		{"like a harmless device by name only", []string{read("/dev/null0")}, "broad-grant 5"},
		{"run", []string{read("/run")}, "socket-grant 5"},
		{"run by its other name", []string{read("/var/run")}, "socket-grant 5"},
		{"var, which holds run", []string{read("/var")}, "socket-grant 5"},
		{"var without run", []string{read("/var"), deny("/var/run")}, ""},
		{"run without its known sockets", []string{
			read("/run"), deny("/run/docker.sock"), deny("/run/podman"), deny("/run/containerd"), deny("/run/dbus"), deny("/run/user"),
		}, "broad-grant 5"},
		{"Docker", []string{write("/run/docker.sock", exactly)}, "socket-grant 5"},
		{"Docker by its other name", []string{read("/var/run/docker.sock")}, "socket-grant 5"},
		{"Docker taken out again", []string{deny("/run/docker.sock"), read("/run/docker.sock")}, "inert-rule 6"},
		{"Docker taken out of the files below run", []string{read("/run/docker.sock"), deny("/run")}, "inert-rule 5"},
		{"Podman", []string{read("/run/podman/podman.sock")}, "socket-grant 5"},
		{"containerd", []string{read("/run/containerd")}, "socket-grant 5"},
		{"D-Bus", []string{read("/run/dbus/system_bus_socket", exactly)}, "socket-grant 5"},
		{"agents", []string{read("/run/user/1000")}, "socket-grant 5"},
		{"Nix", []string{read("/nix")}, "socket-grant 5"},
		{"Nix without the daemon", []string{read("/nix"), deny("/nix/var/nix/daemon-socket")}, ""},
		{"Nix store", []string{read("/nix/store")}, ""},
		{"X11", []string{write("/tmp")}, "socket-grant 5"},
		{"X11 taken out again", []string{write("/tmp"), deny("/tmp/.X11-unix")}, ""},
		{"X11 taken out where it exists", []string{write("/tmp"), deny("/tmp/.X11-unix", orSkip)}, "omissible-deny 6"},
		{"the entry of tmp alone", []string{read("/tmp", exactly)}, ""},
		{"etc", []string{read("/etc")}, ""},
		{"usr and opt", []string{read("/usr"), read("/opt"), read("/lib64", orSkip), read("/srv")}, ""},
		{"a run below another root", []string{write("workspace:run"), write("temp:home/me/.ssh")}, ""},

		{"two findings about one rule", []string{read("/home"), read("/home/me")}, "inert-rule 6; broad-grant 5; broad-grant 6"},
		{"findings about several rules", []string{write("temp:"), read("/proc"), deny("temp:a", orSkip), read("temp:b")}, "broad-grant 6; omissible-deny 7; inert-rule 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := lintSource(tt.rules, noNetwork, "required")
			findings := linted(t, src)
			var got []string
			for _, f := range findings {
				got = append(got, at(f))
				if want := fmt.Sprintf("/filesystem/rules/%d", f.Line-5); f.Pointer != want || f.Column != 5 {
					t.Errorf("%s: at %s, column %d; want %s, column 5", at(f), f.Pointer, f.Column, want)
				}
			}
			want := strings.Split(tt.want, "; ")
			slices.Sort(want)
			slices.Sort(got)
			if strings.Join(got, "; ") != strings.Join(want, "; ") {
				t.Errorf("Lint(%s) = %q, want %q", src, got, want)
			}
		})
	}
}

// TestLintMessages checks that a rule without effect is told which rule is why.
func TestLintMessages(t *testing.T) {
	other := read("temp:other")
	for _, tt := range []struct {
		name          string
		rules         []string
		message, hint string // of the finding about the last rule
	}{
		{
			"beneath a deny",
			[]string{other, deny("workspace:a"), write("workspace:a/b")},
			"this write can never act: rule 1 denies workspace:a, and a deny wins over every grant",
			"remove one of the two; to leave a hole in a deny, deny its other entries instead",
		},
		{
			"read beneath a write",
			[]string{other, write("/a"), read("/a/b")},
			"this read can never act: rule 1 grants write on /a, and grants add up",
			"remove it; to make a part read-only, grant write on the other parts",
		},
		{
			"said before",
			[]string{other, read("workspace:a"), read("workspace:a/b")},
			"rule 1 says the same of workspace:a, so this one adds nothing", "remove it",
		},
		{
			"other missing",
			[]string{other, read("temp:a"), read("temp:a", orSkip)},
			`rule 1 says the same but for missing, and "error" wins: the path must exist`,
			"keep one of the two, with the missing that is meant",
		},
		{
			"deny that may be left out",
			[]string{other, write("workspace:"), deny("workspace:.env", orSkip)},
			"where workspace:.env does not exist at the launch this deny is left out, and the command may create it",
			`write "missing": "error" and create the path beforehand, or do not grant write above it`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			findings := linted(t, lintSource(tt.rules, noNetwork, "required"))
			if len(findings) != 1 || findings[0].Message != tt.message || findings[0].Hint != tt.hint {
				t.Errorf("Lint(%q) = %+v, want %q with hint %q", tt.rules, findings, tt.message, tt.hint)
			}
		})
	}
}

// linted returns the findings of src after holding each to what is documented.
func linted(t *testing.T, src string) []manifest.Finding {
	t.Helper()
	findings, err := manifest.Lint([]byte(src))
	if err != nil {
		t.Fatalf("Lint(%s) = %v", src, err)
	}
	last := 0
	for _, f := range findings {
		before := src[:f.Offset]
		line, column := 1+strings.Count(before, "\n"), len(before)-strings.LastIndexByte(before, '\n')
		if f.Offset < last || f.Line != line || f.Column != column {
			t.Errorf("%+v: want %d:%d, and not before offset %d", f, line, column, last)
		}
		last = f.Offset
		if f.Message == "" || f.Hint == "" || strings.HasSuffix(f.Message, ".") {
			t.Errorf("%+v: want a sentence without its full stop, and a hint", f)
		}
	}
	return findings
}

func TestLintPostures(t *testing.T) {
	const mediated = `{ "mode": "mediated", "allow": [ { "protocol": "tcp", "host": "example.com", "port": 443 } ] }`
	const direct = `direct-network /network/mode "direct"`
	const tree = `tree-unconfined /process/treeConfinement "disabled"`
	for _, tt := range []struct{ name, network, tree, want string }{
		{"none", noNetwork, "required", ""},
		{"mediated", mediated, "required", ""},
		{"direct", anyNetwork, "required", direct},
		{"disabled", noNetwork, "disabled", tree},
		{"direct and disabled", anyNetwork, "disabled", direct + "; " + tree},
		{"mediated and disabled", mediated, "disabled", tree},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := lintSource(nil, tt.network, tt.tree)
			var got []string
			for _, f := range linted(t, src) {
				token, _, _ := strings.Cut(src[f.Offset:], " ")
				got = append(got, fmt.Sprintf("%s %s %s", f.Code, f.Pointer, token))
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("Lint(%s) = %q, want %q", src, got, tt.want)
			}
		})
	}
}

// TestLintExamples holds the examples to what they teach.
func TestLintExamples(t *testing.T) {
	expected := map[string]string{
		// Where .env is missing there is no secret to hide, see examples/README.md.
		"coding-agent.json": "omissible-deny /filesystem/rules/2",
	}
	for name, src := range readAll(t, "../examples", ".json") {
		var got []string
		for _, f := range linted(t, string(src)) {
			got = append(got, fmt.Sprintf("%s %s", f.Code, f.Pointer))
		}
		if want := expected[name]; strings.Join(got, "; ") != want {
			t.Errorf("%s: findings %q, want %q", name, got, want)
		}
		delete(expected, name)
	}
	for name := range expected {
		t.Errorf("%s is not among the examples", name)
	}
}

// TestLintRefuses checks that Lint judges nothing that Compile refuses.
func TestLintRefuses(t *testing.T) {
	for _, v := range refusals(t) {
		src := readFile(t, filepath.Join(vectors, "manifest-invalid", v.File))
		findings, err := manifest.Lint(src)
		var got manifest.Errors
		if findings != nil || !errors.As(err, &got) {
			t.Errorf("%s: Lint = %v, %v; want Errors", v.File, findings, err)
			continue
		}
		if want := refused(t, src); !slices.EqualFunc(got, want, func(a, b *manifest.Error) bool { return *a == *b }) {
			t.Errorf("%s: Lint says %v, Compile %v", v.File, got, want)
		}
	}
}

// TestLintPolicy compares the findings about a policy with those about its own
// manifest, which has the same rules in the same order.
func TestLintPolicy(t *testing.T) {
	all := map[string]string{}
	for name, src := range sources(t) {
		all[name] = string(src)
	}
	for i, rules := range [][]string{
		{read("/"), read("/home/me"), write("/run")},
		{write("workspace:"), deny("workspace:.env", orSkip), read("workspace:a")},
		{read("workspace:a"), read("workspace:a", orSkip), deny("temp:"), read("temp:a")},
	} {
		all[fmt.Sprintf("rules %d", i)] = lintSource(rules, anyNetwork, "disabled")
	}
	found := 0
	for name, src := range all {
		p := compiled(t, src)
		text, err := manifest.Format(p)
		if err != nil {
			t.Fatal(err)
		}
		key := func(f manifest.Finding) string {
			return fmt.Sprintf("%s %s %s | %s", f.Code, f.Pointer, f.Message, f.Hint)
		}
		var got, want []string
		for _, f := range manifest.LintPolicy(p) {
			if f.Offset != 0 || f.Line != 0 || f.Column != 0 {
				t.Errorf("%s: %+v has a place in a source", name, f)
			}
			got = append(got, key(f))
		}
		for _, f := range linted(t, string(text)) {
			want = append(want, key(f))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: LintPolicy finds %q, Lint of its manifest %q", name, got, want)
		}
		found += len(got)
	}
	if found < 10 {
		t.Errorf("%d findings in all, want more to compare", found)
	}
	if got := manifest.LintPolicy(new(mir.Policy)); len(got) != 0 {
		t.Errorf("LintPolicy of the policy that grants nothing = %v, want none", got)
	}
}

// TestLintIsCut has more findings than are told.
func TestLintIsCut(t *testing.T) {
	const most = 1000
	for _, rules := range []int{most, most + 1, 3 * most} {
		src := lintSource(slices.Repeat([]string{read("/run/dbus")}, rules), noNetwork, "required")
		findings, err := manifest.Lint([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		// Each rule but the first repeats it, and each gives the bus away.
		last := findings[len(findings)-1]
		if len(findings) != most+1 || last.Code != manifest.CodeLimitExceeded {
			t.Errorf("%d rules: %d findings, the last is %+v; want %d and one that says that there are more", rules, len(findings), last, most)
		}
	}
}
