package main

import (
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// version is set when a release is built.
var version = "dev"

// command is what every command needs of the world.
type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) (string, bool)

	asked struct{ url, file string } // the control plane that was dialed, and the file that its token is from
}

func newApp(c *command) *cli.App {
	app := &cli.App{
		Name:      "macbatch",
		Usage:     "batch AI work on the Macs and Linux boxes you own",
		UsageText: "macbatch COMMAND [flags] [arguments]",
		Description: "Start with: macbatch run library ~/Movies -o ~/Transcripts\n\n" +
			"Exit codes: 0 done, 1 failed or canceled, 2 usage, 3 still running or paused, 4 partial,\n" +
			"5 denied or not found, 6 unreachable, 7 verification found problems.\n\n" +
			"A flag such as --token-file may be set as MACBATCH_TOKEN_FILE or in config.toml too: macbatch config show --help.",
		Version:                   version,
		Writer:                    c.stdout,
		ErrWriter:                 c.stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // run reports, once
		DisableSliceFlagSeparator: true,                         // a comma belongs to a path
		HideHelpCommand:           true,
		OnUsageError:              c.onUsageError,
		Action: func(x *cli.Context) error {
			if x.NArg() > 0 {
				return usagef("command %q is not known; see macbatch --help", x.Args().First())
			}
			return cli.ShowAppHelp(x)
		},
		Commands: []*cli.Command{
			runCommand(c), controlCommand(c), serveCommand(c), submitCommand(c), statusCommand(c), gatherCommand(c),
			cancelCommand(c), retryCommand(c), pauseCommand(c), resumeCommand(c), drainCommand(c), whyCommand(c), jobsCommand(c), workersCommand(c), eventsCommand(c), searchCommand(c), reportCommand(c), verifyCommand(c),
			pruneCommand(c), backupCommand(c), restoreCommand(c), compactCommand(c),
			probeCommand(c), probePartCommand(c),
			projectCommand(c), actorCommand(c), joinCommand(c), configCommand(c), serviceCommand(c), doctorCommand(c),
		},
	}
	for _, cmd := range app.Commands {
		cmd.OnUsageError = c.onUsageError
		cmd.HideHelpCommand = true
		c.configurable(cmd)
		for _, sub := range cmd.Subcommands {
			sub.OnUsageError, sub.HideHelpCommand = c.onUsageError, true
		}
	}
	return app
}

func (c *command) onUsageError(x *cli.Context, err error, _ bool) error {
	err = flagError(err)
	if x.Command != nil && x.Command.Name != "macbatch" {
		return usagef("%v; see macbatch %s --help", err, fullName(x))
	}
	return usagef("%v; see macbatch --help", err)
}

// flagError tells of a flag as people write it: the library knows one dash only.
func flagError(err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return usagef("flag %s is not known", dashed(name))
	}
	if value, rest, ok := strings.Cut(text, " for flag -"); ok {
		name, why, _ := strings.Cut(rest, ": ")
		return usagef("%s for %s: %s", value, dashed(name), why)
	}
	return err
}

// dashed is a flag's name with its dashes.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// fullName is a command as it is called: "run", "actor add".
func fullName(x *cli.Context) string { return strings.TrimPrefix(x.Command.HelpName, "macbatch ") }

// args checks how many arguments a command got.
func args(x *cli.Context, least, most int, what string) ([]string, error) {
	if n := x.NArg(); n < least || n > most {
		name := fullName(x)
		return nil, usagef("%s takes %s; got %s; see macbatch %s --help", name, what, plural(uint64(n), "argument"), name)
	}
	return x.Args().Slice(), nil
}

// logger writes structured lines to standard error.
func (c *command) logger(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: level}))
}

// isTerminal reports whether w shows to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
