package main

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/api"
)

// verbs is a command that only has commands of its own.
func verbs(name, usage string, list ...*cli.Command) *cli.Command {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.Name
	}
	return &cli.Command{
		Name: name, Usage: usage, Subcommands: list,
		UsageText: "macbatch " + name + " " + strings.Join(names, "|") + " …",
		Action: func(x *cli.Context) error {
			if x.NArg() > 0 {
				return usagef("%s %q is not known; there is %s", name, x.Args().First(), strings.Join(names, ", "))
			}
			return usagef("%s needs one of %s; see macbatch %s --help", name, strings.Join(names, ", "), name)
		},
	}
}

func projectCommand(c *command) *cli.Command {
	// each asks the control plane for something about one project, and one actor or more.
	each := func(name, usage, text string, actors bool, ask func(context.Context, *api.Client, lease.Project, lease.ActorID) error) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, UsageText: "macbatch project " + name + " " + text, Flags: clientFlags(),
			Action: func(x *cli.Context) error {
				least, most := 1, 1
				if actors {
					least, most = 2, 1000
				}
				a, err := args(x, least, most, text)
				if err != nil {
					return err
				}
				ctl, err := c.dial(x)
				if err != nil {
					return err
				}
				if !actors {
					return about(ask(x.Context, ctl, lease.Project(a[0]), ""), "project %q", a[0])
				}
				for _, id := range a[1:] {
					err := ask(x.Context, ctl, lease.Project(a[0]), lease.ActorID(id))
					if err := about(err, "project %q, actor %q", a[0], id); err != nil {
						return err
					}
				}
				return nil
			},
		}
	}
	return verbs("project", "scopes: what actors see and may do",
		each("create", "open a new project", "PROJECT", false, func(ctx context.Context, ctl *api.Client, p lease.Project, _ lease.ActorID) error {
			return ctl.CreateProject(ctx, p)
		}),
		&cli.Command{
			Name: "list", Usage: "list the projects you see", UsageText: "macbatch project list [--json]",
			Flags:  append(clientFlags(), jsonFlag("print a JSON object a line")),
			Action: func(x *cli.Context) error { return c.projects(x) },
		},
		each("assign", "let actors act in a project", "PROJECT ACTOR...", true, func(ctx context.Context, ctl *api.Client, p lease.Project, id lease.ActorID) error {
			return ctl.Assign(ctx, id, p)
		}),
		each("unassign", "end that at once; what they hold of the project goes to others", "PROJECT ACTOR...", true, func(ctx context.Context, ctl *api.Client, p lease.Project, id lease.ActorID) error {
			return ctl.Unassign(ctx, id, p)
		}),
		each("close", "take no new jobs and grant nothing more; what is leased may end", "PROJECT", false, func(ctx context.Context, ctl *api.Client, p lease.Project, _ lease.ActorID) error {
			return ctl.CloseProject(ctx, p)
		}),
		each("open", "open a closed project again", "PROJECT", false, func(ctx context.Context, ctl *api.Client, p lease.Project, _ lease.ActorID) error {
			return ctl.OpenProject(ctx, p)
		}),
	)
}

func (c *command) projects(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	projects, err := ctl.Projects(x.Context)
	if err != nil {
		return err
	}
	return list(c, x, projects, []string{"PROJECT", "STATE", "CREATED"}, func(p *lease.Scope) []string {
		state := "open"
		if p.Closed {
			state = "closed"
		}
		return []string{string(p.Project), state, p.Created.Local().Format(time.DateTime)}
	})
}
