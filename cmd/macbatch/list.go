package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
)

func jsonFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "json", Usage: usage} }

// list prints things as a table, or as a JSON object a line.
func list[T any](c *command, x *cli.Context, things []T, header []string, row func(*T) []string) error {
	if !x.Bool("json") {
		rows := [][]string{header}
		for i := range things {
			rows = append(rows, row(&things[i]))
		}
		return table(c.stdout, rows)
	}
	for i := range things {
		if err := printJSON(c.stdout, &things[i]); err != nil {
			return err
		}
	}
	return nil
}

func jobsCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "jobs", Usage: "list jobs, newest first", UsageText: "macbatch jobs [--project NAME] [--json]",
		Flags: append(clientFlags(),
			&cli.IntFlag{Name: "limit", Usage: "at most so many", Value: 50},
			&cli.StringFlag{Name: "project", Usage: "those of the project `NAME` only"}, jsonFlag("print a JSON object a line")),
		Action: func(x *cli.Context) error {
			if _, err := args(x, 0, 0, "no arguments"); err != nil {
				return err
			}
			ctl, err := c.dial(x)
			if err != nil {
				return err
			}
			jobs, err := jobsOf(x.Context, ctl, lease.Project(x.String("project")), x.Int("limit"))
			if err != nil {
				return err
			}
			return list(c, x, jobs, []string{"JOB", "STATE", "KIND", "ITEMS", "FAILED", "MEDIA", "SUBMITTED", "PARAMETERS"}, func(j *lease.Job) []string {
				return []string{
					j.ID.String(), string(j.State), string(j.Kind), fmt.Sprintf("%d/%d", j.Items.Done, j.Items.Total), fmt.Sprint(j.Items.Failed),
					clock(media(j.Work.Done)) + "/" + clock(media(j.Work.Total)), j.Submitted.Local().Format(time.DateTime), string(j.Params),
				}
			})
		},
	}
}

// jobsOf lists the newest jobs of a project; of all projects when none is named.
func jobsOf(ctx context.Context, ctl lease.Control, p lease.Project, limit int) (list []lease.Job, err error) {
	if p == "" {
		return ctl.Jobs(ctx, 0, limit)
	}
	var before lease.JobID
	for len(list) < limit {
		page, err := ctl.Jobs(ctx, before, lease.MaxPage)
		if err != nil || len(page) == 0 {
			return list, err
		}
		for i := range page {
			if before = page[i].ID; page[i].Project == p && len(list) < limit {
				list = append(list, page[i])
			}
		}
	}
	return list, nil
}

func workersCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "workers", Usage: "list the workers seen since the control plane started", UsageText: "macbatch workers [--json]",
		Flags: append(clientFlags(), jsonFlag("print a JSON object a line")),
		Action: func(x *cli.Context) error {
			if _, err := args(x, 0, 0, "no arguments"); err != nil {
				return err
			}
			ctl, err := c.dial(x)
			if err != nil {
				return err
			}
			workers, err := ctl.Workers(x.Context)
			if err != nil {
				return err
			}
			return list(c, x, workers, []string{"WORKER", "HOST", "LEASES", "SEEN", "OFFERS"}, func(w *lease.Worker) []string {
				return []string{string(w.ID), w.Host, fmt.Sprint(w.Leases), w.Seen.Local().Format(time.DateTime), describeOffer(w.Offer)}
			})
		},
	}
}

func cancelCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "end jobs; nothing of them turns done any more", UsageText: "macbatch cancel JOB… [--reason TEXT]",
		Flags: append(clientFlags(), &cli.StringFlag{Name: "reason", Usage: "kept with the job"}),
		Action: func(x *cli.Context) error {
			ids, err := jobArgs(x)
			if err != nil {
				return err
			}
			ctl, err := c.dial(x)
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range ids {
				if err := ctl.Cancel(x.Context, id, x.String("reason")); err != nil {
					errs = append(errs, fmt.Errorf("cancel job %v: %w", id, err))
				}
			}
			return errors.Join(errs...)
		},
	}
}

func eventsCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "events", Usage: "print the ledger, of a job, a shard or everything", UsageText: "macbatch events [JOB|SHARD] [--json]",
		Flags:  append(clientFlags(), &cli.BoolFlag{Name: "json", Usage: "print a JSON object a line"}),
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
	for after := uint64(0); ; {
		events, err := ctl.Events(x.Context, of, after, 0)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for i := range events {
			ev := &events[i]
			after = ev.Seq
			if x.Bool("json") {
				err = printJSON(c.stdout, ev)
			} else {
				err = c.printEvent(ev)
			}
			if err != nil {
				return err
			}
		}
	}
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
		line += fmt.Sprintf(" project=%s", printable(string(ev.Project)))
	}
	if ev.Subject != "" {
		line += fmt.Sprintf(" actor=%s", printable(string(ev.Subject)))
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
