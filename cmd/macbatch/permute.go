package main

import (
	"fmt"
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
	if at+1 < len(args) {
		for _, sub := range cmd.Subcommands {
			if sub.Name == args[at+1] {
				cmd, at = sub, at+1
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
		if len(a) < 2 || a[0] != '-' {
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
