package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// env returns what "env ARGUMENT SCRIPT" starts, or nil when that is nothing.
func (c *closure) env(script, argument string, search []string) (*program, error) {
	var args []string
	if argument != "" {
		args = append(args, argument)
	}
	name, search, err := envLine(append(args, script), search)
	if err != nil {
		return nil, &RuntimeError{"env", script, "expected a command line of env", err}
	}
	if name == "" {
		return nil, nil
	}
	p := &program{name, script, "started by env for " + script, search}
	if strings.Contains(name, "/") {
		return p, nil
	}
	var refused error
	for _, dir := range search {
		if !strings.HasPrefix(dir, "/") {
			continue // which directory it means is not known
		}
		p.path = below(strings.TrimRight(dir, "/"), name)
		r, err := c.executable(p.path, script, "a program")
		if err == nil {
			return p, nil
		}
		if !isMissing(err) && r.entry.Type != fs.ModeDir {
			refused = cmp.Or(refused, err)
		}
	}
	if refused != nil {
		return nil, refused
	}
	message := "expected a program in " + strings.Join(search, ":") + ", found none"
	if strings.ContainsAny(name, " \t") {
		message += "; env takes apart what follows only after -S"
	}
	return nil, &RuntimeError{name, script, message, fs.ErrNotExist}
}

// envLine finds the program in the arguments of env, and the PATH it is looked for
// in. The name is empty when env starts nothing.
func envLine(args, search []string) (name string, path []string, err error) {
	clean := []string{"/bin", "/usr/bin"} // where execvp looks without a PATH
	take := func() (a string) {
		if len(args) > 0 {
			a, args = args[0], args[1:]
		}
		return a
	}
	// option does what the option called name with its value does.
	option := func(name, value string) error {
		switch name {
		case "i", "ignore-environment":
			search = clean
		case "u", "unset":
			if value == "PATH" {
				search = clean
			}
		case "P":
			search = strings.Split(value, ":")
		case "S", "split-string":
			words, err := splitEnv(value)
			args = append(words, args...)
			return err
		case "v", "0", "debug", "null", "C", "chdir", "a", "argv0", "block-signal", "default-signal", "ignore-signal", "list-signal-handling":
		default:
			return fmt.Errorf("expected an option of env, found %q", name)
		}
		return nil
	}
options:
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		arg := take()
		switch {
		case arg == "-":
			search = clean
			break options
		case arg == "--":
			break options
		case strings.HasPrefix(arg, "--"):
			name, value, ok := strings.Cut(arg[2:], "=")
			if !ok && slices.Contains([]string{"unset", "split-string", "chdir", "argv0"}, name) {
				value = take()
			}
			if err := option(name, value); err != nil {
				return "", nil, err
			}
		default:
			for i := 1; i < len(arg); i++ {
				value := ""
				if strings.IndexByte("uSCaP", arg[i]) >= 0 {
					if value = arg[i+1:]; value == "" {
						value = take()
					}
				}
				if err := option(arg[i:i+1], value); err != nil {
					return "", nil, err
				}
				if strings.IndexByte("uSCaP", arg[i]) >= 0 {
					break
				}
			}
		}
	}
	for len(args) > 0 {
		arg := take()
		name, value, ok := strings.Cut(arg, "=")
		if arg == "" {
			return "", nil, errors.New("expected the name of a program, found an empty one")
		}
		if !ok {
			return arg, search, nil
		}
		if name == "PATH" {
			search = strings.Split(value, ":")
		}
	}
	return "", search, nil
}

// splitEnv takes a string apart as env -S does.
func splitEnv(s string) ([]string, error) {
	var words []string
	var word []byte
	in := false // a word
	quote := byte(0)
	end := func() {
		if in {
			words = append(words, string(word))
		}
		word, in = nil, false
	}
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch {
		case b == quote && quote != 0:
			quote = 0
		case quote == 0 && (b == '\'' || b == '"'):
			quote, in = b, true
		case quote == 0 && strings.IndexByte(" \t\n\v\f\r", b) >= 0:
			end()
		case quote == 0 && b == '#' && !in:
			return words, nil
		case b == '$' && quote != '\'':
			return nil, errors.New("expected words, found a variable, whose value is not known here")
		case b == '\\':
			if i++; i == len(s) {
				return nil, errors.New("expected a character after a backslash, found the end")
			}
			b = s[i]
			if quote == '\'' && b != '\'' && b != '\\' {
				word = append(word, '\\', b)
				continue
			}
			switch b {
			case 'c':
				if quote != 0 {
					return nil, errors.New(`expected no \c in quotes, found one`)
				}
				end()
				return words, nil
			case '_':
				if quote == 0 {
					end()
					continue
				}
				b = ' '
			case '"', '#', '$', '\'', '\\':
			default:
				n := strings.IndexByte("fnrtv", b)
				if n < 0 {
					return nil, fmt.Errorf("expected an escape of env, found %q", s[i-1:i+1])
				}
				b = "\f\n\r\t\v"[n]
			}
			word, in = append(word, b), true
		default:
			word, in = append(word, b), true
		}
	}
	if quote != 0 {
		return nil, errors.New("expected a quote at the end, found none")
	}
	end()
	return words, nil
}
