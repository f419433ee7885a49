package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease/probe"
)

// probePart is the argument that makes this program a part of a probe.
const probePart = "probe-part"

func probeCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "probe", Usage: "qualify a disk for a store, with real processes that are killed",
		UsageText: "macbatch probe --store FILE --scenario " + strings.Join(probe.Scenarios, "|") + " [flags]",
		Description: "concurrent-queue: many workers drain one queue; each shard is granted once and ends once.\n" +
			"kill-and-reclaim: workers and the control plane are killed; others take over after the lapse.\n" +
			"power-loss: crash images of what the engine wrote, with unsynced writes lost, kept and torn, are\n" +
			"opened and verified; --items is how many.\n\n" +
			"It prints every count, then PASS or FAIL. Exit code 0 only when all are exactly right. FILE must not\n" +
			"exist; it is left for a look.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "store", Usage: "`FILE` to make, on the disk in question", TakesFile: true},
			&cli.StringFlag{Name: "scenario", Usage: "`NAME` of what to do"},
			&cli.IntFlag{Name: "workers", Usage: "`N` worker processes", Value: 16},
			&cli.IntFlag{Name: "items", Usage: "`N` shards", Value: 10000},
			&cli.Uint64Flag{Name: "seed", Usage: "`N` that choices are made from; 0: any"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: func(x *cli.Context) error { return c.probe(x) },
	}
}

func probePartCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: probePart, Usage: "be a process of a probe", Hidden: true,
		Action: func(x *cli.Context) error { return probe.Part(x.Context, c.stdin, c.stdout) },
	}
}

func (c *command) probe(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	o := probe.Options{
		Store: x.String("store"), Scenario: x.String("scenario"), Workers: x.Int("workers"), Items: x.Int("items"), Seed: x.Uint64("seed"),
	}
	switch {
	case o.Store == "":
		return usagef("probe needs --store FILE, which it makes")
	case !slices.Contains(probe.Scenarios, o.Scenario):
		return usagef("--scenario %q: must be %s", o.Scenario, strings.Join(probe.Scenarios, ", "))
	case o.Workers < 1 || o.Workers > 1000:
		return usagef("--workers %d: must be 1 to 1000", o.Workers)
	case o.Items < 1 || o.Items > 1_000_000:
		return usagef("--items %d: must be 1 to 1000000", o.Items)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	o.Command = []string{self, probePart}
	r, err := probe.Run(x.Context, o)
	if errors.Is(err, context.Canceled) {
		return &exitError{exitFailed, "probe: interrupted; nothing is left of it"}
	}
	if err != nil {
		return err
	}
	if x.Bool("json") {
		err = printJSON(c.stdout, &r)
	} else {
		err = printProbe(c.stdout, &r)
	}
	if err == nil && !r.Pass {
		return &exitError{exitFailed, fmt.Sprintf("probe %s: %s; the store is left at %s", r.Scenario, plural(uint64(len(r.Faults)), "count")+" wrong", r.Store)}
	}
	return err
}

// printProbe prints a count a line, and the verdict last.
func printProbe(w io.Writer, r *probe.Report) error {
	type line struct {
		name  string
		value any
	}
	lines := []line{{"scenario", r.Scenario}, {"store", printable(r.Store)}}
	if r.Scenario == probe.Power {
		lines = append(lines, line{"images", r.Images}, line{"torn", r.Torn}, line{"damaged", r.Damaged}, line{"strange", r.Strange})
	} else {
		lines = append(lines, line{"workers", r.Workers}, line{"items", r.Items}, line{"claimed", r.Claimed}, line{"distinct", r.Distinct},
			line{"accepted", r.Accepted}, line{"terminal", r.Terminal}, line{"terminal events", r.Terminations},
			line{"duplicate claims", r.DuplicateClaims}, line{"fence errors", r.FenceErrors})
	}
	if r.Scenario == probe.Reclaim {
		lines = append(lines, line{"kills", r.Kills}, line{"reclaimed", r.Reclaimed}, line{"early grants", r.Early},
			line{"stale reports", r.Stale}, line{"resurfaced", r.Resurfaced})
	}
	lines = append(lines, line{"lost", r.Lost}, line{"storage errors", r.StorageErrors}, line{"ledger problems", r.LedgerProblems},
		line{"seed", r.Seed}, line{"elapsed", r.Elapsed.Round(time.Millisecond)}, line{"per second", int(r.PerSec)},
		line{"commits", r.Commits}, line{"fsyncs/s", int(r.Syncs)})
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%-17s %v\n", l.name, l.value); err != nil {
			return err
		}
	}
	for _, s := range append(r.Faults, r.Problems...) {
		if _, err := fmt.Fprintf(w, "wrong             %s\n", printable(s)); err != nil {
			return err
		}
	}
	verdict := "FAIL"
	if r.Pass {
		verdict = "PASS"
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
