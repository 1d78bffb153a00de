package manifest_test

import (
	"errors"
	"fmt"
	"log"

	"maelys.dev/maelys/manifest"
	"maelys.dev/maelys/mir"
)

// A job that reads its workspace, writes into one directory of it, and reaches one
// host.
const job = `{
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": [
      { "access": "read", "path": { "special": "minimal-runtime" } },
      { "access": "read", "path": { "root": "workspace" } },
      { "access": "write", "path": { "root": "workspace", "relative": "build" } }
    ]
  },
  "network": {
    "mode": "mediated",
    "allow": [ { "protocol": "tcp", "host": "proxy.example.org", "port": 443 } ]
  },
  "process": { "treeConfinement": "required" }
}`

func ExampleCompile() {
	policy, err := manifest.Compile([]byte(job))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Digest())
	for _, rule := range policy.Rules() {
		fmt.Println(rule.Access, rule.Path)
	}
	// Output:
	// b56d75a52caa6b56fc22be4c39aeb358e7479feb0479237ad4e5a0aa9818634a
	// read minimal-runtime
	// read workspace:.
	// write workspace:build
}

// What is wrong with a manifest is said all at once, each fault with its place and
// with what to write instead.
func ExampleErrors() {
	_, err := manifest.Compile([]byte(`{
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": [ { "acess": "read", "path": { "root": "workspace", "relative": "/src" } } ]
  },
  "network": { "mode": "offline" },
  "process": { "treeConfinement": "required" }
}`))
	if faults, ok := errors.AsType[manifest.Errors](err); ok {
		for _, fault := range faults {
			fmt.Printf("%d:%d %s [%s]\n", fault.Line, fault.Column, fault.Pointer, fault.Code)
			fmt.Printf("  %s\n  %s\n", fault.Message, fault.Hint)
		}
	}
	// Output:
	// 5:16 /filesystem/rules/0 [missing-member]
	//   the member "access" is missing
	//   add "access"
	// 5:18 /filesystem/rules/0/acess [unknown-member]
	//   unknown member "acess"
	//   did you mean "access"?
	// 5:78 /filesystem/rules/0/path/relative [invalid-path]
	//   a path below workspace must not begin with "/", found "/src"
	//   remove the leading slash, or write {"absolute": …} for a path of the host
	// 7:24 /network/mode [invalid-value]
	//   expected "none", "direct" or "mediated", found "offline"
	//   write "none", "direct" or "mediated"
}

func ExampleFormat() {
	host, err := mir.NewHostname("Proxy.Example.ORG")
	if err != nil {
		log.Fatal(err)
	}
	policy, err := mir.Build(mir.Spec{
		Mode:            mir.ModeMediated,
		Destinations:    []mir.Destination{{Host: host, Port: 443}},
		TreeConfinement: mir.Required,
	})
	if err != nil {
		log.Fatal(err)
	}
	text, err := manifest.Format(policy)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// {
	//   "$schema": "https://schemas.maelys.dev/mir-source/v2/schema.json",
	//   "formatVersion": 2,
	//   "filesystem": {
	//     "default": "deny",
	//     "rules": []
	//   },
	//   "network": {
	//     "mode": "mediated",
	//     "allow": [
	//       { "protocol": "tcp", "host": "proxy.example.org", "port": 443 }
	//     ]
	//   },
	//   "process": { "treeConfinement": "required" }
	// }
}

func ExampleLint() {
	findings, err := manifest.Lint([]byte(`{
  "formatVersion": 2,
  "filesystem": {
    "default": "deny",
    "rules": [
      { "access": "write", "path": { "root": "workspace" } },
      { "access": "read", "path": { "root": "workspace", "relative": "src" } },
      { "access": "read", "path": { "absolute": "/var/run" } }
    ]
  },
  "network": { "mode": "none" },
  "process": { "treeConfinement": "required" }
}`))
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range findings {
		fmt.Printf("line %d: %s\n  %s\n", finding.Line, finding.Message, finding.Hint)
	}
	// Output:
	// line 7: this read can never act: rule 0 grants write on workspace:., and grants add up
	//   remove it; to make a part read-only, grant write on the other parts
	// line 8: whoever can connect to the Docker socket is root on this host
	//   deny the socket, or grant a smaller tree
}
