// Package mir holds one sandbox decision and its only byte representation.
//
// MIR, the Maelys Intermediate Representation, says which files a command may
// read or write, which TCP destinations it may reach and whether its process
// tree must stay confined. A decision has exactly one encoding, so the SHA-256
// of those bytes names the decision: two programs that hold the same digest
// hold the same policy.
//
// The package is pure. It reads no file, no clock and no environment, resolves
// no path and enforces nothing; those are the jobs of the packages that take a
// [Policy].
//
// # Where to start
//
// [Verify] answers whether bytes are canonical MIR, and is the call to make on
// bytes that came from elsewhere. [Decode] does the same and returns the
// [Policy]. [Build] makes a policy from Go values; package manifest makes one
// from JSON.
//
// # Format
//
// All integers are unsigned and big-endian. A document is a header of 20 bytes,
// then the filesystem records, then the network records, then nothing.
//
//	offset size  header
//	     0    4  "MMIR"
//	     4    2  version, 2
//	     6    2  flags, 0
//	     8    4  number of filesystem records, at most 4096
//	    12    1  network mode: 1 none, 2 direct, 3 mediated
//	    13    1  tree confinement: 0 disabled, 1 required
//	    14    2  reserved, 0
//	    16    4  number of network records, at most 1024
//
//	offset size  filesystem record
//	     0    1  kind, 1
//	     1    1  access: 1 read, 2 write, 3 deny
//	     2    1  root: 1 minimal-runtime, 2 workspace, 3 temp, 4 host
//	     3    1  scope: 1 exact, 2 tree
//	     4    1  missing: 1 error, 2 skip
//	     5    3  reserved, 0
//	     8    4  length of the path in bytes, at most 4096
//	    12    n  the path in normal form
//
//	offset size  network record
//	     0    1  kind, 2
//	     1    1  protocol: 1 TCP
//	     2    2  port, 1 to 65535
//	     4    4  length of the hostname in bytes, 1 to 253
//	     8    n  the hostname in lower case
//
// Filesystem records increase strictly by (root, path, scope, missing), network
// records by (hostname, protocol, port), all compared as bytes. Network records
// are there exactly when the mode is mediated.
//
// # Guarantees
//
// A [Policy] is immutable and safe for concurrent use. It is always canonical:
// there is no way to hold one that does not encode to bytes which [Verify]
// accepts. The zero Policy grants nothing.
//
// IMPORTANT: what this package accepts and what it emits is the format. A change
// in either is a new format version and needs new conformance vectors.
package mir
