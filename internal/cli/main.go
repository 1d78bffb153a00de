// Package cli is the maelys command: one file for each verb, and what they share.
//
// A verb reads its files, asks the packages mir and manifest, and returns a
// result. How a result is shown, as text or as JSON, and which exit status it has
// is decided in one place, so that every verb behaves alike.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"maelys.dev/maelys/host"
	"maelys.dev/maelys/warden"
)

// The exit statuses, which the help text states too.
const (
	exitYes   = 0 // the answer is yes, or the work is done
	exitNo    = 1 // refused, not canonical, widened
	exitUsage = 2 // wrong use, a file that cannot be read or written
)

// Main runs the command with args, which do not include the program's name, and
// returns its exit status. It writes nowhere but to stdout, stderr and the files
// that args name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: &checkedWriter{w: stdout}, stderr: stderr}
	alone := len(args) > 0 && args[0] == "run"
	if alone {
		// Making namespaces takes as long as all that is to be decided, the command line included.
		// Most policies have a network of their own.
		a.launch = warden.Prepare(host.Namespaces, false)
	}
	root := a.command(alone)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if a.launch != nil {
		a.launch.Discard()
	}
	status := exitYes
	if err != nil {
		if done, ok := errors.AsType[*statusError](err); ok {
			status = done.status
		} else {
			// The flags may not have been read as far as --json.
			a.json = a.json || slices.Contains(args, "--json")
			status = a.show(usageResult(err))
		}
	}
	if err := a.stdout.err; err != nil {
		a.complain(fmt.Sprintf("maelys: standard output cannot be written: %v\n", err))
		return exitUsage
	}
	return status
}

// An app is one run of the command.
type app struct {
	stdin     io.Reader
	stdout    *checkedWriter
	stderr    io.Writer
	json      bool
	stdinRead bool
	launch    *warden.Launch // that run has not made use of
}

// A checkedWriter remembers the first error, so that no verb can overlook it.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	reportBrokenPipes()
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(b)
	c.err = err
	return n, err
}

// complain writes to standard error.
func (a *app) complain(text string) {
	reportBrokenPipes()
	_, _ = io.WriteString(a.stderr, text) // there is nobody left to tell
}

// A statusError ends the command with a status; everything has been said.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

const about = `Maelys runs code that you do not trust with exactly the files, network and
processes that a manifest grants it. A manifest is a small strict JSON file; it compiles
to MIR, the one binary form of a decision, and the SHA-256 of MIR names the decision.`

const exits = `Exit status: 0 yes; 1 no (refused, not canonical, widened); 2 wrong use, or a file
that cannot be read or written.`

// writeUsage writes how a command is used. It is no template of cobra's, for which the linker
// would keep every method of every type, and each start take as much longer.
func writeUsage(cmd *cobra.Command) error {
	var b strings.Builder
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " VERB [flags] [ARG…]"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, group := range cmd.Groups() {
		fmt.Fprintf(&b, "\n%s\n", group.Title)
		for _, verb := range cmd.Commands() {
			if verb.GroupID == group.ID && (verb.IsAvailableCommand() || verb.Name() == "help") {
				fmt.Fprintf(&b, "  %-*s  %s\n", verb.NamePadding(), verb.Name(), verb.Short)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n"))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nFlags of every verb:\n%s\n", strings.TrimRight(cmd.InheritedFlags().FlagUsages(), " \n"))
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// A usageError is a command line that means nothing, with a hint what would.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

// command returns the command line: all of it, or run alone, since it takes time to make
// and starting is what run is measured by.
func (a *app) command(alone bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "maelys",
		Short: "Runs code that you do not trust",
		Long:  about + "\n\n" + exits,
		Example: `  maelys init --for build
  maelys compile maelys.json
  maelys run -p maelys.json -- make`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := hintHelp
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 && args[0] != "" && near[0] != args[0] {
				hint = fmt.Sprintf("did you mean %q?", near[0])
			}
			return &usageError{fmt.Sprintf("unknown verb %q", args[0]), hint}
		},
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.json {
				return &usageError{"no verb is given", hintHelp}
			}
			reportBrokenPipes()
			cmd.SetOut(a.stderr)
			if err := cmd.Help(); err != nil {
				return err
			}
			return &statusError{exitUsage}
		},
	}
	root.SetUsageFunc(writeUsage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		message, _, _ := strings.Cut(err.Error(), ": strconv.") // Go's words say nothing more
		return &usageError{message, fmt.Sprintf("see %s --help", cmd.CommandPath())}
	})
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object on standard output")
	const enforce = "Enforce it:"
	for _, group := range []struct {
		title string
		verbs []func() *cobra.Command
	}{
		{"Write a policy:", []func() *cobra.Command{a.initVerb, a.fmtVerb, a.lintVerb, a.schemaVerb}},
		{"Make it a decision:", []func() *cobra.Command{a.compileVerb, a.verifyVerb, a.digestVerb, a.inspectVerb}},
		{"See what it means here:", []func() *cobra.Command{a.planVerb, a.explainVerb, a.doctorVerb}},
		{enforce, []func() *cobra.Command{a.runVerb}},
		{"Compare decisions:", []func() *cobra.Command{a.diffVerb, a.containsVerb, a.restrictVerb}},
		{"This command:", []func() *cobra.Command{a.versionVerb, a.completionVerb}},
	} {
		if alone && group.title != enforce {
			continue
		}
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, makeVerb := range group.verbs {
			verb := makeVerb()
			verb.GroupID = group.title
			verb.DisableFlagsInUseLine = true
			root.AddCommand(verb)
		}
	}
	if alone {
		return root
	}
	help := a.helpVerb()
	help.GroupID, help.DisableFlagsInUseLine = "This command:", true
	root.SetHelpCommand(help)
	return root
}

// verb wraps what a verb does: its result is shown, and its status is the command's.
func (a *app) verb(do func(args []string) *result) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		if status := a.show(do(args)); status != exitYes {
			return &statusError{status}
		}
		return nil
	}
}

// files returns a check that a verb has at least low and at most high arguments.
func files(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if low <= len(args) && len(args) <= high {
			return nil
		}
		want := fmt.Sprintf("%d arguments", low)
		switch {
		case high == 0:
			want = "no argument"
		case low == 1 && high == 1:
			want = "one argument"
		case low == 1:
			want = "at least one argument"
		case low == 0:
			want = fmt.Sprintf("at most %d arguments", high)
		}
		return &usageError{fmt.Sprintf("expected %s, found %d", want, len(args)), "write " + cmd.UseLine()}
	}
}

// filesBeforeDash is files for verbs that take a command after "--".
func filesBeforeDash(low, high int) cobra.PositionalArgs {
	check := files(low, high)
	return func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		if dash < 0 {
			return check(cmd, args)
		}
		if dash == len(args) {
			return &usageError{"expected a command after --, found none", "write " + cmd.UseLine()}
		}
		return check(cmd, args[:dash])
	}
}

// verbOn is verb for what takes a command after "--".
func (a *app) verbOn(do func(args, command []string) *result) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		var command []string
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			args, command = args[:dash], args[dash:]
		}
		return a.verb(func(args []string) *result { return do(args, command) })(cmd, args)
	}
}

func (a *app) helpVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB]",
		Short:   "Print what a verb does",
		Example: "  maelys help compile",
		Args:    files(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			verb := cmd.Root()
			if len(args) > 0 {
				found, rest, err := cmd.Root().Find(args)
				if err != nil || len(rest) > 0 {
					return &usageError{fmt.Sprintf("unknown verb %q", args[0]), hintHelp}
				}
				verb = found
			}
			verb.InitDefaultHelpFlag()
			return verb.Help()
		},
	}
}
