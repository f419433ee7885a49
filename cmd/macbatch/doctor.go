package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/doctor"
	"macbatch/lease/worker/kinds"
)

func doctorCommand(c *command) *cli.Command {
	flags := []cli.Flag{
		jsonFlag("print a JSON object a line"),
		&cli.StringFlag{Name: "of", Usage: "look after `WHAT`: control, serve, or client, which is neither (default: what this machine was used for)"},
		&cli.BoolFlag{Name: "service", Usage: "look from within the installed services, with their flags, and tell what differs from here"},
		&cli.BoolFlag{Name: "system", Usage: "with --service: those of the machine"},
		&cli.StringFlag{Name: "report", Hidden: true, TakesFile: true},
	}
	return &cli.Command{
		Name:      "doctor",
		Usage:     "look whether this machine is able to do its work, and what to do about it",
		UsageText: "macbatch doctor [--json] [--service] [flags of serve]",
		Description: "A little of everything is really done: sound transcribed, a word of each model, a file of each root, a block\n" +
			"synced. It takes the flags of serve, and its settings. Exit code 0, or 1 when something fails.",
		Flags:  append(flags, under("As serve has them:", serveFlags())...),
		Action: func(x *cli.Context) error { return c.doctor(x) },
	}
}

// started notes a start for the doctor; a disk that is full has other troubles.
func (c *command) started(data string) {
	if err := doctor.Started(data, time.Now()); err != nil {
		fmt.Fprintf(c.stderr, "macbatch: %s\n", printable(err.Error()))
	}
}

func (c *command) doctor(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	if x.Bool("service") {
		return c.serviceDoctor(x)
	}
	var found []doctor.Finding
	err := c.examine(x, func(f doctor.Finding) {
		found = append(found, f)
		if x.String("report") == "" {
			c.showFinding(x, f)
		}
	})
	if file := x.String("report"); file != "" {
		if err != nil { // whoever waits for the report hears of it
			found = append(found, doctor.Finding{Check: "doctor", Level: doctor.Fail, Text: err.Error()})
		}
		var b strings.Builder
		for i := range found {
			if err := printJSON(&b, &found[i]); err != nil {
				return err
			}
		}
		return writeSecret(file, b.String())
	}
	if err != nil {
		return err
	}
	return ill(found)
}

// ill is the error of a command that found what fails.
func ill(found []doctor.Finding) error {
	if doctor.Worst(found) == doctor.Fail {
		return &exitError{code: exitFailed}
	}
	return nil
}

// showFinding prints a finding.
func (c *command) showFinding(x *cli.Context, f doctor.Finding) {
	if x.Bool("json") {
		_ = printJSON(c.stdout, &f) // strings and a number always are JSON
		return
	}
	what := f.Check
	if f.Of != "" && !strings.HasPrefix(f.Text, f.Of+" ") {
		what += " " + f.Of
	}
	fmt.Fprintf(c.stdout, "%-4s  %s: %s\n", f.Level, printable(what), printable(f.Text))
	if f.Fix != "" {
		fmt.Fprintf(c.stdout, "      → %s\n", printable(f.Fix))
	}
}

// examine does the checks that flags and this machine's use ask for.
func (c *command) examine(x *cli.Context, tell func(doctor.Finding)) error {
	if err := c.settleAs(x, "serve"); err != nil {
		return err
	}
	of := x.String("of")
	if of != "" && !slices.Contains([]string{"control", "serve", "client"}, of) {
		return usagef("--of %q: must be control, serve or client", of)
	}
	worker, err := c.data(x, "worker")
	if err != nil {
		return err
	}
	control, err := c.dataFolder("control")
	if of == "control" {
		control, err = c.data(x, "control")
	}
	if err != nil {
		return err
	}
	isControl := of == "control" || of == "" && there(filepath.Join(control, storeName))
	isWorker := of == "serve" || of == "" && (len(x.StringSlice("root")) > 0 || there(filepath.Join(worker, workerName)))

	checks := []doctor.Check{doctor.Descriptors(), doctor.Speed(), doctor.Modes(c.secrets(x, control, worker)...)}
	if runtime.GOOS == "darwin" {
		checks = append(checks, doctor.Awake(func(ctx context.Context) (string, error) { return c.runSystem(ctx, "pmset", "-g") }))
	}
	checks = append(checks, c.askControl(x))
	if isControl {
		checks = append(checks, doctor.Disk("control", control, 2*reserveBytes),
			doctor.Restarts("control", control, lease.Term, time.Now(), "so it never takes a lease back from a worker that died"))
	}
	if isWorker {
		list, err := c.examineWorker(x)
		if err != nil {
			return err
		}
		checks = append(append(checks, list...), doctor.Disk("worker", worker, floor(x)),
			doctor.Restarts("serve", worker, lease.Term, time.Now(), "so what it holds is never finished"))
	}
	return doctor.Run(x.Context, doctor.Limit, checks, tell)
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// examineWorker are the checks of what serve works with.
func (c *command) examineWorker(x *cli.Context) (checks []doctor.Check, err error) {
	if err := checkServe(x); err != nil {
		return nil, err
	}
	roots, err := parseRoots(x.StringSlice("root"))
	if err != nil {
		return nil, err
	}
	for name, dir := range roots {
		checks = append(checks, doctor.Root(name, dir))
	}
	slices.SortFunc(checks, func(a, b doctor.Check) int { return strings.Compare(a.Of, b.Of) })
	quiet, tools := *c, &kinds.Tools{}
	quiet.stderr = io.Discard // what is not there is a finding
	if err := quiet.models(x, tools, true); err != nil {
		return nil, err
	}
	err = quiet.media(x, roots, tools)
	if usage := new(usageError); errors.As(err, &usage) {
		return nil, err
	}
	checks = append(checks, doctor.Check{Name: "tools", Run: func(context.Context) []doctor.Finding {
		if err == nil {
			return []doctor.Finding{{Check: "tools", Level: doctor.OK, Text: strings.Join(tools.Names(), ", ")}}
		}
		f := doctor.Finding{Check: "tools", Level: doctor.Fail, Text: err.Error(), Fix: "scripts/setup run installs what is missing"}
		if h := new(hinted); errors.As(err, &h) {
			f.Fix = h.hint
		}
		if len(roots) == 0 && len(tools.Servers) > 0 {
			f.Level = doctor.Warn // there is other work
		}
		return []doctor.Finding{f}
	}})
	for _, t := range tools.Transcribers {
		checks = append(checks, doctor.Speech(t.Name, t.Paid, t.Transcriber, tools.FFmpeg))
	}
	for _, s := range tools.Servers {
		checks = append(checks, doctor.Models(s.Tier, s.Paid, s.Runtime))
	}
	return checks, nil
}

// secrets are the files that only this account should read, and their folders.
func (c *command) secrets(x *cli.Context, control, worker string) []string {
	paths := []string{control, filepath.Join(control, tokenName), filepath.Join(control, "tls.key"), filepath.Join(control, storeName), worker}
	if dir, err := c.configFolder(); err == nil {
		paths = append(paths, dir, filepath.Join(dir, credentialName), filepath.Join(dir, settingsName))
	}
	if f := x.String("token-file"); f != "" {
		paths = append(paths, f)
	}
	for _, v := range append(x.StringSlice("speech"), x.StringSlice("runtime")...) {
		for p := range strings.SplitSeq(v, ",") {
			if f, ok := strings.CutPrefix(p, "key-file="); ok {
				paths = append(paths, f)
			}
		}
	}
	return paths
}

// askControl is the check of the control plane that this machine would talk to.
func (c *command) askControl(x *cli.Context) doctor.Check {
	p, err := c.party(x)
	if err == nil {
		client, herr := p.http()
		ctl, cerr := p.client()
		if err = errors.Join(herr, cerr); err == nil {
			return (&doctor.Control{URL: p.urls[0], Client: client, Ask: func(ctx context.Context) error {
				_, err := ctl.Jobs(ctx, 0, 1)
				return err
			}}).Check()
		}
	}
	return doctor.Check{Name: "control", Run: func(context.Context) []doctor.Finding {
		f := doctor.Finding{Check: "control", Level: doctor.Fail, Text: err.Error(), Fix: "macbatch join new on the control host, then macbatch join use here"}
		if h := new(hinted); errors.As(err, &h) && !errors.Is(err, fs.ErrNotExist) {
			f.Fix = h.hint
		}
		if errors.Is(err, fs.ErrNotExist) {
			f.Level, f.Text = doctor.Warn, "this machine has joined no control plane"
		}
		return []doctor.Finding{f}
	}}
}
