//go:build amd64 || arm64

package warden

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"maelys.dev/maelys/internal/linux"
	"maelys.dev/maelys/plan"
)

// namespaceKinds are the namespaces of a command that has no network.
const namespaceKinds = linux.NamespaceUser | linux.NamespaceMount | linux.NamespacePID | linux.NamespaceNet |
	linux.NamespaceIPC | linux.NamespaceUTS | linux.NamespaceCgroup

// forkedInto are the namespaces that the child is forked into; the others it makes itself.
const forkedInto = linux.NamespaceUser | linux.NamespacePID

// beginNamespaces lays out what the child does whatever the plan, while that is being
// worked out.
func beginNamespaces(run *linux.Program, kinds uintptr) error {
	run.Unshare(kinds &^ forkedInto)
	run.Step("preparing the namespaces")
	run.Private()
	if kinds&linux.NamespaceNet != 0 {
		return run.LoopbackUp()
	}
	return nil
}

// inNamespaces lays out a launch with everything. The child is told to go on with what
// there is when that is enough to do until the rest is laid out.
func inNamespaces(run *linux.Program, goOn func() error, mask linux.Value, p *plan.Plan, c *Command, m *mediation, files []file, abi int) error {
	steps, err := layout(p, entriesOf)
	if err != nil {
		return err
	}
	if m != nil {
		run.Step("listening for destinations")
		if err := m.listen(run); err != nil {
			return err
		}
	}
	run.Step("handing over descriptors")
	run.Files(descriptors(files))
	run.Step("making the root")
	b := builder{run: run, rules: run.Ruleset(abi, true), made: map[string]bool{"/": true}, texts: m.texts(p)}
	b.build(steps)
	if err := goOn(); err != nil {
		return err
	}
	run.Step("entering the root")
	run.Enter(b.root)
	run.Close(b.root)
	b.permitFiles(files)
	run.Step("giving up capabilities")
	run.Undumpable()
	if err := run.Renounce(true); err != nil {
		return err
	}
	return finish(run, c, b.rules, mask, linux.Surroundings{Scoped: abi >= linux.LandlockScopes})
}

// finish adds what the command does itself, until it is started.
func finish(run *linux.Program, c *Command, rules linux.Ruleset, mask linux.Value, s linux.Surroundings) error {
	run.Step("becoming the init")
	run.StayBehind()
	run.Step("confining by Landlock")
	run.Orphan()
	run.Restrict(rules)
	run.Step("going to the directory")
	run.About(c.Dir)
	run.Chdir(c.Dir)
	run.Mask(mask)
	if err := run.Reset(); err != nil {
		return err
	}
	run.Step("refusing system calls")
	if err := run.RefuseCalls(s); err != nil {
		return err
	}
	run.Step(StepStart)
	run.About(c.Path)
	run.Exec(c.Path, c.Args, c.Env)
	return nil
}

// initialUsers is the user namespace that a host starts with, in which everybody is: its number
// is the same everywhere (PROC_USER_INIT_INO).
const initialUsers = "user:[4026531837]"

// users maps each user and group to itself: all that there are for root, who may, and
// the own ones for everybody else.
func users() (linux.Mapping, error) {
	if os.Geteuid() != 0 {
		line := func(id int) string { return fmt.Sprintf("%d %d 1\n", id, id) }
		return linux.Mapping{Users: line(os.Geteuid()), Groups: line(os.Getegid())}, nil
	}
	in := linux.Mapping{KeepGroups: true}
	if ns, err := os.Readlink("/proc/self/ns/user"); err == nil && ns == initialUsers {
		in.Users, in.Groups = "0 0 4294967295\n", "0 0 4294967295\n"
		return in, nil
	}
	for _, file := range []struct {
		name  string
		lines *string
	}{{"/proc/self/uid_map", &in.Users}, {"/proc/self/gid_map", &in.Groups}} {
		text, err := linux.ReadProc(file.name)
		if err != nil {
			return in, fmt.Errorf("finding out the users of this host: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			ids := strings.Fields(line) // from, to, how many
			if len(ids) != 3 {
				return in, fmt.Errorf("%s: expected three numbers, found %q", file.name, line)
			}
			*file.lines += ids[0] + " " + ids[0] + " " + ids[2] + "\n"
		}
	}
	return in, nil
}

// entriesOf reads a directory of the host.
func entriesOf(dir string) ([]entry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading a directory whose entries are granted without it: %w", err)
	}
	var all []entry
	for _, d := range list {
		name := filepath.Join(dir, d.Name())
		info, err := os.Lstat(name)
		if err != nil {
			return nil, fmt.Errorf("reading a directory whose entries are granted without it: %w", err)
		}
		e := entry{Name: d.Name()}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			e.Identity = plan.Identity{Device: st.Dev, Inode: st.Ino, Type: info.Mode().Type()}
		}
		if e.Identity.Type == fs.ModeSymlink {
			if e.Target, err = os.Readlink(name); err != nil {
				return nil, fmt.Errorf("reading a directory whose entries are granted without it: %w", err)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// A builder adds to a program what makes the root of a command.
type builder struct {
	run     *linux.Program
	rules   linux.Ruleset // which permits what is granted once more
	root    linux.Value
	sources linux.Value     // what masks and files of the sandbox's own are cloned from
	made    map[string]bool // what exists in directories of the sandbox's own
	open    []string        // those of them that may be written
	shut    []linux.Value   // to become read-only when all is made

	texts map[string][]byte // of files of the sandbox's own, by their paths
}

// build follows the steps of a layout. The root is attached then, and yet to be entered.
func (b *builder) build(steps []step) {
	run := b.run
	own := len(steps) == 0 || steps[0].Path != "/" || steps[0].Action != bindMount
	switch {
	case !own:
		b.root = b.host(steps[0])
		steps = steps[1:]
	default:
		// A directory that is there only to hold what is granted in it may be passed, and
		// not listed.
		mode, listed := "0111", false
		if len(steps) > 0 && steps[0].Path == "/" { // apart from its entries, which follow
			listed = steps[0].Action == listing
			steps = steps[1:]
		}
		if listed {
			mode = "0555"
		}
		b.root = run.New("tmpfs", linux.NoSetuid|linux.NoDevices, [2]string{"mode", mode}, [2]string{"size", "64m"})
		if listed {
			run.Permit(b.rules, b.root, linux.OnlyList)
		}
	}
	// What mounts are cloned from comes over the old root only when that has been cloned, or
	// it would come along.
	masked := slices.ContainsFunc(steps, func(s step) bool { return s.Action == maskMount })
	if masked || slices.ContainsFunc(steps, func(s step) bool { return s.Action == ownFile }) {
		b.makeSources(masked, steps)
	}
	run.AttachAtRoot(b.root)
	for i, s := range steps {
		run.About(s.Path)
		b.step(i, s)
	}
	run.About("")
	for _, m := range b.shut {
		run.Set(m, linux.ReadOnly, false)
		run.Close(m)
	}
	if own {
		run.Set(b.root, linux.ReadOnly, false)
	}
}

func (b *builder) step(i int, s step) {
	run := b.run
	switch s.Action {
	case makeDirectory:
		b.parents(s.Path + "/x")
	case makeLink:
		if !b.made[s.Path] {
			b.parents(s.Path)
			run.MakeLink(b.root, relative(s.Path), s.Target)
			b.made[s.Path] = true
		}
	case bindMount:
		m := b.host(s)
		b.attach(m, s, s.Identity.Type == fs.ModeDir)
		run.Close(m)
	case pinMount:
		place := run.Beneath(b.root, relative(s.Path))
		m := run.CloneOf(place)
		run.AttachAt(m, place)
		run.Close(m)
		run.Close(place)
	case maskMount:
		name := maskedFile
		if s.Identity.Type == fs.ModeDir {
			name = maskedDirectory
		}
		m := run.CloneBeneath(b.sources, name)
		b.attach(m, s, s.Identity.Type == fs.ModeDir)
		run.Close(m)
	case ownFile:
		m := run.CloneBeneath(b.sources, ownName(i))
		b.attach(m, s, false)
		run.Permit(b.rules, m, linux.ReadFile)
		run.Close(m)
	case ownMount:
		m := b.own(s)
		b.attach(m, s, true)
		if s.Writable {
			b.open = append(b.open, s.Path)
			run.Close(m)
		} else {
			b.shut = append(b.shut, m) // its own entries come first
		}
	case ownDevice:
		m := run.Clone(s.Path, false)
		run.Set(m, linux.NoSetuid|linux.NoExecutable, false)
		b.attach(m, s, false)
		run.Permit(b.rules, m, linux.WriteFile)
		run.Close(m)
	case listing, closedMount:
		// Without capabilities the owner of a directory is held to its bits too, and a
		// read-only mount keeps them.
		mode, rights := "0555", linux.OnlyList
		if s.Action == closedMount {
			mode, rights = "0111", 0
		}
		m := run.New("tmpfs", linux.NoSetuid|linux.NoDevices, [2]string{"mode", mode}, [2]string{"size", "4m"})
		b.attach(m, s, true)
		if rights != 0 {
			run.Permit(b.rules, m, rights)
		}
		b.shut = append(b.shut, m)
	}
}

// host returns a mount of what the host has at a path, which fails when that is not what
// the plan was made for.
func (b *builder) host(s step) linux.Value {
	b.run.About(s.Path)
	directory := s.Identity.Type == fs.ModeDir
	m := b.run.Clone(s.Path, s.Deep)
	b.run.Match(m, identity(s.Identity))
	attributes, rights := uint64(linux.NoSetuid|linux.NoDevices), linux.ReadFile
	switch {
	case !s.Writable:
		attributes |= linux.ReadOnly
		if directory {
			rights = linux.ReadBeneath
		}
	case directory:
		rights = linux.WriteBeneath
	default:
		rights = linux.WriteFile
	}
	b.run.Set(m, attributes, s.Deep)
	b.run.Permit(b.rules, m, rights)
	return m
}

func identity(i plan.Identity) linux.Identity { return linux.NewIdentity(i.Device, i.Inode, i.Type) }

// attach puts a mount at the path of a step, and makes the place where there is none.
func (b *builder) attach(m linux.Value, s step, directory bool) {
	if s.Hosted {
		// Others may be changing what the host has: no link may have come to be on the way,
		// and what is covered must be what is meant to be.
		place := b.run.Beneath(b.root, relative(s.Path))
		if s.Identity.Inode != 0 {
			b.run.Match(place, identity(s.Identity))
		}
		b.run.AttachAt(m, place)
		b.run.Close(place)
		b.made[s.Path] = true
		return
	}
	switch {
	case b.made[s.Path]:
	case directory:
		b.parents(s.Path + "/x")
	default:
		b.parents(s.Path)
		b.run.MakeFile(b.root, relative(s.Path))
	}
	b.made[s.Path] = true
	b.run.Attach(m, b.root, relative(s.Path))
}

// parents makes the directories above a path that are not there. Nearest the root are
// what the host has, mounts, or made already.
func (b *builder) parents(name string) {
	dir := path.Dir(name)
	if b.made[dir] {
		return
	}
	b.parents(dir)
	mode := uint32(0o111)
	if slices.ContainsFunc(b.open, func(own string) bool { return strings.HasPrefix(dir, own+"/") }) {
		mode = 0o755
	}
	b.run.MakeDirectory(b.root, relative(dir), mode)
	b.made[dir] = true
}

func relative(name string) string { return strings.TrimPrefix(name, "/") }

// The masks: what they show has no permission bits, and the mount is read-only, so that
// its owner too can only look at it from outside.
const (
	maskedDirectory = "directory"
	maskedFile      = "file"
)

// ownName is what the file of a step is called among the sources.
func ownName(index int) string { return strconv.Itoa(index) }

// makeSources puts what denied paths show, and the files of the sandbox's own, over the old
// root, where they can be cloned from.
func (b *builder) makeSources(masked bool, steps []step) {
	const (
		attributes = linux.NoSetuid | linux.NoDevices | linux.NoExecutable
		page       = 64 << 10 // of the largest kind, so that each file has room
	)
	size := page
	for _, s := range steps {
		if s.Action == ownFile {
			size += len(b.texts[s.Path]) + page
		}
	}
	b.sources = b.run.New("tmpfs", attributes, [2]string{"mode", "0755"}, [2]string{"size", strconv.Itoa(size)})
	b.run.AttachAtRoot(b.sources)
	if masked {
		b.run.MakeDirectory(b.sources, maskedDirectory, 0)
		b.run.MakeFile(b.sources, maskedFile)
	}
	for i, s := range steps {
		if s.Action == ownFile {
			b.run.WriteFile(b.sources, ownName(i), 0o444, b.texts[s.Path])
		}
	}
	b.run.Set(b.sources, linux.ReadOnly, false)
}

// own makes a directory that the sandbox has of its own.
func (b *builder) own(s step) linux.Value {
	const plain = linux.NoSetuid | linux.NoDevices
	var m linux.Value
	switch s.Path {
	case "/proc":
		// What changes the kernel by files there belongs to root, whom the command may be.
		// The init has the command line of the launcher, which anybody may read who sees it.
		m = b.run.New("proc", plain|linux.NoExecutable|linux.ReadOnly, [2]string{"hidepid", "ptraceable"})
	case "/dev/pts":
		m = b.run.New("devpts", linux.NoSetuid|linux.NoExecutable, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"})
	case "/dev":
		m = b.run.New("tmpfs", plain|linux.NoExecutable, [2]string{"mode", "0755"}, [2]string{"size", "64k"})
	default:
		m = b.run.New("tmpfs", plain, [2]string{"mode", "1777"})
	}
	rights := linux.ReadBeneath
	if s.Writable {
		rights = linux.WriteBeneath
	}
	b.run.Permit(b.rules, m, rights)
	return m
}

// permitFiles has Landlock permit what descriptors of the command already can, so that
// /dev/stdout and the like can be opened again, and no more.
func (b *builder) permitFiles(files []file) {
	b.run.Step("permitting descriptors")
	for _, f := range files {
		b.run.PermitFile(b.rules, f.Number, f.rights)
	}
}
