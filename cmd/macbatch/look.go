package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/gather/survey"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker/kinds"
	"macbatch/transcode/inventory"
)

// look scans a folder through a job that does nothing else, and reports what a job
// with these parameters would do. serve, where set, is what works on it.
func (c *command) look(x *cli.Context, ctl lease.Control, params pipeline.LibraryParams, speed float64, serve func(ctx context.Context, id lease.JobID) error) (err error) {
	formats, err := formatsOf(x)
	if err != nil {
		return err
	}
	project := lease.Project(x.String("project"))
	if project == "" {
		project = lease.DefaultProject
	}
	past, err := survey.Recall(x.Context, ctl, project, &params)
	if err != nil {
		return err
	}
	params.Look, params.WatchMS = true, 0
	b, err := json.Marshal(params)
	if err != nil {
		return err
	}
	s := lease.Submission{Project: project, Kind: params.Kind(), Params: b, Priority: int32(x.Int("priority"))}
	if s.Require, err = labels(x, "require"); err != nil {
		return err
	}
	id, err := ctl.Submit(x.Context, s)
	if err != nil {
		return about(err, "project %q", project)
	}
	ctx, stop := context.WithCancel(x.Context)
	ended := make(chan error, 1)
	if serve == nil {
		ended <- nil
	} else {
		go func() { ended <- serve(ctx, id) }()
	}
	job, err := c.looked(ctx, ctl, id)
	if err != nil && !job.State.Terminal() { // nobody waits for it any more
		err = errors.Join(err, ctl.Cancel(context.WithoutCancel(ctx), id, "the look was given up"))
	}
	stop()
	if err = errors.Join(<-ended, err); err != nil {
		return err
	}
	if job.State != lease.JobDone {
		return c.scanFailure(x.Context, ctl, job)
	}
	rows, err := ctl.Shards(x.Context, id, 0, 1, true)
	if err != nil || len(rows) == 0 {
		return errors.Join(err, fmt.Errorf("job %v has no scan", id))
	}
	var res inventory.Result
	if err := survey.Result(x.Context, ctl, &rows[0], &res); err != nil {
		return err
	}
	files := len(formats) + 1
	if params.Preset != "" {
		files = 1
	}
	r := past.Compare(&params, &res, files, speed)
	if x.Bool("json") {
		return printJSON(c.stdout, &r)
	}
	return c.printLook(&r)
}

// patience is after how long a look tells what it waits for.
const patience = 3 * time.Second

// looked waits for a look's job to end.
func (c *command) looked(ctx context.Context, ctl lease.Control, id lease.JobID) (job lease.Job, err error) {
	told := ""
	for began := time.Now(); ; {
		if job, err = ctl.Job(ctx, id); err != nil || job.State.Terminal() {
			return job, err
		}
		if job.Waits != "" && job.Waits != told && time.Since(began) > patience {
			told = job.Waits
			fmt.Fprintf(c.stderr, "waiting: %s\n", printable(told))
		}
		select {
		case <-ctx.Done():
			return job, context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

func (c *command) printLook(r *survey.Report) error {
	hours := func(ms int64) string { return clock(time.Duration(ms) * time.Millisecond) }
	reasons := slices.SortedFunc(maps.Keys(r.SkippedBy), func(a, b string) int {
		if n := r.SkippedBy[b] - r.SkippedBy[a]; n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", r.SkippedBy[why], why)
	}
	again := ""
	if r.Failed > 0 {
		again = fmt.Sprintf("%d of them failed before", r.Failed)
	}
	rows := [][]string{
		{"found", fmt.Sprint(r.Found)},
		{"new", fmt.Sprint(r.New), again},
		{"changed", fmt.Sprint(r.Changed)},
		{"done", fmt.Sprint(r.Done), hours(r.DoneMS)},
		{"skipped", fmt.Sprint(r.Skipped), strings.Join(reasons, ", ")},
		{"to do", hours(r.MediaMS)},
	}
	if e := r.Estimate; r.MediaMS > 0 {
		if e.TimeMS > 0 {
			basis := "as typical"
			if e.Basis != "typical" {
				basis = "as in job " + e.Basis
			}
			rows = append(rows, []string{"takes about", hours(e.TimeMS), fmt.Sprintf("at %.1f times real time, %s", e.Speed, basis)})
		} else {
			rows = append(rows, []string{"takes", "not known", "no job of the folder tells yet"})
		}
		rows = append(rows, []string{"writes about", fmt.Sprintf("%.1f MB", float64(e.Bytes)/1e6), "in " + plural(uint64(e.Files), "file")})
	}
	return table(c.stdout, rows)
}

// typicalSpeed is how many times as fast as real time a machine transcribes, where it
// is known.
func typicalSpeed(t *kinds.Tools, parallel int) float64 {
	if len(t.Transcribers) > 0 && t.Transcribers[0].Name == pocketSphinx {
		return 3 * float64(min(parallel, t.Transcribers[0].Parallel()))
	}
	return 0
}
