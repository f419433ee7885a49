package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Verb is what is to be done on each host.
type Verb string

// The verbs.
const (
	Status  Verb = "status"  // look
	Install Verb = "install" // bring the program, join, install and start the service
	Upgrade Verb = "upgrade" // bring the program, and start anew what ran
	Start   Verb = "start"
	Stop    Verb = "stop"
	Logs    Verb = "logs"
)

// Result is how it went on one host.
type Result struct {
	Host    string   `json:"host"`
	Name    string   `json:"name"`
	System  string   `json:"system,omitempty"`  // as uname -sm tells it
	Version string   `json:"version,omitempty"` // of its program
	Service string   `json:"service"`           // "running", "stopped", "none", or "" when it was not reached
	Joined  string   `json:"joined,omitempty"`  // as which actor
	Did     []string `json:"did,omitempty"`     // what was changed
	Output  string   `json:"output,omitempty"`  // of Logs
	Error   string   `json:"error,omitempty"`
	Err     error    `json:"-"`
}

// Fleet drives hosts.
type Fleet struct {
	SSH      SSH
	Programs *Programs
	Pin      string        // of the control plane that hosts are to join
	Limit    time.Duration // for one host
	Lines    int           // of Logs

	// Invite makes a join string for a host.
	Invite func(ctx context.Context, h Host) (string, error)
}

// many is how many hosts are driven at the same time.
const many = 16

// Run does a verb on all hosts, and tells of each when it is done. What went wrong is
// in the results.
func (f *Fleet) Run(ctx context.Context, verb Verb, hosts []Host, tell func(Result)) []Result {
	results := make([]Result, len(hosts))
	done := make(chan int)
	var group errgroup.Group
	group.SetLimit(many)
	go func() {
		for i := range hosts {
			group.Go(func() error {
				results[i] = f.one(ctx, verb, hosts[i])
				done <- i
				return nil
			})
		}
	}()
	for range hosts {
		tell(results[<-done])
	}
	return results
}

// one does a verb on one host, within its limit.
func (f *Fleet) one(ctx context.Context, verb Verb, h Host) Result {
	r := Result{Host: h.Host, Name: h.Name}
	ctx, cancel := context.WithTimeoutCause(ctx, f.Limit, fmt.Errorf("%w: it did not answer within %v", ErrDown, f.Limit))
	defer cancel()
	if r.Err = f.do(ctx, verb, &h, &r); r.Err != nil {
		r.Error = r.Err.Error()
	}
	return r
}

func (f *Fleet) do(ctx context.Context, verb Verb, h *Host, r *Result) error {
	p, err := f.probe(ctx, h, r)
	if err != nil {
		return err
	}
	if p.digest == "" && verb != Install && verb != Status {
		return errors.New("macbatch is not installed there: macbatch fleet install")
	}
	switch verb {
	case Status:
		return nil
	case Install:
		return f.install(ctx, h, r, p)
	case Upgrade:
		changed, err := f.upload(ctx, h, r, p)
		if err != nil || !changed || !p.running {
			return err
		}
		return f.again(ctx, h, r)
	case Start, Stop:
		if p.running == (verb == Start) {
			return nil
		}
		if err := f.verb(ctx, h, string(verb)); err != nil {
			return err
		}
		r.Service = map[Verb]string{Start: "running", Stop: "stopped"}[verb]
		r.Did = append(r.Did, map[Verb]string{Start: "started", Stop: "stopped"}[verb])
		return nil
	case Logs:
		r.Output, err = f.SSH.run(ctx, h.Host, runStep(h, "service", "logs", "serve", "--lines="+strconv.Itoa(f.Lines)), nil)
		return err
	}
	return fmt.Errorf("fleet %s is not known", verb)
}

// probed is what a host told of itself.
type probed struct {
	digest, pin string
	running     bool
}

// version is what a program tells with --version.
func version(text string) string {
	return strings.TrimPrefix(strings.TrimSpace(text), "macbatch version ")
}

// told finds a member of a credential, of which commas are blanks.
func told(text, member string) string {
	m := regexp.MustCompile(`"` + member + `":"([^"]*)"`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

func (f *Fleet) probe(ctx context.Context, h *Host, r *Result) (p probed, err error) {
	out, err := f.SSH.run(ctx, h.Host, probeStep(h), nil)
	if err != nil {
		return p, err
	}
	r.Service = "none"
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "system":
			r.System = value
		case "digest":
			p.digest = value
		case "version":
			r.Version = version(value)
		case "joined":
			p.pin, r.Joined = told(value, "pin"), told(value, "actor")
		case "service":
			var s struct{ Installed, Running bool }
			if json.Unmarshal([]byte(value), &s) == nil && s.Installed {
				p.running, r.Service = s.Running, map[bool]string{true: "running", false: "stopped"}[s.Running]
			}
		}
	}
	if r.System == "" {
		return p, errors.New("its shell printed no answer; a login shell must run /bin/sh -c")
	}
	return p, nil
}

// upload brings the program, unless the very same is there.
func (f *Fleet) upload(ctx context.Context, h *Host, r *Result, p probed) (changed bool, err error) {
	name, digest, err := f.Programs.For(r.System)
	if err != nil || digest == p.digest {
		return false, err
	}
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	out, err := f.SSH.run(ctx, h.Host, uploadStep(h, digest), file)
	if err != nil {
		return false, fmt.Errorf("bring the program: %w", err)
	}
	r.Did, r.Version = append(r.Did, "program"), version(out)
	return true, nil
}

func (f *Fleet) install(ctx context.Context, h *Host, r *Result, p probed) error {
	if r.Joined != "" && p.pin != f.Pin {
		return errors.New("it has joined another control plane: macbatch join use --replace there")
	}
	changed, err := f.upload(ctx, h, r, p)
	if err != nil {
		return err
	}
	if r.Joined == "" {
		ticket, err := f.Invite(ctx, *h)
		if err != nil {
			return err
		}
		if _, err := f.SSH.run(ctx, h.Host, joinStep(h), strings.NewReader(ticket+"\n")); err != nil {
			return fmt.Errorf("join: %w", err)
		}
		r.Joined, r.Did = h.Name, append(r.Did, "joined")
	}
	if _, err := f.SSH.run(ctx, h.Host, installStep(h), nil); err != nil {
		return fmt.Errorf("install the service: %w", err)
	}
	if p.running && changed {
		return f.again(ctx, h, r)
	}
	if err := f.verb(ctx, h, "start"); err != nil {
		return err
	}
	if !p.running {
		r.Did = append(r.Did, "started")
	}
	r.Service = "running"
	return nil
}

func installStep(h *Host) step {
	return runStep(h, append([]string{"service", "install", "serve"}, h.serveFlags()...)...)
}

// again starts the service anew.
func (f *Fleet) again(ctx context.Context, h *Host, r *Result) error {
	for _, verb := range []string{"stop", "start"} {
		if err := f.verb(ctx, h, verb); err != nil {
			return err
		}
	}
	r.Service, r.Did = "running", append(r.Did, "started anew")
	return nil
}

func (f *Fleet) verb(ctx context.Context, h *Host, verb string) error {
	if _, err := f.SSH.run(ctx, h.Host, runStep(h, "service", verb, "serve"), nil); err != nil {
		return fmt.Errorf("%s the service: %w", verb, err)
	}
	return nil
}

// Plan tells the commands that a verb may run on a host, as lines for a shell, each
// with what it depends on as a comment before it.
func (f *Fleet) Plan(verb Verb, h *Host) (lines []string) {
	steps := []step{probeStep(h)}
	start, stop := runStep(h, "service", "start", "serve"), runStep(h, "service", "stop", "serve")
	stop.when = "it runs, and its program was another one"
	switch verb {
	case Status:
	case Install:
		steps = append(steps, uploadStep(h, "SHA256"), joinStep(h), installStep(h), stop, start)
	case Upgrade:
		again := start
		again.when = stop.when
		steps = append(steps, uploadStep(h, "SHA256"), stop, again)
	case Start:
		start.when = "it does not run"
		steps = append(steps, start)
	case Stop:
		stop.when = "it runs"
		steps = append(steps, stop)
	case Logs:
		steps = append(steps, runStep(h, "service", "logs", "serve", "--lines="+strconv.Itoa(f.Lines)))
	}
	for _, s := range steps {
		note := ""
		if s.when != "" {
			note = "if " + s.when
		}
		if s.stdin != "" {
			note = strings.TrimPrefix(note+"; it reads "+s.stdin, "; ")
		}
		if note != "" {
			lines = append(lines, "# "+note)
		}
		words := []string{f.SSH.Program}
		for _, a := range f.SSH.args(h.Host, &s) {
			if !plain.MatchString(a) {
				a = Quote(a)
			}
			words = append(words, a)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// plain is a word that needs no quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9@%_+=:,./-]+$`)
