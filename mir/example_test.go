package mir_test

import (
	"fmt"

	"maelys.dev/maelys/mir"
)

// Build makes a policy of Go values. Everything must be said; nothing is granted
// by leaving a field out.
func ExampleBuild() {
	build, err := mir.NewPath(mir.RootWorkspace, "build")
	if err != nil {
		panic(err)
	}
	policy, err := mir.Build(mir.Spec{
		Rules: []mir.Rule{
			{Access: mir.Write, Path: build, Scope: mir.Tree, Missing: mir.MissingSkip},
		},
		Mode:            mir.ModeNone,
		TreeConfinement: mir.Required,
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%x\n%s\n", policy.Bytes(), policy.Digest())
	// Output:
	// 4d4d4952000200000000000101010000000000000102020202000000000000056275696c64
	// 46a63dd0d44a3f8bb240eb0bbe703d27e5efcca6b42ea2e58abc9d814fc696d1
}

// Verify is the call to make on bytes that came from elsewhere.
func ExampleVerify() {
	digest, err := mir.Verify([]byte("MMIR\x00\x02\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00"))
	fmt.Println(digest, err)
	_, err = mir.Verify([]byte("MMIR\x00\x02\x00\x00\x00\x00\x00\x00\x09\x01\x00\x00\x00\x00\x00\x00"))
	fmt.Println(err)
	// Output:
	// ba1f59ddaf5373b0ee90a738a039c58b6d661d9c89d97b721d38c7a6b987cbc7 <nil>
	// mir: offset 12: expected network mode 1 to 3, found 9 [invalid-value]
}

// Compare says what a change of policy widens, with a witness for each region.
func ExampleCompare() {
	policy := func(access mir.Access, text string) *mir.Policy {
		path, err := mir.NewPath(mir.RootWorkspace, text)
		if err != nil {
			panic(err)
		}
		p, err := mir.Build(mir.Spec{
			Rules:           []mir.Rule{{Access: access, Path: path, Scope: mir.Tree, Missing: mir.MissingError}},
			Mode:            mir.ModeNone,
			TreeConfinement: mir.Required,
		})
		if err != nil {
			panic(err)
		}
		return p
	}
	for _, change := range mir.Compare(policy(mir.Read, ""), policy(mir.Write, "src")).Widened {
		if c, ok := change.(mir.PathChange); ok {
			fmt.Println(c.Region.Path, c.Region.Extent, c.Before, "→", c.After)
		}
	}
	// Output:
	// workspace:src tree read → read-write
}
