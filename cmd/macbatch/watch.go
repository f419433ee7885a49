package main

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/urfave/cli/v2"

	"macbatch/lease/pipeline"
)

// watchFlags make a library job go on looking for films.
func watchFlags() []cli.Flag {
	return under("Films:", []cli.Flag{
		&cli.BoolFlag{Name: "watch", Usage: "go on with what appears in the folder, until canceled"},
		&cli.DurationFlag{Name: "every", Usage: "with --watch: `TIME` between two looks at the folder", Value: 5 * time.Minute},
	})
}

// watchMS reads them; 0: the folder is looked at once.
func watchMS(x *cli.Context) (int64, error) {
	switch every := x.Duration("every").Milliseconds(); {
	case !x.Bool("watch") && x.IsSet("every"):
		return 0, usagef("--every belongs to --watch")
	case !x.Bool("watch"):
		return 0, nil
	case x.Bool("dry-run"):
		return 0, usagef("--dry-run looks once: it excludes --watch")
	case every < pipeline.MinWatchMS || every > pipeline.MaxWatchMS:
		return 0, usagef("--every %v: must be %ds to %dh", x.Duration("every"), pipeline.MinWatchMS/1000, pipeline.MaxWatchMS/3600_000)
	default:
		return every, nil
	}
}

// Bounds of what is asked of the system's notices: some hold a descriptor for each
// folder, or file, and large trees have more of them than there are.
const (
	maxWatched = 1000
	quiet      = 2 * time.Second // without notices, before the folder is looked at
)

// ring calls hurry soon after something below dir changed, until ctx ends. It is a
// wake-up and no more: network mounts send no notices, of large trees only the upper
// folders are watched, and the job looks by itself now and then.
func ring(ctx context.Context, dir string, log *slog.Logger, hurry func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("watch without notices", "err", err)
		return
	}
	defer func() { _ = w.Close() }() // only read
	watched := 0
	add := func(top string) {
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil || watched >= maxWatched:
				return filepath.SkipDir
			case !e.IsDir():
				return nil
			}
			if err := w.Add(path); err != nil {
				log.Warn("watch without notices", "folder", path, "err", err)
				return filepath.SkipAll
			}
			watched++
			return nil
		})
	}
	add(dir)
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-w.Events:
			if !open {
				return
			}
			if e.Has(fsnotify.Create) {
				add(e.Name) // if it is a folder
			}
			settled.Reset(quiet)
		case _, open := <-w.Errors: // lost notices, most likely: look
			if !open {
				return
			}
			settled.Reset(quiet)
		case <-settled.C:
			hurry()
		}
	}
}
