package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/blob"
	"macbatch/lease/gather"
	"macbatch/lease/gather/lines"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

func verifyCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check a control plane's rows against its ledger",
		UsageText: "macbatch verify [--data FOLDER | --outputs OUT] [--json]",
		Description: "With --data it reads a store at rest, changing nothing; with --outputs it compares a folder of\n" +
			"results with its manifest, and counts what else is in it; else it asks the running control plane.",
		Flags: append(clientFlags(), dataFlag("`FOLDER` of a store whose control plane does not run", ""),
			&cli.StringFlag{Name: "outputs", Usage: "`FOLDER` of gathered results", TakesFile: true},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object a line"}),
		Action: func(x *cli.Context) error { return c.verify(x) },
	}
}

func (c *command) verify(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	problems, err := c.problems(x)
	if err != nil {
		return err
	}
	for i := range problems {
		p := &problems[i]
		if x.Bool("json") {
			err = printJSON(c.stdout, p)
		} else {
			_, err = fmt.Fprintf(c.stdout, "%s\t%s\t%s\n", p.Kind, printable(p.Subject), printable(p.Detail))
		}
		if err != nil {
			return err
		}
	}
	if out := x.String("outputs"); out != "" {
		if err := c.tellStrangers(out); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return &exitError{exitProblems, fmt.Sprintf("verify: %s", plural(uint64(len(problems)), "problem"))}
	}
	if x.IsSet("outputs") {
		fmt.Fprintln(c.stderr, "all results are as the manifest says")
	} else {
		fmt.Fprintln(c.stderr, "rows and ledger agree")
	}
	return nil
}

// tellStrangers says how many files of a folder of results are no results.
func (c *command) tellStrangers(out string) error {
	known, err := lines.Outputs(out)
	films, err2 := gather.Outputs(out)
	var n int
	if err = errors.Join(err, err2); err == nil {
		n, err = gather.Strangers(out, append(known, films...))
	}
	if err != nil {
		return fmt.Errorf("verify outputs: %w", err)
	}
	if n > 0 {
		fmt.Fprintf(c.stderr, "%s in it that no manifest names\n", plural(uint64(n), "file"))
	}
	return nil
}

func (c *command) problems(x *cli.Context) (problems []lease.Problem, err error) {
	if out := x.String("outputs"); out != "" {
		problems, err := lines.Verify(out)
		if errors.Is(err, fs.ErrNotExist) { // no list's
			return gather.VerifyOutputs(out)
		}
		if _, none := os.Lstat(filepath.Join(out, "manifest.jsonl")); err != nil || none != nil {
			return problems, err
		}
		more, err := gather.VerifyOutputs(out) // films' beside
		return append(problems, more...), err
	}
	if !x.IsSet("data") {
		ctl, err := c.dial(x)
		if err != nil {
			return nil, err
		}
		return ctl.Verify(x.Context)
	}
	dir := x.String("data")
	db, err := boltkv.Open(filepath.Join(dir, storeName), boltkv.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Check(); err != nil {
		return nil, err
	}
	return store.Check(db, blob.At(filepath.Join(dir, blobsName)))
}
