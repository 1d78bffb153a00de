//go:build linux && (amd64 || arm64)

package linux

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights are what Landlock permits on a file, or beneath a directory (landlock(7)).
type Rights uint64

// Rights that belong together. Those that a version of Landlock does not know are left
// out on it.
const (
	ReadBeneath  Rights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	WriteBeneath Rights = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 | laterRights
	ReadFile     Rights = ReadBeneath &^ unix.LANDLOCK_ACCESS_FS_READ_DIR
	WriteFile    Rights = ReadFile | OnlyWrite
	OnlyList     Rights = unix.LANDLOCK_ACCESS_FS_READ_DIR
	OnlyRead     Rights = unix.LANDLOCK_ACCESS_FS_READ_FILE
	OnlyWrite    Rights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	laterRights = unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// LandlockScopes is the first version of Landlock that keeps signals and abstract sockets
// of processes outside apart (Linux 6.12).
const LandlockScopes = 6

// handled returns the rights on files that a version of Landlock knows.
func handled(abi int) Rights {
	files := WriteBeneath &^ laterRights
	for _, right := range []struct {
		since int
		right Rights
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi >= right.since {
			files |= right.right
		}
	}
	return files
}

// A Ruleset is what Landlock will permit.
type Ruleset struct {
	fd      Value
	handled Rights
}

// Ruleset makes a ruleset that permits nothing on files, and from [LandlockScopes] on no
// signals to and no abstract sockets of processes that are not confined along with the
// command. Without network it also permits no TCP, from version 4 on.
//
// The library for Landlock confines all threads of a process, by way of C where C is
// there. Here it is one process that does nothing else.
func (p *Program) Ruleset(abi int, network bool) Ruleset {
	files := handled(abi)
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: uint64(files)}
	if abi >= 4 && !network {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= LandlockScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return Ruleset{p.value(unix.SYS_LANDLOCK_CREATE_RULESET, pointer(p, attr), number(unsafe.Sizeof(*attr)), zero()), files}
}

// Permit has a ruleset permit rights on what a descriptor stands for.
func (p *Program) Permit(r Ruleset, fd Value, rights Rights) {
	p.call(doGrant, r.fd.argument(), number(uint64(rights&r.handled)), fd.argument())
}

// PermitFile has a ruleset permit rights on the file of a descriptor of the command, if
// it is in a filesystem at all: pipes and sockets are not (EBADFD), and need none.
func (p *Program) PermitFile(r Ruleset, fd int, rights Rights) {
	p.call(doGrant, r.fd.argument(), number(uint64(rights&r.handled)), number(fd)).tolerated = unix.EBADFD
}

// PermitPath is Permit for what is at a path, whose last component is not followed, if it
// is the file that is meant.
func (p *Program) PermitPath(r Ruleset, path string, meant Identity, rights Rights) {
	fd := p.value(unix.SYS_OPENAT, here(), p.string(path), number(unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW), zero())
	p.Match(fd, meant)
	p.Permit(r, fd, rights)
	p.Close(fd)
}

// Restrict puts the ruleset on the process and what it starts. It must be unable to gain
// rights, as after [Program.Renounce].
func (p *Program) Restrict(r Ruleset) {
	p.call(unix.SYS_LANDLOCK_RESTRICT_SELF, r.fd.argument(), zero())
	p.Close(r.fd)
}
