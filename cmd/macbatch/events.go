package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/wire"
)

func eventsCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "events", Usage: "print the ledger, of a job, a shard or everything", UsageText: "macbatch events [JOB|SHARD] [--follow] [--json]",
		Description: "--follow goes on with what comes, until the job or shard has ended or Ctrl-C; it waits for a control\nplane that is away.",
		Flags: append(clientFlags(), jsonFlag("print a JSON object a line"),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "wait for further events"}),
		Action: func(x *cli.Context) error { return c.events(x) },
	}
}

func (c *command) events(x *cli.Context) error {
	a, err := args(x, 0, 1, "at most a job's or a shard's id")
	if err != nil {
		return err
	}
	var of lease.ShardID
	if len(a) == 1 {
		if of, err = lease.ParseShardID(a[0]); err != nil {
			if of.Job, err = lease.ParseJobID(a[0]); err != nil {
				return usagef("%q is neither a job's nor a shard's id", a[0])
			}
		}
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	print := c.printEvent
	if x.Bool("json") {
		print = func(ev *lease.Event) error { return printJSON(c.stdout, ev) }
	}
	if x.Bool("follow") {
		return c.follow(x.Context, ctl, of, print)
	}
	for after := uint64(0); ; {
		events, err := ctl.Events(x.Context, of, after, 0)
		if err != nil || len(events) == 0 {
			return err
		}
		if after, err = printEvents(events, print); err != nil {
			return err
		}
	}
}

func printEvents(events []lease.Event, print func(*lease.Event) error) (last uint64, err error) {
	for i := range events {
		if err := print(&events[i]); err != nil {
			return 0, err
		}
		last = events[i].Seq
	}
	return last, nil
}

// follow prints events until what they tell of has ended, or the context.
func (c *command) follow(ctx context.Context, ctl lease.Control, of lease.ShardID, print func(*lease.Event) error) error {
	away := 0
	for after, over := uint64(0), false; ; {
		// Whether it is over is asked before the events: none can follow those read then.
		ended, err := ended(ctx, ctl, of)
		var events []lease.Event
		switch {
		case err != nil:
		case ended:
			over = true
			events, err = ctl.Events(ctx, of, after, 0)
		default:
			events, err = ctl.Follow(ctx, of, after, 0, lease.MaxWait)
		}
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how one leaves
		case errors.Is(err, lease.ErrUnreachable), errors.Is(err, lease.ErrUnknownOutcome):
			if away == 0 {
				fmt.Fprintf(c.stderr, "%s; trying again\n", printable(err.Error()))
			}
			wait := wire.Backoff(away, rand.Int64N)
			away++
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			continue
		case err != nil:
			return err
		case over && len(events) == 0:
			return nil
		}
		away = 0
		if len(events) > 0 {
			if after, err = printEvents(events, print); err != nil {
				return err
			}
		}
	}
}

// ended reports whether nothing more will be told of a job or shard, unless it is retried.
func ended(ctx context.Context, ctl lease.Control, of lease.ShardID) (bool, error) {
	if of.Job == 0 {
		return false, nil
	}
	if of.Seq == 0 {
		j, err := ctl.Job(ctx, of.Job)
		return j.State.Terminal() && j.Shards.Open() == 0 && j.Plans == 0, err
	}
	rows, err := ctl.Shards(ctx, of.Job, of.Seq-1, 1, false)
	if err == nil && (len(rows) != 1 || rows[0].ID != of) {
		err = fmt.Errorf("shard %v: %w", of, lease.ErrNotFound)
	}
	return err == nil && rows[0].State.Terminal(), err
}

func (c *command) printEvent(ev *lease.Event) error {
	subject := ""
	switch {
	case ev.Shard != 0:
		subject = ev.ShardID().String()
	case ev.Job != 0:
		subject = ev.Job.String()
	}
	line := fmt.Sprintf("%d\t%s\t%s\t%s", ev.Seq, ev.At.Local().Format(time.DateTime), subject, ev.Kind)
	if ev.Actor != "" && ev.Worker == "" {
		line += " by=" + string(ev.Actor)
	}
	if ev.What != "" {
		line += " kind=" + string(ev.What)
	}
	if ev.For != 0 {
		line += " for=" + ev.For.String()
	}
	if ev.Project != "" {
		line += " project=" + string(ev.Project)
	}
	if ev.Subject != "" {
		line += " actor=" + string(ev.Subject)
	}
	if ev.Worker != "" {
		line += " worker=" + string(ev.Worker)
	}
	if ev.Fence != 0 {
		line += " fence=" + ev.Fence.String()
	}
	if ev.Class != "" {
		line += " class=" + string(ev.Class)
	}
	if !ev.From.IsZero() {
		line += " from=" + ev.From.String()
	}
	if ev.Reason != "" {
		line += fmt.Sprintf(" reason=%q", ev.Reason)
	}
	_, err := fmt.Fprintln(c.stdout, line)
	return err
}
