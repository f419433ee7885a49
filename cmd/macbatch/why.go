package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

func whyCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "tell why a shard does not run, of itself and of each worker",
		UsageText: "macbatch why JOB/SHARD | JOB [--item N] [--json]",
		Description: "Of a job it tells of the shard that comes next, or with --item of those of an item that have not ended.\n" +
			"Items are numbered from 0, as the retry command does.",
		Flags: append(clientFlags(),
			&cli.Uint64Flag{Name: "item", Usage: "the shards of item `N` of the job"},
			jsonFlag("print a JSON object for each shard")),
		Action: func(x *cli.Context) error { return c.why(x) },
	}
}

func (c *command) why(x *cli.Context) error {
	a, err := args(x, 1, 1, "a shard's or a job's id")
	if err != nil {
		return err
	}
	var of lease.ShardID
	if strings.Contains(a[0], "/") {
		if of, err = lease.ParseShardID(a[0]); err == nil && x.IsSet("item") {
			err = usagef("--item is of a job, and %s is a shard", a[0])
		}
	} else {
		of.Job, err = lease.ParseJobID(a[0])
	}
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	shards := []lease.ShardID{of}
	if x.IsSet("item") {
		if shards, err = shardsOf(x, ctl, of.Job, x.Uint64("item")); err != nil {
			return err
		}
	}
	for _, id := range shards {
		out, err := ctl.Why(x.Context, id)
		if err != nil {
			return fmt.Errorf("why %s: %w", a[0], err)
		}
		if x.Bool("json") {
			err = printJSON(c.stdout, out)
		} else {
			err = c.printWhy(id, &out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shardsOf lists the shards of an item: those that have not ended, or when all have
// the newest.
func shardsOf(x *cli.Context, ctl lease.Control, id lease.JobID, item uint64) (open []lease.ShardID, err error) {
	var last lease.ShardID
	for after := uint32(0); ; {
		shards, err := ctl.Shards(x.Context, id, after, 0, false)
		if err != nil {
			return nil, fmt.Errorf("job %v: %w", id, err)
		}
		if len(shards) == 0 {
			break
		}
		for i := range shards {
			s := &shards[i]
			after = s.ID.Seq
			if s.Need.Kind == pipeline.Scan || item < uint64(s.Item) || item >= uint64(s.Item)+uint64(max(1, s.Opens)) {
				continue
			}
			if last = s.ID; !s.State.Terminal() {
				open = append(open, s.ID)
			}
		}
	}
	switch {
	case len(open) > 0:
		return open, nil
	case last.IsZero():
		return nil, fmt.Errorf("item %d of job %v: %w", item, id, lease.ErrNotFound)
	}
	return []lease.ShardID{last}, nil
}

func (c *command) printWhy(of lease.ShardID, w *lease.Why) error {
	head := []string{"job " + of.Job.String(), w.Text}
	if !w.Shard.IsZero() {
		head[0] = fmt.Sprintf("shard %v (%s)", w.Shard, w.Kind)
	}
	rows := [][]string{head}
	for _, there := range w.Workers {
		rows = append(rows, []string{"worker " + string(there.Worker), there.Text})
	}
	return table(c.stdout, rows)
}
