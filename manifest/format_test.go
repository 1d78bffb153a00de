package manifest_test

import (
	"testing"

	"maelys.dev/maelys/manifest"
)

// TestFormatText compares whole manifests: there is one that stands for all
// spellings of a decision, and it must not change from one version to the next.
func TestFormatText(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{
			"nothing granted", `{"process":{"treeConfinement":"required"},"network":{"mode":"none"},` +
				`"filesystem":{"rules":[],"default":"deny"},"formatVersion":2}`,
			`{
  "$schema": "https://schemas.maelys.dev/mir-source/v2/schema.json",
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": []
  },
  "network": { "mode": "none" },
  "process": { "treeConfinement": "required" }
}
`,
		},
		{
			"every form", `{"formatVersion":2,"filesystem":{"default":"deny","rules":[
				{"access":"deny","path":{"absolute":"//etc/./shadow/"},"missing":"skip","scope":"exact"},
				{"access":"read","path":{"absolute":"/"},"scope":"tree","missing":"error"},
				{"access":"read","path":{"root":"temp","relative":"."},"scope":"exact"},
				{"access":"write","path":{"root":"workspace","relative":"\u0061\/\"\\\n\u007f\u2028é\ud83d\ude00<&>"}},
				{"access":"read","path":{"root":"workspace","relative":"a"}},
				{"access":"write","path":{"root":"workspace","relative":"./a"}},
				{"access":"read","path":{"root":"workspace"},"missing":"skip"},
				{"access":"read","path":{"special":"minimal-runtime"}}]},
				"network":{"allow":[{"port":443,"protocol":"tcp","host":"B.example"},{"port":443,"protocol":"tcp","host":"a.example"},
				{"port":80,"protocol":"tcp","host":"b.example"},{"port":443,"protocol":"tcp","host":"b.EXAMPLE"}],"mode":"mediated"},
				"process":{"treeConfinement":"disabled"}}`,
			`{
  "$schema": "https://schemas.maelys.dev/mir-source/v2/schema.json",
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": [
      {
        "access": "read",
        "path": { "special": "minimal-runtime" }
      },
      {
        "access": "read",
        "path": { "root": "workspace" },
        "missing": "skip"
      },
      {
        "access": "write",
        "path": { "root": "workspace", "relative": "a" }
      },
      {
        "access": "write",
        "path": { "root": "workspace", "relative": "a/\"\\\n` + "\x7f\u2028" + `é😀<&>" }
      },
      {
        "access": "read",
        "path": { "root": "temp" },
        "scope": "exact"
      },
      {
        "access": "read",
        "path": { "absolute": "/" }
      },
      {
        "access": "deny",
        "path": { "absolute": "/etc/shadow" },
        "scope": "exact",
        "missing": "skip"
      }
    ]
  },
  "network": {
    "mode": "mediated",
    "allow": [
      { "protocol": "tcp", "host": "a.example", "port": 443 },
      { "protocol": "tcp", "host": "b.example", "port": 80 },
      { "protocol": "tcp", "host": "b.example", "port": 443 }
    ]
  },
  "process": { "treeConfinement": "disabled" }
}
`,
		},
		{
			"the network left open", `{"formatVersion":2,"filesystem":{"default":"deny","rules":[]},"network":{"mode":"direct"},"process":{"treeConfinement":"required"}}`,
			`{
  "$schema": "https://schemas.maelys.dev/mir-source/v2/schema.json",
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": []
  },
  "network": { "mode": "direct" },
  "process": { "treeConfinement": "required" }
}
`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := manifest.Format(compiled(t, tt.src))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("Format = %s, want %s", got, tt.want)
			}
		})
	}
}
