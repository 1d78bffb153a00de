package cli

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// handedOver are the variables that a command gets without being asked: what terminals and
// shells need, and nothing that has secrets.
var handedOver = [...]string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "TZ", "NO_COLOR"}

// environment returns the variables of the command.
func (f *runFlags) environment() (map[string]string, *result) {
	env := map[string]string{}
	for _, line := range os.Environ() {
		name, value, ok := strings.Cut(line, "=")
		if ok && name != "" && (f.inheritEnv || slices.Contains(handedOver[:], name) || strings.HasPrefix(name, "LC_")) {
			env[name] = value
		}
	}
	for _, given := range f.env {
		name, value, ok := strings.Cut(given, "=")
		if name == "" || strings.ContainsRune(given, 0) {
			return nil, usagef("write --env NAME, or --env NAME=VALUE", "expected the name of a variable, found %q", given)
		}
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				delete(env, name)
				continue // there is nothing to pass on
			}
		}
		env[name] = value
	}
	return env, nil
}

// named reports whether --env says what a variable is.
func (f *runFlags) named(variable string) bool {
	return slices.ContainsFunc(f.env, func(given string) bool {
		name, _, _ := strings.Cut(given, "=")
		return name == variable
	})
}

// assignments returns variables as execve(2) takes them, in order of their names.
func assignments(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}
