package warden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/plan"
)

// A builder makes the root of a command in a mount namespace of its own.
type builder struct {
	root  *linux.Mount
	inner *os.Root // what root shows
	masks *linux.Mount
	shut  []*linux.Mount // to become read-only when all is made
	open  []string       // directories of the sandbox's own that may be written
}

// build follows the steps of a layout. The mount that it returns is attached; the
// caller enters it.
func build(steps []step) (root *linux.Mount, err error) {
	if err := linux.Private(); err != nil {
		return nil, fmt.Errorf("keeping mounts to this namespace: %w", err)
	}
	slash, err := linux.Beneath(linux.Here, ".")
	if err != nil {
		return nil, fmt.Errorf("opening the old root: %w", err)
	}
	defer linux.CloseFd(slash)
	b := builder{}
	own := len(steps) == 0 || steps[0].Path != "/" || steps[0].Action != bindMount
	if !own {
		b.root, err = b.host(steps[0])
		steps = steps[1:]
	} else {
		b.root, err = linux.New("tmpfs", linux.NoSetuid|linux.NoDevices, [2]string{"mode", "0111"}, [2]string{"size", "16m"})
	}
	if err != nil {
		return nil, fmt.Errorf("making the root: %w", err)
	}
	// The masks come over the old root only when it has been cloned, or they would come
	// along.
	if err := b.makeMasks(slash); err != nil {
		return nil, fmt.Errorf("making masks: %w", err)
	}
	if err := b.root.Attach(slash); err != nil {
		return nil, fmt.Errorf("attaching the root: %w", err)
	}
	if b.inner, err = inside(b.root); err != nil {
		return nil, fmt.Errorf("opening the root: %w", err)
	}
	defer b.inner.Close()
	for _, s := range steps {
		if err := b.step(s); err != nil {
			return nil, fmt.Errorf("making %q: %w", s.Path, err)
		}
	}
	for _, m := range b.shut {
		if err := m.Set(linux.ReadOnly, false); err != nil {
			return nil, fmt.Errorf("making a directory of the sandbox's own read-only: %w", err)
		}
		m.Close()
	}
	if own {
		if err := b.root.Set(linux.ReadOnly, false); err != nil {
			return nil, fmt.Errorf("making the root read-only: %w", err)
		}
	}
	return b.root, nil
}

// inside opens what a mount shows, for names that stay in it.
func inside(m *linux.Mount) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", m.Fd()))
}

func (b *builder) step(s step) error {
	switch s.Action {
	case makeDirectory:
		return b.makeDirectory(s.Path)
	case makeLink:
		if err := b.makeDirectory(path.Dir(s.Path)); err != nil {
			return err
		}
		if err := b.inner.Symlink(s.Target, relative(s.Path)); !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.EROFS) {
			return err
		}
		return nil
	case bindMount:
		m, err := b.host(s)
		if err != nil {
			return err
		}
		return b.mount(m, s.Path, s.Identity.Type == fs.ModeDir)
	case pinMount:
		place, err := linux.Beneath(b.root.Fd(), relative(s.Path))
		if err != nil {
			return err
		}
		defer linux.CloseFd(place)
		m, err := linux.CloneOf(place)
		if err != nil {
			return err
		}
		defer m.Close()
		return m.Attach(place)
	case maskMount:
		m, err := b.mask(s.Identity.Type == fs.ModeDir)
		if err != nil {
			return err
		}
		return b.mount(m, s.Path, s.Identity.Type == fs.ModeDir)
	case ownMount:
		return b.own(s)
	case ownDevice:
		m, err := linux.Clone(s.Path, false)
		if err != nil {
			return err
		}
		if err := m.Set(linux.NoSetuid|linux.NoExecutable, false); err != nil {
			return err
		}
		return b.mount(m, s.Path, false)
	}
	return fmt.Errorf("unknown step %d", s.Action)
}

// host returns a mount of what the host has at a path, if that is still what the plan
// was made for.
func (b *builder) host(s step) (*linux.Mount, error) {
	m, err := linux.Clone(s.Path, s.Deep)
	if err != nil {
		return nil, err
	}
	now, err := m.Identity()
	if err == nil && now != (linux.Identity{Device: s.Identity.Device, Inode: s.Identity.Inode, Type: s.Identity.Type}) {
		err = fmt.Errorf("expected %s, which was there at resolution, found another: %w", s.Identity, errChanged)
	}
	if err == nil {
		attributes := uint64(linux.NoSetuid | linux.NoDevices)
		if !s.Writable {
			attributes |= linux.ReadOnly
		}
		err = m.Set(attributes, s.Deep)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

var errChanged = &plan.Error{Code: plan.CodeChanged, Rule: -1, Message: "the path was replaced"}

// mount attaches a mount at a path, and makes the place where there is none.
func (b *builder) mount(m *linux.Mount, name string, directory bool) error {
	defer m.Close()
	return b.attach(m, name, directory)
}

func (b *builder) attach(m *linux.Mount, name string, directory bool) error {
	place, err := linux.Beneath(b.root.Fd(), relative(name))
	if errors.Is(err, fs.ErrNotExist) {
		if directory {
			err = b.makeDirectory(name)
		} else {
			err = b.makeFile(name)
		}
		if err == nil {
			place, err = linux.Beneath(b.root.Fd(), relative(name))
		}
	}
	if err != nil {
		return err
	}
	defer linux.CloseFd(place)
	return m.Attach(place)
}

func (b *builder) makeDirectory(name string) error {
	if name == "/" {
		return nil
	}
	// A directory that is there only to hold what is granted in it may be passed, and not
	// listed: without capabilities its owner is held to that too.
	mode := fs.FileMode(0o111)
	if slices.ContainsFunc(b.open, func(own string) bool { return strings.HasPrefix(name, own+"/") }) {
		mode = 0o755
	}
	err := b.inner.MkdirAll(relative(name), mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (b *builder) makeFile(name string) error {
	if err := b.makeDirectory(path.Dir(name)); err != nil {
		return err
	}
	file, err := b.inner.OpenFile(relative(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

func relative(name string) string { return strings.TrimPrefix(name, "/") }

// The masks: what they show has no permission bits, and the mount is read-only, so that
// its owner too can only look at it from outside.
const (
	maskedDirectory = "directory"
	maskedFile      = "file"
)

// makeMasks puts what denied paths show over the old root, where it can be cloned from.
func (b *builder) makeMasks(slash int) error {
	const attributes = linux.NoSetuid | linux.NoDevices | linux.NoExecutable
	masks, err := linux.New("tmpfs", attributes, [2]string{"mode", "0755"}, [2]string{"size", "16k"})
	if err != nil {
		return err
	}
	if err := masks.Attach(slash); err != nil {
		return err
	}
	in, err := inside(masks)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.Mkdir(maskedDirectory, 0); err != nil {
		return err
	}
	file, err := in.OpenFile(maskedFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b.masks = masks
	return errors.Join(file.Close(), masks.Set(linux.ReadOnly, false))
}

// mask returns a mount of what is seen in the place of a denied path.
func (b *builder) mask(directory bool) (*linux.Mount, error) {
	name := maskedFile
	if directory {
		name = maskedDirectory
	}
	place, err := linux.Beneath(b.masks.Fd(), name)
	if err != nil {
		return nil, err
	}
	defer linux.CloseFd(place)
	return linux.CloneOf(place)
}

// own attaches a directory that the sandbox has of its own.
func (b *builder) own(s step) error {
	m, err := ownDirectory(s)
	if err != nil {
		return err
	}
	if err := b.attach(m, s.Path, true); err != nil {
		return err
	}
	if s.Writable {
		b.open = append(b.open, s.Path)
		return m.Close()
	}
	b.shut = append(b.shut, m) // its own entries come first
	return nil
}

// ownDirectory returns a mount of a directory that the sandbox has of its own.
func ownDirectory(s step) (*linux.Mount, error) {
	const plain = linux.NoSetuid | linux.NoDevices
	switch s.Path {
	case "/proc":
		// What changes the kernel by files there belongs to root, whom the command may be.
		return linux.New("proc", plain|linux.NoExecutable|linux.ReadOnly)
	case "/dev/pts":
		return linux.New("devpts", linux.NoSetuid|linux.NoExecutable, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"})
	case "/dev":
		return linux.New("tmpfs", linux.NoSetuid|linux.NoExecutable, [2]string{"mode", "0755"}, [2]string{"size", "64k"})
	}
	return linux.New("tmpfs", plain, [2]string{"mode", "1777"})
}
