package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
)

func drainCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "let workers finish what they run, and give them nothing more",
		UsageText: "macbatch drain WORKER… [--why TEXT] [--for 2h | --until 22:00]\nmacbatch drain WORKER… --undo [--why TEXT]",
		Description: "A drained worker stays drained when it or the control plane restarts. It gives back what it has not begun.\n" +
			"A drain for a time begins afresh when the control plane restarts.",
		Flags: append(clientFlags(),
			&cli.BoolFlag{Name: "undo", Usage: "end a drain"},
			&cli.StringFlag{Name: "why", Usage: "`TEXT` kept in the ledger, and told"},
			&cli.DurationFlag{Name: "for", Usage: "it ends by itself after `TIME`, such as 2h"},
			&cli.StringFlag{Name: "until", Usage: "it ends by itself at this `TIME`: 22:00, or 2026-01-31T22:00"},
		),
		Action: func(x *cli.Context) error { return c.drain(x) },
	}
}

func (c *command) drain(x *cli.Context) error {
	names, err := args(x, 1, 1<<10, "workers' names")
	if err != nil {
		return err
	}
	undo := x.Bool("undo")
	if undo && (x.IsSet("for") || x.IsSet("until")) {
		return usagef("--undo takes neither --for nor --until")
	}
	d, err := pauseFor(x, time.Now())
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	known := map[lease.WorkerID]bool{}
	workers, err := ctl.Workers(x.Context)
	if err != nil {
		return err
	}
	for _, w := range workers {
		known[w.ID] = true
	}
	var errs []error
	for _, name := range names {
		of := lease.Target{Worker: lease.WorkerID(name)}
		if undo {
			err = ctl.Resume(x.Context, of, x.String("why"))
		} else {
			err = ctl.Pause(x.Context, of, x.String("why"), d)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("drain %v: %w", of, err))
		case !known[of.Worker] && !undo:
			fmt.Fprintf(c.stderr, "macbatch: worker %q was not seen since the control plane started; the drain holds once it comes\n", printable(name))
		}
	}
	return errors.Join(errs...)
}

// workerState says whether a worker is there and may be given work.
func workerState(w *lease.Worker) string {
	var states []string
	if w.Away {
		states = append(states, "away")
	}
	if !w.Drain.IsZero() {
		states = append(states, w.Drain.String())
	}
	if len(states) == 0 {
		return "ok"
	}
	return strings.Join(states, "; ")
}
