package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"macbatch/lease"
	"macbatch/lease/gather"
	"macbatch/lease/gather/survey"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/lease/worker/kinds"
	"macbatch/transcode"
)

func runCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "do a whole job on this machine",
		UsageText: "macbatch run library DIR -o OUT\nmacbatch run transcode --preset PRESET DIR -o OUT\nmacbatch run KIND FILE... -o OUT",
		Description: "library transcribes and summarizes every film below DIR and writes the results into OUT,\n" +
			"mirroring DIR's folders. transcode makes a small copy of each (FILM.proxy.mp4), or a page of\n" +
			"stills (FILM.sheet.jpg). The other kinds, " + joined(listKinds) + ",\n" +
			"work on lists and write OUT/output.jsonl and OUT/errors.jsonl.\n\n" + listHelp + "\n\n" +
			"Run it again to go on where it stopped: what is done stays done.",
		Flags: append(append(append([]cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FOLDER` for the results", TakesFile: true},
			formatsFlag(),
			dataFlag("`FOLDER` for the store and the work under way", "run"),
			maxCostFlag(),
			&cli.BoolFlag{Name: "resend", Usage: "try again what failed, also paid requests whose outcome is unknown: it may pay twice"},
			&cli.BoolFlag{Name: "dry-run", Category: "Films:", Usage: "tell what there is to do, and do nothing"},
			&cli.BoolFlag{Name: "json", Usage: "with --dry-run: print it as JSON"},
		}, append(workerFlags(), runtimeFlag())...), append(libraryFlags(), watchFlags()...)...), under("Lists:", append(listFlags(), vectorFlags()...))...),
		Action: func(x *cli.Context) error { return c.run(x) },
	}
}

func (c *command) run(x *cli.Context) (err error) {
	kind, err := kindArg(x)
	if err != nil {
		return err
	}
	if !pipeline.OfFilms(kind) {
		return c.runList(x, kind)
	}
	a, err := args(x, 2, 2, "a kind and a folder: "+string(kind)+" DIR")
	if err != nil {
		return err
	}
	if x.String("output") == "" && !x.Bool("dry-run") {
		return usagef("run needs an output folder: -o OUT")
	}
	watch, err := watchMS(x)
	if err != nil {
		return err
	}
	out := x.String("output")
	dir, err := folder(a[1])
	if err != nil {
		return err
	}
	formats, err := formatsOf(x)
	if err != nil {
		return err
	}
	root := rootName(dir)
	params, err := libraryParams(x, kind, root, "")
	if err != nil {
		return err
	}
	tools, err := c.filmTools(x, params, map[string]string{root: dir})
	if err != nil {
		return err
	}
	params.WatchMS = watch
	ctx, lost := context.WithCancelCause(x.Context)
	defer lost(nil)
	if watch == 0 {
		tools.Lost = func(err error) {
			lost(hint(err, "results so far are kept: run the same command again when the folder is there"))
		}
	}
	x.Context = ctx

	return c.embedded(x, func(ctl lease.Control, s *localStore, w *workerFolder) error {
		var err error
		if params.Had, err = survey.LastFilms(x.Context, ctl, lease.DefaultProject, root, ""); err != nil {
			return err
		}
		if x.Bool("dry-run") {
			return c.look(x, ctl, *params, typicalSpeed(tools, x.Int("parallel")), func(ctx context.Context, id lease.JobID) error {
				agent, err := c.agent(x, ctl, w, tools, id)
				if err != nil {
					return err
				}
				return agent.Run(ctx)
			})
		}
		var notices sync.WaitGroup
		defer notices.Wait()
		hurry := func(lease.JobID) {}
		if watch > 0 {
			ctx, stop := context.WithCancel(x.Context)
			defer stop()
			var job atomic.Uint64
			hurry = func(id lease.JobID) { job.Store(uint64(id)) }
			notices.Go(func() {
				ring(ctx, dir, c.logger(x.Bool("verbose")), func() { s.Hurry(lease.JobID(job.Load())) })
			})
		}
		return c.runLibrary(x, ctl, w, tools, params, results{out, formats}, hurry)
	})
}

// filmTools finds what a job over films takes on this machine, which has one speech
// engine for it.
func (c *command) filmTools(x *cli.Context, params *pipeline.LibraryParams, roots map[string]string) (*kinds.Tools, error) {
	t := &kinds.Tools{}
	if params.Preset != "" {
		err := c.renderers(x, roots, t)
		if err == nil && params.Preset == transcode.Proxy && len(t.Encoders) == 0 {
			err = hint(fmt.Errorf("%q has no encoder for H.264 or HEVC", t.FFmpeg), "install an ffmpeg that was built with libx264")
		}
		return t, err
	}
	if err := c.media(x, roots, t); err != nil {
		return nil, err
	}
	first := t.Transcribers[0]
	if first.Paid && params.Transcriber == "" {
		return nil, usagef("the one speech engine that is ready costs money: name it with --transcriber %s", first.Name)
	}
	params.Transcriber = first.Name
	if params.Summary.Model == "" {
		return t, nil
	}
	if err := c.models(x, t, false); err != nil {
		return nil, err
	}
	offer := t.Offer()
	if err := pinSummary(params, offer.Models); err != nil {
		return nil, err
	}
	if n := (lease.Need{Kind: pipeline.Summarize, Model: params.Summary.Need()}); !offer.Able(n) {
		return nil, unable(n)
	}
	return t, nil
}

// embedded runs a control plane for f, and gives it the folder of a worker.
func (c *command) embedded(x *cli.Context, f func(ctl lease.Control, s *localStore, w *workerFolder) error) (err error) {
	data, err := c.data(x, "run")
	if err != nil {
		return err
	}

	log := c.logger(x.Bool("verbose"))
	s, err := openLocal(data, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	admin, err := s.admin(data)
	if err != nil {
		return err
	}
	w, err := c.openWorker(filepath.Join(data, "worker"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()

	// The store outlives the worker, which delivers to it while it leaves.
	storeCtx, stopStore := context.WithCancel(context.WithoutCancel(x.Context))
	var serving errgroup.Group
	serving.Go(func() error { return s.Run(storeCtx) })
	serving.Go(func() error { return s.index(storeCtx) })
	err = f(s.As(admin), s, w)
	stopStore()
	return errors.Join(err, serving.Wait())
}

// results says where a job's results go, and in which forms.
type results struct {
	dir     string
	formats []gather.Format
}

// rootName names the root of an embedded run by its folder.
func rootName(dir string) string {
	if utf8.ValidString(dir) {
		return dir
	}
	return "percent:" + url.PathEscape(dir)
}

// runLibrary continues the unfinished job of an earlier run, if there is one, and
// then looks at the folder anew. Work that is done is not done again.
func (c *command) runLibrary(x *cli.Context, ctl lease.Control, w *workerFolder, tools *kinds.Tools, params *pipeline.LibraryParams, to results, begun func(lease.JobID)) error {
	limit, err := maxCost(x)
	if err != nil {
		return err
	}
	began, written := time.Now(), 0
	if len(tools.Transcribers) > 0 {
		info := tools.Transcribers[0].Info()
		fmt.Fprintf(c.stderr, "speech by %s, model %s\n", tools.Transcribers[0].Name, printable(info.Model))
	}
	for {
		id, resumed, err := openJob(x.Context, ctl, params, limit)
		if err != nil {
			return err
		}
		if resumed {
			fmt.Fprintf(c.stderr, "going on with job %v\n", id)
		}
		begun(id)
		job, report, err := c.runJob(x, ctl, w, tools, id, to)
		if err != nil || x.Context.Err() != nil {
			return err
		}
		if written += report.Written; resumed && job.State != lease.JobCanceled {
			continue
		}
		report.Written = min(written, report.Films)
		if job.State == lease.JobFailed && job.Items.Total == 0 {
			return c.scanFailure(x.Context, ctl, job)
		}
		c.tell(report, to.dir, time.Since(began))
		if job.State == lease.JobDone && report.Growing > 0 {
			return endError(lease.JobPartial)
		}
		return endError(job.State)
	}
}

// openJob finds the unfinished job of the same parameters, or submits a new one.
func openJob(ctx context.Context, ctl lease.Control, params *pipeline.LibraryParams, limit lease.Cost) (id lease.JobID, resumed bool, err error) {
	j, err := watcher(ctx, ctl, lease.DefaultProject, params, limit, nil)
	if err != nil {
		return 0, false, err
	}
	if j != nil {
		return j.ID, true, nil
	}
	b, err := json.Marshal(params)
	if err != nil {
		return 0, false, err
	}
	id, err = ctl.Submit(ctx, lease.Submission{Kind: params.Kind(), Params: b, MaxCost: limit})
	return id, false, err
}

// runJob works on one job until it ends, writing results as they come.
func (c *command) runJob(x *cli.Context, ctl lease.Control, w *workerFolder, tools *kinds.Tools, id lease.JobID, to results) (lease.Job, gather.Report, error) {
	agent, err := c.agent(x, ctl, w, tools, id)
	if err != nil {
		return lease.Job{}, gather.Report{}, err
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
	job, report, err := c.watch(ctx, x, ctl, agent, id, to)
	stop()
	if werr := group.Wait(); werr != nil {
		return job, report, werr
	}
	if cause := context.Cause(x.Context); cause != nil && !errors.Is(cause, context.Canceled) {
		return job, report, cause // the media went away
	}
	if x.Context.Err() != nil && !job.State.Terminal() {
		return job, report, &exitError{exitFailed, fmt.Sprintf("interrupted; run the same command again to go on with job %v", id)}
	}
	return job, report, err
}

// watch shows a job's progress and writes its results as they come, until it
// ends or ctx does. What is under way it asks the worker: it knows before its
// next heartbeat.
func (c *command) watch(ctx context.Context, x *cli.Context, ctl lease.Control, agent *worker.Agent, id lease.JobID, to results) (job lease.Job, report gather.Report, err error) {
	if job, err = ctl.Job(ctx, id); err != nil {
		return job, report, err
	}
	g, err := gather.New(ctl, job, to.dir, to.formats)
	if err != nil {
		return job, report, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	bar := c.newBar()
	defer bar.close()
	var pass time.Duration // how long the last one took
	var seen progress
	for last := time.Now(); ; {
		if job, err = ctl.Job(ctx, id); err != nil {
			return job, report, err
		}
		job.Work.Running = 0
		for _, t := range agent.Running() {
			job.Work.Running += t.Done
		}
		bar.show(&job)
		// A folder that is watched may be quiet for months: nothing is read then.
		now := progress{job.Shards, job.Plans}
		if job.State.Terminal() || now != seen && time.Since(last) > max(2*time.Second, 20*pass) {
			last, seen = time.Now(), now
			if report, err = g.Pass(ctx); err != nil {
				return job, report, err
			}
			pass = time.Since(last)
			last = time.Now()
		}
		if job.State.Terminal() {
			return job, report, nil
		}
		if err := unstick(x, ctl, &job); err != nil {
			return job, report, err
		}
		select {
		case <-ctx.Done():
			return job, report, context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// progress is what of a job changes when something of it ends.
type progress struct {
	shards lease.Counts
	plans  uint32
}

// unstick deals with a job of which nothing is left but what may have been paid
// already: that is sent again where the flag says so.
func unstick(x *cli.Context, ctl lease.Control, j *lease.Job) error {
	if j.Parked == 0 || j.Parked < j.Shards.Open()-j.Shards.Blocked {
		return nil
	}
	if !x.Bool("resend") {
		return hint(fmt.Errorf("job %v: %s: the outcome of a paid request is unknown", j.ID, plural(uint64(j.Parked), "shard")),
			"--resend sends it again, and may pay twice")
	}
	return resend(x.Context, ctl, j.ID)
}

// resend tries again what failed of a job, also what may have been paid already.
func resend(ctx context.Context, ctl lease.Control, id lease.JobID) error {
	for after := uint32(0); ; {
		out, err := ctl.Retry(ctx, id, lease.Selection{Resend: true}, after)
		if err != nil || out.Next == 0 {
			return err
		}
		after = out.Next
	}
}

// pollEvery is how often a command looks at a job.
const pollEvery = 150 * time.Millisecond

// scanFailure says why a job found nothing to do.
func (c *command) scanFailure(ctx context.Context, ctl lease.Control, job lease.Job) error {
	shards, err := ctl.Shards(ctx, job.ID, 0, 1, false)
	if err != nil || len(shards) == 0 {
		return errors.Join(err, endError(job.State))
	}
	return &exitError{exitFailed, fmt.Sprintf("scan %s: %s", pipeline.Describe(shards[0].Need.Kind, shards[0].Payload), shards[0].Reason)}
}
