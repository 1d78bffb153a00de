package mir_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"maelys.dev/maelys/mir"
)

const vectors = "../testdata/vectors"

// readAll returns the MIR files of a folder of vectors. A
// folder without any fails the test: a loader must never pass by running nothing.
func readAll(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join(vectors, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".mir") {
			files[entry.Name()] = read(t, folder, entry.Name())
		}
	}
	if len(files) == 0 {
		t.Fatalf("no vectors in %s", folder)
	}
	return files
}

func read(t testing.TB, folder, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestValidVectors(t *testing.T) {
	for _, folder := range []string{"mir-valid", "manifest-valid"} {
		for name, doc := range readAll(t, folder) {
			t.Run(name, func(t *testing.T) {
				digest, err := mir.Verify(doc)
				if err != nil {
					t.Fatal(err)
				}
				p, err := mir.Decode(doc)
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Bytes(); string(got) != string(doc) {
					t.Errorf("Bytes() = %x, want %x", got, doc)
				}
				if p.Digest() != digest {
					t.Errorf("Digest() = %s, Verify says %s", p.Digest(), digest)
				}
				want := string(read(t, folder, strings.TrimSuffix(name, ".mir")+".inspect.json"))
				if got := string(p.Inspect()); got != want {
					t.Errorf("Inspect() = %s, want %s", got, want)
				}
				rebuilt, err := mir.Build(mir.Spec{Rules: p.Rules(), Mode: p.Mode(), Destinations: p.Destinations(), TreeConfinement: p.TreeConfinement()})
				if err != nil {
					t.Fatal(err)
				}
				if string(rebuilt.Bytes()) != string(doc) {
					t.Errorf("rebuilt from its own parts: %x, want %x", rebuilt.Bytes(), doc)
				}
			})
		}
	}
}

func TestInvalidVectors(t *testing.T) {
	var index []struct {
		File   string
		Code   mir.Code
		Offset *int
	}
	if err := json.Unmarshal(read(t, "mir-invalid", "index.json"), &index); err != nil {
		t.Fatal(err)
	}
	if files := readAll(t, "mir-invalid"); len(files) != len(index) {
		t.Errorf("%d files, %d of them in the index", len(files), len(index))
	}
	for _, v := range index {
		t.Run(v.File, func(t *testing.T) {
			doc := read(t, "mir-invalid", v.File)
			_, err := mir.Verify(doc)
			var fault *mir.DecodeError
			if !errors.As(err, &fault) {
				t.Fatalf("Verify: %v, want a DecodeError", err)
			}
			if fault.Code != v.Code || v.Offset != nil && fault.Offset != *v.Offset {
				t.Errorf("Verify: %v, want code %s at offset %v", fault, v.Code, v.Offset)
			}
			p, err := mir.Decode(doc)
			var again *mir.DecodeError
			if p != nil || !errors.As(err, &again) || *again != *fault {
				t.Errorf("Decode = %v, %v; want the fault of Verify, %v", p, err, fault)
			}
		})
	}
}
