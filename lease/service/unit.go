package service

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Unit is a command that the system keeps running.
type Unit struct {
	Name    string   // its files are named for it, such as "serve"
	Program string   // absolute path
	Args    []string // after the program's name
	Env     []string // "NAME=value"
	Home    string   // of the account
	Writes  []string // absolute folders that it writes to; they are made
	User    string   // of the machine: the account that it runs as
	UID     int      // of that account
	GID     int
	Leave   time.Duration // how long it may take to end
	Answers bool          // others wait for it
	Once    bool          // it runs once, when it is started

	process string // launchd's ProcessType, where a file has said it
}

var unitName = regexp.MustCompile(`^[a-z][a-z-]{0,40}$`)

// check refuses what a file cannot say.
func (u *Unit) check() error {
	if !unitName.MatchString(u.Name) {
		return fmt.Errorf("service %q: the name is none", u.Name)
	}
	for _, p := range append([]string{u.Program, u.Home}, u.Writes...) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return fmt.Errorf("service %s: path %q is not absolute", u.Name, p)
		}
	}
	for _, e := range u.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("service %s: %q is no setting of the environment", u.Name, e)
		}
	}
	if u.Leave <= 0 {
		return fmt.Errorf("service %s: no time to leave", u.Name)
	}
	all := append(append(append([]string{u.Program, u.Home, u.User}, u.Args...), u.Env...), u.Writes...)
	for _, s := range all {
		if err := sayable(s); err != nil {
			return fmt.Errorf("service %s: %q: %w", u.Name, s, err)
		}
	}
	return nil
}

// sayable refuses text that neither kind of file can hold.
func sayable(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("it is not UTF-8, which a service's file must be")
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == '\ufffe' || r == '\uffff' {
			return errors.New("a control character cannot be in a service's file")
		}
	}
	return nil
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
