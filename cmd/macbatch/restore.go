package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/blob"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

func restoreCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "make a control plane's folder of a backup",
		UsageText: "macbatch restore FILE --data NEW",
		Description: "NEW must not exist, or be empty. Fences granted by the new store beat all those that the old one ever\n" +
			"granted, and leases that were open in the backup are ended: what was done since is answered as stale.\n" +
			"Do not run the old store again. The control plane makes a new admin token at its first start.",
		Flags:  []cli.Flag{dataFlag("`NEW` folder for the store", "")},
		Action: func(x *cli.Context) error { return c.restore(x) },
	}
}

// restoringSuffix is between the folder's name and a number while it is not whole.
const restoringSuffix = ".restoring-"

func (c *command) restore(x *cli.Context) error {
	a, err := args(x, 1, 1, "the archive's name")
	if err != nil {
		return err
	}
	if x.String("data") == "" {
		return usagef("restore needs a new folder: --data NEW")
	}
	dir, err := filepath.Abs(x.String("data"))
	if err != nil {
		return err
	}
	if files, err := os.ReadDir(dir); len(files) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("restore: folder %q is not empty", dir), err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// Nothing has the folder's name before it is whole.
	if err := sweepParts(dir, restoringSuffix); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	part, err := makePart(func() (*os.File, error) {
		name, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+restoringSuffix+"*")
		if err != nil {
			return nil, err
		}
		return os.Open(name)
	})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = part.Close() }() // only held
	tmp := part.Name()
	told, problems, err := restoreInto(x.Context, a[0], tmp)
	if err == nil && len(problems) == 0 {
		err = errors.Join(syncFolder(tmp), os.Rename(tmp, dir), syncFolder(filepath.Dir(dir)))
	}
	if err != nil || len(problems) > 0 {
		err = errors.Join(err, os.RemoveAll(tmp))
	}
	for _, p := range problems {
		fmt.Fprintf(c.stderr, "%s\t%s\t%s\n", p.Kind, printable(p.Subject), printable(p.Detail))
	}
	switch {
	case err != nil:
		return fmt.Errorf("restore: %w", err)
	case len(problems) > 0:
		return &exitError{exitProblems, fmt.Sprintf("restore: %s in the backup; nothing was made", plural(uint64(len(problems)), "problem"))}
	}
	fmt.Fprintf(c.stderr, "store %s as of %s, event %d, %s; epoch %d\n", told.Store, told.Made.Local().Format(time.DateTime), told.Seq, plural(told.Blobs, "blob"), told.NewEpoch)
	fmt.Fprintf(c.stderr, "%s fenced off\n", plural(uint64(told.Fenced), "open lease"))
	return nil
}

func restoreInto(ctx context.Context, archive, dir string) (told store.Restored, problems []lease.Problem, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return told, nil, fmt.Errorf("%q: %w", archive, errors.Unwrap(err))
	}
	defer func() { _ = f.Close() }() // only read
	db, err := boltkv.Open(filepath.Join(dir, storeName), boltkv.Options{})
	if err != nil {
		return told, nil, err
	}
	blobs, err := blob.Open(filepath.Join(dir, blobsName))
	if err == nil {
		told, err = store.Restore(ctx, f, db, blobs, time.Now)
	}
	if err == nil {
		problems, err = store.Check(db, blobs)
	}
	return told, problems, errors.Join(err, db.Close())
}
