// Package manifest reads and writes the JSON form of a Maelys policy, the form
// that people edit.
//
// [Compile] turns a manifest into a [mir.Policy], or into [Errors] that name every
// fault of the manifest at once, each with its place and with what to write
// instead. [Format] turns a policy back into the one manifest that stands for all
// its spellings. [Lint] points at rules that are valid and yet probably not meant.
// [Schema] is the JSON Schema for editors.
//
// The package is pure: it takes bytes and returns bytes. It resolves nothing on a
// host; a manifest compiles to the same policy everywhere.
//
// # Strictness
//
// A manifest is JSON by RFC 8259 in UTF-8 without a byte order mark. Every object
// refuses unknown members and members that come twice, compared after unescaping.
// Numbers are judged as written: 443.0 is not a port. No value falls back to a
// default; what is not understood is an error.
//
// # Limits
//
// A manifest has at most [MaxSize] bytes and nests at most [MaxDepth] arrays and
// objects, unknown ones included. The policy it says is held to the limits of
// package mir.
package manifest
