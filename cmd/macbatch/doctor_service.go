package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease/doctor"
	"macbatch/lease/service"
)

// withinLimit bounds how long a look from within a service may take.
const withinLimit = 10 * time.Minute

// serviceDoctor looks from within each installed service, and from here.
func (c *command) serviceDoctor(x *cli.Context) error {
	m, _, err := c.services(x)
	if err != nil {
		return err
	}
	var all []doctor.Finding
	for _, name := range serviceNames {
		u, err := m.Installed(name)
		if errors.Is(err, service.ErrAbsent) {
			continue
		}
		if err != nil {
			return err
		}
		found, err := c.within(x, m, u)
		if err != nil {
			return c.serviceAdvice(x, fmt.Errorf("doctor of service %s: %w", name, err))
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return hint(&exitError{exitDenied, "no service is installed"}, "macbatch service install serve")
	}
	return ill(all)
}

// within looks from within one service.
func (c *command) within(x *cli.Context, m *service.Manager, u *service.Unit) (found []doctor.Finding, err error) {
	show := func(f doctor.Finding, about string) {
		f.About = about
		found = append(found, f)
		c.showFinding(x, f)
	}
	say := func(format string, args ...any) {
		if !x.Bool("json") {
			fmt.Fprintf(c.stdout, format, args...)
		}
	}
	name := u.Name
	flags, data, err := c.doctorFlags(x.Context, u)
	if err != nil {
		return nil, err
	}
	state, err := m.Status(x.Context, name)
	if err != nil {
		return nil, err
	}
	say("service %s, from within:\n", printable(name))
	switch {
	case state.Running:
		show(doctor.Finding{Check: "service", Of: name, Level: doctor.OK, Text: name + " runs, as process " + fmt.Sprint(state.PID)}, name)
	default:
		show(doctor.Finding{Check: "service", Of: name, Level: doctor.Warn, Text: name + " is installed and does not run", Fix: "macbatch service start " + name}, name)
	}
	report := filepath.Join(data, "doctor.jsonl")
	if err := os.Remove(report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	u.Name, u.Once, u.Leave = name+"-doctor", true, 30*time.Second
	u.Args = append([]string{"doctor", "--report=" + report}, flags...)
	ctx, cancel := context.WithTimeoutCause(x.Context, withinLimit, fmt.Errorf("nothing was found within %v; macbatch service logs %s may tell more", withinLimit, name))
	defer cancel()
	if err := m.Once(ctx, u, func(ctx context.Context) error { return awaitFile(ctx, report) }); err != nil {
		return nil, err
	}
	inside, err := readReport(report)
	if err != nil {
		return nil, err
	}
	for _, f := range inside {
		show(f, name)
	}
	var here []doctor.Finding
	if err := c.parsed(x.Context, "doctor", flags, func(x *cli.Context) error {
		return c.examine(x, func(f doctor.Finding) { here = append(here, f) })
	}); err != nil {
		return nil, err
	}
	different := doctor.Compare(here, inside)
	say("%s between it and here\n", map[bool]string{true: "no difference", false: "the differences"}[len(different) == 0])
	for _, f := range different {
		f.About = name + ", compared"
		c.showFinding(x, f)
	}
	return found, nil
}

// doctorFlags are the flags by which the doctor looks after a service as it is
// installed, and where its data are.
func (c *command) doctorFlags(ctx context.Context, u *service.Unit) (flags []string, data string, err error) {
	if len(u.Args) == 0 {
		return nil, "", errors.New("its file runs another program")
	}
	name := u.Args[0]
	of := *c
	of.env = func(name string) (string, bool) {
		for _, e := range u.Env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v, true
			}
		}
		if name == "HOME" {
			return c.env("HOME")
		}
		return "", false
	}
	part := map[string]string{"serve": "worker", "control": "control"}[name]
	if part == "" {
		return nil, "", errors.New("its file runs another command")
	}
	flags = append(flags, "--of="+name)
	if name == "serve" {
		flags = append(flags, u.Args[1:]...)
	}
	err = of.parsed(ctx, name, u.Args[1:], func(x *cli.Context) (err error) {
		if name == "control" && x.IsSet("data") {
			flags = append(flags, "--data="+x.String("data"))
		}
		if err := of.settle(x); err != nil {
			return err
		}
		data, err = of.data(x, part)
		return err
	})
	return flags, data, err
}

// awaitFile waits until a file is there.
func awaitFile(ctx context.Context, path string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if there(path) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readReport reads findings, and removes their file.
func readReport(path string) (list []doctor.Finding, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var f doctor.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			return nil, fmt.Errorf("report %q: %w", path, err)
		}
		list = append(list, f)
	}
	return list, os.Remove(path)
}
