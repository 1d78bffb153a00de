package manifest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"maelys.dev/maelys/internal/ratio"
	"maelys.dev/maelys/manifest"
)

// large returns a manifest as a person or tool would write it, with that many
// rules and paths of about that many bytes.
func large(rules, size int) []byte {
	var b strings.Builder
	b.WriteString("{\n  \"formatVersion\": 2,\n  \"filesystem\": {\n    \"default\": \"deny\",\n    \"rules\": [")
	for i := range rules {
		if i > 0 {
			b.WriteByte(',')
		}
		path := fmt.Sprintf("services/team-%02d/module-%04d/src", i%61, i)
		for n := 0; len(path) < size; n++ {
			path += fmt.Sprintf("/package%d", n%10)
		}
		access := []string{"read", "write", "deny"}[i%3]
		fmt.Fprintf(&b, "\n      {\n        \"access\": %q,\n        \"path\": { \"root\": \"workspace\", \"relative\": %q },\n        \"missing\": \"skip\"\n      }", access, path)
	}
	b.WriteString("\n    ]\n  },\n  \"network\": { \"mode\": \"none\" },\n  \"process\": { \"treeConfinement\": \"required\" }\n}\n")
	return []byte(b.String())
}

func BenchmarkRatioCompile4096(b *testing.B) {
	compileAgainstValid(b, "compile-4096/json.Valid", large(4096, 90))
}

func BenchmarkRatioCompile200(b *testing.B) {
	compileAgainstValid(b, "compile-200/json.Valid", large(200, 60))
}

func compileAgainstValid(b *testing.B, name string, src []byte) {
	if _, err := manifest.Compile(src); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes", len(src))
	ratio.Measure(b, name, 2.5,
		func() {
			if _, err := manifest.Compile(src); err != nil {
				b.Fatal(err)
			}
		},
		func() {
			if !json.Valid(src) {
				b.Fatal("not JSON")
			}
		})
}
