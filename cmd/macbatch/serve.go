package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/worker"
	"macbatch/lease/worker/kinds"
	"macbatch/transcode/child"
)

func serveCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "work for a control plane",
		UsageText: "macbatch serve [--root NAME=FOLDER]…",
		Flags:     serveFlags(),
		Action:    func(x *cli.Context) error { return c.serve(x) },
	}
}

func serveFlags() []cli.Flag {
	return append(append(clientFlags(),
		&cli.StringSliceFlag{Name: "root", Usage: "a media folder mounted here, as `NAME=FOLDER`; may be repeated"},
		&cli.StringFlag{Name: "name", Usage: "the worker's `NAME` (default: made from the host's, and kept)"},
		&cli.StringSliceFlag{Name: "label", Usage: "`NAME=VALUE` that jobs may ask for with submit --require, such as rack=a; may be repeated"},
		dataFlag("`FOLDER` for the spool and the work under way", "worker"),
	), append(append(workerFlags(), runtimeFlag()), guardFlags()...)...)
}

func (c *command) serve(x *cli.Context) (err error) {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	roots, err := parseRoots(x.StringSlice("root"))
	if err != nil {
		return err
	}
	for name, dir := range roots {
		if _, err := folder(dir); err != nil {
			return fmt.Errorf("root %q: %w", name, err)
		}
	}
	tools := &kinds.Tools{}
	if err := c.models(x, tools, true); err != nil {
		return err
	}
	if err := c.media(x, roots, tools); err != nil {
		// Without the tools of films there is other work, unless films were asked for.
		var usage *usageError
		if len(roots) > 0 || len(tools.Servers) == 0 && tools.OCR == nil || errors.As(err, &usage) {
			return err
		}
		fmt.Fprintf(c.stderr, "macbatch: no films: %s\n", printable(err.Error()))
	}
	checks, err := guards(x)
	if err != nil {
		return err
	}
	offer := tools.Offer()
	if offer.Labels, err = labels(x, "label"); err != nil {
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
	w, err := c.openWorker(data, x.String("name"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	c.started(data)
	agent, err := c.agent(x, ctl, w, tools, 0, checks...)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stderr, "worker %s serves %s: %s\n", printable(string(w.ID)), printable(c.asked.url), printable(describeOffer(offer)))
	err = c.attend(x, x.Context, agent)
	if left, lerr := w.spool.List(); lerr == nil && len(left) > 0 {
		fmt.Fprintf(c.stderr, "%s stay in the spool: the next serve delivers them, or macbatch gather\n", plural(uint64(len(left)), "report"))
	}
	return err
}

// attend runs a worker until ctx ends. At the first signal it tells what is going
// on, at the second it ends the worker at once.
func (c *command) attend(x *cli.Context, ctx context.Context, agent *worker.Agent) error {
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-x.Context.Done():
		case <-ended:
			return
		}
		if cause := context.Cause(x.Context); !errors.Is(cause, context.Canceled) { // not asked to: something broke
			agent.Kill()
			return
		}
		if n := len(agent.Running()); n > 0 && x.Duration("grace") > 0 {
			fmt.Fprintf(c.stderr, "finishing what runs, %s, within %v; interrupt again to stop at once\n", plural(uint64(n), "shard"), x.Duration("grace"))
		}
		hurry, _ := x.Context.Value(hurryKey{}).(context.Context)
		if hurry == nil {
			return
		}
		select {
		case <-hurry.Done():
			agent.Kill()
		case <-ended:
		}
	})
	err := agent.Run(ctx)
	close(ended)
	watching.Wait()
	return err
}

func describeOffer(o lease.Offer) string {
	kinds := make([]string, len(o.Kinds))
	for i, k := range o.Kinds {
		kinds[i] = string(k)
	}
	s := strings.Join(kinds, " ")
	var models []string // without what narrows one down
	for _, m := range o.Models {
		if name, _, _ := strings.Cut(m, "#"); !slices.Contains(models, name) && (!strings.Contains(name, "@") || !slices.Contains(models, name[:strings.Index(name, "@")])) {
			models = append(models, name)
		}
	}
	if len(models) > 0 {
		s += "; models " + strings.Join(models, " ")
	}
	if len(o.Roots) > 0 {
		s += "; roots " + strings.Join(o.Roots, " ")
	}
	if len(o.Labels) > 0 {
		s += "; labels " + strings.Join(o.Labels, " ")
	}
	return s
}

// agent makes the worker of this process. A job of its own bounds what it claims.
func (c *command) agent(x *cli.Context, ctl lease.Control, w *workerFolder, tools *kinds.Tools, job lease.JobID, checks ...func(context.Context) string) (*worker.Agent, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this host: %w", err)
	}
	machine, err := machineID(host, w.dir)
	if err != nil {
		return nil, err
	}
	if err := enoughSpace(w.dir, floor(x)); err != nil {
		return nil, err
	}
	if err := w.next(); err != nil {
		return nil, err
	}
	parallel, offer := x.Int("parallel"), tools.Offer()
	if offer.Labels, err = labels(x, "label"); err != nil {
		return nil, err
	}
	return worker.New(worker.Config{
		ID: w.ID, Incarnation: w.Incarnation, Host: host, Machine: machine, Version: version,
		Control: ctl, Spool: w.spool, Dir: filepath.Join(w.dir, workName), Marks: filepath.Join(w.dir, marksName), Base: child.With(context.Background(), w.children),
		Executors: tools.Executors(), Slots: tools.Slots(parallel), Parallel: parallel, LeaseLimit: x.Int("lease-limit"), Loads: tools.Loads, Offer: offer, Job: job, Disks: []string{w.dir},
		Models: tools.Models, Recheck: tools.Recheck, Grace: x.Duration("grace"), MinFree: floor(x), Log: c.logger(x.Bool("verbose")),
		Guards: checks, Facts: facts(tools), Awake: w.awake.hold,
	})
}

// machineID tells this machine and this worker's folder from a copy of the folder,
// here or elsewhere.
func machineID(host, dir string) (string, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("worker folder: %w", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		dir = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	if runtime.GOOS == "linux" {
		if b, err := os.ReadFile("/etc/machine-id"); err == nil {
			host = strings.TrimSpace(string(b))
		}
	}
	return host + " " + dir, nil
}

// floor is the free space that --min-free asks for, in bytes.
func floor(x *cli.Context) uint64 { return uint64(max(0, x.Int("min-free"))) << 20 }

// enoughSpace refuses to begin on a disk on which a worker would only wait.
func enoughSpace(dir string, least uint64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("disk of %q: %w", dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < least {
		return hint(fmt.Errorf("only %d MiB are free at %q; %d are needed", free>>20, dir, least>>20), "name another folder with --data, or a lower limit with --min-free")
	}
	return nil
}
