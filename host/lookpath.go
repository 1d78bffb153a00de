package host

import (
	"io/fs"
	"os"
	"strings"
)

// LookPath returns the path of the program called name in the first of dirs that has
// one, as execvp looks for it. Directories that are not absolute are passed over: what
// they mean depends on where a command is started. The error says that there is none
// ([fs.ErrNotExist]) or that what is there may not be executed ([fs.ErrPermission]).
func LookPath(name string, dirs []string) (string, error) {
	err := fs.ErrNotExist
	for _, dir := range dirs {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		path := strings.TrimRight(dir, "/") + "/" + name
		info, failed := os.Stat(path)
		switch {
		case failed != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			err = fs.ErrPermission
		default:
			return path, nil
		}
	}
	return "", err
}
