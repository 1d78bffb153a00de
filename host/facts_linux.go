package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"maelys.dev/maelys/internal/linux"
)

// Read returns the facts of this host. It makes namespaces for a moment, in which no
// program is started; nothing else of the host changes.
func Read() Facts {
	f := Facts{
		System:              runtime.GOOS,
		Release:             linux.Release(),
		Machine:             runtime.GOARCH,
		Root:                os.Geteuid() == 0,
		MaxUserNamespaces:   setting("user/max_user_namespaces"),
		UnprivilegedClone:   setting("kernel/unprivileged_userns_clone"),
		AppArmorRestriction: setting("kernel/apparmor_restrict_unprivileged_userns"),
		Modules:             modules(),
		Filtered:            filtered(),
		Seccomp:             linux.SeccompFilter(),
		CallsKnown:          linux.CallsKnown,
		MountCalls:          linux.MountCalls(),
		Proc:                proc(),
	}
	n := &f.Namespaces
	if n.User = linux.ProbeNamespaces(0); n.User == nil {
		n.Mount = linux.ProbeNamespaces(linux.NamespaceMount)
		n.PID = linux.ProbeNamespaces(linux.NamespacePID)
		n.Net = linux.ProbeNamespaces(linux.NamespaceNet)
		n.Others = linux.ProbeNamespaces(linux.NamespaceIPC | linux.NamespaceUTS | linux.NamespaceCgroup)
	}
	f.Landlock, f.LandlockError = linux.LandlockABI()
	return f
}

// proc returns why no procfs can be mounted in a user namespace, if none can.
func proc() error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	return uncovered(string(text))
}

// emptyInProc are directories of procfs that never have entries of their own: what is
// mounted there covers nothing.
var emptyInProc = []string{"/sys/fs/binfmt_misc", "/fs/nfsd", "/openprom", "/xen"}

// uncovered returns why, with the mounts of this text (proc_pid_mountinfo(5)), the kernel
// would have a new procfs reveal what is hidden, and refuse it: there must be one that
// nothing is mounted over (mount_namespaces(7)).
func uncovered(mountinfo string) error {
	type mount struct{ id, parent, root, at, kind string }
	var all []mount
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) == 0 {
			continue
		}
		all = append(all, mount{fields[0], fields[1], fields[3], fields[4], kind[0]})
	}
	err := errors.New("there is none on this host")
	for _, m := range all {
		if m.kind != "proc" || m.root != "/" {
			continue
		}
		i := slices.IndexFunc(all, func(over mount) bool {
			return over.parent == m.id && !slices.Contains(emptyInProc, strings.TrimPrefix(over.at, m.at))
		})
		if i < 0 {
			return nil
		}
		err = fmt.Errorf("something is mounted over %s", all[i].at)
	}
	return err
}

// setting returns a number below /proc/sys, -1 where there is none.
func setting(name string) int {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return n
}

// modules returns the security modules that the kernel lists, none where securityfs is
// not mounted.
func modules() []string {
	text, err := os.ReadFile("/sys/kernel/security/lsm")
	if err != nil {
		return nil
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' || r == '\n' })
}

// filtered reports whether a seccomp filter is around this process (proc(5), Linux 3.8).
func filtered() bool {
	text, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(text), "\nSeccomp:\t2")
}
