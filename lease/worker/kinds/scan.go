package kinds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/transcode/inventory"
)

// settleFor is how long a film of a watched folder must not have changed; growingFor
// is how soon one that has is looked at again, and parkFor one that was
// scanned before.
const (
	settleFor  = 10 * time.Second
	growingFor = 10 * time.Second
	parkFor    = 20 * time.Second
)

func (t *Tools) scan(ctx context.Context, task worker.Task) (any, []string, []lease.Digest, error) {
	var p pipeline.ScanPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, nil, err
	}
	dir, err := t.root(p.Root)
	if err != nil {
		return nil, nil, nil, err
	}
	opts := inventory.Options{
		FFprobe: t.FFprobe, Sub: string(p.Sub), Had: p.Had, Progress: func(n int, _ inventory.Path) { task.Progress(uint64(n)) },
	}
	every := time.Duration(p.WatchMS) * time.Millisecond
	if every > 0 {
		opts.Settle = min(settleFor, max(every, time.Second))
		if opts.Known, err = known(ctx, task, p.Known); err != nil {
			return nil, nil, nil, err
		}
	}
	res, err := inventory.Scan(ctx, dir, opts)
	gone := errors.Is(err, inventory.ErrNoRoot) || errors.Is(err, inventory.ErrEmptyRoot) || errors.Is(err, inventory.ErrNoFilms)
	switch {
	case every > 0 && err != nil && ctx.Err() == nil: // it will be there again
		return nil, nil, nil, &worker.Released{Reason: err.Error(), Delay: every}
	case gone:
		return nil, nil, nil, t.unmounted(p.Root, err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil, &worker.Failure{Class: lease.Permanent, Reason: err.Error()}
	case err != nil:
		return nil, nil, nil, err
	case every == 0:
		return res, nil, nil, nil
	}
	return t.watched(&p, &res, opts.Known, every, task.Dir)
}

// watched ends the scan of a watched folder: with a result when something is new.
func (t *Tools) watched(p *pipeline.ScanPayload, res *inventory.Result, before map[inventory.Path]inventory.Identity, every time.Duration, dir string) (any, []string, []lease.Digest, error) {
	if len(res.Sources) == 0 && !p.Known.IsZero() {
		reason := fmt.Sprintf("nothing is new among %d films", res.Unchanged)
		if slices.ContainsFunc(res.Skipped, func(s inventory.Skipped) bool { return s.Reason == inventory.StillGrowing }) {
			reason, every = "what is new is still being written", min(every, growingFor)
		}
		return nil, nil, nil, &worker.Released{Reason: reason, Delay: every}
	}
	// Those that are gone meanwhile are forgotten; a name that comes back is new.
	list := make([]inventory.Seen, 0, len(res.Sources)+res.Unchanged)
	found := map[inventory.Path]bool{}
	for _, s := range res.Sources {
		list = append(list, inventory.Seen{Path: s.Path, Identity: s.Identity})
		found[s.Path] = true
	}
	for _, path := range res.Passed {
		if !found[path] {
			list = append(list, inventory.Seen{Path: path, Identity: before[path]})
		}
	}
	slices.SortFunc(list, func(a, b inventory.Seen) int { return cmp.Compare(a.Path, b.Path) })
	b, err := json.Marshal(list)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode the listing: %w", err)
	}
	file := filepath.Join(dir, "listing.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return nil, nil, nil, fmt.Errorf("write the listing: %w", err)
	}
	d := lease.DigestOf(b)
	res.Listing = &inventory.Listing{Digest: d.String(), Films: len(list)}
	return res, []string{file}, []lease.Digest{d}, nil
}

// known reads the listing of an earlier scan; a zero digest is that of none.
func known(ctx context.Context, task worker.Task, d lease.Digest) (map[inventory.Path]inventory.Identity, error) {
	if d.IsZero() {
		return nil, nil
	}
	file, err := task.Blob(ctx, d)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	var list []inventory.Seen
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read the listing: %w", err)
	}
	m := make(map[inventory.Path]inventory.Identity, len(list))
	for _, s := range list {
		m[s.Path] = s.Identity
	}
	return m, nil
}
