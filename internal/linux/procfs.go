//go:build linux

package linux

import (
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// ReadProc returns a file of /proc. Its size is not known before, and it does not block, so
// that os.ReadFile would make more calls to begin with small steps, and to ask the poller of
// the runtime, than it takes. The failure is an *[fs.PathError].
func ReadProc(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer CloseFd(fd)
	text := make([]byte, 0, 4<<10)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return text, nil
		default:
			text = slices.Grow(text[:len(text)+n], 1<<10)
		}
	}
}
