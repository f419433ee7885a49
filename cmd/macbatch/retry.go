package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
)

func retryCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "do again what failed of a job, or what is named",
		UsageText: "macbatch retry JOB [--failed | --suspicious | --item N… | --shard ID…] [--model ENGINE] [--resend]",
		Description: "What ended stays in the ledger as it ended; new shards take its place, with what waited for it. The\n" +
			"earlier results count until new ones are accepted. A canceled job goes on with what is retried.\n\n" +
			"What sent a paid request and never told its outcome is left alone, for to send it again may be to pay\ntwice: --resend takes it in.",
		Flags: append(clientFlags(),
			&cli.BoolFlag{Name: "failed", Usage: "all that failed or was canceled: the default"},
			&cli.BoolFlag{Name: "suspicious", Usage: "the transcripts that are in doubt: see macbatch status --suspicious"},
			&cli.StringFlag{Name: "transcriber", Aliases: []string{"model"}, Usage: "speech `ENGINE` that is to do it instead, as workers name it"},
			&cli.StringSliceFlag{Name: "item", Usage: "`NUMBER` of an item, from 0: what failed of it, or all if nothing did; may be repeated"},
			&cli.StringSliceFlag{Name: "shard", Usage: "`ID` of a shard, done or not; may be repeated"},
			&cli.BoolFlag{Name: "resend", Usage: "also what may have been paid already: its outcome is unknown"},
		),
		Action: func(x *cli.Context) error { return c.retry(x) },
	}
}

func (c *command) retry(x *cli.Context) error {
	id, err := jobArg(x)
	if err != nil {
		return err
	}
	selections, err := selections(x, id)
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	if x.Bool("suspicious") {
		if selections, err = c.doubtful(x, ctl, id); err != nil {
			return err
		}
	}
	var sum lease.Retried
	for _, what := range selections {
		what.With = x.String("transcriber")
		what.Resend = x.Bool("resend")
		for after := uint32(0); ; {
			out, err := ctl.Retry(x.Context, id, what, after)
			if err != nil {
				return fmt.Errorf("retry job %v: %w", id, err)
			}
			sum.Added, sum.Found, sum.Busy, sum.Lost = sum.Added+out.Added, sum.Found+out.Found, sum.Busy+out.Busy, sum.Lost+out.Lost
			sum.Resent, sum.Unknown = sum.Resent+out.Resent, sum.Unknown+out.Unknown
			if after = out.Next; after == 0 {
				break
			}
		}
	}
	if sum.Busy > 0 {
		fmt.Fprintf(c.stderr, "%d selected, but under way already\n", sum.Busy)
	}
	if sum.Lost > 0 {
		fmt.Fprintf(c.stderr, "%d selected, but without their input by now: submit the job again\n", sum.Lost)
	}
	if sum.Unknown > 0 {
		fmt.Fprintf(c.stderr, "%d left alone: the outcome of a paid request is unknown; --resend sends it again, and may pay twice\n", sum.Unknown)
	}
	if sum.Resent > 0 {
		fmt.Fprintf(c.stderr, "%s to be sent again\n", plural(uint64(sum.Resent), "parked shard"))
	}
	if _, err := fmt.Fprintf(c.stdout, "%s added\n", plural(uint64(sum.Added), "shard")); err != nil {
		return err
	}
	if n := len(x.StringSlice("item")) + len(x.StringSlice("shard")); sum.Found < n {
		return fmt.Errorf("retry job %v: %d of %d items and shards: %w", id, n-sum.Found, n, lease.ErrNotFound)
	}
	return nil
}

// selections are what the flags ask for, in parts of bounded size.
func selections(x *cli.Context, id lease.JobID) ([]lease.Selection, error) {
	var items, shards []uint32
	for _, s := range x.StringSlice("item") {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return nil, usagef("--item %q is not a number from 0", s)
		}
		items = append(items, uint32(n))
	}
	for _, s := range x.StringSlice("shard") {
		if !strings.Contains(s, "/") {
			s = id.String() + "/" + s
		}
		shard, err := lease.ParseShardID(s)
		if err != nil || shard.Job != id {
			return nil, usagef("--shard %q is not one of job %v", s, id)
		}
		shards = append(shards, shard.Seq)
	}
	if x.Bool("suspicious") && (x.Bool("failed") || x.Bool("resend") || len(items)+len(shards) > 0) {
		return nil, usagef("--suspicious excludes --failed, --resend, --item and --shard")
	}
	if x.Bool("failed") && len(items)+len(shards) > 0 {
		return nil, usagef("--failed is all of it: it excludes --item and --shard")
	}
	if len(items)+len(shards) == 0 {
		return []lease.Selection{{}}, nil
	}
	var list []lease.Selection
	for part := range slices.Chunk(items, lease.MaxPage) {
		list = append(list, lease.Selection{Items: part})
	}
	for part := range slices.Chunk(shards, lease.MaxPage) {
		list = append(list, lease.Selection{Shards: part})
	}
	return list, nil
}
