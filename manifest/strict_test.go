package manifest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// strictBase is a valid manifest to spoil in one place.
const strictBase = `{
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": [
      { "access": "read", "path": { "root": "workspace", "relative": "src" }, "scope": "tree", "missing": "error" }
    ]
  },
  "network": {
    "mode": "mediated",
    "allow": [ { "protocol": "tcp", "host": "example.com", "port": 443 } ]
  },
  "process": { "treeConfinement": "required" }
}
`

const (
	thePort = "/network/allow/0/port"
	theHost = "/network/allow/0/host"
	thePath = "/filesystem/rules/0/path"
	theText = "/filesystem/rules/0/path/relative"
	theRule = "/filesystem/rules/0"
)

// edit returns src with the one place that reads old changed to text.
func edit(t *testing.T, src, old, text string) string {
	t.Helper()
	if n := strings.Count(src, old); n != 1 {
		t.Fatalf("%q stands %d times in the manifest, want once", old, n)
	}
	return strings.Replace(src, old, text, 1)
}

func compiled(t *testing.T, src string) *mir.Policy {
	t.Helper()
	p, err := manifest.Compile([]byte(src))
	if err != nil || p == nil {
		t.Fatalf("Compile(%.300q) = %v, %v; want a policy", src, p, err)
	}
	return p
}

// refused returns the errors of src, which must not compile.
func refused(t *testing.T, src []byte) manifest.Errors {
	t.Helper()
	p, err := manifest.Compile(src)
	var list manifest.Errors
	if p != nil || !errors.As(err, &list) {
		t.Fatalf("Compile(%.300q) = %v, %v; want Errors", src, p, err)
	}
	checkErrors(t, src, list)
	return list
}

// codes lists errors as "code pointer" for a comparison.
func codes(list manifest.Errors) string {
	var all []string
	for _, e := range list {
		all = append(all, fmt.Sprintf("%s %s", e.Code, e.Pointer))
	}
	return strings.Join(all, "; ")
}

// nest returns text within n of the brackets that open and close.
func nest(n int, open, text, closing string) string {
	return strings.Repeat(open, n) + text + strings.Repeat(closing, n)
}

func utf16Of(order binary.AppendByteOrder, s string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// TestStrict puts text in the place of old, or in the place of the whole manifest
// when old is empty. What is wanted are all codes with their pointers, nothing for
// a manifest that compiles. Where that ends in syntax only the syntax error counts:
// the token before it may have been judged already.
func TestStrict(t *testing.T) {
	for _, tt := range []struct{ name, old, text, want string }{
		{"untouched", "443", "443", ""},

		{"port with leading zero", "443", "0443", "syntax /network/allow/0"},
		{"port as fraction", "443", "443.0", "invalid-value " + thePort},
		{"port with exponent", "443", "4.43e2", "invalid-value " + thePort},
		{"port with integral exponent", "443", "443e0", "invalid-value " + thePort},
		{"port minus zero", "443", "-0", "invalid-value " + thePort},
		{"port zero", "443", "0", "invalid-value " + thePort},
		{"port 1", "443", "1", ""},
		{"port 65535", "443", "65535", ""},
		{"port 65536", "443", "65536", "invalid-value " + thePort},
		{"port 65979, 443 in 16 bits", "443", "65979", "invalid-value " + thePort},
		{"port beyond float64", "443", "1e400", "invalid-value " + thePort},
		{"port beyond 2^53", "443", "9007199254740993", "invalid-value " + thePort},
		{"port beyond 2^64", "443", "18446744073709552059", "invalid-value " + thePort},
		{"port with plus", "443", "+1", "syntax " + thePort},
		{"port without integer part", "443", ".5", "syntax " + thePort},
		{"port without fraction", "443", "5.", "syntax " + thePort},
		{"port without exponent", "443", "1e", "syntax " + thePort},
		{"port in hexadecimal", "443", "0x1bb", "syntax /network/allow/0"},
		{"port with separator", "443", "4_43", "syntax /network/allow/0"},
		{"port NaN", "443", "NaN", "syntax " + thePort},
		{"port Infinity", "443", "Infinity", "syntax " + thePort},
		{"port -Infinity", "443", "-Infinity", "syntax " + thePort},
		{"port in digits of another script", "443", "٤٤٣", "syntax " + thePort},
		{"port as string", "443", `"443"`, "wrong-type " + thePort},
		{"port null", "443", "null", "wrong-type " + thePort},
		{"port in an array", "443", "[443]", "wrong-type " + thePort},
		{"port left out", "443", "", "syntax " + thePort},
		{"version 02", ": 2,", ": 02,", "syntax "},
		{"version -2", ": 2,", ": -2,", "invalid-value /formatVersion"},
		{"version 2e-0", ": 2,", ": 2e-0,", "invalid-value /formatVersion"},
		{"version 2.00000000000000000001", ": 2,", ": 2.00000000000000000001,", "invalid-value /formatVersion"},

		{"duplicate at the top", `"process"`, `"formatVersion": 2, "process"`, "duplicate-member /formatVersion"},
		{"duplicate in filesystem", `"default"`, `"default": "deny", "default"`, "duplicate-member /filesystem/default"},
		{"duplicate in rule", `"access"`, `"access": "read", "access"`, "duplicate-member /filesystem/rules/0/access"},
		{"duplicate in path", `"root"`, `"root": "temp", "root"`, "duplicate-member " + thePath + "/root"},
		{"duplicate in network", `"mode"`, `"mode": "mediated", "mode"`, "duplicate-member /network/mode"},
		{"duplicate in destination", `"host"`, `"host": "a.example", "host"`, "duplicate-member " + theHost},
		{"duplicate in process", `"treeC`, `"treeConfinement": "disabled", "treeC`, "duplicate-member /process/treeConfinement"},
		{"duplicate after unescaping", `"access"`, `"\u0061ccess": "read", "access"`, "duplicate-member /filesystem/rules/0/access"},
		{"duplicate whose second is escaped", `"port": 443`, `"port": 443, "\u0070or\u0074": 443`, "duplicate-member " + thePort},
		{"three of a member", ": 2,", `: 2, "formatVersion": 2, "formatVersion": 2,`, "duplicate-member /formatVersion; duplicate-member /formatVersion"},
		{
			"duplicate of an unknown member", `"process"`, `"x": 1, "\u0078": 2, "process"`,
			"unknown-member /x; duplicate-member /x",
		},
		{
			"duplicates below an unknown member", `"process"`, `"x": [{"a": 1, "a": 2}], "process"`,
			"unknown-member /x; duplicate-member /x/0/a",
		},
		{"escaped names and values", `"access": "read"`, `"\u0061\u0063\u0063\u0065\u0073\u0073": "\u0072ead"`, ""},

		{"Kelvin sign in a name", `"network"`, "\"networ\u212a\"", "missing-member ; unknown-member /networ\u212a"},
		{"long s in a name", `"process"`, "\"proce\u017fs\"", "missing-member ; unknown-member /proce\u017fs"},
		{"escaped long s in a name", `"access"`, `"acce\u017f\u017f"`, "missing-member " + theRule + "; unknown-member " + theRule + "/acce\u017f\u017f"},
		{"capital in a name", `"port"`, `"Port"`, "missing-member /network/allow/0; unknown-member /network/allow/0/Port"},
		{"dotless i in a value", `"required"`, "\"requ\u0131red\"", "invalid-value /process/treeConfinement"},
		{"Kelvin sign in a host", "example.com", "example.\u212aom", "invalid-host " + theHost},
		{"space after a name", `"scope"`, `"scope "`, "unknown-member " + theRule + "/scope "},
		{"NUL after a name", `"scope"`, `"scope\u0000"`, "unknown-member " + theRule + "/scope\x00"},
		{"NUL before a name", `"scope"`, `"\u0000scope"`, "unknown-member " + theRule + "/\x00scope"},
		{"empty name", `"scope"`, `""`, "unknown-member " + theRule + "/"},
		{"slash and tilde in a name", `"scope"`, `"~/"`, "unknown-member " + theRule + "/~0~1"},
		{"name __proto__", `"scope"`, `"__proto__"`, "unknown-member " + theRule + "/__proto__"},

		{"control character in a value", `"src"`, "\"s\x01c\"", "syntax " + theText},
		{"tab in a value", `"src"`, "\"s\tc\"", "syntax " + theText},
		{"line break in a value", `"src"`, "\"s\nc\"", "syntax " + theText},
		{"NUL in a value", `"src"`, "\"s\x00c\"", "syntax " + theText},
		{"control character in a name", `"scope"`, "\"sco\x1fpe\"", "syntax " + theRule},
		{"escaped NUL in a path", `"src"`, `"s\u0000c"`, "invalid-path " + theText},
		{"escaped NUL in a host", "example.com", `example.com\u0000`, "invalid-host " + theHost},
		{"DEL", `"src"`, "\"s\x7fc\"", ""},
		{"U+0085, a control character of Latin-1", `"src"`, "\"s\u0085c\"", ""},
		{"U+2028 and U+2029", `"src"`, "\"s\u2028\u2029c\"", ""},
		{"noncharacters", `"src"`, "\"\uffff\ufdd0\U0001fffe\"", ""},
		{"escaped noncharacters", `"src"`, `"\uffff\ufdd0\ud83f\udffe"`, ""},
		{"the last character", `"src"`, "\"\U0010ffff\"", ""},
		{"replacement character", `"src"`, "\"\ufffd\"", ""},
		{"byte order mark within a value", `"src"`, "\"\ufeff\"", ""},
		{"unknown escape", `"src"`, `"\x41"`, "syntax " + theText},
		{"escaped apostrophe", `"src"`, `"\'"`, "syntax " + theText},
		{"octal escape", `"src"`, `"\000"`, "syntax " + theText},
		{"escape cut short", `"src"`, `"\u12"`, "syntax " + theText},
		{"escape with capital U", `"src"`, `"\U0041"`, "syntax " + theText},
		{"backslash and line break", `"src"`, "\"s\\\nc\"", "syntax " + theText},

		{"high surrogate alone", `"src"`, `"\ud800"`, "syntax " + theText},
		{"low surrogate alone", `"src"`, `"\udfff"`, "syntax " + theText},
		{"high surrogate before a letter", `"src"`, `"\ud800a"`, "syntax " + theText},
		{"high surrogate before another escape", `"src"`, `"\ud800\u0041"`, "syntax " + theText},
		{"two high surrogates", `"src"`, `"\ud83d\ud83d\ude00"`, "syntax " + theText},
		{"swapped surrogates", `"src"`, `"\ude00\ud83d"`, "syntax " + theText},
		{"pair of surrogates", `"src"`, `"\ud83d\ude00"`, ""},
		{"high surrogate in a name", `"scope"`, `"scope\ud800"`, "syntax " + theRule},
		{"swapped surrogates in a name", `"scope"`, `"\ude00\ud83d"`, "syntax " + theRule},
		{"pair of surrogates in a name", `"scope"`, `"\ud83d\ude00"`, "unknown-member " + theRule + "/\U0001f600"},
		{"surrogate as three bytes", `"src"`, "\"\xed\xa0\x80\"", "syntax " + theText},
		{"pair as six bytes", `"src"`, "\"\xed\xa0\xbd\xed\xb8\x80\"", "syntax " + theText},
		{"beyond U+10FFFF", `"src"`, "\"\xf4\x90\x80\x80\"", "syntax " + theText},
		{"overlong slash", `"src"`, "\"a\xc0\xafb\"", "syntax " + theText},
		{"Latin-1", `"src"`, "\"caf\xe9\"", "syntax " + theText},
		{"invalid UTF-8 in a name", `"scope"`, "\"scope\xff\"", "syntax " + theRule},
		{"invalid UTF-8 after the document", "\"required\" }\n}", "\"required\" }\n}\xff", "syntax "},

		{"name in single quotes", `"access"`, `'access'`, "syntax " + theRule},
		{"value in single quotes", `"src"`, `'src'`, "syntax " + theText},
		{"value in backquotes", `"src"`, "`src`", "syntax " + theText},
		{"name without quotes", `"access"`, `access`, "syntax " + theRule},
		{"number as name", `"access"`, `1`, "syntax " + theRule},
		{"comment to the end of the line", `"default"`, "// why\n\"default\"", "syntax /filesystem"},
		{"comment in brackets", `"default"`, `/* why */ "default"`, "syntax /filesystem"},
		{"comment with hash", `"default"`, "# why\n\"default\"", "syntax /filesystem"},
		{"comment after the document", "\"required\" }\n}", "\"required\" }\n} // end", "syntax "},
		{"trailing comma in an object", `"error" }`, `"error", }`, "syntax " + theRule},
		{"trailing comma in an array", `443 } ]`, `443 }, ]`, "syntax /network/allow"},
		{"leading comma", `"rules": [`, `"rules": [,`, "syntax /filesystem/rules"},
		{"two commas", `"read",`, `"read",,`, "syntax " + theRule},
		{"no comma", `"read",`, `"read"`, "syntax " + theRule},
		{"no colon", `"access":`, `"access"`, "syntax /filesystem/rules/0/access"},
		{"equals sign", `"access":`, `"access" =`, "syntax /filesystem/rules/0/access"},
		{"wrong bracket", `443 } ]`, `443 ] }`, "syntax /network/allow"},
		{"True", `"src"`, "True", "syntax " + theText},
		{"undefined", `"src"`, "undefined", "syntax " + theText},
		{"no-break space", `"default"`, "\u00a0\"default\"", "syntax /filesystem"},
		{"form feed", `"default"`, "\f\"default\"", "syntax /filesystem"},
		{"NUL between tokens", `"default"`, "\x00\"default\"", "syntax /filesystem"},
		{"every white space that JSON has", `"default"`, " \t\r\n\"default\"", ""},

		{"byte order mark", "", "\ufeff" + strictBase, "syntax "},
		{"UTF-16 big-endian", "", utf16Of(binary.BigEndian, strictBase), "syntax "},
		{"UTF-16 little-endian", "", utf16Of(binary.LittleEndian, strictBase), "syntax "},
		{"UTF-16 with byte order mark", "", utf16Of(binary.LittleEndian, "\ufeff"+strictBase), "syntax "},
		{"two documents", "", strictBase + strictBase, "syntax "},
		{"bracket too many", "", strictBase + "}", "syntax "},
		{"in brackets", "", "[" + strictBase + "]", "wrong-type "},
		{"as a string", "", fmt.Sprintf("%q", "{}"), "wrong-type "},
		{"empty", "", "", "syntax "},
		{"white space only", "", " \t\r\n", "syntax "},
		{"NUL only", "", "\x00", "syntax "},
		{"a number", "", "2", "wrong-type "},

		{"depth 32", `"process"`, `"x": ` + nest(31, "[", "", "]") + `, "process"`, "unknown-member /x"},
		{"depth 32 of objects", `"process"`, `"x": ` + nest(30, `{"a":`, "{}", "}") + `, "process"`, "unknown-member /x"},
		{
			"depth 33", `"process"`, `"x": ` + nest(32, "[", "", "]") + `, "process"`,
			"unknown-member /x; limit-exceeded /x" + strings.Repeat("/0", 31),
		},
		{
			"depth 33 of objects", `"process"`, `"x": ` + nest(31, `{"a":`, "{}", "}") + `, "process"`,
			"unknown-member /x; limit-exceeded /x" + strings.Repeat("/a", 31),
		},
		{
			"depth 33 where a rule stands", `"rules": [`, `"rules": [` + nest(30, "[", "", "]") + ",",
			"wrong-type /filesystem/rules/0; limit-exceeded /filesystem/rules/0" + strings.Repeat("/0", 29),
		},
		{"brackets in a string are not depth", `"src"`, `"` + nest(100, "[{", "", "}]") + `"`, ""},
		{"100000 opening arrays", "", strings.Repeat("[", 100000), "wrong-type ; limit-exceeded " + strings.Repeat("/0", 32)},
		{"100000 nested objects", "", nest(100000, `{"":`, "1", "}"), "unknown-member /; limit-exceeded " + strings.Repeat("/", 32)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := tt.text
			if tt.old != "" {
				src = edit(t, strictBase, tt.old, tt.text)
			}
			if tt.want == "" {
				compiled(t, src)
				formatsBack(t, []byte(src))
				return
			}
			list := refused(t, []byte(src))
			if strings.HasPrefix(tt.want, "syntax ") {
				list = list[len(list)-1:]
			}
			if got := codes(list); got != tt.want {
				t.Errorf("Compile(%.300q) = %q, want %q", src, got, tt.want)
			}
		})
	}
}

// TestTruncated cuts every valid manifest at every byte.
func TestTruncated(t *testing.T) {
	for name, src := range sources(t) {
		t.Run(name, func(t *testing.T) {
			whole := len(strings.TrimRight(string(src), " \t\r\n"))
			for n := range whole {
				list := refused(t, src[:n])
				last := list[len(list)-1]
				if last.Code != manifest.CodeSyntax {
					t.Fatalf("Compile(the first %d bytes) = %v, want syntax last", n, list)
				}
			}
			compiled(t, string(src[:whole]))
		})
	}
}

// sources returns every valid manifest of the repository: vectors and examples.
func sources(t testing.TB) map[string][]byte {
	t.Helper()
	all := readAll(t, vectors+"/manifest-valid", ".json")
	for name, src := range readAll(t, "../examples", ".json") {
		all["examples/"+name] = src
	}
	return all
}
