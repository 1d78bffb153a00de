package plan

import (
	"net/netip"

	"maelys.dev/maelys/mir"
)

// A Host is what a policy is resolved on: the filesystem, and what is decided by
// those who run a command and never by its policy. All paths are absolute.
type Host struct {
	Filesystem Filesystem

	// Workspace is the directory that the root "workspace" stands for. A policy with
	// rules below it cannot be resolved without one.
	Workspace string

	// Temp is the directory that the root "temp" stands for. Empty, it is a private
	// one that belongs to the sandbox, seen at [PrivateTemp] and empty at the launch.
	Temp string

	// RuntimeRoots join minimal-runtime, each with everything beneath.
	RuntimeRoots []string

	// Executable is what is to be started. Without one, minimal-runtime holds the
	// runtime roots and what belongs to the sandbox alone.
	Executable string

	// SearchPath is PATH, for scripts that env starts.
	SearchPath []string

	// Hardware returns the names of the directories below glibc-hwcaps that fit the
	// processor, the best first. It is called at most once, and only for executables
	// whose libraries depend on it. Nil stands for none.
	Hardware func() []string

	// AllowPrivate are the destinations' hosts that may turn out to have loopback,
	// private or link-local addresses.
	AllowPrivate []mir.Hostname

	// Pins are addresses to connect to for a destination, in place of what its name
	// resolves to.
	Pins map[mir.Destination]netip.AddrPort
}
