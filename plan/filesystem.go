package plan

import (
	"fmt"
	"io"
	"io/fs"
)

// A Filesystem is how this package sees a host. Paths are absolute, begin with a
// slash, and are bytes: they need not be valid UTF-8. A Filesystem need not follow
// symbolic links; this package does that itself, one component at a time, so that
// it sees each link it passes.
//
// Errors must satisfy [errors.Is] with [fs.ErrNotExist] exactly when there is no
// such entry.
type Filesystem interface {
	// Lstat describes the entry at path, and a symbolic link there as a link.
	Lstat(path string) (Entry, error)
	// Readlink returns what the symbolic link at path holds.
	Readlink(path string) (string, error)
	// Open opens the regular file at path for reading.
	Open(path string) (File, error)
}

// A File is an open file of a [Filesystem].
type File interface {
	io.ReaderAt
	io.Closer
}

// An Entry is what a [Filesystem] knows of one path.
type Entry struct {
	Identity
	Mode  fs.FileMode // permission bits and type
	Links uint64      // number of hard links
	Size  int64       // bytes of a regular file
}

// An Identity is what a path names, whatever it is called: two paths of one
// identity are one file. It tells whether a path still names what it did.
type Identity struct {
	Device, Inode uint64
	Type          fs.FileMode // type bits only
}

// String returns i for people.
func (i Identity) String() string {
	return fmt.Sprintf("%s %d:%d", i.kind(), i.Device, i.Inode)
}

// kind names the type of file that i is.
func (i Identity) kind() string {
	switch {
	case i.Type == 0:
		return "file"
	case i.Type == fs.ModeDir:
		return "directory"
	case i.Type == fs.ModeSymlink:
		return "symlink"
	case i.Type&fs.ModeCharDevice != 0:
		return "character device"
	case i.Type&fs.ModeDevice != 0:
		return "block device"
	case i.Type == fs.ModeNamedPipe:
		return "fifo"
	case i.Type == fs.ModeSocket:
		return "socket"
	}
	return "other"
}
