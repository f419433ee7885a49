package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

func statusCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "tell where a job stands; the exit code tells too",
		UsageText: "macbatch status JOB [--wait] [--json]",
		Flags: append(clientFlags(),
			&cli.BoolFlag{Name: "wait", Usage: "until the job ended"},
			&cli.DurationFlag{Name: "timeout", Usage: "wait no longer than `TIME`, such as 30m (default: for ever)"},
			&cli.BoolFlag{Name: "json", Usage: "print the job as JSON"},
			&cli.BoolFlag{Name: "suspicious", Usage: "list what in its transcripts is to be doubted, and why"},
		),
		Action: func(x *cli.Context) error { return c.status(x) },
	}
}

func (c *command) status(x *cli.Context) error {
	id, err := jobArg(x)
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	if x.Bool("suspicious") {
		return c.suspicious(x, ctl, id)
	}
	ctx := x.Context
	var bar *bar
	began, wait := time.Now(), x.Bool("wait")
	if wait {
		bar = c.newBar()
	}
	var j lease.Job
	for tries := 0; ; {
		j, err = ctl.Job(ctx, id)
		switch {
		case wait && (errors.Is(err, lease.ErrUnreachable) || errors.Is(err, lease.ErrUnknownOutcome)) && tries < 60:
			if tries++; tries == 1 { // the control plane may be restarting
				fmt.Fprintf(c.stderr, "%s; trying again\n", printable(err.Error()))
			}
		case err != nil:
			return fmt.Errorf("job %v: %w", id, err)
		default:
			tries = 0
			if wait {
				bar.show(&j)
			}
		}
		timeout := x.Duration("timeout")
		if err == nil && (!wait || j.State.Terminal() || timeout > 0 && time.Since(began) >= timeout) {
			break
		}
		select {
		case <-ctx.Done():
			return &exitError{exitRunning, ""}
		case <-time.After(min(time.Second, pollEvery<<min(tries, 3))):
		}
	}
	if wait {
		bar.close()
	}
	if x.Bool("json") {
		err = printJSON(c.stdout, j)
	} else {
		err = c.printJob(&j)
		if err == nil && (j.Shards.Failed > j.Old.Failed || j.Items.Failed > 0) {
			err = c.printFailures(x, ctl, id)
		}
	}
	return errors.Join(err, endError(j.State))
}

func jobArg(x *cli.Context) (lease.JobID, error) {
	a, err := args(x, 1, 1, "a job's id")
	if err != nil {
		return 0, err
	}
	return lease.ParseJobID(a[0])
}

// jobArgs are the ids of at least one job.
func jobArgs(x *cli.Context) ([]lease.JobID, error) {
	a, err := args(x, 1, 1<<20, "jobs' ids")
	if err != nil {
		return nil, err
	}
	ids := make([]lease.JobID, len(a))
	for i, s := range a {
		if ids[i], err = lease.ParseJobID(s); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (c *command) printJob(j *lease.Job) error {
	shards := fmt.Sprintf("%d blocked, %d ready, %d leased, %d done, %d failed, %d canceled",
		j.Shards.Blocked, j.Shards.Ready, j.Shards.Leased, j.Shards.Done, j.Shards.Failed, j.Shards.Canceled)
	if old := j.Old.Done + j.Old.Failed + j.Old.Canceled; old > 0 {
		shards += fmt.Sprintf("; %d superseded", old)
	}
	rows := [][]string{
		{"job", j.ID.String()},
		{"state", string(j.State)},
		{"kind", string(j.Kind)},
		{"items", fmt.Sprintf("%d of %d done, %d failed", j.Items.Done, j.Items.Total, j.Items.Failed)},
	}
	if len(j.Require) > 0 {
		rows = append(rows, []string{"requires", strings.Join(j.Require, " ")})
	}
	if j.Input == (lease.Input{}) {
		rows = append(rows, []string{"media", fmt.Sprintf("%s of %s", clock(media(j.Work.Done+j.Work.Running)), clock(media(j.Work.Total)))})
	}
	rows = append(rows, []string{"shards", shards}, []string{"submitted", j.Submitted.Local().Format(time.DateTime) + " by " + string(j.Actor)})
	if !j.Ended.IsZero() {
		rows = append(rows, []string{"ended", j.Ended.Local().Format(time.DateTime)})
	}
	if s := bill(&j.Cost); s != "" {
		rows = append(rows, []string{"cost", s})
	}
	if j.Parked > 0 {
		rows = append(rows, []string{"parked", fmt.Sprintf("%s: unknown outcome of a paid request", plural(uint64(j.Parked), "shard"))})
	}
	if !j.Pause.IsZero() && !j.State.Terminal() {
		rows = append(rows, []string{"pause", j.Pause.String() + ", since " + j.Pause.Since.Local().Format(time.DateTime)})
	}
	if j.Waits != "" {
		rows = append(rows, []string{"waits", j.Waits})
	}
	if j.Reason != "" {
		rows = append(rows, []string{"reason", j.Reason})
	}
	return table(c.stdout, rows)
}

// bill says what a job costs; "" for nothing.
func bill(b *lease.Bill) string {
	if *b == (lease.Bill{}) {
		return ""
	}
	s := b.Spent.String()
	if b.Reserved > 0 {
		s += ", " + b.Reserved.String() + " reserved"
	}
	if b.Max > 0 {
		s += ", of " + b.Max.String()
	}
	return s
}

// maxFailures bounds the failures that status prints.
const maxFailures = 20

func (c *command) printFailures(x *cli.Context, ctl lease.Control, id lease.JobID) error {
	rows := [][]string{}
	for after := uint32(0); len(rows) < maxFailures; {
		shards, err := ctl.Shards(x.Context, id, after, 0, false)
		if err != nil {
			return err
		}
		if len(shards) == 0 {
			break
		}
		for _, s := range shards {
			after = s.ID.Seq
			if s.State == lease.Failed && s.Successor == 0 && s.Class != lease.Dependency && len(rows) < maxFailures {
				rows = append(rows, []string{"failed", s.ID.String(), string(s.Need.Kind), pipeline.Describe(s.Need.Kind, s.Payload), s.Reason})
			}
		}
	}
	return table(c.stdout, rows)
}
