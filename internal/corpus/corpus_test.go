package corpus

import (
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
-- refused --
other-code -
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
	if !slices.Equal(c.Warnings, []Fault{{"some-code", 1}}) || !slices.Equal(c.Refused, []Fault{{"other-code", -1}}) {
		t.Errorf("%+v", c)
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
	} {
		if c, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: %+v, want an error", name, c)
		}
	}
	for name, rule := range map[string]string{
		"access": "grant tree workspace:a", "scope": "read deep workspace:a", "root": "read tree home:a", "relative": "read tree etc",
	} {
		c, err := parse([]byte("c\n-- policy --\n" + rule + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Policy("/r"); err == nil {
			t.Errorf("%s: %s, want an error", name, p.Inspect())
		}
	}
}
