package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/join"
	"macbatch/lease/store"
	"macbatch/lease/wire"
)

func joinCommand(c *command) *cli.Command {
	return verbs("join", "let machines and people in, by a string that is good once",
		&cli.Command{
			Name: "new", Usage: "print a join string", UsageText: "macbatch join new --role ROLE [--project PROJECT]... [--name NAME] [--ttl TIME]",
			Description: "Whoever gives it to macbatch join use becomes that actor; so hand it over as you would a key. It is good\n" +
				"once and in time only, and the control plane keeps no more than a hash of it.",
			Flags: append(clientFlags(),
				&cli.StringFlag{Name: "role", Usage: "`ROLE`: admin, submitter (reads too), reader or worker"},
				&cli.StringSliceFlag{Name: "project", Usage: "a `PROJECT` it acts in; may be repeated"},
				&cli.StringFlag{Name: "name", Usage: "the actor's `NAME`, which is not given twice (default: made from the role)"},
				&cli.DurationFlag{Name: "ttl", Usage: "how long it is good, up to 24h", Value: 30 * time.Minute},
				&cli.StringSliceFlag{Name: "url", Usage: "`URL` where the control plane is reached from there, tried first; may be repeated"},
				&cli.BoolFlag{Name: "again", Usage: "for an actor that is there, by its --name: what it has now stays good for an hour"}),
			Action: func(x *cli.Context) error { return c.joinNew(x) },
		},
		&cli.Command{
			Name: "use", Usage: "join, with a string from standard input or a file", UsageText: "macbatch join use [--file FILE] [--replace]",
			Description: "The control plane must hold the key that the string names; nothing is sent to another one. What this\n" +
				"machine gets is kept beside its settings, where all commands find it.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "file", Usage: "`FILE` that holds the join string, which only you can read (default: standard input)", TakesFile: true},
				&cli.BoolFlag{Name: "replace", Usage: "leave the control plane that this machine joined before"},
			},
			Action: func(x *cli.Context) error { return c.joinUse(x) },
		},
		&cli.Command{
			Name: "list", Usage: "list invitations that are open, and those that nobody used", UsageText: "macbatch join list [--json]",
			Flags:  append(clientFlags(), jsonFlag("print a JSON object a line")),
			Action: func(x *cli.Context) error { return c.joinList(x) },
		},
		&cli.Command{
			Name: "revoke", Usage: "end an invitation, and the actor it was for, at once", UsageText: "macbatch join revoke NAME", Flags: clientFlags(),
			Action: func(x *cli.Context) error { return c.revoke(x) },
		},
	)
}

func (c *command) joinNew(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	i := lease.Invitation{Actor: lease.Actor{ID: lease.ActorID(x.String("name")), Role: lease.Role(x.String("role"))}, For: x.Duration("ttl"), Again: x.Bool("again")}
	for _, p := range x.StringSlice("project") {
		i.Projects = append(i.Projects, lease.Project(p))
	}
	switch {
	case i.Again && (i.ID == "" || i.Role != "" || len(i.Projects) > 0):
		return usagef("--again needs the --name of an actor that is there, and changes neither its --role nor a --project")
	case !i.Again && !slices.Contains(lease.Roles, i.Role):
		return usagef("--role %q: must be admin, submitter, reader or worker", i.Role)
	case !i.Again && i.Role != lease.Admin && len(i.Projects) == 0:
		return usagef("--project: a %s acts in projects; name one", i.Role)
	case i.For < time.Minute || i.For > lease.MaxInvited:
		return usagef("--ttl %v: must be between 1m and %v", i.For, lease.MaxInvited)
	}
	if i.ID == "" {
		i.ID = lease.ActorID(fmt.Sprintf("%s-%s", i.Role, strings.ToLower(base32.StdEncoding.EncodeToString(randomBytes(5)))))
	}
	if err := i.ID.Check(); err != nil {
		return usagef("%v", err)
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	t := join.Ticket{}
	t.Secret, i.Secret = store.NewInvite(i.ID)
	reach, err := ctl.Invite(x.Context, i)
	if err != nil {
		return about(err, "actor %q, or one of projects %q", i.ID, i.Projects)
	}
	t.URLs, t.Pin = c.reachable(x, reach), reach.Pin
	text := t.String()
	if _, err := join.ParseTicket(text); err != nil {
		err = errors.Join(err, ctl.RevokeActor(x.Context, i.ID))
		return hint(err, "macbatch control --listen 0.0.0.0:7373 is reached by others")
	}
	fmt.Fprintf(c.stderr, "for %s until %s, once: macbatch join use\n", printable(string(i.ID)), time.Now().Add(i.For).Format(time.DateTime))
	if t.Pin == "" {
		fmt.Fprintln(c.stderr, "macbatch: only on this machine: others do not reach a loopback address")
	}
	_, err = fmt.Fprintln(c.stdout, text)
	return err
}

// reachable are the addresses of the control plane in the order to try them: those
// that were named, the one by which it was reached just now, those that it tells of.
func (c *command) reachable(x *cli.Context, r lease.Reach) []string {
	list := x.StringSlice("url")
	if u, err := url.Parse(c.asked.url); err == nil && !join.Loopback(u.Hostname()) {
		list = append(list, c.asked.url)
	}
	var out []string
	for _, s := range append(list, r.URLs...) {
		if s = strings.TrimRight(s, "/"); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// maxTicketFile bounds what is read for a join string, in bytes.
const maxTicketFile = 32 << 10

// readTicket reads a join string from a file or standard input.
func (c *command) readTicket(x *cli.Context) (join.Ticket, error) {
	var b []byte
	var err error
	if file := x.String("file"); file != "" && file != "-" {
		if b, err = join.ReadSecret(file); errors.Is(err, lease.ErrForbidden) {
			return join.Ticket{}, hint(err, "chmod 600 %q; or give it to macbatch join use < FILE", file)
		}
	} else {
		in := bufio.NewReader(io.LimitReader(c.stdin, maxTicketFile))
		if f, ok := c.stdin.(*os.File); ok && isTerminal(f) {
			fmt.Fprint(c.stderr, "join string: ")
			b, err = in.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				err = nil
			}
		} else {
			b, err = io.ReadAll(in)
		}
	}
	if err != nil {
		return join.Ticket{}, fmt.Errorf("read join string: %w", err)
	}
	return join.ParseTicket(string(b))
}

func (c *command) joinUse(x *cli.Context) error {
	if x.NArg() > 0 {
		return usagef("join use takes the string from standard input or --file FILE: an argument is seen by everybody on this machine")
	}
	dir, err := c.configFolder()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, credentialName)
	if old, err := join.ReadCredential(file); err == nil && !x.Bool("replace") {
		return hint(usagef("this machine joined %s as %s", old.URLs[0], old.Actor), "--replace leaves that one; MACBATCH_CONFIG names settings of their own")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !x.Bool("replace") {
		return err
	}
	t, err := c.readTicket(x)
	if err != nil {
		return err
	}
	cred, err := c.exchangeTicket(x.Context, t, filepath.Join(dir, "joining.json"))
	if err != nil {
		return err
	}
	if err := cred.Write(file); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, "joining.json")); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	as := string(cred.Role)
	for i, p := range cred.Projects {
		as += map[bool]string{true: " of ", false: ", "}[i == 0] + string(p)
	}
	next := "macbatch jobs"
	if cred.Role == lease.WorkerRole {
		next = "macbatch serve"
	}
	fmt.Fprintf(c.stderr, "joined %s as %s, %s; kept in %s; now: %s\n", printable(cred.URLs[0]), printable(string(cred.Actor)), printable(as), printable(file), next)
	return nil
}

// joinTries is how often an answer that got lost is asked for again.
const joinTries = 5

// exchangeTicket asks for the credential that a join string is good for. The token
// is on disk before it is told: whoever is asked again hears the same one.
func (c *command) exchangeTicket(ctx context.Context, t join.Ticket, file string) (cred join.Credential, err error) {
	secret := lease.DigestOf([]byte(t.Secret))
	a, err := join.ReadAttempt(file)
	if err != nil || a.Secret != secret {
		a = join.Attempt{Secret: secret}
		a.Token, _ = store.NewToken(t.Actor())
		if err := a.Write(file); err != nil {
			return cred, err
		}
	}
	var errs []error
	for try := range joinTries {
		if try > 0 {
			select {
			case <-time.After(wire.Backoff(try, mathrand.Int64N)):
			case <-ctx.Done():
				return cred, ctx.Err()
			}
		}
		errs = nil
		lost := false
		for i, u := range t.URLs {
			p := party{urls: []string{u}, pin: t.Pin, token: t.Secret}
			ctl, err := p.client()
			if err != nil {
				return cred, err
			}
			who, err := joinAt(ctx, ctl, lease.DigestOf([]byte(a.Token)))
			if err == nil {
				urls := append([]string{u}, slices.Delete(slices.Clone(t.URLs), i, i+1)...)
				return join.Credential{URLs: urls, Pin: t.Pin, Actor: who.ID, Role: who.Role, Projects: who.Projects, Token: a.Token}, nil
			}
			switch {
			case errors.Is(err, lease.ErrUnauthorized):
				err = errors.Join(err, os.Remove(file))
				return cred, hint(fmt.Errorf("join %s: %w", u, err), "the join string was used, is too old or was revoked: macbatch join new makes another")
			case errors.Is(err, lease.ErrUnknownOutcome), errors.Is(err, lease.ErrFull):
				lost = true
			case !errors.Is(err, lease.ErrUnreachable):
				return cred, fmt.Errorf("join %s: %w", u, err)
			}
			errs = append(errs, fmt.Errorf("join %s: %w", u, err))
		}
		if !lost && try > 0 {
			break
		}
	}
	return cred, hint(errors.Join(errs...), "none of its addresses is reached from here; the string stays good until its time is over")
}

func joinAt(ctx context.Context, ctl *api.Client, token lease.Digest) (lease.Actor, error) {
	defer ctl.Close()
	return ctl.Join(ctx, token)
}

func (c *command) joinList(x *cli.Context) error {
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
	actors = slices.DeleteFunc(actors, func(a lease.Identity) bool { return a.Revoked || !a.Absent && a.Invited.IsZero() })
	return list(c, x, actors, []string{"ACTOR", "ROLE", "STATE", "UNTIL", "PROJECTS"}, func(a *lease.Identity) []string {
		state, until := "open", "-"
		switch {
		case a.Invited.IsZero():
			state = "too late"
		case !a.Absent:
			state = "open, to join again"
		}
		if !a.Invited.IsZero() {
			until = a.Invited.Local().Format(time.DateTime)
		}
		return []string{string(a.ID), string(a.Role), state, until, projectList(a.Projects)}
	})
}
