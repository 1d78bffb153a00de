package manifest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// TestSizeLimit pads a manifest with spaces, which mean nothing, and size does.
func TestSizeLimit(t *testing.T) {
	padded := func(size int) string { return strictBase + strings.Repeat(" ", size-len(strictBase)) }
	want := compiled(t, strictBase).Digest()
	for _, size := range []int{manifest.MaxSize - 1, manifest.MaxSize} {
		if got := compiled(t, padded(size)).Digest(); got != want {
			t.Errorf("%d bytes: digest %s, want %s", size, got, want)
		}
	}
	for _, src := range []string{
		padded(manifest.MaxSize + 1),
		padded(2 * manifest.MaxSize),
		padded(manifest.MaxSize)[1:] + "\"\xff", // what is beyond the limit is never read
		strings.Repeat("\n", manifest.MaxSize+1),
	} {
		list := refused(t, []byte(src))
		if got := codes(list); got != "limit-exceeded " || list[0].Offset != manifest.MaxSize {
			t.Errorf("Compile(%d bytes) = %q at %d, want limit-exceeded at %d", len(src), got, list[0].Offset, manifest.MaxSize)
		}
	}
}

// counted returns n pieces, each made of its number, with commas between.
func counted(n int, format string) string {
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(pieces, ",")
}

// TestCountLimits counts what is left after duplicates collapse.
func TestCountLimits(t *testing.T) {
	const (
		rule        = `{"access":"read","path":{"root":"temp","relative":"%d"}}`
		weaker      = `{"access":"read","path":{"root":"temp","relative":"./%d/"}}`
		stronger    = `{"access":"deny","path":{"root":"temp","relative":"%d"}}`
		exact       = `{"access":"read","path":{"root":"temp","relative":"%d"},"scope":"exact"}`
		destination = `{"protocol":"tcp","host":"h%d.example","port":443}`
		capitals    = `{"protocol":"tcp","host":"H%d.EXAMPLE","port":443}`
		otherPort   = `{"protocol":"tcp","host":"h%d.example","port":80}`
		badRule     = `{"access":"read","path":{"root":"temp","relative":".."}}`
		badHost     = `{"protocol":"tcp","host":"*","port":443}`
		tooMany     = "limit-exceeded /filesystem/rules"
		tooManyOut  = "limit-exceeded /network/allow"
	)
	for _, tt := range []struct {
		name, rules, allow string
		want               string
		left               int // rules or destinations
	}{
		{"4096 rules", counted(4096, rule), "", "", 4096},
		{"4097 rules", counted(4097, rule), "", tooMany, 0},
		{"4097 rules, one twice", counted(4096, rule) + "," + fmt.Sprintf(rule, 17), "", "", 4096},
		{"4097 rules, one in another spelling", counted(4096, rule) + "," + fmt.Sprintf(weaker, 17), "", "", 4096},
		{"4097 rules, one stronger", counted(4096, rule) + "," + fmt.Sprintf(stronger, 17), "", "", 4096},
		{"4097 rules, one of another scope", counted(4096, rule) + "," + fmt.Sprintf(exact, 17), "", tooMany, 0},
		{"8192 rules, each twice", counted(4096, rule) + "," + counted(4096, weaker), "", "", 4096},
		{"8192 rules, each in two scopes", counted(4096, rule) + "," + counted(4096, exact), "", tooMany, 0},
		{"4097 rules and a bad one", counted(4097, rule) + "," + badRule, "", tooMany + "; invalid-path /filesystem/rules/4097/path/relative", 0},
		{"4096 rules and a bad one", counted(4096, rule) + "," + badRule, "", "invalid-path /filesystem/rules/4096/path/relative", 0},
		{"1024 destinations", "", counted(1024, destination), "", 1024},
		{"1025 destinations", "", counted(1025, destination), tooManyOut, 0},
		{"1025 destinations, one twice", "", counted(1024, destination) + "," + fmt.Sprintf(destination, 17), "", 1024},
		{"1025 destinations, one in capitals", "", counted(1024, destination) + "," + fmt.Sprintf(capitals, 17), "", 1024},
		{"1025 destinations, one of another port", "", counted(1024, destination) + "," + fmt.Sprintf(otherPort, 17), tooManyOut, 0},
		{"2048 destinations, each twice", "", counted(1024, destination) + "," + counted(1024, capitals), "", 1024},
		{"1025 destinations and a bad one", "", counted(1025, destination) + "," + badHost, tooManyOut + "; invalid-host /network/allow/1025/host", 0},
		{"1024 destinations and a bad rule", badRule, counted(1024, destination), "invalid-path /filesystem/rules/0/path/relative", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			network := `{"mode":"none"}`
			if tt.allow != "" {
				network = `{"mode":"mediated","allow":[` + tt.allow + `]}`
			}
			src := `{"formatVersion":2,"filesystem":{"default":"deny","rules":[` + tt.rules + `]},"network":` + network +
				`,"process":{"treeConfinement":"required"}}`
			if tt.want != "" {
				if got := codes(refused(t, []byte(src))); got != tt.want {
					t.Errorf("Compile = %q, want %q", got, tt.want)
				}
				return
			}
			p := compiled(t, src)
			if got := max(len(p.Rules()), len(p.Destinations())); got != tt.left {
				t.Errorf("Compile leaves %d, want %d", got, tt.left)
			}
			formatsBack(t, []byte(src))
		})
	}
}

// lengthLimits are edits of strictBase at the limits of paths, counted in bytes as
// written, and of hosts.
var lengthLimits = []struct{ name, old, text, want string }{
	{"path of 4096 bytes", `"src"`, `"` + strings.Repeat("x", 4096) + `"`, ""},
	{"path of 4097 bytes", `"src"`, `"` + strings.Repeat("x", 4097) + `"`, "limit-exceeded " + theText},
	{"path of 2048 characters, 4096 bytes", `"src"`, `"` + strings.Repeat("é", 2048) + `"`, ""},
	{"path of 2049 characters, 4097 bytes", `"src"`, `"x` + strings.Repeat("é", 2048) + `"`, "limit-exceeded " + theText},
	{"path of 1024 characters, 4096 bytes", `"src"`, `"` + strings.Repeat(`\ud83d\ude00`, 1024) + `"`, ""},
	{"path of 1025 characters, 4097 bytes", `"src"`, `"` + strings.Repeat(`\ud83d\ude00`, 1024) + `x"`, "limit-exceeded " + theText},
	{"path of 4096 escapes", `"src"`, `"` + strings.Repeat(`\u0078`, 4096) + `"`, ""},
	{"path of 4097 bytes, one when normalized", `"src"`, `"x` + strings.Repeat("/", 4096) + `"`, "limit-exceeded " + theText},
	{"path of 4097 dots", `"src"`, `"` + strings.Repeat(".", 4097) + `"`, "limit-exceeded " + theText},
	{"absolute path of 4096 bytes", `"root": "workspace", "relative": "src"`, `"absolute": "/` + strings.Repeat("x", 4095) + `"`, ""},
	{
		"absolute path of 4097 bytes", `"root": "workspace", "relative": "src"`, `"absolute": "/` + strings.Repeat("x", 4096) + `"`,
		"limit-exceeded " + thePath + "/absolute",
	},
	{"host of 253 bytes", "example.com", labels(253), ""},
	{"host of 254 bytes", "example.com", labels(254), "invalid-host " + theHost},
	{"host of 253 bytes and a dot", "example.com", labels(253) + ".", "invalid-host " + theHost},
	{"label of 63 bytes", "example.com", strings.Repeat("x", 63), ""},
	{"label of 64 bytes", "example.com", strings.Repeat("x", 64), "invalid-host " + theHost},
	{"first label of 63 bytes", "example.com", strings.Repeat("x", 63) + ".example", ""},
	{"first label of 64 bytes", "example.com", strings.Repeat("x", 64) + ".example", "invalid-host " + theHost},
	{"middle label of 64 bytes", "example.com", "a." + strings.Repeat("x", 64) + ".example", "invalid-host " + theHost},
}

// labels returns a hostname of n bytes.
func labels(n int) string { return strings.Repeat("a.", n/2)[:n-1] + "z" }

func TestLengthLimits(t *testing.T) {
	for _, tt := range lengthLimits {
		t.Run(tt.name, func(t *testing.T) {
			src := edit(t, strictBase, tt.old, tt.text)
			if tt.want == "" {
				compiled(t, src)
				formatsBack(t, []byte(src))
				return
			}
			if got := codes(refused(t, []byte(src))); got != tt.want {
				t.Errorf("Compile(%.200q) = %q, want %q", src, got, tt.want)
			}
		})
	}
}

// sized returns a policy of n rules with paths of 110 bytes.
func sized(t *testing.T, n int) *mir.Policy {
	t.Helper()
	spec := mir.Spec{Mode: mir.ModeNone, TreeConfinement: mir.Required}
	for i := range n {
		path, err := mir.NewPath(mir.RootWorkspace, fmt.Sprintf("%05d%s", i, strings.Repeat("x", 105)))
		if err != nil {
			t.Fatal(err)
		}
		spec.Rules = append(spec.Rules, mir.Rule{Access: mir.Deny, Path: path, Scope: mir.Exact, Missing: mir.MissingSkip})
	}
	return built(t, spec)
}

func built(t *testing.T, spec mir.Spec) *mir.Policy {
	t.Helper()
	p, err := mir.Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDocumentLimit checks the densest manifests there are: no manifest within its
// own limit is too large as MIR, since every rule takes more bytes in JSON.
func TestDocumentLimit(t *testing.T) {
	for _, tt := range []struct{ name, src string }{
		{"longest paths", fill(densest, func(i int) string {
			return fmt.Sprintf(`{"access":"read","path":{"absolute":"/%04d%s"}}`, i, strings.Repeat("x", 4091))
		}, "]}}")},
		{"most rules", fill(densest, func(i int) string {
			return fmt.Sprintf(`{"access":"read","path":{"absolute":"/%04d%s"}}`, i%4096, strings.Repeat("x", 203))
		}, "]}}")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.src) < manifest.MaxSize-10000 {
				t.Fatalf("the manifest has %d bytes, want almost %d", len(tt.src), manifest.MaxSize)
			}
			if n := len(compiled(t, tt.src).Bytes()); n > len(tt.src) || n < len(tt.src)*3/4 {
				t.Errorf("%d bytes of MIR for %d of JSON, want a little less", n, len(tt.src))
			}
		})
	}
}

const densest = `{"formatVersion":2,"network":{"mode":"none"},"process":{"treeConfinement":"required"},"filesystem":{"default":"deny","rules":[`

// grown returns base with longer paths, so that its manifest in the form of base's
// own, pretty or not, would have size bytes.
func grown(t *testing.T, base *mir.Policy, size int, pretty bool) *mir.Policy {
	t.Helper()
	text, err := manifest.Format(base)
	if err != nil {
		t.Fatal(err)
	}
	if isPretty := strings.Contains(string(text), "\n"); isPretty != pretty {
		t.Fatalf("Format = %d bytes, pretty %t, want %t", len(text), isPretty, pretty)
	}
	rules, missing := base.Rules(), size-len(text)
	for i, r := range rules {
		n := min(missing, mir.MaxPath-len(r.Path.Text()))
		path, err := mir.NewPath(r.Path.Root(), r.Path.Text()+strings.Repeat("y", n))
		if err != nil {
			t.Fatal(err)
		}
		rules[i].Path = path
		missing -= n
	}
	if missing != 0 {
		t.Fatalf("%d bytes do not fit into the paths", missing)
	}
	return built(t, mir.Spec{Rules: rules, Mode: base.Mode(), TreeConfinement: base.TreeConfinement()})
}

// TestFormatSizes formats policies around the size where the manifest must be
// written without white space, and around that where there is none.
func TestFormatSizes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rules  int
		size   int
		pretty bool // the form that has the size
		want   string
	}{
		{"as large as it may be with white space", 3000, manifest.MaxSize, true, "pretty"},
		{"one byte larger", 3000, manifest.MaxSize + 1, true, "compact"},
		{"without white space", 4096, manifest.MaxSize - 1, false, "compact"},
		{"as large as it may be without white space", 4096, manifest.MaxSize, false, "compact"},
		{"one byte too large", 4096, manifest.MaxSize + 1, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := grown(t, sized(t, tt.rules), tt.size, tt.pretty)
			text, err := manifest.Format(p)
			if tt.want == "" {
				var fault *manifest.FormatError
				if text != nil || !errors.As(err, &fault) || fault.Rule != -1 || fault.Error() == "" {
					t.Fatalf("Format = %d bytes, %v; want a FormatError about no rule", len(text), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if isPretty := strings.Contains(string(text), "\n"); isPretty != (tt.want == "pretty") {
				t.Errorf("Format = %d bytes, pretty %t; want %s", len(text), isPretty, tt.want)
			}
			if (tt.want == "pretty") == tt.pretty && len(text) != tt.size {
				t.Errorf("Format = %d bytes, want %d", len(text), tt.size)
			}
			if got := compiled(t, string(text)).Digest(); got != p.Digest() {
				t.Errorf("Compile(Format(p)) has digest %s, want %s", got, p.Digest())
			}
		})
	}
}

func TestFormatRefusesRuntimePath(t *testing.T) {
	rule := func(root mir.Root, text string) mir.Rule {
		path, err := mir.NewPath(root, text)
		if err != nil {
			t.Fatal(err)
		}
		return mir.Rule{Access: mir.Read, Path: path, Scope: mir.Tree, Missing: mir.MissingError}
	}
	for _, tt := range []struct {
		name  string
		rules []mir.Rule
		want  int
	}{
		{"alone", []mir.Rule{rule(mir.RootRuntime, "lib")}, 0},
		{"after the root itself", []mir.Rule{rule(mir.RootRuntime, "lib"), rule(mir.RootRuntime, "")}, 1},
		{"the first of two", []mir.Rule{rule(mir.RootHost, "/"), rule(mir.RootRuntime, "lib"), rule(mir.RootRuntime, "bin")}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := built(t, mir.Spec{Rules: tt.rules, Mode: mir.ModeNone, TreeConfinement: mir.Required})
			text, err := manifest.Format(p)
			var fault *manifest.FormatError
			if text != nil || !errors.As(err, &fault) || fault.Rule != tt.want {
				t.Fatalf("Format = %q, %v; want a FormatError about rule %d", text, err, tt.want)
			}
			if named := p.Rules()[fault.Rule].Path; named.Root() != mir.RootRuntime || !strings.Contains(err.Error(), named.Text()) {
				t.Errorf("Format: %v, want an error that names %s", err, named)
			}
			// Without these rules there is nothing to refuse.
			rest := slices.DeleteFunc(tt.rules, func(r mir.Rule) bool { return r.Path.Root() == mir.RootRuntime && r.Path.Text() != "" })
			if _, err := manifest.Format(built(t, mir.Spec{Rules: rest, Mode: mir.ModeNone, TreeConfinement: mir.Required})); err != nil {
				t.Errorf("Format of the rest: %v", err)
			}
		})
	}
}
