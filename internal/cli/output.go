package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeFile writes data to the named file, whole or not at all: to a temporary
// file beside it, which is flushed to disk and then renamed. A file that exists
// keeps its mode, and a symbolic link its target. What is no regular file, such as
// a pipe or /dev/stdout, is written to as it is.
func writeFile(name string, data []byte) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	mode := fs.FileMode(0o666)
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a directory")
	case err == nil && !info.Mode().IsRegular():
		return writeThrough(name, data)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return cause(err)
	}
	temporary := filepath.Join(filepath.Dir(name), ".maelys-"+rand.Text()+".tmp")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return cause(err)
	}
	_, err = file.Write(data)
	if err == nil && info != nil {
		err = file.Chmod(mode) // the umask does not apply to a file that was there
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		return cause(errors.Join(err, os.Remove(temporary)))
	}
	// The file is in place. Some filesystems cannot flush a directory, and then
	// nothing more can be done.
	if dir, err := os.Open(filepath.Dir(name)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

func writeThrough(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return cause(err)
	}
	_, err = file.Write(data)
	return cause(errors.Join(err, file.Close()))
}

// output writes data to the named file for the verb's result, or returns why it
// could not. Neither of the inputs is overwritten.
func output(name string, data []byte, inputs ...string) *result {
	for _, in := range inputs {
		if sameFile(name, in) {
			return usagef("name another file with -o", "the output %s is the input", name)
		}
	}
	if err := writeFile(name, data); err != nil {
		return failure(diagnostic{File: name, Code: codeUnwritable, Message: fmt.Sprintf("the file cannot be written: %v", err), exit: exitUsage})
	}
	return nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
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
