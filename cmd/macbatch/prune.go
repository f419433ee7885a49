package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
)

func pruneCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "prune", Usage: "export and drop old jobs that have ended, and cut the ledger",
		UsageText: "macbatch prune --older-than AGE (--export FILE | --discard | --dry-run)",
		Description: "Drops whole jobs that ended longer ago than AGE (such as 720h or 30d). FILE, a\n" +
			"new one, gets a JSON object a line before anything is dropped: each job, its shards with their results,\n" +
			"its events. Keep jobs longer than any worker may be away: reports on dropped ones are denied. The store's\n" +
			"file does not shrink before macbatch compact. Prints the ids of the jobs.",
		Flags: append(clientFlags(),
			&cli.StringFlag{Name: "older-than", Usage: "drop jobs that ended longer ago than `AGE`"},
			&cli.StringFlag{Name: "export", Usage: "write what is dropped into `FILE`", TakesFile: true},
			&cli.BoolFlag{Name: "discard", Usage: "drop without an export"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only print which jobs would be dropped"}),
		Action: func(x *cli.Context) error { return c.prune(x) },
	}
}

func (c *command) prune(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	age, err := parseAge(x.String("older-than"))
	if err != nil {
		return err
	}
	export, ways := x.String("export"), 0
	for _, way := range []bool{export != "", x.Bool("discard"), x.Bool("dry-run")} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return usagef("prune takes one of --export FILE, --discard and --dry-run")
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	jobs, err := prunable(x.Context, ctl, time.Now().Add(-age))
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	if export != "" && len(jobs) > 0 {
		out := &exporter{ctx: x.Context, ctl: ctl}
		write := func(w io.Writer) error { return out.jobs(w, jobs) }
		if err := writeNew(export, write, func(*os.File) error { return nil }); err != nil {
			return fmt.Errorf("prune: export: %w", err)
		}
	}
	var ids []lease.JobID
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	if !x.Bool("dry-run") {
		if err := drop(x.Context, ctl, ids); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
	}
	for _, id := range ids {
		if _, err := fmt.Fprintln(c.stdout, id); err != nil {
			return err
		}
	}
	return nil
}

// parseAge reads a duration, in days too.
func parseAge(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, usagef("--older-than %q: must be an age such as 720h or 30d", s)
	}
	return d, nil
}

// prunable lists the jobs that ended before cut, oldest first.
func prunable(ctx context.Context, ctl lease.Control, cut time.Time) (list []lease.Job, err error) {
	for before := lease.JobID(0); ; {
		jobs, err := ctl.Jobs(ctx, before, 0)
		if err != nil {
			return nil, err
		}
		if len(jobs) == 0 {
			slices.Reverse(list)
			return list, nil
		}
		for _, j := range jobs {
			before = j.ID
			if j.State.Terminal() && j.Shards.Open() == 0 && j.Plans == 0 && j.Ended.Before(cut) {
				list = append(list, j)
			}
		}
	}
}

// pruneBatch is how many jobs one request drops.
const pruneBatch = 200

// drop asks for the jobs to be dropped; without any it has the ledger cut.
func drop(ctx context.Context, ctl lease.Control, ids []lease.JobID) error {
	for {
		n := min(len(ids), pruneBatch)
		if err := ctl.Prune(ctx, ids[:n]); err != nil {
			return err
		}
		if ids = ids[n:]; len(ids) == 0 {
			return nil
		}
	}
}

// exporter writes jobs as JSON Lines. What it writes of one thing stands under
// its name: {"job":…}, {"shard":…}, {"result":…}, {"event":…}.
type exporter struct {
	ctx context.Context
	ctl lease.Control
	out *json.Encoder
}

func (e *exporter) jobs(w io.Writer, jobs []lease.Job) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	e.out = json.NewEncoder(buf)
	e.out.SetEscapeHTML(false)
	for i := range jobs {
		if err := e.job(&jobs[i]); err != nil {
			return fmt.Errorf("job %v: %w", jobs[i].ID, err)
		}
	}
	return buf.Flush()
}

func (e *exporter) job(j *lease.Job) error {
	if err := e.out.Encode(map[string]any{"job": j}); err != nil {
		return err
	}
	for after := uint32(0); ; {
		shards, err := e.ctl.Shards(e.ctx, j.ID, after, 0, true)
		if err != nil {
			return err
		}
		if len(shards) == 0 {
			break
		}
		for i := range shards {
			after = shards[i].ID.Seq
			if err := e.shard(&shards[i]); err != nil {
				return fmt.Errorf("shard %v: %w", shards[i].ID, err)
			}
		}
	}
	for after := uint64(0); ; {
		events, err := e.ctl.Events(e.ctx, lease.ShardID{Job: j.ID}, after, 0)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for i := range events {
			after = events[i].Seq
			if err := e.out.Encode(map[string]any{"event": &events[i]}); err != nil {
				return err
			}
		}
	}
}

// exportedBlob is a result that is a blob: its bytes in base64.
type exportedBlob struct {
	Shard  lease.ShardID `json:"shard"`
	Digest lease.Digest  `json:"digest"`
	Bytes  []byte        `json:"bytes"`
}

func (e *exporter) shard(s *lease.Shard) error {
	if err := e.out.Encode(map[string]any{"shard": s}); err != nil || s.State != lease.Done || !s.Result.Blob {
		return err
	}
	r, size, err := e.ctl.Blob(e.ctx, s.ID, s.Result.Digest)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(r, size))
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	return e.out.Encode(map[string]any{"result": exportedBlob{s.ID, s.Result.Digest, b}})
}
