//go:build linux || darwin

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"maelys.dev/maelys/plan"
)

// Filesystem returns the filesystem of this machine, as this process sees it.
func Filesystem() plan.Filesystem { return filesystem{} }

type filesystem struct{}

// Lstat implements [plan.Filesystem].
func (filesystem) Lstat(path string) (plan.Entry, error) {
	var st syscall.Stat_t
	if err := again(func() error { return syscall.Lstat(path, &st) }); err != nil {
		return plan.Entry{}, translated(err)
	}
	return entryOf(&st), nil
}

// Readlink implements [plan.Filesystem].
func (filesystem) Readlink(path string) (string, error) {
	// A target has 4095 bytes at most on Linux; a size that is said may be 0 in procfs.
	for size := 256; ; size *= 4 {
		b := make([]byte, size)
		var n int
		err := again(func() (err error) { n, err = syscall.Readlink(path, b); return err })
		if err != nil {
			return "", translated(err)
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}

// Open implements [plan.Filesystem]. It opens nothing but regular files, and never
// waits: a path may have become a fifo or a device since it was looked at.
func (filesystem) Open(path string) (plan.File, error) {
	const flags = syscall.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_NOCTTY | syscall.O_CLOEXEC
	var fd int
	err := again(func() (err error) { fd, err = syscall.Open(path, flags, 0); return err })
	if err != nil {
		return nil, translated(err)
	}
	var st syscall.Stat_t
	if err := again(func() error { return syscall.Fstat(fd, &st) }); err != nil {
		_ = syscall.Close(fd) // nothing was written
		return nil, translated(err)
	}
	if kind := entryOf(&st).Type; kind != 0 {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("expected a regular file, found one of type %s", kind)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// again repeats a call that a signal has interrupted; some filesystems do not
// restart by themselves.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// translated adds the error of package plan that a failure of the kernel stands for.
func translated(err error) error {
	var means error
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		means = plan.ErrNotDirectory
	case errors.Is(err, syscall.ELOOP):
		means = plan.ErrLoop
	case errors.Is(err, syscall.ENAMETOOLONG):
		means = plan.ErrNameTooLong
	default:
		return err
	}
	return kernelError{err, means}
}

// A kernelError is an error of the kernel that package plan has a name for.
type kernelError struct{ kernel, means error }

func (e kernelError) Error() string   { return e.means.Error() }
func (e kernelError) Unwrap() []error { return []error{e.kernel, e.means} }

func entryOf(st *syscall.Stat_t) plan.Entry {
	mode := fs.FileMode(st.Mode & 0o777)
	for _, bit := range []struct {
		is   uint32
		mode fs.FileMode
	}{{syscall.S_ISUID, fs.ModeSetuid}, {syscall.S_ISGID, fs.ModeSetgid}, {syscall.S_ISVTX, fs.ModeSticky}} {
		if wide(st.Mode)&uint64(bit.is) != 0 {
			mode |= bit.mode
		}
	}
	kind := fs.ModeIrregular
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		kind = 0
	case syscall.S_IFDIR:
		kind = fs.ModeDir
	case syscall.S_IFLNK:
		kind = fs.ModeSymlink
	case syscall.S_IFCHR:
		kind = fs.ModeDevice | fs.ModeCharDevice
	case syscall.S_IFBLK:
		kind = fs.ModeDevice
	case syscall.S_IFIFO:
		kind = fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		kind = fs.ModeSocket
	}
	return plan.Entry{
		Identity: plan.Identity{Device: wide(st.Dev), Inode: wide(st.Ino), Type: kind},
		Mode:     mode | kind,
		Links:    wide(st.Nlink),
		Size:     st.Size,
	}
}

// wide is for the fields of Stat_t, whose types differ between systems.
func wide[T int32 | uint16 | uint32 | uint64](n T) uint64 { return uint64(n) }
