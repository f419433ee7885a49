package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"macbatch/lease"
	"macbatch/lease/gather/lines"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/lease/worker/kinds"
)

// vectorFlags say how the vectors of an embed job are written.
func vectorFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "npy", Usage: "embed: also vectors.npy, a matrix for NumPy, and ids.jsonl"},
		&cli.BoolFlag{Name: "base64", Usage: "embed: vectors as base64 of 32-bit floats in output.jsonl"},
	}
}

// runList does a list job on this machine. The same input again is the same job.
func (c *command) runList(x *cli.Context, kind lease.Kind) (err error) {
	if x.String("output") == "" {
		return usagef("run needs an output folder: -o OUT")
	}
	if kind != pipeline.Embed && (x.Bool("npy") || x.Bool("base64")) {
		return usagef("--npy and --base64 belong to %s", pipeline.Embed)
	}
	if err := stranger(lines.Check(x.String("output"), listOptions(x))); err != nil {
		return err
	}
	tools := &kinds.Tools{}
	if err := c.models(x, tools, kind == pipeline.OCR); err != nil {
		return err
	}
	offer := tools.Offer()
	in, params, err := c.listJob(x, kind, offer.Models)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	pack, err := pipeline.Planner{}.List(kind, params)
	if err != nil {
		return err
	}
	if !offer.Able(pack.Need) {
		return unable(pack.Need)
	}
	return c.embedded(x, func(ctl lease.Control, _ *localStore, w *workerFolder) error {
		limit, err := maxCost(x)
		if err != nil {
			return err
		}
		id, err := submitList(x.Context, ctl, lease.Submission{Kind: kind, Params: params, MaxCost: limit}, in)
		if err != nil {
			return err
		}
		job, err := ctl.Job(x.Context, id)
		if err == nil && x.Bool("resend") && job.Items.Failed > 0 {
			err = resend(x.Context, ctl, id)
		}
		if err != nil {
			return err
		}
		job, err = c.work(x, ctl, w, tools, id)
		if err != nil {
			return err
		}
		return c.gatherList(x, ctl, job)
	})
}

// unable says what this machine lacks for a job.
func unable(n lease.Need) error {
	if n.Model == "" || n.Kind == pipeline.OCR {
		return hint(fmt.Errorf("%s can't be done here: tesseract, or its language, is not installed", n.Kind), "apt install tesseract-ocr poppler-utils, or brew install tesseract poppler")
	}
	return hint(fmt.Errorf("model %q is on no server that is there", n.Model), "start one that has it, and name it with --runtime %s", runtimeForm)
}

// work runs a worker on one job until it ends.
func (c *command) work(x *cli.Context, ctl lease.Control, w *workerFolder, tools *kinds.Tools, id lease.JobID) (lease.Job, error) {
	agent, err := c.agent(x, ctl, w, tools, id)
	if err != nil {
		return lease.Job{}, err
	}
	ctx, stop := context.WithCancel(x.Context)
	defer stop()
	var group errgroup.Group
	group.Go(func() error {
		defer stop()
		if err := c.attend(x, ctx, agent); !errors.Is(err, worker.ErrKilled) {
			return err
		}
		return nil
	})
	job, err := c.await(ctx, x, ctl, agent, id)
	stop()
	if werr := group.Wait(); werr != nil {
		return job, werr
	}
	if x.Context.Err() != nil && !job.State.Terminal() {
		return job, &exitError{exitFailed, fmt.Sprintf("interrupted; run the same command again to go on with job %v", id)}
	}
	return job, err
}

// await shows a job's progress until it ends.
func (c *command) await(ctx context.Context, x *cli.Context, ctl lease.Control, agent *worker.Agent, id lease.JobID) (job lease.Job, err error) {
	bar := c.newBar()
	defer bar.close()
	for began := time.Now(); ; {
		if job, err = ctl.Job(ctx, id); err != nil || job.State.Terminal() {
			return job, err
		}
		if err := unstick(x, ctl, &job); err != nil {
			return job, err
		}
		job.Work.Running = 0
		for _, t := range agent.Running() {
			job.Work.Running += t.Done
		}
		bar.show(&job)
		select {
		case <-ctx.Done():
			return job, context.Cause(ctx)
		case <-time.After(min(pollEvery, max(pollEvery/30, time.Since(began)/100))): // the end of a short job is noticed soon
		}
	}
}

func listOptions(x *cli.Context) lines.Options {
	return lines.Options{NPY: x.Bool("npy"), Base64: x.Bool("base64")}
}

// stranger says what to do about a file that is in the way.
func stranger(err error) error {
	if errors.Is(err, lines.ErrStranger) {
		return hint(err, "name another folder with -o, or move the file away")
	}
	return err
}

// gatherList writes what a list job came to.
func (c *command) gatherList(x *cli.Context, ctl lease.Control, job lease.Job) error {
	out := x.String("output")
	began := time.Now()
	r, err := lines.Gather(x.Context, ctl, job, out, listOptions(x))
	if err != nil {
		return stranger(err)
	}
	text := fmt.Sprintf("%s: %d done", plural(uint64(r.Output+r.Errors+r.Pending), "item"), r.Output)
	if r.Errors > 0 {
		text += fmt.Sprintf(", %d failed", r.Errors)
	}
	if r.Pending > 0 {
		text += fmt.Sprintf(", %d to do", r.Pending)
	}
	fmt.Fprintf(c.stderr, "%s; written to %s in %s\n", text, printable(out), time.Since(began).Round(time.Millisecond))
	return endError(job.State)
}
