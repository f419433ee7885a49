package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/join"
	"macbatch/lease/wire"
)

// credentialName is the file in the folder of settings that a machine got when it
// joined, and reachName the one in a control plane's data folder that tells how
// commands on this host reach it.
const (
	credentialName = "credential.json"
	reachName      = "control.json"
)

// clientFlags say which control plane to talk to, and as whom.
func clientFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "control", Usage: "`URL` of the control plane (default: the one that was joined, or that of this host)", EnvVars: []string{"MACBATCH_CONTROL"}},
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` that holds the access token (default: what joining gave, or the admin's of this host)", EnvVars: []string{"MACBATCH_TOKEN_FILE"}, TakesFile: true},
		&cli.StringFlag{Name: "pin", Usage: "SHA-256 of the control plane's public key, in `HEX`: nobody else is talked to (default: what joining gave)", EnvVars: []string{"MACBATCH_PIN"}},
	}
}

// party is a control plane as this machine knows it: where it is, and whose word
// for that.
type party struct {
	urls  []string
	pin   string
	token string // or tokenFile
	file  string // where it is from
}

// dial makes the control plane's client. What was asked for counts first, then
// what joining gave, then the control plane of this host.
func (c *command) dial(x *cli.Context) (*api.Client, error) {
	p, err := c.party(x)
	if err != nil {
		return nil, err
	}
	return p.client()
}

// party finds whom dial is to talk to.
func (c *command) party(x *cli.Context) (p party, err error) {
	known, err := c.parties()
	if err != nil {
		return p, err
	}
	base, file := x.String("control"), x.String("token-file")
	for _, k := range known { // whose token goes to base, if none is named
		if base == "" || slices.Contains(k.urls, strings.TrimRight(base, "/")) {
			p = k
			break
		}
	}
	switch r, err := readReach(filepath.Dir(file)); {
	case base != "":
		p.urls = []string{base}
	case file != "" && err == nil: // the admin's token, in the folder of its control plane
		p.urls, p.pin = r.URLs, r.Pin
	}
	if pin := x.String("pin"); pin != "" {
		p.pin = pin
	}
	if len(p.urls) == 0 {
		p.urls = []string{"http://" + defaultListen}
	}
	if file != "" {
		p.file, p.token = file, ""
	}
	if p.file == "" {
		if p.file, err = c.localToken(p.urls[0]); err != nil {
			return p, err
		}
	}
	if p.token == "" {
		if p.token, err = readToken(p.file); errors.Is(err, fs.ErrNotExist) {
			return p, hint(err, "an admin lets a machine join with macbatch join new; a token of another kind is named with --token-file, or in MACBATCH_TOKEN_FILE")
		} else if err != nil {
			return p, err
		}
	}
	c.asked.url, c.asked.file = p.urls[0], p.file
	return p, nil
}

// parties are the control planes that need not be named: the one that this machine
// joined, and that of this host, if it ever ran.
func (c *command) parties() (list []party, err error) {
	dir, err := c.configFolder()
	if err == nil {
		file := filepath.Join(dir, credentialName)
		switch cred, err := join.ReadCredential(file); {
		case err == nil:
			list = append(list, party{cred.URLs, cred.Pin, cred.Token, file})
		case errors.Is(err, lease.ErrForbidden):
			return nil, hint(err, "chmod 600 %q", file)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if dir, err = c.dataFolder("control"); err == nil {
		if r, err := readReach(dir); err == nil {
			list = append(list, party{urls: r.URLs, pin: r.Pin, file: filepath.Join(dir, tokenName)})
		}
	}
	return list, nil
}

// localToken is the admin's token of this host. It goes nowhere else.
func (c *command) localToken(base string) (string, error) {
	if u, err := url.Parse(base); err == nil && !join.Loopback(u.Hostname()) {
		return "", usagef("--control %q needs --token-file: this machine has not joined it", base)
	}
	dir, err := c.dataFolder("control")
	return filepath.Join(dir, tokenName), err
}

// client makes the client of a control plane. Where its key is known it is looked
// for at all its addresses.
func (p *party) client() (*api.Client, error) {
	client, err := p.http()
	if err != nil {
		return nil, err
	}
	return api.Dial(p.urls[0], func() string { return p.token }, client)
}

// http makes a client that talks to nobody but this control plane.
func (p *party) http() (*http.Client, error) {
	if p.pin == "" {
		return api.NewHTTPClient(0, nil), nil
	}
	pin, err := join.ParsePin(p.pin)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, s := range p.urls {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "https" {
			return nil, usagef("control plane %q: a pin needs https", s)
		}
		port := u.Port()
		if port == "" {
			port = "443"
		}
		addresses = append(addresses, hostPort(u.Hostname(), port))
	}
	return api.NewHTTPClient(0, pin.Config(), addresses...), nil
}

// readReach reads how the control plane of a data folder is reached.
func readReach(dir string) (r lease.Reach, err error) {
	b, err := os.ReadFile(filepath.Join(dir, reachName))
	if err == nil {
		err = wire.Unmarshal(b, &r)
	}
	if err == nil && len(r.URLs) == 0 {
		err = fmt.Errorf("%s: %w", reachName, lease.ErrMalformed)
	}
	return r, err
}
