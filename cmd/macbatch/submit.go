package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/gather/survey"
	"macbatch/lease/pipeline"
	"macbatch/transcode/inventory"
)

func submitCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "submit",
		Usage:     "queue a job and print its id",
		UsageText: "macbatch submit library ROOT[:FOLDER]\nmacbatch submit transcode --preset PRESET ROOT[:FOLDER]\nmacbatch submit KIND FILE...",
		Description: "ROOT is a name that workers were given with --root, FOLDER a folder in it.\n" +
			"The other kinds, " + joined(listKinds) + ", work on lists.\n\n" + listHelp + "\n\n" +
			"The same list submitted twice is one job; a folder is looked at anew.\n" +
			"With --watch the job goes on: the workers that have ROOT look again and again, until it is canceled.",
		Flags: append(append(append(clientFlags(),
			&cli.StringFlag{Name: "project", Usage: "`NAME` of the project", Value: string(lease.DefaultProject)},
			&cli.IntFlag{Name: "priority", Usage: "`N`: jobs of higher priority go first"},
			&cli.StringFlag{Name: "key", Usage: "submitting again under the same `KEY` gives the same job"},
			&cli.StringFlag{Name: "transcriber", Usage: "speech `ENGINE`: " + autoTranscriber + ", " + strings.Join(transcriberNames, ", ") + ", or a NAME of a worker's --speech", Value: autoTranscriber},
			&cli.BoolFlag{Name: "json", Usage: "print the job as JSON"},
			maxCostFlag(),
			requireFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "check the input, queue nothing; of a folder: tell what a job would do"},
			formatsFlag(),
		), append(libraryFlags(), watchFlags()...)...), under("Lists:", listFlags())...),
		Action: func(x *cli.Context) error { return c.submit(x) },
	}
}

func (c *command) submit(x *cli.Context) error {
	kind, err := kindArg(x)
	if err != nil {
		return err
	}
	if !pipeline.OfFilms(kind) {
		return c.submitInput(x, kind)
	}
	a, err := args(x, 2, 2, "a kind and an input: "+string(kind)+" ROOT:[FOLDER]")
	if err != nil {
		return err
	}
	root, sub, ok := strings.Cut(a[1], ":")
	if root == "" || !ok && strings.Contains(root, "/") {
		return hint(usagef("input %q: must be ROOT[:FOLDER]", a[1]), "ROOT is a name that workers were given with --root, such as films:")
	}
	path := inventory.Path(strings.TrimRight(sub, "/"))
	if path != "" {
		if err := path.Check(); err != nil {
			return usagef("input %q: %v", a[1], err)
		}
	}
	params, err := libraryParams(x, kind, root, path)
	if err != nil {
		return err
	}
	if params.WatchMS, err = watchMS(x); err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	if params.Summary.Model != "" {
		offers, err := offered(x.Context, ctl)
		if err == nil {
			err = pinSummary(params, offers)
		}
		if err != nil {
			return err
		}
	}
	if params.Had, err = survey.LastFilms(x.Context, ctl, lease.Project(x.String("project")), root, path); err != nil {
		return err
	}
	if x.Bool("dry-run") {
		return c.look(x, ctl, *params, 0, nil)
	}
	s := lease.Submission{Kind: kind, Key: x.String("key")}
	if s.Params, err = json.Marshal(params); err != nil {
		return err
	}
	if params.WatchMS > 0 && s.Key == "" {
		limit, err := maxCost(x)
		if err != nil {
			return err
		}
		require, err := labels(x, "require")
		if err != nil {
			return err
		}
		watching, err := watcher(x.Context, ctl, lease.Project(x.String("project")), params, limit, require)
		if err != nil {
			return err
		}
		if watching != nil {
			return c.told(x, ctl, watching.ID)
		}
	}
	return c.queue(x, ctl, s, nil)
}

// watcher is the open job that does what params ask for; nil: there is none.
func watcher(ctx context.Context, ctl lease.Control, project lease.Project, params *pipeline.LibraryParams, limit lease.Cost, require []string) (*lease.Job, error) {
	for before := lease.JobID(0); ; {
		jobs, err := ctl.Jobs(ctx, before, lease.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			j := &jobs[i]
			if before = j.ID; !j.State.Terminal() && j.Kind == params.Kind() && j.Project == project && j.Cost.Max == limit && slices.Equal(j.Require, require) && sameJob(j.Params, params) {
				return j, nil
			}
		}
		if len(jobs) < lease.MaxPage {
			return nil, nil
		}
	}
}

// sameJob reports whether a job's parameters are these, but for what was known
// of the folder when it was submitted.
func sameJob(b json.RawMessage, params *pipeline.LibraryParams) bool {
	p, err := pipeline.Params(b)
	if err != nil {
		return false
	}
	return p.SameWork(params) && p.Sub == params.Sub && p.Fresh == params.Fresh && p.Look == params.Look && p.WatchMS == params.WatchMS
}

// kindArg reads the kind that a command begins with.
func kindArg(x *cli.Context) (lease.Kind, error) {
	if x.NArg() == 0 {
		return "", usagef("%s needs a kind: %s; see macbatch %s --help", x.Command.Name, kindNames(), x.Command.Name)
	}
	kind := lease.Kind(x.Args().First())
	if !pipeline.OfFilms(kind) && !slices.Contains(listKinds, kind) {
		return "", usagef("kind %q is not known; there are %s", string(kind), kindNames())
	}
	return kind, checkFlags(x, kind)
}

// offered are the models that the workers offer.
func offered(ctx context.Context, ctl lease.Control) (offers []string, err error) {
	workers, err := ctl.Workers(ctx)
	for _, w := range workers {
		offers = append(offers, w.Offer.Models...)
	}
	return offers, err
}

// submitInput queues a list job.
func (c *command) submitInput(x *cli.Context, kind lease.Kind) (err error) {
	var ctl lease.Control
	var offers []string
	if !x.Bool("dry-run") {
		if ctl, err = c.dial(x); err != nil {
			return err
		}
		if offers, err = offered(x.Context, ctl); err != nil {
			return err
		}
	}
	in, params, err := c.listJob(x, kind, offers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	if x.Bool("dry-run") {
		fmt.Fprintf(c.stderr, "%s in %s, nothing queued\n", plural(uint64(in.items), "item"), plural(uint64(in.Bytes), "byte"))
		return nil
	}
	return c.queue(x, ctl, lease.Submission{Kind: kind, Params: params}, in)
}

// listJob reads input and parameters of a list job, for workers that offer models.
func (c *command) listJob(x *cli.Context, kind lease.Kind, offers []string) (*input, json.RawMessage, error) {
	check := &pipeline.LineCheck{Kind: kind, Model: x.String("model"), Prompt: x.String("prompt")}
	if kind == pipeline.OCR {
		check.Prompt = "" // not over fields
	}
	in, err := c.readInput(x.Args().Tail(), x.String("output"), x.Bool("0"), x.Bool("skip-bad"), check.Check)
	if err != nil {
		return nil, nil, err
	}
	params, err := listParams(x, kind, check, offers)
	if err != nil {
		return nil, nil, errors.Join(err, in.close())
	}
	return in, params, nil
}

func maxCostFlag() cli.Flag {
	return &cli.StringFlag{Name: "max-cost", Usage: "spend no more than so many `USD` on paid servers, whatever happens"}
}

func requireFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "require", Usage: "only workers that were started with --label `NAME=VALUE` work on it; may be repeated"}
}

// labels reads those that a flag gives.
func labels(x *cli.Context, flag string) ([]string, error) {
	list, err := lease.ParseLabels(x.StringSlice(flag))
	if err != nil {
		return nil, usagef("--%s: %v", flag, err)
	}
	return list, nil
}

// maxCost reads --max-cost; 0: none is set.
func maxCost(x *cli.Context) (lease.Cost, error) {
	s := x.String("max-cost")
	if s == "" {
		return 0, nil
	}
	c, err := lease.ParseCost(s)
	if err != nil || c == 0 {
		return 0, usagef("--max-cost %q: must be a number of US dollars above 0", s)
	}
	return c, nil
}

// queue submits a job and prints its id.
func (c *command) queue(x *cli.Context, ctl lease.Control, s lease.Submission, in *input) (err error) {
	s.Project, s.Priority, s.Key = lease.Project(x.String("project")), int32(x.Int("priority")), x.String("key")
	if s.MaxCost, err = maxCost(x); err != nil {
		return err
	}
	if s.Require, err = labels(x, "require"); err != nil {
		return err
	}
	var id lease.JobID
	if in == nil {
		id, err = ctl.Submit(x.Context, s)
	} else {
		id, err = submitList(x.Context, ctl, s, in)
	}
	if err != nil {
		return about(err, "project %q", s.Project)
	}
	return c.told(x, ctl, id)
}

// told prints the id of a job, or the job.
func (c *command) told(x *cli.Context, ctl lease.Control, id lease.JobID) error {
	if !x.Bool("json") {
		_, err := fmt.Fprintln(c.stdout, id)
		return err
	}
	j, err := ctl.Job(x.Context, id)
	return errors.Join(err, printJSON(c.stdout, j))
}
