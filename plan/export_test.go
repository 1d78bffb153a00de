package plan

// A Tree is the filesystem in memory, for tests that can only see the package from
// outside.
type Tree = tree
