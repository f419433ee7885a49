package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/fleet"
	"macbatch/lease/join"
	"macbatch/lease/store"
)

// inventoryName is the file of hosts beside the settings.
const inventoryName = "fleet.toml"

func fleetCommand(c *command) *cli.Command {
	one := func(verb fleet.Verb, usage string, flags ...cli.Flag) *cli.Command {
		return &cli.Command{
			Name: string(verb), Usage: usage, UsageText: "macbatch fleet " + string(verb) + " [--only HOST…] [--label LABEL…] [--dry-run] [--json]",
			Description: "Hosts are those of " + inventoryName + " beside config.toml, a [[host]] for each:\n\n" +
				"    [[host]]\n    host = \"ann@mini1.local\"                 # as ssh knows it\n    roots = { films = \"/Volumes/films\" }\n    labels = [\"office\"]\n    project = \"films\"\n    flags = [\"--max-load=8\"]                # of serve\n\n" +
				"The system's own ssh gets there without asking anything: by a key in its agent, to hosts that it knows.\n" +
				"Exit code 0 when all went well, 4 when some did, 1 when none.",
			Flags: append([]cli.Flag{
				&cli.StringFlag{Name: "inventory", Usage: "`FILE` of hosts (default: " + inventoryName + " beside config.toml)", TakesFile: true},
				&cli.StringSliceFlag{Name: "only", Usage: "only this `HOST`, or worker by its name; may be repeated"},
				&cli.StringSliceFlag{Name: "label", Usage: "only hosts with this `LABEL`; may be repeated"},
				&cli.DurationFlag{Name: "give-up", Usage: "leave a host that is not done after `TIME`", Value: 10 * time.Minute},
				&cli.StringFlag{Name: "ssh-config", Usage: "`FILE` of ssh instead of yours and the system's", TakesFile: true},
				&cli.BoolFlag{Name: "dry-run", Usage: "print every command, run none"},
				jsonFlag("print a JSON object a line, each host as it is done"),
			}, flags...),
			Action: func(x *cli.Context) error { return c.fleet(x, verb) },
		}
	}
	programs := &cli.StringFlag{Name: "programs", Usage: "`FOLDER` of programs for machines of other kinds than this one, such as macbatch-darwin-arm64", TakesFile: true}
	return verbs("fleet", "drive the workers of an inventory over ssh",
		one(fleet.Status, "tell how they stand; exit code 0 when all run"),
		one(fleet.Install, "bring the program, let them join, install and start serve; done again it does what is missing", append(clientFlags(), programs)...),
		one(fleet.Upgrade, "bring this version of the program, and start anew what runs", programs),
		one(fleet.Start, "start their workers"),
		one(fleet.Stop, "stop their workers, each within its grace"),
		one(fleet.Logs, "print the end of what they said", &cli.IntFlag{Name: "lines", Aliases: []string{"n"}, Usage: "at most `N` lines of each", Value: 50}),
	)
}

func (c *command) fleet(x *cli.Context, verb fleet.Verb) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	hosts, err := c.inventory(x)
	if err != nil {
		return err
	}
	if x.Duration("give-up") <= 0 {
		return usagef("--give-up %v: must be above 0", x.Duration("give-up"))
	}
	if n := x.Int("lines"); verb == fleet.Logs && (n < 1 || n > 100_000) {
		return usagef("--lines %d: must be 1 to 100000", n)
	}
	f, err := c.newFleet(x)
	if err != nil {
		return err
	}
	if x.Bool("dry-run") {
		for i := range hosts {
			for _, line := range f.Plan(verb, &hosts[i]) {
				fmt.Fprintln(c.stdout, line) // it is to be run: an inventory has no control characters
			}
		}
		return nil
	}
	if verb == fleet.Install {
		if f.Pin, f.Invite, err = c.inviter(x); err != nil {
			return err
		}
	}
	var bar *progressbar.ProgressBar
	if isTerminal(c.stderr) {
		bar = progressbar.NewOptions(len(hosts), progressbar.OptionSetWriter(c.stderr), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetDescription("hosts"), progressbar.OptionSetRenderBlankState(true))
	}
	results := f.Run(x.Context, verb, hosts, func(r fleet.Result) {
		if bar != nil {
			_ = bar.Add(1) // the terminal's loss
		}
		if x.Bool("json") {
			_ = printJSON(c.stdout, &r) // strings always are JSON
		}
	})
	if !x.Bool("json") {
		if err := c.fleetTable(verb, results); err != nil {
			return err
		}
	}
	return fleetEnd(x.Context, verb, results)
}

// inventory reads the hosts that are meant.
func (c *command) inventory(x *cli.Context) ([]fleet.Host, error) {
	file := x.String("inventory")
	if file == "" {
		dir, err := c.configFolder()
		if err != nil {
			return nil, err
		}
		file = filepath.Join(dir, inventoryName)
	}
	hosts, err := fleet.ReadInventory(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint(usagef("%v", err), "macbatch fleet status --help shows what belongs into it")
	}
	if err == nil {
		hosts, err = fleet.Select(hosts, x.StringSlice("only"), x.StringSlice("label"))
	}
	if err != nil {
		return nil, usagef("%v", err)
	}
	return hosts, nil
}

func (c *command) newFleet(x *cli.Context) (*fleet.Fleet, error) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fmt.Errorf("find ssh: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	f := &fleet.Fleet{
		SSH:      fleet.SSH{Program: ssh, Connect: min(10*time.Second, x.Duration("give-up"))},
		Programs: &fleet.Programs{Own: program, OwnFor: runtime.GOOS + "/" + runtime.GOARCH, Folder: x.String("programs")},
		Limit:    x.Duration("give-up"), Lines: x.Int("lines"),
	}
	if file := x.String("ssh-config"); file != "" {
		if f.SSH.Config, err = filepath.Abs(file); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"SSH_AUTH_SOCK", "USER", "LOGNAME"} {
		if v, ok := c.env(name); ok {
			f.SSH.Env = append(f.SSH.Env, name+"="+v)
		}
	}
	return f, nil
}

// inviter finds the control plane that hosts are to join, and what makes their strings.
func (c *command) inviter(x *cli.Context) (pin string, invite func(context.Context, fleet.Host) (string, error), err error) {
	p, err := c.party(x)
	if err != nil {
		return "", nil, err
	}
	if p.pin == "" {
		return "", nil, hint(errors.New("the control plane listens for this machine alone, without TLS"), "macbatch control --listen 0.0.0.0:7373 is reached by others")
	}
	ctl, err := p.client()
	if err != nil {
		return "", nil, err
	}
	actors, err := ctl.Actors(x.Context)
	if err != nil { // who may not invite hears of it before anything is done
		return "", nil, err
	}
	return p.pin, func(ctx context.Context, h fleet.Host) (string, error) {
		i := lease.Invitation{Actor: lease.Actor{ID: lease.ActorID(h.Name), Role: lease.WorkerRole, Projects: []lease.Project{lease.Project(h.Project)}}, For: 30 * time.Minute}
		for _, a := range actors {
			if a.ID == i.ID && a.Role != lease.WorkerRole { // whoever is invited again keeps the role
				return "", fmt.Errorf("actor %q is a %s; give the host another name", a.ID, a.Role)
			}
		}
		t := join.Ticket{}
		t.Secret, i.Secret = store.NewInvite(i.ID)
		reach, err := ctl.Invite(ctx, i)
		if errors.Is(err, lease.ErrNotAllowed) { // it was invited before, and lost what it got
			i = lease.Invitation{Actor: lease.Actor{ID: i.ID}, For: i.For, Again: true, Secret: i.Secret}
			if reach, err = ctl.Invite(ctx, i); errors.Is(err, lease.ErrNotFound) {
				err = fmt.Errorf("actor %q was revoked; give the host another name", h.Name)
			}
		}
		if err != nil {
			return "", about(err, "project %q", h.Project)
		}
		t.URLs, t.Pin = c.reachable(x, reach), reach.Pin
		text := t.String()
		_, err = join.ParseTicket(text)
		return text, err
	}, nil
}

// fleetTable prints how it went, and what hosts said.
func (c *command) fleetTable(verb fleet.Verb, results []fleet.Result) error {
	if verb == fleet.Logs {
		for _, r := range results {
			for line := range strings.Lines(r.Output) {
				fmt.Fprintf(c.stdout, "%s: %s\n", printable(r.Host), printable(strings.TrimRight(line, "\r\n")))
			}
			if r.Err != nil {
				fmt.Fprintf(c.stderr, "macbatch: %s: %s\n", printable(r.Host), printable(r.Error))
			}
		}
		return nil
	}
	rows := [][]string{{"HOST", "WORKER", "SERVICE", "VERSION", "SYSTEM", "JOINED", "DONE"}}
	for _, r := range results {
		done := dash(strings.Join(r.Did, ", "))
		if r.Err != nil {
			done = strings.TrimPrefix(strings.Join(r.Did, ", ")+"; "+r.Error, "; ")
		}
		service := r.Service
		if service == "" {
			service = "down"
		}
		rows = append(rows, []string{r.Host, r.Name, service, dash(r.Version), dash(r.System), dash(r.Joined), done})
	}
	return table(c.stdout, rows)
}

// fleetEnd is the error that tells how many hosts it went well on.
func fleetEnd(ctx context.Context, verb fleet.Verb, results []fleet.Result) error {
	good := 0
	for _, r := range results {
		if r.Err == nil && (verb != fleet.Status || r.Service == "running") {
			good++
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case good == len(results):
		return nil
	case good > 0:
		return &exitError{code: exitPartial}
	}
	return &exitError{code: exitFailed}
}
