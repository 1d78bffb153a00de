//go:build amd64 || arm64

package warden

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"

	"maelys.dev/maelys/internal/linux"
)

// A file is an open file that the command gets.
type file struct {
	linux.File
	rights linux.Rights // what can be done with it already
}

func descriptors(files []file) []linux.File {
	var all []linux.File
	for _, f := range files {
		all = append(all, f.File)
	}
	return all
}

// openFiles returns the descriptors of a command.
func (c *Command) openFiles() (files []file, err error) {
	all := map[int]*os.File{0: c.Stdin, 1: c.Stdout, 2: c.Stderr}
	for number, f := range c.Files {
		if number <= 2 || f == nil {
			err = errors.Join(err, fmt.Errorf("descriptor %d cannot be handed over as a further one: expected an open file and a number above 2", number))
		}
		all[number] = f
	}
	for _, number := range slices.Sorted(maps.Keys(all)) {
		if all[number] == nil {
			files = append(files, file{linux.File{Fd: -1, Number: number}, linux.OnlyRead | linux.OnlyWrite})
			continue
		}
		fd := int(all[number].Fd())
		rights, failed := mayBe(fd)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("descriptor %d: %w", number, failed))
		}
		files = append(files, file{linux.File{Fd: fd, Number: number}, rights})
	}
	return files, err
}

// mayBe returns what can be done with a descriptor, or why it would lead out.
func mayBe(fd int) (linux.Rights, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("it is not open: %w", err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return 0, errors.New("it is a directory, by which the command would reach what is beneath and above it: hand over a file or a pipe")
	case syscall.S_IFBLK:
		return 0, errors.New("it is a block device: hand over a file or a pipe")
	}
	flags, err := linux.OpenFlags(fd)
	if err != nil {
		return 0, err
	}
	switch {
	case flags&linux.OpenPath != 0:
		return 0, errors.New("it stands for a place (O_PATH) and is open for nothing: open it for reading or writing")
	case flags&syscall.O_ACCMODE == syscall.O_RDONLY:
		return linux.OnlyRead, nil
	case flags&syscall.O_ACCMODE == syscall.O_WRONLY:
		return linux.OnlyWrite, nil
	}
	return linux.OnlyRead | linux.OnlyWrite, nil
}
