package manifest

import (
	_ "embed" // for the schema
)

//go:embed schema.json
var schema string

// Schema returns the JSON Schema of the manifest language (draft 2020-12), with a
// description on every member so that editors show help. Its $id is [SchemaURL].
//
// The schema refuses nothing that [Compile] accepts. It cannot see everything that
// Compile refuses: members that come twice, how a number is written, the length of
// a path in bytes, and limits that count canonical records.
func Schema() []byte { return []byte(schema) }
