package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/gather"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/spool"
)

func gatherCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "gather",
		Usage:     "deliver what this machine's spool holds, then write a job's results",
		UsageText: "macbatch gather [JOB -o OUT]",
		Description: "Without a job it only delivers the results that a worker on this machine left in its\n" +
			"spool; it exits 0 only when the spool is empty afterwards.",
		Flags: append(clientFlags(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FOLDER` for the results", TakesFile: true},
			formatsFlag(), vectorFlags()[0], vectorFlags()[1],
			dataFlag("`FOLDER` of the worker whose spool to deliver", "worker")),
		Action: func(x *cli.Context) error { return c.gather(x) },
	}
}

func (c *command) gather(x *cli.Context) (err error) {
	out := x.String("output")
	if x.NArg() > 0 && out == "" {
		return usagef("gather of a job needs an output folder: -o OUT")
	}
	if x.NArg() == 0 && out != "" {
		return usagef("gather -o %q needs a job's id", out)
	}
	formats, err := formatsOf(x)
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	data, err := c.data(x, "worker")
	if err != nil {
		return err
	}
	left, err := c.replay(x, ctl, data)
	if x.NArg() == 0 || err != nil {
		if err == nil && left > 0 {
			err = &exitError{exitRunning, fmt.Sprintf("%s still in the spool", plural(uint64(left), "result"))}
		}
		return err
	}
	id, err := jobArg(x)
	if err != nil {
		return err
	}
	began := time.Now()
	job, err := ctl.Job(x.Context, id)
	if err != nil {
		return fmt.Errorf("job %v: %w", id, err)
	}
	if pipeline.IsList(job.Kind) {
		return c.gatherList(x, ctl, job)
	}
	g, err := gather.New(ctl, job, out, formats)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	report, err := g.Pass(x.Context)
	if err != nil {
		return err
	}
	c.tell(report, out, time.Since(began))
	return endError(job.State)
}

func formatsFlag() cli.Flag {
	return &cli.StringFlag{Name: "formats", Usage: "`LIST` of what is written of each transcript: " + gather.AllFormats(), Value: gather.DefaultFormats}
}

func formatsOf(x *cli.Context) ([]gather.Format, error) {
	formats, err := gather.ParseFormats(x.String("formats"))
	if err != nil {
		return nil, usagef("--formats %q: %v", x.String("formats"), err)
	}
	return formats, nil
}

// replay delivers what a worker left in its spool and tells how many results are
// still there. A spool that its worker is serving is left to it.
func (c *command) replay(x *cli.Context, ctl lease.Control, dir string) (left int, err error) {
	path := filepath.Join(dir, spoolName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if x.IsSet("data") {
			return 0, fmt.Errorf("no worker's folder: %w", err)
		}
		return 0, nil
	}
	sp, err := spool.Open(path)
	if err != nil {
		return 0, err
	}
	t, err := worker.Deliver(x.Context, ctl, sp, c.logger(x.Bool("verbose")))
	for _, n := range []struct {
		name  string
		count int
	}{
		{"accepted", t.Accepted}, {"duplicate", t.Duplicate}, {"stale", t.Stale}, {"conflict", t.Conflict},
		{"invalid", t.Invalid}, {"denied", t.Denied}, {"foreign", t.Foreign}, {"damaged", t.Damaged},
	} {
		if n.count > 0 {
			fmt.Fprintf(c.stderr, "spool: %d %s\n", n.count, n.name)
		}
	}
	if err == nil && t == (worker.Tally{}) && x.NArg() == 0 {
		fmt.Fprintln(c.stderr, "spool: empty")
	}
	if errors.Is(err, spool.ErrBusy) {
		fmt.Fprintln(c.stderr, "spool: its worker is running and delivers by itself")
		return t.Left, nil
	}
	return t.Left, err
}

// tell says what a gathering did.
func (c *command) tell(r gather.Report, out string, took time.Duration) {
	n := r.ByOutcome
	line := fmt.Sprintf("%s: %d done", plural(uint64(r.Films), "film"), n[gather.Done])
	if r.Films+r.Pending == 0 {
		line = "no films"
	}
	for _, o := range []gather.Outcome{gather.NoAudio, gather.NoSpeech, gather.Partial, gather.Failed, gather.Canceled} {
		if n[o] > 0 {
			line += fmt.Sprintf(", %d %s", n[o], strings.ReplaceAll(string(o), "_", " "))
		}
	}
	if n[gather.Skipped] > 0 {
		line += "; " + plural(uint64(n[gather.Skipped]), "other file") + " skipped"
	}
	if r.Pending > 0 {
		line += fmt.Sprintf("; %d still under way", r.Pending)
	}
	fmt.Fprintln(c.stderr, line)
	if r.Suspicious > 0 {
		fmt.Fprintf(c.stderr, "%s in doubt; why is told in %s\n", plural(uint64(r.Suspicious), "transcript"), printable(filepath.Join(out, "manifest.jsonl")))
	}
	if r.Edited > 0 {
		fmt.Fprintf(c.stderr, "%s changed by somebody: left as they are\n", plural(uint64(r.Edited), "output"))
	}
	switch {
	case r.Written > 0:
		fmt.Fprintf(c.stderr, "wrote the results of %s into %s in %s\n", plural(uint64(r.Written), "film"), printable(out), clock(took))
	case r.Unchanged > 0:
		fmt.Fprintf(c.stderr, "nothing to do: all results are in %s already\n", printable(out))
	}
	if n[gather.Failed]+n[gather.Partial] > 0 {
		fmt.Fprintf(c.stderr, "what failed, and why: %s\n", printable(filepath.Join(out, "manifest.jsonl")))
	}
	if r.Growing > 0 {
		fmt.Fprintf(c.stderr, "%s still growing: run again when complete\n", plural(uint64(r.Growing), "file"))
	}
}
