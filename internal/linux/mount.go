//go:build linux && (amd64 || arm64)

package linux

import (
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attributes of mounts (mount_setattr(2)).
const (
	ReadOnly     = unix.MOUNT_ATTR_RDONLY
	NoSetuid     = unix.MOUNT_ATTR_NOSUID
	NoDevices    = unix.MOUNT_ATTR_NODEV
	NoExecutable = unix.MOUNT_ATTR_NOEXEC
)

// An Identity is what a file is, whatever it is called.
type Identity struct {
	Device, Inode uint64
	kind          uint32 // the type bits of st_mode
}

// NewIdentity returns the identity of a file of a type, as in the type bits of a mode.
func NewIdentity(device, inode uint64, kind fs.FileMode) Identity {
	of := map[fs.FileMode]uint32{
		fs.ModeDir: unix.S_IFDIR, 0: unix.S_IFREG, fs.ModeSymlink: unix.S_IFLNK, fs.ModeSocket: unix.S_IFSOCK, fs.ModeNamedPipe: unix.S_IFIFO,
		fs.ModeDevice: unix.S_IFBLK, fs.ModeDevice | fs.ModeCharDevice: unix.S_IFCHR,
	}
	return Identity{device, inode, of[kind]}
}

// here is the directory that the child is in, for calls that take a descriptor.
func here() argument { return number(^uintptr(0) - 99) } // AT_FDCWD is -100

// Clone makes a mount of what is at path, whose last component is not followed, with the
// mounts beneath it when deep (open_tree(2), Linux 5.2). Until it is attached it goes away
// when it is closed.
func (p *Program) Clone(path string, deep bool) Value {
	flags := unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	return p.value(unix.SYS_OPEN_TREE, here(), p.string(path), number(flags))
}

// CloneBeneath is Clone of a path relative to an attached mount.
func (p *Program) CloneBeneath(mount Value, path string) Value {
	return p.value(unix.SYS_OPEN_TREE, mount.argument(), p.string(path), number(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW))
}

// CloneOf makes a mount of what a descriptor stands for, with the mounts beneath it. It
// must belong to a mount that is attached.
func (p *Program) CloneOf(place Value) Value {
	return p.value(unix.SYS_OPEN_TREE, place.argument(), p.string(""), number(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE))
}

// New makes a mount of a new filesystem of a kind, such as tmpfs, with options such as
// "mode", "0755" (fsopen(2), fsconfig(2), fsmount(2), Linux 5.2).
func (p *Program) New(kind string, attributes int, options ...[2]string) Value {
	context := p.value(unix.SYS_FSOPEN, p.string(kind), number(unix.FSOPEN_CLOEXEC))
	for _, o := range options {
		p.call(unix.SYS_FSCONFIG, context.argument(), number(unix.FSCONFIG_SET_STRING), p.string(o[0]), p.string(o[1]), zero())
	}
	p.call(unix.SYS_FSCONFIG, context.argument(), number(unix.FSCONFIG_CMD_CREATE), zero(), zero(), zero())
	mount := p.value(unix.SYS_FSMOUNT, context.argument(), number(unix.FSMOUNT_CLOEXEC), number(attributes))
	p.Close(context)
	return mount
}

// Set adds attributes to a mount, and to those beneath it when deep (mount_setattr(2),
// Linux 5.12).
func (p *Program) Set(mount Value, attributes uint64, deep bool) {
	attr, ok := p.attributes[attributes]
	if !ok {
		attr = pointer(p, &unix.MountAttr{Attr_set: attributes})
		p.attributes[attributes] = attr
	}
	flags := unix.AT_EMPTY_PATH
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	p.call(unix.SYS_MOUNT_SETATTR, mount.argument(), p.string(""), number(flags), attr, number(unix.MOUNT_ATTR_SIZE_VER0))
}

// Match fails with ESTALE when a descriptor stands for another file than the one meant.
func (p *Program) Match(fd Value, meant Identity) {
	p.call(unix.SYS_FSTAT, fd.argument(), number(uintptr(unsafe.Pointer(&p.found))))
	p.call(doMatch, number(meant.Device), number(meant.Inode), number(meant.kind))
}

// Attach puts a mount over what is at a path relative to another mount, which nobody else
// can change (move_mount(2), Linux 5.2).
func (p *Program) Attach(mount, at Value, path string) {
	p.call(unix.SYS_MOVE_MOUNT, mount.argument(), p.string(""), at.argument(), p.string(path), number(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// AttachAt puts a mount over what a descriptor stands for.
func (p *Program) AttachAt(mount, place Value) {
	p.call(unix.SYS_MOVE_MOUNT, mount.argument(), p.string(""), place.argument(), p.string(""), number(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
}

// AttachAtRoot puts a mount over the root, which stays what it is to processes that are
// in it.
func (p *Program) AttachAtRoot(mount Value) {
	p.call(unix.SYS_MOVE_MOUNT, mount.argument(), p.string(""), here(), p.string("/"), number(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// Beneath opens what is at a path relative to a mount, as a place and not for reading, and
// never by way of a link or out of it (openat2(2), Linux 5.6).
func (p *Program) Beneath(mount Value, path string) Value {
	if p.beneath == zero() {
		p.beneath = pointer(p, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
	}
	return p.value(unix.SYS_OPENAT2, mount.argument(), p.string(path), p.beneath, number(unix.SizeofOpenHow))
}

// MakeDirectory makes a directory, at a path relative to a mount that nobody else can
// change, with exactly these permission bits.
func (p *Program) MakeDirectory(mount Value, path string, mode uint32) {
	p.call(unix.SYS_MKDIRAT, mount.argument(), p.string(path), number(mode))
}

// MakeFile makes an empty file without any permission, as MakeDirectory does.
func (p *Program) MakeFile(mount Value, path string) {
	p.call(unix.SYS_MKNODAT, mount.argument(), p.string(path), number(unix.S_IFREG), zero())
}

// WriteFile makes a file with exactly these permission bits and what is to be in it, as
// MakeDirectory does.
func (p *Program) WriteFile(mount Value, path string, mode uint32, text []byte) {
	file := p.value(unix.SYS_OPENAT, mount.argument(), p.string(path), number(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC), number(mode))
	if len(text) > 0 {
		// A filesystem that is full takes what it can, and says how much that is.
		written := p.value(unix.SYS_WRITE, file.argument(), elements(p, text), number(len(text)))
		p.call(doWritten, written.argument(), number(len(text)))
	}
	p.Close(file)
}

// MakeLink makes a symbolic link, as MakeDirectory does.
func (p *Program) MakeLink(mount Value, path, target string) {
	p.call(unix.SYS_SYMLINKAT, p.string(target), mount.argument(), p.string(path))
}

// NoMask has new files get exactly the permission bits that are asked for, until the
// mask that is returned is set again.
func (p *Program) NoMask() Value { return p.value(unix.SYS_UMASK, zero()) }

// Mask sets the mask of permission bits of new files.
func (p *Program) Mask(mask Value) { p.call(unix.SYS_UMASK, mask.argument()) }

// Unshare has the child go on in new namespaces (unshare(2)). A new network takes half a
// millisecond, in which the launcher need not wait.
func (p *Program) Unshare(kinds uintptr) { p.call(unix.SYS_UNSHARE, number(kinds)) }

// Private keeps changes of mounts in this namespace to itself, and those of others out.
func (p *Program) Private() {
	p.call(unix.SYS_MOUNT, zero(), p.string("/"), zero(), number(unix.MS_REC|unix.MS_PRIVATE), zero())
}

// Enter makes a mount, which must be attached, the root of the process and of its
// namespace, and lets go of the old root with everything over and beneath it
// (pivot_root(2)).
func (p *Program) Enter(mount Value) {
	old := p.value(unix.SYS_OPENAT, here(), p.string("/"), number(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), zero())
	p.call(unix.SYS_FCHDIR, mount.argument())
	dot := p.string(".")
	p.call(unix.SYS_PIVOT_ROOT, dot, dot)
	// The old root now lies over the new one; only from inside can it be named.
	p.call(unix.SYS_FCHDIR, old.argument())
	// Each call takes the topmost of what is mounted there; the last takes the old root
	// itself, and then "." is no mount of this namespace any more (EINVAL).
	detach := p.call(unix.SYS_UMOUNT2, dot, number(unix.MNT_DETACH))
	detach.repeat, detach.tolerated = true, unix.EINVAL
	p.Close(old)
	p.Chdir("/")
	// What is mounted over the root is not seen by its name, but by "..".
	p.call(unix.SYS_FSTAT, mount.argument(), number(uintptr(unsafe.Pointer(&p.other))))
	above := p.value(unix.SYS_OPENAT, here(), p.string("/.."), number(unix.O_PATH|unix.O_CLOEXEC), zero())
	p.call(unix.SYS_FSTAT, above.argument(), number(uintptr(unsafe.Pointer(&p.found))))
	p.call(doSame)
	p.Close(above)
}

// Chdir goes to a directory.
func (p *Program) Chdir(path string) { p.call(unix.SYS_CHDIR, p.string(path)) }
