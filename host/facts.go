package host

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"maelys.dev/maelys/plan"
)

// Facts are what decides which capabilities a host can hold. The zero Facts are those
// of a host that can hold none.
type Facts struct {
	System  string // as in runtime.GOOS
	Release string // of the kernel
	Machine string // as in runtime.GOARCH
	Root    bool   // this process has user 0

	// Namespaces are why namespaces of a kind cannot be made; nil errors where they can.
	// User comes first: the others are made beneath it.
	Namespaces struct{ User, Mount, PID, Net, Others error }

	MountCalls error // why mounts cannot be made and changed by descriptors
	Proc       error // why no other procfs can be mounted

	// Settings of the kernel, -1 where it has none of the name.
	MaxUserNamespaces   int // user.max_user_namespaces
	UnprivilegedClone   int // kernel.unprivileged_userns_clone, of Debian's kernels
	AppArmorRestriction int // kernel.apparmor_restrict_unprivileged_userns, of Ubuntu's

	Modules []string // the security modules in force, where they can be known

	Filtered bool // a seccomp filter is around this process, as in most containers

	Landlock      int   // the version that is in force, 0 for none
	LandlockError error // why there is none
	Seccomp       error // why system calls cannot be filtered
	CallsKnown    bool  // the filter is written for this machine
}

// A Backend is a way of enforcing plans.
type Backend string

// The backends, the better one first.
const (
	Namespaces Backend = "namespaces" // namespaces, mounts, seccomp, and Landlock as one more layer
	Landlock   Backend = "landlock"   // Landlock and seccomp alone, for hosts without user namespaces
)

// Backends returns every backend, the better one first.
func Backends() []Backend { return []Backend{Namespaces, Landlock} }

// An Ability is whether a backend can hold a capability on a host.
type Ability struct {
	Capability plan.Capability
	Reason     string // why not; empty where it can
	Fix        string // a command, or what else turns it on; empty where nothing does
}

// Holds reports whether the capability can be held.
func (a Ability) Holds() bool { return a.Reason == "" }

// Abilities returns what a backend can hold on a host with these facts, in order of
// [plan.Capabilities]. What is in doubt it cannot hold.
func (f Facts) Abilities(b Backend) []Ability {
	judge := f.withNamespaces
	if b == Landlock {
		judge = f.withLandlock
	}
	var all []Ability
	for _, c := range plan.Capabilities() {
		a := judge(c)
		a.Capability = c
		all = append(all, a)
	}
	return all
}

// Best returns the better of the backends that can hold anything; ok is false when
// none can.
func (f Facts) Best() (best Backend, ok bool) {
	for _, b := range Backends() {
		for _, a := range f.Abilities(b) {
			if a.Holds() {
				return b, true
			}
		}
	}
	return "", false
}

func no(fix, format string, args ...any) Ability {
	return Ability{Reason: fmt.Sprintf(format, args...), Fix: fix}
}

// basis is what every backend needs.
func (f Facts) basis() Ability {
	switch {
	case f.System != "linux":
		return no("run it on Linux, in a virtual machine for example", "only Linux has what it takes")
	case f.Seccomp != nil:
		return no("boot a kernel built with CONFIG_SECCOMP_FILTER=y", "system calls cannot be filtered by seccomp: %v", f.Seccomp)
	case !f.CallsKnown:
		return no("run it on x86-64 or ARM64", "the filter of system calls is not written for %s", f.Machine)
	}
	return Ability{}
}

func (f Facts) withNamespaces(c plan.Capability) Ability {
	if a := f.basis(); !a.Holds() {
		return a
	}
	if a := f.userNamespaces(); !a.Holds() {
		return a
	}
	if a := f.mounts(); !a.Holds() {
		return a
	}
	if a := Namespaces.Offers(c, f.Landlock, f.LandlockError); !a.Holds() {
		return f.where(a)
	}
	kind, err, limits := "", error(nil), []string(nil)
	switch c {
	case plan.FSRead, plan.FSWrite, plan.FSDeny, plan.FSExactDirectory, plan.NetworkDirect:
	case plan.NetworkNone, plan.NetworkMediated:
		kind, err, limits = "network", f.Namespaces.Net, []string{"net"}
	case plan.ProcessTree:
		kind, err, limits = "process ID", f.Namespaces.PID, []string{"pid"}
	}
	if err == nil {
		kind, err, limits = "IPC, UTS and cgroup", f.Namespaces.Others, []string{"ipc", "uts", "cgroup"}
	}
	if err != nil {
		return no(f.kindFix(err, limits...), "%s namespaces cannot be made: %v", kind, err)
	}
	return Ability{}
}

// userNamespaces judges what all other namespaces stand on: a user namespace, and
// mounts in it.
func (f Facts) userNamespaces() Ability {
	err := errors.Join(f.Namespaces.User, f.Namespaces.Mount)
	switch {
	case err == nil:
		return Ability{}
	case f.MaxUserNamespaces == 0:
		return no("sysctl -w user.max_user_namespaces=15000", "user namespaces are turned off by user.max_user_namespaces")
	case !f.Root && f.UnprivilegedClone == 0:
		return no("sysctl -w kernel.unprivileged_userns_clone=1", "user namespaces are for root alone by kernel.unprivileged_userns_clone")
	case !f.Root && f.AppArmorRestriction > 0:
		return no(`give maelys an AppArmor profile with "userns," (docs/run.md has one), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, "AppArmor leaves programs without a profile no rights in a user namespace")
	case f.Namespaces.User == nil:
		return no(f.kindFix(err, "mnt"), "mounts in a namespace cannot be changed: %v", f.Namespaces.Mount)
	}
	return no(f.kindFix(err, "user"), "user namespaces cannot be made: %v", f.Namespaces.User)
}

// mounts judges what a root of the command's own is made with.
func (f Facts) mounts() Ability {
	switch err := f.MountCalls; {
	case errors.Is(err, syscall.ENOSYS) && !f.Filtered: // some filters say so too
		return no("boot Linux 5.12 or later", "the kernel has no mount_setattr")
	case err != nil:
		return no(f.confinedFix(), "mount_setattr cannot be called: %v", err)
	case f.Proc != nil:
		return no("unmount what covers /proc; for docker run: --security-opt systempaths=unconfined", "a /proc of the command's own cannot be mounted: %v", f.Proc)
	}
	return Ability{}
}

// kindFix says what helps where the kernel refuses namespaces with err, whose number is
// limited by these settings.
func (f Facts) kindFix(err error, limits ...string) string {
	switch {
	case errors.Is(err, syscall.ENOSPC) && len(limits) > 0:
		words := []string{"sysctl -w"}
		for _, limit := range limits {
			words = append(words, fmt.Sprintf("user.max_%s_namespaces=%d", limit, max(15000, 2*f.MaxUserNamespaces))) // never less than now
		}
		return strings.Join(words, " ")
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		return "boot a kernel built with CONFIG_USER_NS=y, CONFIG_PID_NS=y and CONFIG_NET_NS=y"
	}
	return f.confinedFix()
}

// confinedFix says what helps where something around this process forbids a call.
func (f Facts) confinedFix() string {
	if f.Filtered {
		return "a seccomp filter is around this process; for docker run: --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
	}
	return "ask what confines this process: a security module, or the sandbox or container around it"
}

func (f Facts) withLandlock(c plan.Capability) Ability {
	if a := f.basis(); !a.Holds() {
		return a
	}
	return f.where(Landlock.Offers(c, f.Landlock, f.LandlockError))
}

// where says what helps where something around this process forbids a call.
func (f Facts) where(a Ability) Ability {
	if !a.Holds() && a.Fix == "" {
		a.Fix = f.confinedFix()
	}
	return a
}

// The versions of Landlock that the backends need.
const (
	landlockRefer  = 2 // before it no file can be moved to another directory (Linux 5.19)
	landlockScopes = 6 // from it on it keeps signals and abstract sockets apart (Linux 6.12)
)

// Offers returns whether a backend can hold a capability where all else works, with a
// version of Landlock, or with none for a reason.
func (b Backend) Offers(c plan.Capability, landlock int, missing error) Ability {
	const (
		instead = "use the namespaces backend"
		newer   = "boot Linux 6.12 or later"
	)
	version := landlockRefer
	if b == Landlock || c == plan.NetworkDirect {
		version = landlockScopes
	}
	switch {
	case landlock == 0 && errors.Is(missing, syscall.EOPNOTSUPP):
		return no(`boot with "landlock" in the list of the kernel's lsm= parameter`, "Landlock is built into the kernel and not turned on")
	case landlock == 0 && errors.Is(missing, syscall.ENOSYS):
		return no("boot Linux 5.19 or later, built with CONFIG_SECURITY_LANDLOCK=y", "the kernel has no Landlock")
	case landlock == 0:
		return no("", "Landlock cannot be used: %v", missing)
	case landlock < landlockRefer:
		return no("boot Linux 5.19 or later", "Landlock before version 2 lets no file be moved to another directory; this is version %d", landlock)
	case landlock < version && b == Landlock:
		return no(newer, "Landlock before version 6 does not keep signals from other processes; this is version %d", landlock)
	case landlock < version:
		return no(newer, "Landlock before version 6 does not keep the host's abstract sockets, D-Bus for one, out of reach; this is version %d", landlock)
	case b == Namespaces:
		return Ability{}
	}
	switch c {
	case plan.FSRead, plan.NetworkNone, plan.NetworkDirect:
		return Ability{}
	case plan.FSWrite:
		return no(instead, "Landlock does not see the mode, owner, times and attributes of files being changed")
	case plan.FSDeny:
		return no(instead, "Landlock adds grants up and takes nothing out of a granted tree")
	case plan.FSExactDirectory:
		return no(instead, "what Landlock grants on a directory holds for all beneath it")
	case plan.ProcessTree:
		return no(instead, "it takes a process ID namespace, whose processes end together")
	case plan.NetworkMediated:
		return no(instead, "it takes a network namespace, in which the destinations have addresses of their own")
	}
	return no("", "nothing is known of it")
}
