package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/plan"
)

func (a *app) doctorVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can enforce, and how to turn on the rest",
		Long: `Looks at the kernel, its settings and what confines this process, and says for each
capability that a plan can need whether this host can hold it, by which backend, and if
not, why not and what turns it on. Nothing is changed: namespaces are made for a moment
to see whether they can be, and no program is started in them. The backends are those of
run; the mediated network is being built, and held nowhere yet.

The exit status is 0 when the better backend can hold everything else.`,
		Example: "  maelys doctor",
		Args:    files(0, 0),
		RunE: a.verb(func([]string) *result {
			return diagnose(host.Read(), painter{color: colorful(a.stdout.w)})
		}),
	}
}

// A doctorInfo is what doctor has found, as JSON.
type doctorInfo struct {
	System   string         `json:"system"`
	Release  string         `json:"release"`
	Root     bool           `json:"root"`
	Backend  string         `json:"backend"` // the better one that can hold anything; empty when none can
	Landlock int            `json:"landlock"`
	Seccomp  bool           `json:"seccomp"`
	Filtered bool           `json:"filtered"` // a seccomp filter is around this process, as in a container
	Modules  []string       `json:"securityModules,omitempty"`
	Settings map[string]int `json:"settings,omitempty"` // of the kernel, those that it has
	Backends []backendInfo  `json:"backends"`
}

type backendInfo struct {
	Name         string        `json:"name"`
	Capabilities []abilityInfo `json:"capabilities"`
}

type abilityInfo struct {
	Capability string `json:"capability"`
	Holds      bool   `json:"holds"`
	Reason     string `json:"reason,omitempty"`
	Fix        string `json:"fix,omitempty"`
}

// lacks returns why b cannot hold what it cannot, with the capabilities that lack for
// one reason together.
func (b backendInfo) lacks() []abilityInfo {
	var all []abilityInfo
	for _, a := range b.Capabilities {
		i := slices.IndexFunc(all, func(other abilityInfo) bool { return other.Reason == a.Reason && other.Fix == a.Fix })
		switch {
		case a.Holds:
		case i < 0:
			all = append(all, a)
		default:
			all[i].Capability += ", " + a.Capability
		}
	}
	return all
}

// diagnose says what a host with these facts can enforce.
func diagnose(f host.Facts, paint painter) *result {
	info := &doctorInfo{System: f.System, Release: f.Release, Root: f.Root, Landlock: f.Landlock, Seccomp: f.System == "linux" && f.Seccomp == nil}
	info.Filtered, info.Modules, info.Settings = f.Filtered, f.Modules, map[string]int{}
	for _, s := range []struct {
		name  string
		value int
	}{
		{"user.max_user_namespaces", f.MaxUserNamespaces},
		{"kernel.unprivileged_userns_clone", f.UnprivilegedClone},
		{"kernel.apparmor_restrict_unprivileged_userns", f.AppArmorRestriction},
	} {
		if s.value >= 0 && f.System == "linux" {
			info.Settings[s.name] = s.value
		}
	}
	if best, ok := f.Best(); ok {
		info.Backend = string(best)
	}
	r := &result{Doctor: info}
	for _, b := range host.Backends() {
		list := backendInfo{Name: string(b)}
		for _, ability := range f.Abilities(b) {
			list.Capabilities = append(list.Capabilities, abilityInfo{string(ability.Capability), ability.Holds(), ability.Reason, ability.Fix})
		}
		info.Backends = append(info.Backends, list)
	}
	better := info.Backends[0] // the other may hold some of what it lacks
	for _, lack := range better.lacks() {
		r.Diagnostics = append(r.Diagnostics, diagnostic{
			Code: codeCapability, exit: exitNo, Hint: lack.Fix,
			Message: fmt.Sprintf("%s cannot hold %s here: %s", better.Name, lack.Capability, lack.Reason),
		})
	}
	r.text = doctorTable(info, paint)
	if len(r.Diagnostics) > 0 {
		r.text += "\n" // what follows on standard error has the reasons
	}
	return r
}

func doctorTable(info *doctorInfo, paint painter) string {
	var b strings.Builder
	field := func(name, value string) { fmt.Fprintf(&b, "%s %s\n", paint.bold(fmt.Sprintf("%-9s", name)), value) }
	field("system", strings.TrimSpace(info.System+" "+info.Release))
	user := "not root"
	if info.Root {
		user = "root"
	}
	field("user", user)
	backend := info.Backend
	if backend == "" {
		backend = "none: nothing can be enforced here"
	}
	field("backend", backend)
	layer := "none"
	if info.Landlock > 0 {
		layer = fmt.Sprintf("version %d", info.Landlock)
	}
	field("landlock", layer)
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "capability")
	for _, backend := range info.Backends {
		fmt.Fprintf(w, "\t%s", backend.Name)
	}
	fmt.Fprintln(w)
	for i, c := range plan.Capabilities() {
		fmt.Fprint(w, c)
		for _, backend := range info.Backends {
			answer := "no"
			if backend.Capabilities[i].Holds {
				answer = "yes"
			}
			fmt.Fprintf(w, "\t%s", answer)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
	for _, backend := range info.Backends[1:] {
		for i, lack := range backend.lacks() {
			if i == 0 {
				fmt.Fprintf(&b, "\nwhy not by %s\n", backend.Name)
			}
			fmt.Fprintf(&b, "  %s: %s\n    %s %s\n", lack.Capability, lack.Reason, paint.blue("to have it:"), lack.Fix)
		}
	}
	return trimLines(b.String())
}
