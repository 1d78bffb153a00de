package plan

import "testing"

// envLines are what follows the name of env in a #! line, and what GNU env would
// start for it when the script is /nonexistent/script: nothing where it refuses the
// line.
var envLines = []struct{ argument, program string }{
	{"py", "py"},
	{"py -u", "py -u"},
	{"-S py -u", "py"},
	{`-S A=b\_C=d py -u`, "py"},
	{`-vS -u HOME p\_y`, "p"},
	{`-S "a b" c`, "a b"},
	{`-S 'a\'b' c`, "a'b"},
	{`-S 'a\xb' c`, `a\xb`},
	{"-S a#b", "a#b"},
	{"-S #c", "/nonexistent/script"},
	{"-S a #c", "a"},
	{`-S -i A=b\tC py`, "py"},
	{`-S a\cb`, "a"},
	{`-S py\#`, "py#"},
	{"-S A= -u", "-u"},
	{"-iS py", "py"},
	{"-S - py", "py"},
	{"-S -- -x", "-x"},
	{"-S-i -u A -uB -C/ py", "py"},
	{`-S "a\_b"`, "a b"},
	{`-S a\"b`, `a"b`},
	{"-S\tx\vy", "x"},
	{"A=b py", "/nonexistent/script"},
	{"-S --unset=A --unset B --ignore-environment --chdir=/ py", "py"},
	{"-S -S 'a b' c", "a"},
	{"-S x''y", "xy"},
	{"-S 'a", ""},
	{`-S \q`, ""},
	{`-S a\`, ""},
	{"-S --nope", ""},
	{"-Z", ""},
	{`-S "$`, ""},
	{`-S "a\c"`, ""},
	{"-S A=1 =b py", "py"},
	{"-S  ", "/nonexistent/script"},
	{"--split-string=a b", "a"},
	{"--debug", "/nonexistent/script"},
	{"-i", "/nonexistent/script"},
	{"-v", "/nonexistent/script"},
}

func TestEnvLine(t *testing.T) {
	for _, tt := range envLines {
		got, _, err := envLine([]string{tt.argument, "/nonexistent/script"}, []string{"/nonexistent"})
		if got != tt.program || (err == nil) != (tt.program != "") {
			t.Errorf("%q: got %q, %v; want %q", tt.argument, got, err, tt.program)
		}
	}
}
