//go:build unix

package corpus

import (
	"os"
	"syscall"
	"testing"
)

// Plant makes the tree of a case in a directory.
func Plant(t *testing.T, c Case, root string) {
	t.Helper()
	for _, n := range c.Tree {
		name := At(root, n.Name)
		var err error
		switch n.Kind {
		case "dir":
			err = os.Mkdir(name, 0o755)
		case "locked":
			err = os.Mkdir(name, 0)
		case "file":
			err = os.WriteFile(name, []byte(n.Name), 0o600)
		case "link":
			err = os.Symlink(Fill(root, n.Target), name)
		case "hard":
			err = os.Link(At(root, n.Target), name)
		case "fifo":
			err = syscall.Mkfifo(name, 0o600)
		default:
			t.Fatalf("no way to make a %s", n.Kind)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
