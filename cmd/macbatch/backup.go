package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease/blob"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

func backupCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "write an archive of a control plane's store and accepted bytes",
		UsageText: "macbatch backup FILE [--data FOLDER]",
		Description: "The control plane goes on meanwhile; with --data it is a store at rest that is read. The archive is\n" +
			"of one moment and is checked before it gets its name. It holds what credentials are checked with:\n" +
			"keep it where nobody else reads it. macbatch restore makes a store of it.",
		Flags:  append(clientFlags(), dataFlag("`FOLDER` of a store whose control plane does not run", "")),
		Action: func(x *cli.Context) error { return c.backup(x) },
	}
}

func (c *command) backup(x *cli.Context) error {
	a, err := args(x, 1, 1, "the archive's name")
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		ctl, err := c.dial(x)
		if err != nil {
			return err
		}
		return ctl.Backup(x.Context, w)
	}
	if x.IsSet("data") {
		write = func(w io.Writer) error { return backupAtRest(x.Context, x.String("data"), w) }
	}
	var made store.Archive
	err = writeNew(a[0], write, func(f *os.File) (err error) {
		made, err = store.CheckBackup(f)
		return err
	})
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	fmt.Fprintf(c.stderr, "store %s up to event %d, and %s\n", made.Store, made.Seq, plural(made.Blobs, "blob"))
	if n := len(made.Missing); n > 0 {
		return &exitError{exitProblems, fmt.Sprintf("backup: %s were missing in the store; macbatch verify tells of what", plural(uint64(n), "blob"))}
	}
	return nil
}

func backupAtRest(ctx context.Context, dir string, w io.Writer) (err error) {
	db, err := boltkv.Open(filepath.Join(dir, storeName), boltkv.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return store.Backup(ctx, db, blob.At(filepath.Join(dir, blobsName)), time.Now(), w)
}
