package main

import (
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
		Name: "jobs", Usage: "list jobs, newest first", UsageText: "macbatch jobs [--json]",
		Flags: append(clientFlags(),
			&cli.IntFlag{Name: "limit", Usage: "at most so many", Value: 50}, jsonFlag("print a JSON object a line")),
		Action: func(x *cli.Context) error {
			if _, err := args(x, 0, 0, "no arguments"); err != nil {
				return err
			}
			ctl, err := c.dial(x)
			if err != nil {
				return err
			}
			jobs, err := ctl.Jobs(x.Context, 0, x.Int("limit"))
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
