package host

import (
	"os"
	"runtime"
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
		Root:                os.Geteuid() == 0,
		MaxUserNamespaces:   setting("user/max_user_namespaces"),
		UnprivilegedClone:   setting("kernel/unprivileged_userns_clone"),
		AppArmorRestriction: setting("kernel/apparmor_restrict_unprivileged_userns"),
		Modules:             modules(),
		Filtered:            filtered(),
		Seccomp:             linux.SeccompFilter(),
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
