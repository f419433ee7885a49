package main

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

func compactCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "compact", Usage: "give back the room that deleted rows left in a store at rest",
		UsageText:   "macbatch compact --data FOLDER",
		Description: "It writes the store anew beside the old one, compares the two, and puts the new one in its place.",
		Flags:       []cli.Flag{dataFlag("`FOLDER` of a store whose control plane does not run", "")},
		Action: func(x *cli.Context) error {
			if _, err := args(x, 0, 0, "no arguments"); err != nil {
				return err
			}
			if x.String("data") == "" {
				return usagef("compact needs the store's folder: --data FOLDER")
			}
			before, after, err := boltkv.Compact(filepath.Join(x.String("data"), storeName), boltkv.Options{Accept: store.Accept})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.stdout, "%d bytes before, %d after\n", before, after)
			return err
		},
	}
}
