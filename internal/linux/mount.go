//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Mount is a mount that is attached nowhere yet, or the place of one, by a descriptor.
// Until it is attached it goes away when it is closed.
type Mount struct{ file *os.File }

// Attributes of mounts (mount_setattr(2)).
const (
	ReadOnly     = unix.MOUNT_ATTR_RDONLY
	NoSetuid     = unix.MOUNT_ATTR_NOSUID
	NoDevices    = unix.MOUNT_ATTR_NODEV
	NoExecutable = unix.MOUNT_ATTR_NOEXEC
)

// Close gives up the descriptor.
func (m *Mount) Close() error { return m.file.Close() }

// Fd returns the descriptor, for calls that take a directory.
func (m *Mount) Fd() int { return int(m.file.Fd()) }

// Clone returns a mount of what is at path, whose last component is not followed, with
// the mounts beneath it when deep (open_tree(2), Linux 5.2).
func Clone(path string, deep bool) (*Mount, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW)
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	return &Mount{os.NewFile(uintptr(fd), path)}, nil
}

// New returns a mount of a new filesystem of a kind, such as tmpfs, with options such as
// "mode=0755" (fsopen(2), fsconfig(2), fsmount(2), Linux 5.2).
func New(kind string, attributes int, options ...[2]string) (*Mount, error) {
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen %s: %w", kind, err)
	}
	defer unix.Close(context)
	for _, o := range options {
		if err := unix.FsconfigSetString(context, o[0], o[1]); err != nil {
			return nil, fmt.Errorf("fsconfig %s of %s: %w", o[0], kind, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("fsconfig of %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return nil, fmt.Errorf("fsmount of %s: %w", kind, err)
	}
	return &Mount{os.NewFile(uintptr(fd), kind)}, nil
}

// Set adds attributes to the mount, and to those beneath it when deep (mount_setattr(2),
// Linux 5.12).
func (m *Mount) Set(attributes uint64, deep bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	if err := unix.MountSetattr(m.Fd(), "", flags, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// Attach puts the mount over what the descriptor at stands for (move_mount(2), Linux 5.2).
func (m *Mount) Attach(at int) error {
	if err := unix.MoveMount(m.Fd(), "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// CloneOf returns a mount of what a descriptor stands for, with the mounts beneath it.
// It must belong to a mount that is attached.
func CloneOf(at int) (*Mount, error) {
	fd, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	return &Mount{os.NewFile(uintptr(fd), "clone")}, nil
}

// An Identity is what a file is, whatever it is called.
type Identity struct {
	Device, Inode uint64
	Type          fs.FileMode // type bits only
}

// Identity returns what the mount shows at its root.
func (m *Mount) Identity() (Identity, error) {
	info, err := m.file.Stat()
	if err != nil {
		return Identity{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Identity{}, errors.ErrUnsupported
	}
	return Identity{st.Dev, st.Ino, info.Mode().Type()}, nil
}

// Here is the directory that this process is in, for calls that take a descriptor.
const Here = unix.AT_FDCWD

// CloseFd closes a descriptor that only stands for a place, where nothing can go wrong.
func CloseFd(fd int) { _ = unix.Close(fd) }

// Beneath opens what is at a relative path below a directory, as a place and not for
// reading, and never by way of a link or out of the directory (openat2(2), Linux 5.6).
func Beneath(dir int, path string) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
}

// Private keeps changes of mounts in this namespace to itself, and those of others out.
func Private() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

// Enter makes the mount, which must be attached, the root of this process and of its
// namespace, and lets go of the old root with everything over and beneath it
// (pivot_root(2)).
func (m *Mount) Enter() error {
	old, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the old root: %w", err)
	}
	defer CloseFd(old)
	if err := unix.Fchdir(m.Fd()); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	// The old root now lies over the new one; only from inside can it be named.
	if err := unix.Fchdir(old); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	// Each call takes the topmost of what is mounted there; the last takes the old root
	// itself, and then "." is no mount of this namespace any more (EINVAL).
	for {
		err := unix.Unmount(".", unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) {
			break
		}
		if err != nil {
			return fmt.Errorf("umount2: %w", err)
		}
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	// What is mounted over the root is not seen by its name, but by "..".
	var root, above unix.Stat_t
	if err := errors.Join(unix.Fstat(m.Fd(), &root), unix.Stat("/..", &above)); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if root.Dev != above.Dev || root.Ino != above.Ino {
		return errors.New("the old root is still mounted over the new one")
	}
	return nil
}
