package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/transcode/inventory"
)

func submitCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:        "submit",
		Usage:       "queue a job and print its id",
		UsageText:   "macbatch submit library ROOT:[FOLDER]",
		Description: "ROOT is a name that workers were given with --root, FOLDER a folder in it.",
		Flags: append(append(clientFlags(),
			&cli.StringFlag{Name: "project", Usage: "`NAME` of the project", Value: string(lease.DefaultProject)},
			&cli.IntFlag{Name: "priority", Usage: "jobs of higher priority go first"},
			&cli.StringFlag{Name: "key", Usage: "submitting again under the same `KEY` gives the same job"},
			&cli.StringFlag{Name: "transcriber", Usage: "speech engine: " + autoTranscriber + ", " + strings.Join(transcriberNames, ", ") + ", or a NAME of a worker's --speech", Value: autoTranscriber},
			&cli.BoolFlag{Name: "json", Usage: "print the job as JSON"},
		), libraryFlags()...),
		Action: func(x *cli.Context) error { return c.submit(x) },
	}
}

func (c *command) submit(x *cli.Context) error {
	a, err := args(x, 2, 2, "a kind and an input: library ROOT:[FOLDER]")
	if err != nil {
		return err
	}
	if a[0] != string(pipeline.Library) {
		return usagef("kind %q is not known; there is %s", a[0], pipeline.Library)
	}
	root, sub, ok := strings.Cut(a[1], ":")
	if !ok || root == "" {
		return hint(usagef("input %q: must be ROOT:[FOLDER]", a[1]), "ROOT is a name that workers were given with --root, such as films:")
	}
	path := inventory.Path(strings.TrimRight(sub, "/"))
	if path != "" {
		if err := path.Check(); err != nil {
			return usagef("input %q: %v", a[1], err)
		}
	}
	params, err := libraryParams(x, root, path)
	if err != nil {
		return err
	}
	b, err := json.Marshal(params)
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	id, err := ctl.Submit(x.Context, lease.Submission{
		Project: lease.Project(x.String("project")), Kind: pipeline.Library, Params: b, Priority: int32(x.Int("priority")), Key: x.String("key"),
	})
	if err != nil {
		return err
	}
	if !x.Bool("json") {
		_, err = fmt.Fprintln(c.stdout, id)
		return err
	}
	j, err := ctl.Job(x.Context, id)
	return errors.Join(err, printJSON(c.stdout, j))
}
