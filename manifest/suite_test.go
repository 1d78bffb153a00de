package manifest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
)

// suiteMembers are the members of a valid manifest, to put one more before or after.
const suiteMembers = `"formatVersion":2,"filesystem":{"default":"deny","rules":[]},` +
	`"network":{"mode":"none"},"process":{"treeConfinement":"required"}`

// suiteWays are the ways in which the content of one file is tried.
var suiteWays = []struct{ name, before, after, pointer string }{
	{"alone", "", "", ""},
	{"first", `{"x":`, `,` + suiteMembers + `}`, "/x"},
	{"last", `{` + suiteMembers + `,"x":`, `}`, "/x"},
}

// suiteChoices says what is decided where the suite leaves it to the parser: the
// code that ends the reading, or "json" for what is read like any y_ file.
var suiteChoices = map[string]string{
	// Numbers are judged as written and never converted, so none is too large.
	"i_number_double_huge_neg_exp.json":   "json",
	"i_number_huge_exp.json":              "json",
	"i_number_neg_int_huge_exp.json":      "json",
	"i_number_pos_double_huge_exp.json":   "json",
	"i_number_real_neg_overflow.json":     "json",
	"i_number_real_pos_overflow.json":     "json",
	"i_number_real_underflow.json":        "json",
	"i_number_too_big_neg_int.json":       "json",
	"i_number_too_big_pos_int.json":       "json",
	"i_number_very_big_negative_int.json": "json",

	// A surrogate by itself is no character: no UTF-8 can hold it.
	"i_object_key_lone_2nd_surrogate.json":                "syntax",
	"i_string_1st_surrogate_but_2nd_missing.json":         "syntax",
	"i_string_1st_valid_surrogate_2nd_invalid.json":       "syntax",
	"i_string_incomplete_surrogate_and_escape_valid.json": "syntax",
	"i_string_incomplete_surrogate_pair.json":             "syntax",
	"i_string_incomplete_surrogates_escape_valid.json":    "syntax",
	"i_string_invalid_lonely_surrogate.json":              "syntax",
	"i_string_invalid_surrogate.json":                     "syntax",
	"i_string_inverted_surrogates_U+1D11E.json":           "syntax",
	"i_string_lone_second_surrogate.json":                 "syntax",

	// Not UTF-8. Replacing what is wrong would make two spellings one name.
	"i_string_UTF-8_invalid_sequence.json":         "syntax",
	"i_string_UTF8_surrogate_U+D800.json":          "syntax",
	"i_string_invalid_utf-8.json":                  "syntax",
	"i_string_iso_latin_1.json":                    "syntax",
	"i_string_lone_utf8_continuation_byte.json":    "syntax",
	"i_string_not_in_unicode_range.json":           "syntax",
	"i_string_overlong_sequence_2_bytes.json":      "syntax",
	"i_string_overlong_sequence_6_bytes.json":      "syntax",
	"i_string_overlong_sequence_6_bytes_null.json": "syntax",
	"i_string_truncated-utf-8.json":                "syntax",

	// RFC 8259 section 8.1: UTF-8 and no other encoding, without a byte order mark.
	"i_string_UTF-16LE_with_BOM.json":         "syntax",
	"i_string_utf16BE_no_BOM.json":            "syntax",
	"i_string_utf16LE_no_BOM.json":            "syntax",
	"i_structure_UTF-8_BOM_empty_object.json": "syntax",

	"i_structure_500_nested_arrays.json": "limit-exceeded",
}

// suiteDepth are the n_ files that nest too deep before the place where they stop
// being JSON. No n_ file becomes JSON by standing inside a manifest: each has a
// token that no context allows, or leaves open or closes a bracket or a string
// that its surroundings do not. Were there one, TestJSONSuite would fail on it.
var suiteDepth = []string{
	"n_structure_100000_opening_arrays.json",
	"n_structure_open_array_object.json",
}

// suite returns the files of the suite by name. They are other people's and not
// in the repository.
func suite(t *testing.T) map[string][]byte {
	t.Helper()
	folder := os.Getenv("MAELYS_JSON_TEST_SUITE")
	if folder == "" {
		const why = "set MAELYS_JSON_TEST_SUITE to the folder test_parsing of github.com/nst/JSONTestSuite"
		if os.Getenv("MAELYS_REQUIRE_ALL") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	files := readAll(t, folder, ".json")
	if len(files) < 300 {
		t.Fatalf("%d files in %s, want the whole suite, more than 300", len(files), folder)
	}
	return files
}

func TestJSONSuite(t *testing.T) {
	files := suite(t)
	for name := range suiteChoices {
		if _, ok := files[name]; !ok {
			t.Errorf("%s is decided and not in the suite", name)
		}
	}
	counts := map[string]int{}
	for name, content := range files {
		verdict := ""
		switch kind, _, _ := strings.Cut(name, "_"); kind {
		case "y":
			verdict = "json"
		case "n":
			verdict = "syntax"
			if slices.Contains(suiteDepth, name) {
				verdict = "limit-exceeded"
			}
		case "i":
			verdict = suiteChoices[name]
		}
		counts[verdict]++
		for _, way := range suiteWays {
			t.Run(name+"/"+way.name, func(t *testing.T) {
				src := []byte(way.before + string(content) + way.after)
				switch verdict {
				case "":
					t.Error("no decision for this file")
				case "json":
					checkForeign(t, src, way.pointer)
				default:
					list := refused(t, src)
					if last := list[len(list)-1]; string(last.Code) != verdict {
						t.Errorf("Compile(%.200q) = %v, want %s last", src, list, verdict)
					}
				}
			})
		}
	}
	for _, verdict := range []string{"json", "syntax", "limit-exceeded"} {
		if counts[verdict] == 0 {
			t.Errorf("no file is expected to be %s", verdict)
		}
	}
}

// checkForeign checks that src is read to its end as JSON and refused for what the
// value at pointer means: as a document of its own, or as an unknown member.
func checkForeign(t *testing.T, src []byte, pointer string) {
	t.Helper()
	named := false
	for _, e := range refused(t, src) {
		at := e.Code == manifest.CodeUnknownMember && e.Pointer == pointer
		below := e.Code == manifest.CodeDuplicateMember && strings.HasPrefix(e.Pointer, pointer+"/")
		named = named || at
		switch {
		case e.Code == manifest.CodeSyntax || e.Code == manifest.CodeLimitExceeded:
			t.Errorf("Compile(%.200q): %v", src, e)
		case pointer != "" && !at && !below:
			t.Errorf("Compile(%.200q): %v, although only %s is wrong", src, e, pointer)
		}
	}
	if pointer != "" && !named {
		t.Errorf("Compile(%.200q) does not name the unknown member %s", src, pointer)
	}
}
