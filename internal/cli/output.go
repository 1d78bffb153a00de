package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// output writes data to the named file for the verb's result, or returns why it
// could not. Neither of the inputs is overwritten.
func output(name string, data []byte, inputs ...string) *result {
	for _, in := range inputs {
		if sameFile(name, in) {
			return usagef("name another file with -o", "the output %s is the input", printable(name))
		}
	}
	if err := writeFile(name, data); err != nil {
		return unwritten(name, err)
	}
	return nil
}

func unwritten(name string, err error) *result {
	return failure(diagnostic{File: name, Code: codeUnwritable, Message: fmt.Sprintf("the file cannot be written: %v", err), exit: exitUsage})
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// writeFile writes data to the named file, whole or not at all: to a temporary
// file beside it, which is flushed to disk and then renamed. A file that exists
// keeps its mode, and a symbolic link is followed. What is no regular file, such
// as a pipe, and what /dev and /proc name, is written to as it is.
func writeFile(name string, data []byte) error {
	name, err := target(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a directory")
	case isStream(name), err == nil && !info.Mode().IsRegular():
		return appendTo(name, data)
	case err == nil:
		return replace(name, data, func(file *os.File) error {
			if err := file.Chmod(info.Mode().Perm()); err != nil {
				return err // before the old file is gone
			}
			return os.Rename(file.Name(), name)
		})
	case errors.Is(err, fs.ErrNotExist):
		return replace(name, data, func(file *os.File) error { return os.Rename(file.Name(), name) })
	}
	return cause(err)
}

// createFile is writeFile for a file that must not exist.
func createFile(name string, data []byte) error {
	if _, err := os.Lstat(name); err == nil {
		return fs.ErrExist
	}
	return replace(name, data, func(file *os.File) error {
		// A link fails where the name is taken, a rename would take it over.
		err := os.Link(file.Name(), name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return errors.Join(err, os.Remove(file.Name()))
		}
		// Some filesystems have no links: take the name first, then replace the file.
		taken, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		return errors.Join(taken.Close(), os.Rename(file.Name(), name))
	})
}

// replace writes data to a temporary file beside the named one, flushes it to disk
// and calls place, which must move it. A signal that ends the command meanwhile
// takes effect when the temporary file is in place or gone.
func replace(name string, data []byte, place func(*os.File) error) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, interrupts()...)
	defer func() {
		signal.Stop(interrupted)
		select {
		case s := <-interrupted:
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(s)
			}
		default:
		}
	}()
	temporary := filepath.Join(filepath.Dir(name), temporaryName())
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return cause(err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = place(file)
	}
	err = errors.Join(err, file.Close())
	if err != nil {
		_ = os.Remove(temporary) // it is gone already if the error came later
		return cause(err)
	}
	// The file is in place. Some filesystems cannot flush a directory, and then
	// nothing more can be done.
	if dir, err := os.Open(filepath.Dir(name)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// appendTo writes data to what is there, without replacing or cutting it: standard
// output may be a log that is being appended to.
func appendTo(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return cause(err)
	}
	_, err = file.Write(data)
	return cause(errors.Join(err, file.Close()))
}

// target follows the symbolic links at the end of name, also to a file that does
// not exist, but none that the kernel makes up.
func target(name string) (string, error) {
	const most = 40 // as many as Linux follows
	for range most {
		if isStream(name) {
			return name, nil
		}
		link, err := os.Readlink(name)
		if err != nil {
			return name, nil // not a link, or nothing there: the caller will see
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(name), link)
		}
		name = link
	}
	return "", errors.New("too many levels of symbolic links")
}

// isStream reports whether name is where the kernel shows open files and devices;
// the links there are not names to be replaced.
func isStream(name string) bool {
	absolute, err := filepath.Abs(name)
	return err == nil && (strings.HasPrefix(absolute, "/dev/") || strings.HasPrefix(absolute, "/proc/"))
}

// checksum returns a line that sha256sum -c accepts. As there, a name with a line
// break or a backslash is escaped, and the line then begins with a backslash.
func checksum(digest fmt.Stringer, name string) string {
	escaped := strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(name)
	mark := ""
	if escaped != name {
		mark = "\\"
	}
	return fmt.Sprintf("%s%s  %s\n", mark, digest, escaped)
}

// temporaryName returns a name that nobody has used, as far as chance can tell; it is taken
// only where there is none of it. A name that nobody could guess would be no safer.
func temporaryName() string { return fmt.Sprintf(".maelys-%016x.tmp", rand.Uint64()) }
