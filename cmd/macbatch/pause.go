package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

// shardKinds are the kinds of work that a pause can name.
var shardKinds = []lease.Kind{
	pipeline.Scan, pipeline.Transcode, pipeline.Render, pipeline.Transcribe, pipeline.Summarize,
	pipeline.Embed, pipeline.Classify, pipeline.Generate, pipeline.OCR, pipeline.SummarizeText,
}

// joined names kinds to people.
func joined(kinds []lease.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

func targetFlags() []cli.Flag {
	return append(clientFlags(),
		&cli.StringSliceFlag{Name: "kind", Usage: "all shards of a `KIND`, such as transcode; may be repeated"},
		&cli.BoolFlag{Name: "all", Usage: "everything"},
		&cli.StringFlag{Name: "why", Usage: "`TEXT` kept in the ledger"},
	)
}

func pauseCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:        "pause",
		Usage:       "grant nothing more of a job, a kind or everything",
		UsageText:   "macbatch pause JOB… | --kind KIND | --all [--why TEXT] [--for 2h | --until 22:00]",
		Description: "What is leased goes on and counts. A pause for a time begins afresh when the control plane restarts.",
		Flags: append(targetFlags(),
			&cli.DurationFlag{Name: "for", Usage: "it ends by itself after `TIME`, such as 2h"},
			&cli.StringFlag{Name: "until", Usage: "it ends by itself at this `TIME`: 22:00, or 2026-01-31T22:00"},
		),
		Action: func(x *cli.Context) error {
			for _, k := range x.StringSlice("kind") {
				if !slices.Contains(shardKinds, lease.Kind(k)) {
					return usagef("--kind %q is not known; there are %s", k, joined(shardKinds))
				}
			}
			d, err := pauseFor(x, time.Now())
			if err != nil {
				return err
			}
			return c.eachTarget(x, func(ctl lease.Control, of lease.Target) error {
				return ctl.Pause(x.Context, of, x.String("why"), d)
			})
		},
	}
}

func resumeCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "resume", Usage: "end a pause", UsageText: "macbatch resume JOB… | --kind KIND | --all [--why TEXT]",
		Description: "--all ends the pause of everything; jobs and kinds that are paused themselves stay so.",
		Flags:       targetFlags(),
		Action: func(x *cli.Context) error {
			return c.eachTarget(x, func(ctl lease.Control, of lease.Target) error {
				return ctl.Resume(x.Context, of, x.String("why"))
			})
		},
	}
}

// eachTarget does something to each target that is named.
func (c *command) eachTarget(x *cli.Context, do func(lease.Control, lease.Target) error) error {
	var targets []lease.Target
	for _, a := range x.Args().Slice() {
		id, err := lease.ParseJobID(a)
		if err != nil {
			return err
		}
		targets = append(targets, lease.Target{Job: id})
	}
	for _, k := range x.StringSlice("kind") {
		if k == "" {
			return usagef("--kind names no kind")
		}
		targets = append(targets, lease.Target{Kind: lease.Kind(k)})
	}
	if x.Bool("all") {
		targets = append(targets, lease.Target{All: true})
	}
	if len(targets) == 0 {
		return usagef("%s takes jobs' ids, --kind or --all; see macbatch %s --help", x.Command.Name, x.Command.Name)
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	var errs []error
	for _, of := range targets {
		if err := do(ctl, of); err != nil {
			errs = append(errs, fmt.Errorf("%s %v: %w", x.Command.Name, of, err))
		}
	}
	return errors.Join(errs...)
}

// pauseFor is how long --for or --until ask for; 0: until it is resumed.
func pauseFor(x *cli.Context, now time.Time) (time.Duration, error) {
	until := x.String("until")
	switch d := x.Duration("for"); {
	case x.IsSet("for") && until != "":
		return 0, usagef("--for and --until exclude each other")
	case x.IsSet("for") && d <= 0:
		return 0, usagef("--for %v: must be above 0", d)
	case until == "":
		return d, nil
	}
	at, err := parseUntil(until, now)
	if err != nil {
		return 0, err
	}
	if !at.After(now) {
		return 0, usagef("--until %q is over", until)
	}
	return at.Sub(now.Round(0)), nil
}

// parseUntil reads a time of day, which is the next such, or an instant.
func parseUntil(s string, now time.Time) (time.Time, error) {
	now = now.Local()
	if at, err := time.Parse("15:04", s); err == nil {
		y, m, d := now.Date()
		next := time.Date(y, m, d, at.Hour(), at.Minute(), 0, 0, now.Location())
		if !next.After(now) {
			next = time.Date(y, m, d+1, at.Hour(), at.Minute(), 0, 0, now.Location())
		}
		return next, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02 15:04", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("--until %q: must be like 22:00 or 2026-01-31T22:00", s)
}
