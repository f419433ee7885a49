package main

import (
	"errors"
	"fmt"
	"slices"
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
		Name: "jobs", Usage: "list jobs, newest first", UsageText: "macbatch jobs [--state STATE…] [--kind KIND] [--project NAME] [--json]",
		Flags: append(clientFlags(),
			&cli.StringSliceFlag{Name: "state", Usage: "only those in a `STATE`: running, paused, done, partial, failed or canceled; may be repeated"},
			&cli.StringFlag{Name: "kind", Usage: "only those of this `KIND`"},
			&cli.StringFlag{Name: "project", Usage: "only those of this project, by `NAME`"},
			&cli.IntFlag{Name: "limit", Usage: "at most `N`", Value: 50}, jsonFlag("print a JSON object a line")),
		Action: func(x *cli.Context) error {
			if _, err := args(x, 0, 0, "no arguments"); err != nil {
				return err
			}
			for _, s := range x.StringSlice("state") {
				if !slices.Contains(jobStates, lease.JobState(s)) {
					return usagef("--state %q is not known", s)
				}
			}
			if x.Int("limit") < 1 {
				return usagef("--limit %d: must be at least 1", x.Int("limit"))
			}
			ctl, err := c.dial(x)
			if err != nil {
				return err
			}
			jobs, err := selectJobs(x, ctl)
			if err != nil {
				return err
			}
			return list(c, x, jobs, []string{"JOB", "STATE", "KIND", "ITEMS", "FAILED", "WORK", "COST", "SUBMITTED", "PARAMETERS"}, func(j *lease.Job) []string {
				return []string{
					j.ID.String(), string(j.State), string(j.Kind), fmt.Sprintf("%d/%d", j.Items.Done, j.Items.Total), fmt.Sprint(j.Items.Failed),
					worked(j), dash(bill(&j.Cost)), j.Submitted.Local().Format(time.DateTime), string(j.Params),
				}
			})
		},
	}
}

// worked is how much of a job is done: of films their playing time, of a list its items.
func worked(j *lease.Job) string {
	if j.Input != (lease.Input{}) {
		return fmt.Sprintf("%d/%d items", j.Work.Done, j.Work.Total)
	}
	return clock(media(j.Work.Done)) + "/" + clock(media(j.Work.Total))
}

// selectJobs pages through all jobs for those that the flags ask for.
func selectJobs(x *cli.Context, ctl lease.Control) (jobs []lease.Job, err error) {
	states, kind, project, limit := x.StringSlice("state"), lease.Kind(x.String("kind")), lease.Project(x.String("project")), x.Int("limit")
	page := 0 // as much as there is in one
	if len(states) == 0 && kind == "" && project == "" {
		page = limit
	}
	for before := lease.JobID(0); ; {
		list, err := ctl.Jobs(x.Context, before, page)
		if err != nil || len(list) == 0 {
			return jobs, err
		}
		for i := range list {
			j := &list[i]
			before = j.ID
			if len(states) > 0 && !slices.Contains(states, string(j.State)) || kind != "" && j.Kind != kind || project != "" && j.Project != project {
				continue
			}
			if jobs = append(jobs, *j); len(jobs) == limit {
				return jobs, nil
			}
		}
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
			return list(c, x, workers, []string{"WORKER", "HOST", "LEASES", "SEEN", "STATE", "OFFERS", "MACHINE", "LACKS"}, func(w *lease.Worker) []string {
				seen := "-"
				if !w.Seen.IsZero() {
					seen = w.Seen.Local().Format(time.DateTime)
				}
				return []string{string(w.ID), w.Host, fmt.Sprint(w.Leases), seen, workerState(w), describeOffer(w.Offer), describeFacts(&w.Facts), describeRest(&w.Facts)}
			})
		},
	}
}

func cancelCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "end jobs; nothing of them turns done any more", UsageText: "macbatch cancel JOB… [--reason TEXT]",
		Flags: append(clientFlags(), &cli.StringFlag{Name: "reason", Usage: "`TEXT` kept with the job"}),
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
