package plan

import (
	"io/fs"

	"maelys.dev/maelys/mir"
)

// PrivateTemp is where the root "temp" is seen when the host context names no
// directory for it.
const PrivateTemp = "/tmp"

// ownFiles are what a sandbox with minimal-runtime has of its own: devices that do
// no harm, terminals, shared memory, and its own processes.
func ownFiles() []Rule {
	const device = fs.ModeDevice | fs.ModeCharDevice
	own := func(path string, access mir.Access, scope mir.Scope, kind fs.FileMode) Rule {
		return Rule{Access: access, Path: path, Scope: scope, Identity: Identity{Type: kind}, Private: true}
	}
	return []Rule{
		own("/dev", mir.Read, mir.Tree, fs.ModeDir),
		own("/dev/full", mir.Write, mir.Exact, device),
		own("/dev/null", mir.Write, mir.Exact, device),
		own("/dev/pts", mir.Write, mir.Tree, fs.ModeDir),
		own("/dev/random", mir.Write, mir.Exact, device),
		own("/dev/shm", mir.Write, mir.Tree, fs.ModeDir),
		own("/dev/tty", mir.Write, mir.Exact, device),
		own("/dev/urandom", mir.Write, mir.Exact, device),
		own("/dev/zero", mir.Write, mir.Exact, device),
		own("/proc", mir.Read, mir.Tree, fs.ModeDir),
	}
}

// ownLinks are the symbolic links among them.
func ownLinks() []Link {
	return []Link{
		{"/dev/fd", "/proc/self/fd"},
		{"/dev/ptmx", "pts/ptmx"},
		{"/dev/stderr", "/proc/self/fd/2"},
		{"/dev/stdin", "/proc/self/fd/0"},
		{"/dev/stdout", "/proc/self/fd/1"},
	}
}
