package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// permute moves a command's flags before its arguments: the library stops at the
// first argument and would take the flags behind it for more of them. What
// follows "--" stays as it is.
func permute(app *cli.App, args []string) ([]string, error) {
	at := 1 // the command's name; flags of the app itself take no values
	for at < len(args) && strings.HasPrefix(args[at], "-") {
		at++
	}
	if at >= len(args) {
		return args, nil
	}
	cmd := app.Command(args[at])
	if cmd == nil {
		return args, nil // the app answers for it
	}
	full := cmd.Name
	if at+1 < len(args) {
		for _, sub := range cmd.Subcommands {
			if sub.Name == args[at+1] {
				cmd, at, full = sub, at+1, cmd.Name+" "+sub.Name
				break
			}
		}
	}
	out := append([]string(nil), args[:at+1]...)
	var rest []string
	for i := at + 1; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' || len(rest) > 0 && slices.Contains(forwards, full) && !knows(cmd, a) {
			rest = append(rest, a)
			continue
		}
		if a == "--help" || a == "-h" {
			return append(out[:at+1:at+1], "--help"), nil // arguments would be taken for topics
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		out = append(out, a)
		if hasValue || !takesValue(cmd, name) {
			continue
		}
		if i++; i == len(args) {
			return nil, usagef("flag %s needs a value", a)
		}
		out = append(out, args[i])
	}
	return append(append(out, "--"), rest...), nil
}

// forwards names the commands whose first argument is another command: flags behind
// it that are not theirs belong to that one.
var forwards = []string{"service install"}

// knows reports whether a command has the flag that an argument is.
func knows(cmd *cli.Command, arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name == "help" || name == "h" || slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// takesValue reports whether the named flag is followed by a value. An unknown
// one is taken not to be: the library refuses it.
func takesValue(cmd *cli.Command, name string) bool {
	for _, f := range cmd.Flags {
		for _, n := range f.Names() {
			if n == name {
				_, isBool := f.(*cli.BoolFlag)
				return !isBool
			}
		}
	}
	return false
}

// usageError is a mistake in how the command was called.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }
