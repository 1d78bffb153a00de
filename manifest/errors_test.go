package manifest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// TestManyErrors compares everything that is said about one very wrong manifest
// with testdata/many-errors.golden, a line per error.
func TestManyErrors(t *testing.T) {
	const golden = "testdata/many-errors.golden"
	list := refused(t, readFile(t, "testdata/many-errors.json"))
	var b strings.Builder
	used := map[manifest.Code]bool{}
	for _, e := range list {
		fmt.Fprintf(&b, "%d:%d %s %s: %s | %s\n", e.Line, e.Column, e.Pointer, e.Code, e.Message, e.Hint)
		used[e.Code] = true
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, want := strings.Split(b.String(), "\n"), strings.Split(string(readFile(t, golden)), "\n")
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("line %d: nothing, want %q", i+1, want[i])
		case i >= len(want):
			t.Errorf("line %d: %q, want nothing", i+1, got[i])
		case got[i] != want[i]:
			t.Errorf("line %d: %q, want %q", i+1, got[i], want[i])
		}
	}
	for _, code := range everyCode {
		if alone := code == manifest.CodeSyntax || code == manifest.CodeLimitExceeded; used[code] == alone {
			t.Errorf("code %s is used: %t", code, used[code])
		}
	}
}

// everyCode are the codes that an error can have. Programs compare them, so what
// they say on paper must stay what it is.
var everyCode = []manifest.Code{
	"syntax", "duplicate-member", "unknown-member", "missing-member", "wrong-type",
	"invalid-value", "conflicting-members", "invalid-path", "invalid-host", "limit-exceeded",
}

// TestTooManyErrors checks that the list of errors ends, and says that it does.
func TestTooManyErrors(t *testing.T) {
	const most = 1000
	for _, tt := range []struct {
		name   string
		faults int
		after  string // what follows the faults
		count  int
		want   manifest.Code // of the last error
	}{
		{"as many as are told", most, "", most, manifest.CodeWrongType},
		{"one more", most + 1, "", most + 1, manifest.CodeLimitExceeded},
		{"many more", 20 * most, "", most + 1, manifest.CodeLimitExceeded},
		{"as many as are told, and bad syntax", most, "%", most + 1, manifest.CodeSyntax},
		{"one more, and bad syntax that is not read", most + 1, "%", most + 1, manifest.CodeLimitExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := edit(t, strictBase, `"rules": [`, `"rules": [`+strings.Repeat("1,", tt.faults)+tt.after)
			list := refused(t, []byte(src))
			last := list[len(list)-1]
			if len(list) != tt.count || last.Code != tt.want {
				t.Errorf("%d errors, the last is %v; want %d, the last %s", len(list), last, tt.count, tt.want)
			}
			for i, e := range list[:most] {
				if want := fmt.Sprintf("/filesystem/rules/%d", i); e.Code != manifest.CodeWrongType || e.Pointer != want {
					t.Fatalf("error %d is %v, want wrong-type at %s", i, e, want)
				}
			}
			if last.Code == manifest.CodeLimitExceeded && !strings.Contains(last.Message, "1000") {
				t.Errorf("%q does not say how many errors there are", last.Message)
			}
		})
	}
}

// TestErrorsUnwrap checks that the errors can be had one by one with the tools of
// package errors.
func TestErrorsUnwrap(t *testing.T) {
	_, err := manifest.Compile([]byte(edit(t, edit(t, strictBase, "443", "0"), `"read"`, `"reed"`)))
	wrapped := fmt.Errorf("policy.json: %w", err)
	var list manifest.Errors
	if !errors.As(wrapped, &list) || len(list) != 2 {
		t.Fatalf("errors.As(%v) finds no Errors of two", wrapped)
	}
	var first *manifest.Error
	if !errors.As(wrapped, &first) || first != list[0] || first.Pointer != "/filesystem/rules/0/access" {
		t.Errorf("errors.As finds %v, want the first error", first)
	}
	for _, e := range list {
		if !errors.Is(wrapped, e) {
			t.Errorf("errors.Is(err, %v) = false, want true", e)
		}
	}
	if errors.Is(wrapped, &manifest.Error{Code: first.Code}) {
		t.Error("errors.Is finds an error that is not there")
	}
	if got := list.Unwrap(); len(got) != 2 || !errors.Is(got[1], list[1]) {
		t.Errorf("Unwrap() = %v, want the two errors", got)
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{list, `manifest: 6:19: /filesystem/rules/0/access: expected "read", "write" or "deny", found "reed" [invalid-value] (and 1 more)`},
		{list[1:], `manifest: 11:68: /network/allow/0/port: expected a port from 1 to 65535, found 0 [invalid-value]`},
		{&manifest.Error{Code: "syntax", Place: manifest.Place{Line: 3, Column: 4}, Message: "odd"}, "3:4: odd [syntax]"},
		{manifest.Errors{}, "manifest: no errors"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error() = %q, want %q", got, tt.want)
		}
	}
}

// TestErrorsBeforeSyntax checks that a fault of the syntax does not hide what was
// found before it, and that nothing is said about what it cuts off.
func TestErrorsBeforeSyntax(t *testing.T) {
	bad := edit(t, edit(t, strictBase, `"deny"`, `"allow"`), `"src"`, `"../src"`)
	for _, tt := range []struct{ name, src, want string }{
		{"no syntax error", bad, "invalid-value /filesystem/default; invalid-path " + theText},
		{
			"after the other errors", edit(t, bad, "443 }", "443, }"),
			"invalid-value /filesystem/default; invalid-path " + theText + "; syntax /network/allow/0",
		},
		{"between them", edit(t, bad, `"rules": [`, `"rules": [,`), "invalid-value /filesystem/default; syntax /filesystem/rules"},
		{"before them", edit(t, bad, `"default":`, `"default"`), "syntax /filesystem/default"},
		{
			"trailing data", bad + "{}",
			"invalid-value /filesystem/default; invalid-path " + theText + "; syntax ",
		},
		{
			// What is missing may be in the part that is not there.
			"cut off", bad[:strings.Index(bad, `"network"`)],
			"invalid-value /filesystem/default; invalid-path " + theText + "; syntax ",
		},
		{"cut off in a rule", strictBase[:strings.Index(strictBase, `"scope"`)], "syntax " + theRule},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := codes(refused(t, []byte(tt.src))); got != tt.want {
				t.Errorf("Compile = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestHints spoils strictBase in one place and reads what to write instead.
func TestHints(t *testing.T) {
	const (
		utf8Hint    = "save the file as UTF-8"
		noComments  = "JSON has no comments; remove it"
		noComma     = "remove the comma before the closing bracket"
		quotes      = "write strings in double quotes"
		noSuch      = "JSON has no such number"
		pairs       = "write surrogates in pairs, or the character itself in UTF-8"
		plain       = "write it in plain digits"
		noAddresses = "addresses are not supported; write the DNS name of the host"
		closeAll    = "close every string, array and object"
	)
	for _, tt := range []struct{ name, old, text, want string }{
		{"byte order mark", strictBase, "\ufeff" + strictBase, utf8Hint + " without a byte order mark"},
		{"Latin-1", `"src"`, "\"caf\xe9\"", utf8Hint},
		{"line comment", `"default"`, "// why\n\"default\"", noComments},
		{"block comment", `"default"`, "/**/\"default\"", noComments},
		{"hash comment", `"default"`, "# why\n\"default\"", noComments},
		{"trailing comma", `"error" }`, `"error", }`, noComma},
		{"trailing comma in an array", "443 } ]", "443 } , ]", noComma},
		{"trailing comma before a line break", `"error" }`, "\"error\",\n}", noComma},
		{"two commas", `"read",`, `"read",,`, "remove one of the commas"},
		{"single quotes", `"src"`, `'src'`, quotes},
		{"name without quotes", `"access"`, "access", "write names and strings in double quotes"},
		{"value without quotes", `"src"`, "src", "write names and strings in double quotes"},
		{"NaN", "443", "NaN", noSuch},
		{"Infinity", "443", "-Infinity", noSuch},
		{"Python", `"src"`, "True", "JSON has true, false and null only"},
		{"leading zero", "443", "0443", "numbers have no leading zeros"},
		{"tab in a string", `"src"`, "\"s\tc\"", `write control characters as escapes, \u0009`},
		{"half a pair", `"src"`, `"\ud83d"`, pairs},
		{"half a pair in a name", `"access"`, `"\ude00"`, pairs},
		{"cut off", "\"required\" }\n}", `"required"`, closeAll},
		{"cut off in a string", "\"required\" }\n}\n", `"requ`, closeAll},
		{"empty", strictBase, " \n", "a manifest is a JSON object; maelys init writes one to start from"},
		{"two documents", strictBase, strictBase + strictBase, "a manifest is one object; remove what follows it"},

		{"fraction", "443", "443.0", plain},
		{"exponent", "443", "4E2", plain},
		{"port as string", "443", `"443"`, plain + ", without quotes"},
		{"no hint for what is simply too large", "443", "65536", ""},
		{"wildcard", "example.com", "*.example.com", "wildcards are not supported; name each host"},
		{"trailing dot", "example.com", "example.com.", `write "example.com"`},
		{"trailing dot of an address", "example.com", "127.0.0.1.", ""},
		{"URL", "example.com", "https://example.com/a/b", `write the name alone: "example.com"`},
		{"URL without encryption", "example.com", "http://example.com", `write the name alone: "example.com"`},
		{"name with path", "example.com", "example.com/a", `write the name alone: "example.com"`},
		{"name with port", "example.com", "example.com:443", `write "host": "example.com" and the port in "port"`},
		{"IPv4", "example.com", "127.0.0.1", noAddresses},
		{"IPv4 in short", "example.com", "127.1", noAddresses},
		{"IPv4 as one number", "example.com", "2130706433", noAddresses},
		{"IPv4 in hexadecimal", "example.com", "0x7F000001", noAddresses},
		{"IPv6", "example.com", "fe80::1", noAddresses},
		{"IPv6 in brackets", "example.com", "[::1]", noAddresses},
		{"underscore", "example.com", "a_b.example.com", "names of hosts have no underscores; those that do name other records"},
		{"international name", "example.com", "bücher.example", "write an international name in its ASCII form, xn--…"},

		{"slash", `"src"`, `"/src"`, `remove the leading slash, or write {"absolute": …} for a path of the host`},
		{"parent", `"src"`, `"src/.."`, "name the directory itself; a policy must not depend on what .. leads to"},
		{"NUL", `"src"`, `"a\u0000"`, "no file name can hold a NUL"},
		{"home", `"root": "workspace", "relative": "src"`, `"absolute": "~/src"`, "~ is not expanded; write the whole path"},
		{
			"not absolute", `"root": "workspace", "relative": "src"`, `"absolute": "src"`,
			`begin with a slash, or write {"root": "workspace", "relative": …}`,
		},
		{"leading zero", "443", "0443", "numbers have no leading zeros"},
		{"hexadecimal", "443", "0x1bb", "write numbers in plain decimal digits"},
		{"digits in groups", "443", "4_43", "write numbers in plain decimal digits"},
		{"short escape", `"src"`, `"\u12"`, `write escapes as \n, \t, \" or \\, or \u and four hexadecimal digits`},
		{"half a character", `"src"`, `"\ud800"`, "write surrogates in pairs, or the character itself in UTF-8"},
		{"no quotes", `"src"`, `src`, "write names and strings in double quotes"},
		{"no quotes after a value", `"src"`, `"src" x`, ""},
		{"form feed between values", `"src"`, "\f\"src\"", ""},
		{"tab in a string", `"src"`, "\"s\trc\"", `write control characters as escapes, \u0009`},

		{"word in capitals", `"required"`, `"REQUIRED"`, `did you mean "required"?`},
		{"word like none", `"required"`, `"yes"`, `write "required" or "disabled"`},
		{"the only word", `"tcp"`, `"https"`, `write "tcp"`},
		{"path as string", `{ "root": "workspace", "relative": "src" }`, `"src"`, `write {"root": "workspace", "relative": …} or {"absolute": "/…"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := edit(t, strictBase, tt.old, tt.text)
			list := refused(t, []byte(src))
			if last := list[len(list)-1]; last.Hint != tt.want {
				t.Errorf("Compile(%.300q) = %v with hint %q, want %q", src, last, last.Hint, tt.want)
			}
		})
	}
}

// TestSyntaxAlone has values that are cut off or no JSON: nothing but the syntax
// error is reported of them.
func TestSyntaxAlone(t *testing.T) {
	for _, tt := range []struct{ name, old, text string }{
		{"leading zero", "443", "0443"},
		{"hexadecimal", "443", "0x1bb"},
		{"no value", "443", ""},
		{"cut literal", `"src"`, "nul"},
		{"bracket instead of a rule", `"rules": [`, `"rules": [}`},
		{"bracket after the end", `"required" }`, `"required" } } }`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := edit(t, strictBase, tt.old, tt.text)
			if list := refused(t, []byte(src)); len(list) != 1 || list[0].Code != manifest.CodeSyntax {
				t.Errorf("Compile(%.300q) = %v, want a syntax error alone", src, list)
			}
		})
	}
}
