package manifest_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maelys.dev/maelys/manifest"
)

const vectors = "../testdata/vectors"

// readAll returns the files of a folder of vectors whose names end in suffix, less
// the inspections. A folder without any fails the test: a loader must never pass
// by running nothing.
func readAll(t testing.TB, folder, suffix string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, ".inspect.json") && name != "index.json" {
			files[name] = readFile(t, filepath.Join(folder, name))
		}
	}
	if len(files) == 0 {
		t.Fatalf("no vectors in %s", folder)
	}
	return files
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestValidVectors(t *testing.T) {
	folder := filepath.Join(vectors, "manifest-valid")
	for name, src := range readAll(t, folder, ".json") {
		t.Run(name, func(t *testing.T) {
			p, err := manifest.Compile(src)
			if err != nil {
				t.Fatal(err)
			}
			base := filepath.Join(folder, strings.TrimSuffix(name, ".json"))
			if got, want := p.Bytes(), readFile(t, base+".mir"); string(got) != string(want) {
				t.Errorf("Bytes() = %x, want %x", got, want)
			}
			if got, want := string(p.Inspect()), string(readFile(t, base+".inspect.json")); got != want {
				t.Errorf("Inspect() = %s, want %s", got, want)
			}
			formatsBack(t, src)
		})
	}
}

type refusal struct {
	File    string
	Code    manifest.Code
	Pointer *string
}

func refusals(t testing.TB) []refusal {
	t.Helper()
	var index []refusal
	folder := filepath.Join(vectors, "manifest-invalid")
	if err := json.Unmarshal(readFile(t, filepath.Join(folder, "index.json")), &index); err != nil {
		t.Fatal(err)
	}
	if files := readAll(t, folder, ".json"); len(files) != len(index) || len(index) == 0 {
		t.Fatalf("%d files, %d of them in the index", len(files), len(index))
	}
	return index
}

func TestInvalidVectors(t *testing.T) {
	for _, v := range refusals(t) {
		t.Run(v.File, func(t *testing.T) {
			src := readFile(t, filepath.Join(vectors, "manifest-invalid", v.File))
			p, err := manifest.Compile(src)
			var list manifest.Errors
			if p != nil || !errors.As(err, &list) {
				t.Fatalf("Compile = %v, %v; want Errors", p, err)
			}
			checkErrors(t, src, list)
			for _, e := range list {
				if e.Code == v.Code && (v.Pointer == nil || e.Pointer == *v.Pointer) {
					return
				}
			}
			t.Errorf("errors %v, want code %s at %v", list, v.Code, v.Pointer)
		})
	}
}

// checkErrors holds every list of errors to what the documentation promises.
func checkErrors(t *testing.T, src []byte, list manifest.Errors) {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("refused without an error")
	}
	last := 0
	for i, e := range list {
		if e.Offset < last || e.Offset > len(src) {
			t.Errorf("%v: offset %d, after one at %d in %d bytes", e, e.Offset, last, len(src))
		}
		last = e.Offset
		before := string(src[:e.Offset])
		line := 1 + strings.Count(before, "\n")
		column := len(before) - strings.LastIndexByte(before, '\n')
		if e.Line != line || e.Column != column {
			t.Errorf("%v: at %d:%d, want %d:%d", e, e.Line, e.Column, line, column)
		}
		if e.Code == "" || e.Message == "" || strings.HasSuffix(e.Message, ".") {
			t.Errorf("%#v: no code, or not a sentence", e)
		}
		if e.Code == manifest.CodeSyntax && i != len(list)-1 {
			t.Errorf("%v is not the last error", e)
		}
		if e.Pointer != "" && !strings.HasPrefix(e.Pointer, "/") {
			t.Errorf("%v: not a JSON pointer", e)
		}
	}
}

// formatsBack checks that the policy of src survives a manifest made of it, and
// that formatting twice changes nothing.
func formatsBack(t *testing.T, src []byte) {
	t.Helper()
	p, err := manifest.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	text, err := manifest.Format(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := manifest.Compile(text)
	if err != nil {
		t.Fatalf("the formatted manifest is refused: %v\n%s", err, text)
	}
	if again.Digest() != p.Digest() {
		t.Fatalf("the formatted manifest says something else:\n%s", text)
	}
	twice, err := manifest.Format(again)
	if err != nil || string(twice) != string(text) {
		t.Fatalf("formatting twice gives %s (%v), want %s", twice, err, text)
	}
}
