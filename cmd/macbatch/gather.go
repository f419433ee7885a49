package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease/gather"
	"macbatch/lease/pipeline"
)

func gatherCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "gather",
		Usage:     "deliver what this machine's spool holds, then write a job's results",
		UsageText: "macbatch gather JOB -o OUT\nmacbatch gather [--data FOLDER | --spool FOLDER] [--watch | --dry-run [--json]]",
		Description: "Without a job it only delivers the results that a worker left in its spool, while that\n" +
			"worker runs, after it was killed, or from a copy of a dead machine's spool. It exits 0 only when\n" +
			"the spool is empty afterwards, and 4 when results were refused or damaged: they are kept beside.",
		Flags: append(clientFlags(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FOLDER` for the results", TakesFile: true},
			&cli.IntFlag{Name: "generation", Usage: "write what retry `N` of the films came to, 0 being the first try (default: the best there is)", Value: -1},
			formatsFlag(), vectorFlags()[0], vectorFlags()[1],
			dataFlag("`FOLDER` of the worker whose spool to deliver", "worker"),
			&cli.StringFlag{Name: "spool", Usage: "`FOLDER` that is a spool, or a worker's, such as a copy of another machine's", TakesFile: true},
			&cli.BoolFlag{Name: "watch", Usage: "go on delivering what comes, until interrupted"},
			&cli.BoolFlag{Name: "dry-run", Usage: "list what the spool holds, and deliver nothing"},
			jsonFlag("with --dry-run: print a JSON object a line"),
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log what happens to standard error"}),
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
	if x.NArg() == 0 {
		return c.gatherSpool(x)
	}
	if x.Bool("watch") || x.Bool("dry-run") {
		return usagef("--watch and --dry-run are for gather without a job")
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	if err := c.replay(x, ctl); err != nil {
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
	if !job.State.Terminal() {
		defer fmt.Fprintf(c.stderr, "job %v is %s: gather again for what is still to come\n", id, job.State)
	}
	if pipeline.IsList(job.Kind) {
		return c.gatherList(x, ctl, job)
	}
	g, err := gather.New(ctl, job, out, formats)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if n := x.Int("generation"); n >= 0 {
		g.Generation(uint32(n))
	} else if x.IsSet("generation") {
		return usagef("--generation %d: must be 0 or more", n)
	}
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

// tell says what a gathering did.
func (c *command) tell(r gather.Report, out string, took time.Duration) {
	n := r.ByOutcome
	line := fmt.Sprintf("%s: %d done", plural(uint64(r.Films), "film"), n[gather.Done])
	if r.Films+r.Pending == 0 {
		line = "no films"
	}
	for _, o := range []gather.Outcome{gather.NoAudio, gather.NoSpeech, gather.NoImage, gather.Partial, gather.Failed, gather.Canceled} {
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
