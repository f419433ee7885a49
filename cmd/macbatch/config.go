package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/api"
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

// clientFlags say which control plane to talk to, and as whom.
func clientFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "control", Usage: "`URL` of the control plane", Value: "http://" + defaultListen, EnvVars: []string{"MACBATCH_CONTROL"}},
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` that holds the access token (default: that of a control plane on this machine)", EnvVars: []string{"MACBATCH_TOKEN_FILE"}, TakesFile: true},
	}
}

// dial makes the control plane's client.
func (c *command) dial(x *cli.Context) (*api.Client, error) {
	file := x.String("token-file")
	if file == "" {
		d, err := c.dataFolder("control")
		if err != nil {
			return nil, err
		}
		file = filepath.Join(d, tokenName)
	}
	token, err := readToken(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint(err, "copy %s from the control plane's data folder and name it with --token-file", tokenName)
	}
	if err != nil {
		return nil, err
	}
	return api.Dial(x.String("control"), func() string { return token }, api.NewHTTPClient(0, nil))
}

// readToken reads a token file. One that others could read is refused.
func readToken(path string) (string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return "", hint(fmt.Errorf("token file %q can be read by others (mode %04o): %w", path, fi.Mode().Perm(), lease.ErrForbidden), "chmod 600 %q", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if t == "" || len(t) > 500 || strings.ContainsAny(t, " \t\r\n") {
		return "", fmt.Errorf("token file %q: %w", path, lease.ErrMalformed)
	}
	return t, nil
}
