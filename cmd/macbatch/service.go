package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease/service"
	"macbatch/transcode/child"
)

// serviceNames are the commands that the system may keep running.
var serviceNames = []string{"control", "serve"}

func serviceCommand(c *command) *cli.Command {
	system := &cli.BoolFlag{Name: "system", Usage: "of the machine, from its start on, which root decides; else of your session"}
	one := func(name, usage string, flags []cli.Flag, do func(*cli.Context, *service.Manager, string) error) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, UsageText: "macbatch service " + name + " control|serve [--system]", Flags: append([]cli.Flag{system}, flags...),
			Action: func(x *cli.Context) error {
				a, err := args(x, 1, 1, "control or serve")
				if err != nil {
					return err
				}
				if !slices.Contains(serviceNames, a[0]) {
					return usagef("service %q is not known; there is %s", a[0], strings.Join(serviceNames, ", "))
				}
				m, _, err := c.services(x)
				if err != nil {
					return err
				}
				return c.serviceAdvice(x, do(x, m, a[0]))
			},
		}
	}
	return verbs("service", "have the system keep control or serve running",
		&cli.Command{
			Name: "install", Usage: "have it started with your session, or with the machine", UsageText: "macbatch service install [--system] control|serve [flags of that command]",
			Description: "launchd gets an agent (with --system a daemon), systemd a user unit (a system unit), which start the command\n" +
				"with the flags given here; those of config.toml count too, at each start. No secret is in their files. Done\n" +
				"again it changes what is to be changed, and starts what runs anew. Start it now with macbatch service start.",
			Flags: []cli.Flag{
				system,
				&cli.StringFlag{Name: "account", Usage: "with --system: the `NAME` of who it runs as (default: you, also behind sudo)"},
				&cli.BoolFlag{Name: "dry-run", Usage: "print the file, and where it belongs; change nothing"},
			},
			Action: func(x *cli.Context) error { return c.serviceInstall(x) },
		},
		one("start", "start it now", nil, func(x *cli.Context, m *service.Manager, name string) error {
			return m.Start(x.Context, name)
		}),
		one("stop", "stop it, within its grace; it starts again with the session or machine", nil, func(x *cli.Context, m *service.Manager, name string) error {
			return m.Stop(x.Context, name)
		}),
		one("status", "tell how it stands; exit code 0 when it runs, 1 when not, 5 when it is not installed", []cli.Flag{jsonFlag("print a JSON object")}, c.serviceStatus),
		one("logs", "print the end of what it said", []cli.Flag{&cli.IntFlag{Name: "lines", Aliases: []string{"n"}, Usage: "at most `N` lines", Value: 50}}, func(x *cli.Context, m *service.Manager, name string) error {
			n := x.Int("lines")
			if n < 1 || n > 100_000 {
				return usagef("--lines %d: must be 1 to 100000", n)
			}
			return m.Tail(x.Context, name, n, c.stdout)
		}),
		one("uninstall", "stop it and remove its file; its data stay", nil, func(x *cli.Context, m *service.Manager, name string) error {
			there, err := m.Uninstall(x.Context, name)
			if err == nil && !there {
				fmt.Fprintf(c.stderr, "%s was not installed\n", name)
			}
			return err
		}),
	)
}

// account is whose services are meant.
type account struct {
	name, home string
	uid, gid   int
}

// services is the system's keeper, and for whom.
func (c *command) services(x *cli.Context) (*service.Manager, account, error) {
	home, ok := c.env("HOME")
	if !ok || !filepath.IsAbs(home) {
		return nil, account{}, errors.New("find your home: HOME is not set")
	}
	who := account{home: home, uid: os.Getuid(), gid: os.Getgid()}
	config, ok := c.env("XDG_CONFIG_HOME")
	if !ok || !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	if x.Bool("system") {
		name := x.String("account")
		if name == "" {
			name, _ = c.env("SUDO_USER")
		}
		u, err := user.Current()
		if name != "" {
			u, err = user.Lookup(name)
		}
		if err != nil {
			return nil, account{}, usagef("--account %q: %v", name, err)
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return nil, account{}, fmt.Errorf("account %q: %w", u.Username, err)
		}
		who = account{name: u.Username, home: filepath.Clean(u.HomeDir), uid: uid, gid: gid}
	} else if x.String("account") != "" {
		return nil, account{}, usagef("--account belongs to --system")
	}
	m, err := service.New(service.Options{System: runtime.GOOS, Wide: x.Bool("system"), Home: home, Config: config, UID: os.Getuid(), Run: c.runSystem})
	return m, who, err
}

// runSystem runs a program of the system, which finds the session by its environment.
func (c *command) runSystem(ctx context.Context, program string, args ...string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%w: %w", service.ErrNoManager, err)
	}
	var env []string
	for _, name := range []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME"} {
		if v, ok := c.env(name); ok {
			env = append(env, name+"="+v)
		} else if dir := "/run/user/" + strconv.Itoa(os.Getuid()); name == "XDG_RUNTIME_DIR" {
			if _, err := os.Stat(dir); err == nil {
				env = append(env, name+"="+dir)
			}
		}
	}
	var out strings.Builder
	_, err = child.Run(ctx, child.Command{Path: path, Args: args, Env: env, Out: &out})
	return out.String(), err
}

func (c *command) serviceAdvice(x *cli.Context, err error) error {
	switch {
	case errors.Is(err, service.ErrNoManager) && !x.Bool("system"):
		return hint(err, "your session has none: log in at the machine itself, or as root use --system")
	case errors.Is(err, os.ErrPermission) && x.Bool("system"):
		return hint(err, "services of the machine are root's to change: sudo macbatch service …")
	case errors.Is(err, service.ErrAbsent):
		return hint(&exitError{exitDenied, err.Error()}, "macbatch service install %s", x.Args().First())
	}
	return err
}

func (c *command) serviceInstall(x *cli.Context) error {
	a := x.Args().Slice()
	if len(a) == 0 || !slices.Contains(serviceNames, a[0]) {
		return usagef("service install needs control or serve, and behind it the flags of that command; see macbatch service install --help")
	}
	m, who, err := c.services(x)
	if err != nil {
		return err
	}
	u, err := c.unit(x, who, a[0], a[1:])
	if err != nil {
		return err
	}
	if x.Bool("dry-run") {
		text, err := m.Text(u)
		if err != nil {
			return usagef("%v", err)
		}
		fmt.Fprintf(c.stderr, "%s:\n", printable(m.File(u)))
		_, err = c.stdout.Write(text)
		return err
	}
	changed, err := m.Install(x.Context, u)
	if err != nil {
		return c.serviceAdvice(x, err)
	}
	what := "is installed already"
	if changed {
		what = "is installed"
	}
	system := ""
	if x.Bool("system") {
		system = " --system"
	}
	fmt.Fprintf(c.stderr, "%s %s: %s; now: macbatch service start%s %s\n", a[0], what, printable(m.File(u)), system, a[0])
	if runtime.GOOS == "linux" && !x.Bool("system") {
		if me, err := user.Current(); err == nil {
			if _, err := os.Stat("/var/lib/systemd/linger/" + me.Username); err != nil {
				fmt.Fprintf(c.stderr, "it lives while you are logged in; always: sudo loginctl enable-linger %s\n", printable(me.Username))
			}
		}
	}
	return nil
}

// unit is what is to run, checked as the command itself will check it.
func (c *command) unit(x *cli.Context, who account, name string, flags []string) (*service.Unit, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	of := *c
	env := []string{"PATH=" + searchPath()}
	if who.name != "" { // another's environment is not ours
		of.env = func(name string) (string, bool) {
			if name == "HOME" {
				return who.home, true
			}
			return "", false
		}
		env = append(env, "HOME="+who.home)
	} else {
		for _, name := range []string{"MACBATCH_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
			if v, ok := c.env(name); ok && v != "" {
				if v, err = filepath.Abs(v); err != nil {
					return nil, err
				}
				env = append(env, name+"="+v)
			}
		}
	}
	u := &service.Unit{Name: name, Program: program, Env: env, Home: who.home, User: who.name, UID: who.uid, GID: who.gid, Answers: name == "control", Leave: 30 * time.Second}
	err = of.parsed(x.Context, name, flags, func(x *cli.Context) (err error) {
		if u.Args, err = of.given(x); err != nil {
			return err
		}
		u.Args = append([]string{name}, u.Args...)
		if err := of.settle(x); err != nil { // what the file says is checked too, and read at each start
			return err
		}
		part := "control"
		if name == "serve" {
			part, u.Leave = "worker", x.Duration("grace")+15*time.Second
			err = checkServe(x)
		} else {
			_, err = placeOf(x)
		}
		if err != nil {
			return err
		}
		data, err := of.data(x, part)
		u.Writes = []string{data}
		return err
	})
	if err == nil && len(u.Writes) == 0 {
		err = usagef("service install: no command to run; see macbatch service install --help")
	}
	return u, err
}

// parsed reads the flags of another command and hands them to do, without those of
// the environment and the file.
func (c *command) parsed(ctx context.Context, name string, flags []string, do cli.ActionFunc) error {
	app := newApp(c)
	cmd := app.Command(name)
	cmd.Before = nil
	cmd.Action = func(x *cli.Context) error {
		if _, err := args(x, 0, 0, "no arguments"); err != nil {
			return err
		}
		return do(x)
	}
	argv, err := permute(app, append([]string{"macbatch", name}, flags...))
	if err != nil {
		return err
	}
	return app.RunContext(ctx, argv)
}

// given are the flags of the command line and the environment as one word each,
// with paths that hold from anywhere.
func (c *command) given(x *cli.Context) (out []string, err error) {
	for _, f := range x.Command.Flags {
		name := f.Names()[0]
		if !settable(f) {
			continue
		}
		if !x.IsSet(name) {
			values, from := c.setting(&settings{}, fullName(x), f)
			for _, v := range values {
				if err := x.Set(name, v); err != nil {
					return nil, usagef("%s: %q for %s: %v", from, v, dashed(name), err)
				}
			}
		}
		if !x.IsSet(name) {
			continue
		}
		values := []string{fmt.Sprint(x.Value(name))}
		if _, many := f.(*cli.StringSliceFlag); many {
			values = x.StringSlice(name)
		}
		takesFile := false
		if d, ok := f.(*cli.StringFlag); ok {
			takesFile = d.TakesFile
		}
		for _, v := range values {
			switch {
			case takesFile:
				v, err = filepath.Abs(v)
			case name == "root":
				if root, dir, ok := strings.Cut(v, "="); ok && dir != "" {
					dir, err = filepath.Abs(dir)
					v = root + "=" + dir
				}
			case name == "speech" || name == "runtime":
				v, err = absoluteKey(v)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, "--"+name+"="+v)
		}
	}
	return out, nil
}

// absoluteKey makes the key-file in a server's description hold from anywhere.
func absoluteKey(v string) (string, error) {
	parts := strings.Split(v, ",")
	for i, p := range parts {
		if file, ok := strings.CutPrefix(p, "key-file="); ok && file != "" {
			abs, err := filepath.Abs(file)
			if err != nil {
				return "", err
			}
			parts[i] = "key-file=" + abs
		}
	}
	return strings.Join(parts, ","), nil
}

// checkServe checks what serve would refuse at every start.
func checkServe(x *cli.Context) error {
	if _, err := parseRoots(x.StringSlice("root")); err != nil {
		return err
	}
	for _, v := range x.StringSlice("speech") {
		if _, err := parseSpeech(v); err != nil {
			return err
		}
	}
	for _, v := range x.StringSlice("runtime") {
		if _, err := parseRuntime(v); err != nil {
			return err
		}
	}
	if x.Duration("grace") < 0 {
		return usagef("--grace %v: must not be negative", x.Duration("grace"))
	}
	if err := checkParallel(x); err != nil {
		return err
	}
	_, err := guards(x)
	return err
}

// searchPath is where a service looks for programs: launchd's own list has none of
// Homebrew's.
func searchPath() string {
	var dirs []string
	for _, p := range []string{"ffmpeg", "ffprobe", "whisper-cli", "pocketsphinx_batch", "tesseract", "pdftoppm", "ollama"} {
		if path, err := exec.LookPath(p); err == nil && filepath.IsAbs(path) {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	dirs = append(dirs, "/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
	var out []string
	for _, d := range dirs {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return strings.Join(out, ":")
}

func (c *command) serviceStatus(x *cli.Context, m *service.Manager, name string) error {
	s, err := m.Status(x.Context, name)
	if err != nil {
		return err
	}
	if x.Bool("json") {
		err = printJSON(c.stdout, &s)
	} else {
		state := "not installed"
		switch {
		case s.Running:
			state = "running"
		case s.Installed:
			state = "stopped"
		}
		starts := "-"
		if s.Starts > 0 {
			starts = fmt.Sprint(s.Starts)
		}
		pid := "-"
		if s.PID > 0 {
			pid = fmt.Sprint(s.PID)
		}
		err = table(c.stdout, [][]string{{"SERVICE", "STATE", "PID", "STARTS", "SINCE", "ENDED", "FILE"}, {s.Name, state, pid, starts, dash(s.Since), dash(s.LastExit), s.File}})
	}
	switch {
	case err != nil:
		return err
	case !s.Installed:
		return &exitError{code: exitDenied}
	case !s.Running:
		return &exitError{code: exitFailed}
	}
	return nil
}
