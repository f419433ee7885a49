package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/worker"
	"macbatch/spool"
)

// spoolFolder is the spool that flags name; named tells that they do.
func (c *command) spoolFolder(x *cli.Context) (dir string, named bool, err error) {
	if dir = x.String("spool"); dir != "" {
		if x.IsSet("data") {
			return "", false, usagef("--spool %q and --data %q: name one of them", dir, x.String("data"))
		}
		if _, err := os.Stat(filepath.Join(dir, spoolName, "new")); err == nil {
			dir = filepath.Join(dir, spoolName) // a worker's folder
		}
		return dir, true, nil
	}
	data, err := c.data(x, "worker")
	return filepath.Join(data, spoolName), x.IsSet("data"), err
}

// openSpool opens the spool that flags name; nil: there is none, and none was named.
func (c *command) openSpool(x *cli.Context, open func(string) (*spool.Spool, error)) (*spool.Spool, error) {
	dir, named, err := c.spoolFolder(x)
	if err != nil {
		return nil, err
	}
	// Only what is one: a spool must not come into being where a name is mistyped.
	if _, err := spool.At(dir); errors.Is(err, fs.ErrNotExist) {
		if named {
			return nil, fmt.Errorf("no worker's spool at %q: %w", dir, fs.ErrNotExist)
		}
		return nil, nil
	}
	return open(dir)
}

// gatherSpool delivers, or shows, what a spool holds.
func (c *command) gatherSpool(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	if x.Bool("dry-run") {
		if x.Bool("watch") {
			return usagef("--dry-run looks once: leave out --watch")
		}
		sp, err := c.openSpool(x, spool.At)
		if err != nil {
			return err
		}
		return c.showSpool(x, sp)
	}
	if x.Bool("json") {
		return usagef("--json is for --dry-run")
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	sp, err := c.openSpool(x, spool.Open)
	if err != nil {
		return err
	}
	if sp == nil {
		fmt.Fprintln(c.stderr, "spool: empty")
		return nil
	}
	d := worker.Delivery{Control: ctl, Spool: sp, Log: c.logger(x.Bool("verbose"))}
	p := newSpoolBar(c)
	d.Told = p.show
	deliver := d.Drain
	if x.Bool("watch") {
		if d.Bell, err = sp.Bell(x.Context); err != nil {
			fmt.Fprintf(c.stderr, "macbatch: looking every now and then only: %s\n", printable(err.Error()))
		}
		deliver = d.Watch
	}
	t, err := deliver(x.Context)
	p.close()
	c.tellTally(t)
	switch {
	case err != nil:
		return err
	case t.Left > 0:
		return &exitError{exitRunning, fmt.Sprintf("%s still in the spool", plural(uint64(t.Left), "result"))}
	case t.Conflict+t.Invalid+t.Damaged > 0:
		return &exitError{exitPartial, fmt.Sprintf("%s could not be delivered: rejected/ and damaged/ in the spool keep what there is", plural(uint64(t.Conflict+t.Invalid+t.Damaged), "result"))}
	case t == (worker.Tally{}):
		fmt.Fprintln(c.stderr, "spool: empty")
	}
	return nil
}

// replay delivers what the worker of this machine left, before the results of a
// job are written. A spool that is being delivered is left to whom it is.
func (c *command) replay(x *cli.Context, ctl lease.Control) error {
	sp, err := c.openSpool(x, spool.Open)
	if err != nil || sp == nil {
		return err
	}
	d := worker.Delivery{Control: ctl, Spool: sp, Log: c.logger(x.Bool("verbose"))}
	t, err := d.Deliver(x.Context)
	c.tellTally(t)
	if errors.Is(err, spool.ErrBusy) {
		fmt.Fprintln(c.stderr, "spool: its worker is running and delivers by itself")
		return nil
	}
	return err
}

// tellTally prints a line for each class of verdicts.
func (c *command) tellTally(t worker.Tally) {
	for _, n := range []struct {
		name  string
		count int
	}{
		{"accepted", t.Accepted}, {"duplicate", t.Duplicate}, {"stale", t.Stale}, {"conflict", t.Conflict},
		{"invalid", t.Invalid}, {"denied", t.Denied}, {"foreign", t.Foreign}, {"damaged", t.Damaged},
	} {
		if n.count > 0 {
			fmt.Fprintf(c.stderr, "spool: %d %s\n", n.count, n.name)
		}
	}
}

// spooled is an entry as --dry-run shows it.
type spooled struct {
	Name  spool.Name `json:"name"`
	Where string     `json:"where"` // new, rejected or damaged
	Shard string     `json:"shard,omitempty"`
	Fence uint64     `json:"fence,string,omitempty"`
	Added time.Time  `json:"added"`
	Bytes int64      `json:"bytes"` // with its blobs
	Blobs int        `json:"blobs"`
	Fault string     `json:"fault,omitempty"` // why it is damaged, cannot be read, or was rejected
}

// showSpool lists what a spool holds; nothing in it changes.
func (c *command) showSpool(x *cli.Context, sp *spool.Spool) error {
	var all []spooled
	if sp != nil {
		var err error
		if all, err = lookInto(sp); err != nil {
			return err
		}
	}
	waiting := 0
	for _, e := range all {
		if e.Where == "new" {
			waiting++
		}
	}
	if x.Bool("json") || len(all) > 0 {
		err := list(c, x, all, []string{"WHERE", "SHARD", "FENCE", "AGE", "BYTES", "BLOBS", "FAULT"}, func(e *spooled) []string {
			return []string{e.Where, e.Shard, fmt.Sprint(e.Fence), clock(max(0, time.Since(e.Added))), fmt.Sprint(e.Bytes), fmt.Sprint(e.Blobs), e.Fault}
		})
		if err != nil {
			return err
		}
	}
	if waiting > 0 {
		return &exitError{exitRunning, fmt.Sprintf("%s in the spool", plural(uint64(waiting), "result"))}
	}
	fmt.Fprintln(c.stderr, "spool: empty")
	return nil
}

func lookInto(sp *spool.Spool) (all []spooled, err error) {
	for _, folder := range []struct {
		name string
		list func() ([]spool.Name, error)
	}{{"new", sp.List}, {"rejected", sp.Rejected}, {"damaged", sp.Damaged}} {
		names, err := folder.list()
		if errors.Is(err, fs.ErrNotExist) { // not in a copy
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			e := spooled{Name: n, Where: folder.name, Added: n.Time()}
			if e.Shard, e.Fence, err = n.Lease(); err != nil {
				e.Fault = err.Error()
			}
			switch folder.name {
			case "new":
				entry, err := sp.Peek(n)
				switch {
				case errors.Is(err, fs.ErrNotExist):
					continue // delivered meanwhile
				case err != nil:
					e.Fault = err.Error()
				default:
					e.Shard, e.Fence, e.Bytes, e.Blobs = entry.Shard, entry.Fence, int64(len(entry.Body)), len(entry.Blobs)
					for _, b := range entry.Blobs {
						e.Bytes += b.Size
					}
				}
			case "rejected":
				if e.Fault, err = sp.Reason(n); err != nil {
					e.Fault = err.Error()
				}
			case "damaged":
				e.Fault = "its bytes do not agree with themselves"
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// spoolBar shows on a terminal how far a delivery is; elsewhere nothing.
type spoolBar struct {
	bar *progressbar.ProgressBar
	max int
}

func newSpoolBar(c *command) *spoolBar {
	b := &spoolBar{}
	if isTerminal(c.stderr) {
		b.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(c.stderr), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionFullWidth(),
		)
	}
	return b
}

func (b *spoolBar) show(t worker.Tally) {
	if b.bar == nil {
		return
	}
	done := t.Accepted + t.Duplicate + t.Stale + t.Conflict + t.Invalid + t.Damaged
	b.max = max(b.max, done+t.Left)
	b.bar.ChangeMax(max(b.max, 1))
	b.bar.Describe(fmt.Sprintf("%d of %s", done, plural(uint64(b.max), "result")))
	_ = b.bar.Set(done) // it cannot fail below its maximum
}

func (b *spoolBar) close() {
	if b.bar != nil {
		_ = b.bar.Clear() // the terminal's loss
	}
}
