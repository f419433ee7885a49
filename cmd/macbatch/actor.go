package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/store"
)

func actorCommand(c *command) *cli.Command {
	output := &cli.StringFlag{
		Name: "output", Aliases: []string{"o"}, TakesFile: true,
		Usage: "new `FILE` for the token, which only you can read; - prints it (default: NAME.token)",
	}
	return verbs("actor", "credentials: who may ask, as what, where",
		&cli.Command{
			Name: "add", Usage: "add an actor and write its token into a file",
			UsageText: "macbatch actor add NAME --role ROLE [--project PROJECT]... [-o FILE]",
			Description: "A worker and the commands of an actor take the file with --token-file. The control plane\n" +
				"keeps only a hash of the token. Names are not given twice.",
			Flags: append(clientFlags(), output,
				&cli.StringFlag{Name: "role", Usage: "`ROLE`: admin, submitter (reads too), reader or worker"},
				&cli.StringSliceFlag{Name: "project", Usage: "a `PROJECT` it acts in; may be repeated"}),
			Action: func(x *cli.Context) error { return c.addActor(x) },
		},
		&cli.Command{
			Name: "list", Usage: "list actors", UsageText: "macbatch actor list [--json]",
			Flags:  append(clientFlags(), jsonFlag("print a JSON object a line")),
			Action: func(x *cli.Context) error { return c.actors(x) },
		},
		&cli.Command{
			Name: "revoke", Usage: "end an actor at once, for ever; what it holds goes to others", UsageText: "macbatch actor revoke NAME", Flags: clientFlags(),
			Action: func(x *cli.Context) error { return c.revoke(x) },
		},
		&cli.Command{
			Name: "rotate", Usage: "replace an actor's token", UsageText: "macbatch actor rotate NAME [--overlap TIME] [-o FILE]",
			Flags: append(clientFlags(), output, &cli.DurationFlag{Name: "overlap", Usage: "the old token stays good for this `TIME`"}),
			Action: func(x *cli.Context) error {
				a, err := args(x, 1, 1, "an actor's name")
				if err != nil {
					return err
				}
				id := lease.ActorID(a[0])
				return c.issue(x, id, func(ctx context.Context, ctl *api.Client, hash lease.Digest) error {
					return about(ctl.RotateActor(ctx, id, hash, x.Duration("overlap")), "actor %q", id)
				})
			},
		},
	)
}

func (c *command) addActor(x *cli.Context) error {
	a, err := args(x, 1, 1, "an actor's name")
	if err != nil {
		return err
	}
	actor := lease.Actor{ID: lease.ActorID(a[0]), Role: lease.Role(x.String("role"))}
	if !slices.Contains(lease.Roles, actor.Role) {
		return usagef("--role %q: must be admin, submitter, reader or worker", actor.Role)
	}
	if err := actor.ID.Check(); err != nil {
		return usagef("%v", err)
	}
	for _, p := range x.StringSlice("project") {
		actor.Projects = append(actor.Projects, lease.Project(p))
	}
	return c.issue(x, actor.ID, func(ctx context.Context, ctl *api.Client, hash lease.Digest) error {
		return about(ctl.AddActor(ctx, actor, hash), "one of projects %q", actor.Projects)
	})
}

// issue makes a token and tells the control plane its hash. The token is on disk
// before that, so that none is lost, and gone again when it is refused.
func (c *command) issue(x *cli.Context, id lease.ActorID, tell func(context.Context, *api.Client, lease.Digest) error) error {
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	token, hash := store.NewToken(id)
	file := x.String("output")
	if file == "-" {
		if err := tell(x.Context, ctl, hash); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.stdout, token)
		return err
	}
	if file == "" {
		file = strings.ReplaceAll(string(id), string(os.PathSeparator), "-") + ".token"
	}
	if err := writeNewSecret(file, token+"\n"); err != nil {
		return err
	}
	err = tell(x.Context, ctl, hash)
	switch {
	case err == nil:
		fmt.Fprintf(c.stderr, "token of %s in %s\n", printable(string(id)), printable(file))
	case errors.Is(err, lease.ErrUnreachable), errors.Is(err, lease.ErrUnknownOutcome):
		err = hint(err, "the token in %q may be good or not: macbatch actor list tells whether %q is known; rotate makes another", file, id)
	default:
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// writeNewSecret makes a file that only its owner can read, where none was.
func writeNewSecret(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return hint(usagef("%q exists", path), "name another file for the token with -o FILE")
	}
	if err != nil {
		return fmt.Errorf("write token: %w", err)
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write token: %w", err), os.Remove(path))
	}
	return nil
}

func (c *command) actors(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	actors, err := ctl.Actors(x.Context)
	if err != nil {
		return err
	}
	return list(c, x, actors, []string{"ACTOR", "ROLE", "STATE", "CREATED", "USED", "PROJECTS"}, func(a *lease.Identity) []string {
		state, used := "active", "-"
		switch {
		case a.Revoked:
			state = "revoked"
		case a.Absent && a.Invited.IsZero():
			state = "never joined"
		case a.Absent:
			state = "invited"
		case !a.Former.IsZero():
			state = "active, former token until " + a.Former.Local().Format(time.DateTime)
		}
		if !a.Used.IsZero() {
			used = a.Used.Local().Format(time.DateTime)
		}
		return []string{string(a.ID), string(a.Role), state, a.Created.Local().Format(time.DateTime), used, projectList(a.Projects)}
	})
}

func projectList(list []lease.Project) string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = string(p)
	}
	return strings.Join(names, " ")
}

// revoke ends the actor that is named.
func (c *command) revoke(x *cli.Context) error {
	a, err := args(x, 1, 1, "an actor's name")
	if err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	return about(ctl.RevokeActor(x.Context, lease.ActorID(a[0])), "actor %q", a[0])
}
