package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/join"
)

// defaultListen is where a control plane listens when nothing else is said.
const defaultListen = "127.0.0.1:7373"

// tokenName is the file in a control plane's data folder that holds the admin token.
const tokenName = "admin.token"

// dataFolder is the user's folder for what macbatch keeps, below it a part's own.
func (c *command) dataFolder(part string) (string, error) {
	if v, ok := c.env("XDG_DATA_HOME"); ok && filepath.IsAbs(v) {
		return filepath.Join(v, "macbatch", part), nil
	}
	home, ok := c.env("HOME")
	if !ok || home == "" {
		return "", hint(errors.New("find the data folder: HOME is not set"), "name a folder with --data")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "macbatch", part), nil
	}
	return filepath.Join(home, ".local", "share", "macbatch", part), nil
}

// data is the folder a command was given with --data, or the default for part.
func (c *command) data(x *cli.Context, part string) (string, error) {
	if d := x.String("data"); d != "" {
		return filepath.Abs(d)
	}
	return c.dataFolder(part)
}

// dataFlag names a folder; it is part of the user's data folder by default, or must
// be given when part is empty.
func dataFlag(usage, part string) cli.Flag {
	if part != "" {
		dir := "~/.local/share/macbatch/"
		if runtime.GOOS == "darwin" {
			dir = "~/Library/Application Support/macbatch/"
		}
		usage += " (default: " + dir + part + ")"
	}
	return &cli.StringFlag{Name: "data", Usage: usage, EnvVars: []string{"MACBATCH_DATA"}, TakesFile: true}
}

// readToken reads a token file. One that others could read is refused.
func readToken(path string) (string, error) {
	b, err := join.ReadSecret(path)
	switch {
	case errors.Is(err, lease.ErrForbidden):
		return "", hint(fmt.Errorf("token %w", err), "chmod 600 %q", path)
	case err != nil:
		return "", fmt.Errorf("token %w", err)
	}
	t := strings.TrimSpace(string(b))
	if t == "" || len(t) > 500 || strings.ContainsAny(t, " \t\r\n") {
		return "", fmt.Errorf("token file %q: %w", path, lease.ErrMalformed)
	}
	return t, nil
}

// configFolder is where the user's settings are, and what a machine got when it
// joined.
func (c *command) configFolder() (string, error) {
	if v, ok := c.env("MACBATCH_CONFIG"); ok && v != "" {
		v, err := filepath.Abs(v)
		return filepath.Dir(v), err
	}
	if v, ok := c.env("XDG_CONFIG_HOME"); ok && filepath.IsAbs(v) {
		return filepath.Join(v, "macbatch"), nil
	}
	home, ok := c.env("HOME")
	if !ok || home == "" {
		return "", hint(errors.New("find the folder of settings: HOME is not set"), "MACBATCH_CONFIG names a file in another one")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "macbatch"), nil
	}
	return filepath.Join(home, ".config", "macbatch"), nil
}
