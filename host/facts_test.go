//go:build unix

package host_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/plan"
)

// able are the facts of a host that can do everything.
func able() host.Facts {
	return host.Facts{
		System: "linux", Release: "6.12.1", Machine: "amd64", CallsKnown: true, MaxUserNamespaces: 15000, UnprivilegedClone: -1, AppArmorRestriction: -1, Landlock: 6,
	}
}

const (
	everything = "fs-read fs-write fs-deny fs-exact-directory network-none network-direct network-mediated process-tree"
	landlocked = "fs-read network-none network-direct"
)

// TestAbilities states the facts of hosts that people have.
func TestAbilities(t *testing.T) {
	for _, tt := range []struct {
		name     string
		change   func(*host.Facts)
		by       host.Backend
		can      string
		reason   string // of the first capability that it cannot hold
		fix      string
		best     host.Backend
		noneHold bool
	}{
		{name: "everything", change: func(*host.Facts) {}, by: host.Namespaces, can: everything, best: host.Namespaces},
		{name: "everything by landlock", change: func(*host.Facts) {}, by: host.Landlock, can: landlocked, reason: "mode, owner, times", fix: "use the namespaces backend", best: host.Namespaces},
		{name: "no landlock", change: func(f *host.Facts) { f.Landlock, f.LandlockError = 0, syscall.ENOSYS }, by: host.Namespaces, reason: "the kernel has no Landlock", fix: "boot Linux 5.19 or later", noneHold: true},
		{name: "old kernel", change: func(f *host.Facts) { f.Landlock, f.LandlockError = 0, syscall.ENOSYS }, by: host.Landlock, reason: "the kernel has no Landlock", fix: "boot Linux 5.19 or later", noneHold: true},
		{name: "landlock not turned on", change: func(f *host.Facts) { f.Landlock, f.LandlockError = 0, syscall.EOPNOTSUPP }, by: host.Namespaces, reason: "not turned on", fix: "lsm=", noneHold: true},
		{name: "landlock forbidden", change: func(f *host.Facts) { f.Landlock, f.LandlockError, f.Filtered = 0, syscall.EPERM, true }, by: host.Landlock, reason: "operation not permitted", fix: "seccomp=unconfined", noneHold: true},
		{name: "first landlock", change: func(f *host.Facts) { f.Landlock = 1 }, by: host.Namespaces, reason: "moved to another directory; this is version 1", fix: "5.19", noneHold: true},
		{name: "second landlock", change: func(f *host.Facts) { f.Landlock = 2 }, by: host.Namespaces, can: "fs-read fs-write fs-deny fs-exact-directory network-none network-mediated process-tree", reason: "D-Bus", fix: "6.12", best: host.Namespaces},
		{name: "landlock without scopes", change: func(f *host.Facts) { f.Landlock = 5 }, by: host.Landlock, reason: "signals from other processes; this is version 5", fix: "6.12", best: host.Namespaces},
		{name: "namespaces turned off", change: func(f *host.Facts) { f.Namespaces.User, f.MaxUserNamespaces = syscall.ENOSPC, 0 }, by: host.Namespaces, reason: "turned off by user.max_user_namespaces", fix: "sysctl -w user.max_user_namespaces=15000", best: host.Landlock},
		{name: "namespaces turned off for root", change: func(f *host.Facts) { f.Namespaces.User, f.MaxUserNamespaces, f.Root = syscall.ENOSPC, 0, true }, by: host.Namespaces, reason: "turned off", fix: "sysctl -w user.max_user_namespaces", best: host.Landlock},
		{name: "hardened Debian", change: func(f *host.Facts) { f.Namespaces.User, f.UnprivilegedClone = syscall.EPERM, 0 }, by: host.Namespaces, reason: "for root alone", fix: "sysctl -w kernel.unprivileged_userns_clone=1", best: host.Landlock},
		{name: "hardened Debian as root", change: func(f *host.Facts) { f.UnprivilegedClone, f.Root = 0, true }, by: host.Namespaces, can: everything, best: host.Namespaces},
		{name: "Ubuntu 24.04", change: func(f *host.Facts) { f.Namespaces.Mount, f.AppArmorRestriction = syscall.EACCES, 1 }, by: host.Namespaces, reason: "AppArmor", fix: "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", best: host.Landlock},
		{name: "Ubuntu 24.04 with a profile", change: func(f *host.Facts) { f.AppArmorRestriction = 1 }, by: host.Namespaces, can: everything, best: host.Namespaces},
		{name: "in docker", change: func(f *host.Facts) { f.Namespaces.User, f.Filtered, f.Root = syscall.EPERM, true, true }, by: host.Namespaces, reason: "user namespaces cannot be made: operation not permitted", fix: "--security-opt seccomp=unconfined", best: host.Landlock},
		{name: "mounts forbidden", change: func(f *host.Facts) { f.Namespaces.Mount = syscall.EPERM }, by: host.Namespaces, reason: "mounts in a namespace cannot be changed", fix: "what confines this process", best: host.Landlock},
		{name: "no user namespaces in the kernel", change: func(f *host.Facts) { f.Namespaces.User = syscall.EINVAL }, by: host.Namespaces, reason: "invalid argument", fix: "CONFIG_USER_NS=y", best: host.Landlock},
		{name: "limit reached", change: func(f *host.Facts) { f.Namespaces.User = syscall.ENOSPC }, by: host.Namespaces, reason: "no space left", fix: "sysctl -w user.max_user_namespaces=30000", best: host.Landlock},
		{name: "no network namespaces", change: func(f *host.Facts) { f.Namespaces.Net = syscall.EINVAL }, by: host.Namespaces, can: "fs-read fs-write fs-deny fs-exact-directory network-direct process-tree", reason: "network namespaces cannot be made", fix: "CONFIG_NET_NS=y", best: host.Namespaces},
		{name: "no process namespaces", change: func(f *host.Facts) { f.Namespaces.PID = syscall.EINVAL }, by: host.Namespaces, can: "fs-read fs-write fs-deny fs-exact-directory network-none network-direct network-mediated", reason: "process ID namespaces", fix: "CONFIG_PID_NS=y", best: host.Namespaces},
		{name: "no IPC namespaces", change: func(f *host.Facts) { f.Namespaces.Others = syscall.ENOSPC }, by: host.Namespaces, reason: "IPC, UTS and cgroup namespaces", fix: "sysctl -w user.max_ipc_namespaces=30000 user.max_uts_namespaces=30000 user.max_cgroup_namespaces=30000", best: host.Landlock},
		{name: "no more network namespaces", change: func(f *host.Facts) { f.Namespaces.Net = syscall.ENOSPC }, by: host.Namespaces, can: "fs-read fs-write fs-deny fs-exact-directory network-direct process-tree", reason: "network namespaces cannot be made", fix: "sysctl -w user.max_net_namespaces=30000", best: host.Namespaces},
		{name: "no more process namespaces", change: func(f *host.Facts) { f.Namespaces.PID = syscall.ENOSPC }, by: host.Namespaces, can: "fs-read fs-write fs-deny fs-exact-directory network-none network-direct network-mediated", reason: "process ID namespaces", fix: "sysctl -w user.max_pid_namespaces=30000", best: host.Namespaces},
		{name: "no more mount namespaces", change: func(f *host.Facts) { f.Namespaces.Mount = syscall.ENOSPC }, by: host.Namespaces, reason: "mounts in a namespace", fix: "sysctl -w user.max_mnt_namespaces=30000", best: host.Landlock},
		{name: "Linux 5.4", change: func(f *host.Facts) {
			f.Release, f.MountCalls, f.Landlock, f.LandlockError = "5.4.0", syscall.ENOSYS, 0, syscall.ENOSYS
		}, by: host.Namespaces, reason: "no mount_setattr", fix: "boot Linux 5.12 or later", noneHold: true},
		{name: "mount calls forbidden", change: func(f *host.Facts) { f.MountCalls, f.Filtered = syscall.EPERM, true }, by: host.Namespaces, reason: "mount_setattr cannot be called: operation not permitted", fix: "seccomp=unconfined", best: host.Landlock},
		{name: "mount calls hidden by a filter", change: func(f *host.Facts) { f.MountCalls, f.Filtered = syscall.ENOSYS, true }, by: host.Namespaces, reason: "mount_setattr cannot be called", fix: "seccomp=unconfined", best: host.Landlock},
		{name: "in docker without its filter", change: func(f *host.Facts) { f.Proc, f.Root = errors.New("something is mounted over /proc/sys"), true }, by: host.Namespaces, reason: "mounted over /proc/sys", fix: "--security-opt systempaths=unconfined", best: host.Landlock},
		{name: "another machine", change: func(f *host.Facts) { f.Machine, f.CallsKnown = "riscv64", false }, by: host.Namespaces, reason: "not written for riscv64", fix: "x86-64 or ARM64", noneHold: true},
		{name: "another machine by landlock", change: func(f *host.Facts) { f.Machine, f.CallsKnown = "riscv64", false }, by: host.Landlock, reason: "not written for riscv64", fix: "x86-64 or ARM64", noneHold: true},
		{name: "no seccomp", change: func(f *host.Facts) { f.Seccomp = syscall.ENOSYS }, by: host.Namespaces, reason: "cannot be filtered", fix: "CONFIG_SECCOMP_FILTER=y", noneHold: true},
		{name: "no seccomp by landlock", change: func(f *host.Facts) { f.Seccomp = syscall.EINVAL }, by: host.Landlock, reason: "cannot be filtered", fix: "CONFIG_SECCOMP_FILTER=y", noneHold: true},
		{name: "macOS", change: func(f *host.Facts) { *f = host.Facts{System: "darwin"} }, by: host.Namespaces, reason: "only Linux", fix: "virtual machine", noneHold: true},
		{name: "zero facts", change: func(f *host.Facts) { *f = host.Facts{} }, by: host.Landlock, reason: "only Linux", fix: "virtual machine", noneHold: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := able()
			tt.change(&f)
			abilities := f.Abilities(tt.by)
			var can []string
			first := host.Ability{}
			for i, a := range abilities {
				if a.Capability != plan.Capabilities()[i] {
					t.Errorf("ability %d is of %q", i, a.Capability)
				}
				switch {
				case a.Holds():
					can = append(can, string(a.Capability))
				case first.Holds():
					first = a
				}
			}
			if got := strings.Join(can, " "); got != tt.can {
				t.Errorf("it can %q, want %q", got, tt.can)
			}
			if (tt.reason == "") != first.Holds() || !strings.Contains(first.Reason, tt.reason) || !strings.Contains(first.Fix, tt.fix) {
				t.Errorf("%s: %q, %q; want %q, %q", first.Capability, first.Reason, first.Fix, tt.reason, tt.fix)
			}
			best, ok := f.Best()
			if ok == tt.noneHold || best != tt.best {
				t.Errorf("best is %q, %v; want %q", best, ok, tt.best)
			}
		})
	}
}

// Every capability that a host lacks comes with a way to have it.
func TestEveryLackHasAFix(t *testing.T) {
	for _, errno := range []error{syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EINVAL, syscall.ENOSYS, syscall.EMFILE, errors.New("other")} {
		f := able()
		f.MountCalls, f.Landlock, f.LandlockError = errno, 0, errno
		lacksAll(t, errno, f)
		f.MountCalls, f.Namespaces.User = nil, errno
		lacksAll(t, errno, f)
	}
}

func lacksAll(t *testing.T, why error, f host.Facts) {
	t.Helper()
	for _, b := range host.Backends() {
		for _, a := range f.Abilities(b) {
			if a.Holds() || a.Fix == "" {
				t.Errorf("%v, %s: %+v", why, b, a)
			}
		}
	}
}
