package corpus

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

const sample = `What it shows.

-- tree --
dir ws
file "ws/a b"
link ws/l "$R/ws/\xff"
hard other ws/l
-- policy --
read tree workspace:a skip
deny exact $R/x
write tree minimal-runtime
write tree temp:.
-- context --
workspace ws
temp t
-- answers --
read-write 2 ws
read 1 "ws/\xff"
none - /etc
-- omitted --
3
-- warnings --
some-code 1
-- needs --
one two
`

func TestParse(t *testing.T) {
	c, err := parse([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := []Node{{"dir", "ws", ""}, {"file", "ws/a b", ""}, {"link", "ws/l", "$R/ws/\xff"}, {"hard", "other", "ws/l"}}
	if !slices.Equal(c.Tree, want) {
		t.Errorf("tree %v, want %v", c.Tree, want)
	}
	answers := []Answer{{mir.PermitReadWrite, 2, "ws"}, {mir.PermitRead, 1, "ws/\xff"}, {mir.PermitNone, -1, "/etc"}}
	if !slices.Equal(c.Answers, answers) {
		t.Errorf("answers %v, want %v", c.Answers, answers)
	}
	if c.Workspace != "ws" || c.Temp != "t" || !slices.Equal(c.Omitted, []int{3}) || !slices.Equal(c.Needs, []string{"one", "two"}) {
		t.Errorf("%+v", c)
	}
	refused, err := parse([]byte("c\n-- refused --\nother-code -\nthat-code 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Warnings, []Fault{{"some-code", 1}}) || !slices.Equal(refused.Refused, []Fault{{"other-code", -1}, {"that-code", 2}}) {
		t.Errorf("%+v, %+v", c, refused)
	}
	p, err := c.Policy("/root")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, r := range p.Rules() {
		rules = append(rules, strings.Join([]string{r.Access.String(), r.Scope.String(), r.Path.String(), r.Missing.String()}, " "))
	}
	if got, want := strings.Join(rules, "\n"), "write tree minimal-runtime error\nread tree workspace:a skip\nwrite tree temp:. error\ndeny exact /root/x error"; got != want {
		t.Errorf("policy\n%s\nwant\n%s", got, want)
	}
	if got := At("/root", "a") + At("/root", "/etc") + At("/root", "."); got != "/root/a/etc/root/." {
		t.Errorf("names are at %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no comment":           "-- tree --\ndir ws\n",
		"unknown section":      "c\n-- files --\ndir ws\n",
		"unknown kind":         "c\n-- tree --\nsocket ws\n",
		"link without target":  "c\n-- tree --\nlink ws\n",
		"file with target":     "c\n-- tree --\nfile ws x\n",
		"short rule":           "c\n-- policy --\nread tree\n",
		"unknown word":         "c\n-- policy --\nread tree workspace:a maybe\n",
		"unknown context":      "c\n-- context --\nhome x\n",
		"unknown permission":   "c\n-- answers --\nwrite 1 x\n",
		"rule is no number":    "c\n-- answers --\nread x x\n",
		"answer without name":  "c\n-- answers --\nread 1\n",
		"warning without rule": "c\n-- warnings --\ncode\n",
		"bad quotes":           "c\n-- tree --\nfile \"ws\n",
		"bad escape":           "c\n-- tree --\nfile \"\\y\"\n",
		"rule below zero":      "c\n-- answers --\nread -1 x\n",
		"omitted without rule": "c\n-- omitted --\nx\n",
		"two omitted in one":   "c\n-- omitted --\n1 2\n",
		"two workspaces":       "c\n-- context --\nworkspace a\nworkspace b\n",
		"two temps":            "c\n-- context --\ntemp a\ntemp b\n",
		"long context":         "c\n-- context --\ntemp a b\n",
		"long refusal":         "c\n-- refused --\ncode 1 2\n",
		"refusal without rule": "c\n-- refused --\ncode x\n",
	} {
		// With an answer, so that it is not refused for having none.
		if c, err := parse([]byte(text + "-- answers --\nnone - x\n")); err == nil || strings.Contains(err.Error(), "expected answers") || strings.Contains(err.Error(), "no plan") {
			t.Errorf("%s: %+v, %v, want an error about it", name, c, err)
		}
	}
	for name, text := range map[string]string{
		"no expectations":      "c\n-- tree --\ndir ws\n",
		"only a warning":       "c\n-- warnings --\ncode 1\n",
		"refused and answered": "c\n-- refused --\ncode 1\n-- answers --\nnone - x\n",
		"refused and omitted":  "c\n-- refused --\ncode 1\n-- omitted --\n1\n",
		"refused and warned":   "c\n-- refused --\ncode 1\n-- warnings --\ncode 1\n",
		"refused and needed":   "c\n-- refused --\ncode 1\n-- needs --\nfs-read\n",
	} {
		if c, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v, want an error", name, c)
		}
	}
	for name, rule := range map[string]string{
		"access": "grant tree workspace:a", "scope": "read deep workspace:a", "root": "read tree home:a", "relative": "read tree etc",
	} {
		c, err := parse([]byte("c\n-- policy --\n" + rule + "\n-- answers --\nnone - x\n"))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Policy("/r"); err == nil {
			t.Errorf("%s: %s, want an error", name, p.Inspect())
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.txt": "c\n-- answers --\nnone - x\n", "a.txt": "c\n-- refused --\ncode 1\n", "other": "no case"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases, err := Load(dir)
	if err != nil || len(cases) != 2 || cases[0].Name != "a" || cases[1].Name != "b" {
		t.Errorf("%+v, %v", cases, err)
	}
	bad := filepath.Join(dir, "c.txt")
	if err := os.WriteFile(bad, []byte("c\n-- what --\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("%v, want an error that names %s", err, bad)
	}
}
