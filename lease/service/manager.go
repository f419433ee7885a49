package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrAbsent is returned when no such service is installed.
var ErrAbsent = errors.New("it is not installed")

// ErrNoManager is returned where the system has neither launchd nor systemd running.
var ErrNoManager = errors.New("there is no launchd or systemd that runs services here")

// State is how a service stands.
type State struct {
	Name      string `json:"name"`
	File      string `json:"file"`
	Log       string `json:"log"`
	Installed bool   `json:"installed"`
	Running   bool   `json:"running"`
	PID       int    `json:"pid,omitempty"`
	Starts    int    `json:"starts,omitempty"`    // since it was loaded, where the system counts them
	Since     string `json:"since,omitempty"`     // when it was started last, as the system tells it
	LastExit  string `json:"last_exit,omitempty"` // how it ended last, as the system tells it

	loaded bool // the system knows it by some file
}

// keeper is launchd or systemd.
type keeper interface {
	file(name string) string
	text(u *Unit) ([]byte, error)
	read(text []byte, u *Unit) error // the other way: what it runs, and as whom
	log(name string) string
	added(ctx context.Context, name string) error // its file is new, or another
	start(ctx context.Context, name string) error
	stop(ctx context.Context, name string) error
	forget(ctx context.Context, name string) error // before its file goes
	forgot(ctx context.Context) error              // after that
	state(ctx context.Context, s *State) error
	tail(ctx context.Context, name string, lines int, w io.Writer) error
}

// Run runs one of the system's programs and returns what it printed. An error of a
// program that ended badly has its complaint in it.
type Run func(ctx context.Context, program string, args ...string) (string, error)

// Options say whose services are meant.
type Options struct {
	System string // "darwin" or "linux"
	Wide   bool   // of the machine, not of a person
	Home   string // of the person
	Config string // the person's folder of settings: ~/.config
	UID    int
	Root   string // instead of "/", for tests
	Run    Run
}

// Manager installs, starts and stops services.
type Manager struct{ k keeper }

// New returns the system's own. It asks nothing of it yet.
func New(o Options) (*Manager, error) {
	switch o.System {
	case "darwin":
		return &Manager{newLaunchd(o)}, nil
	case "linux":
		return &Manager{newSystemd(o)}, nil
	}
	return nil, fmt.Errorf("services of %s: %w", o.System, ErrNoManager)
}

// File is where a service's file is, and Text what is to be in it.
func (m *Manager) File(u *Unit) string           { return m.k.file(u.Name) }
func (m *Manager) Text(u *Unit) ([]byte, error)  { return m.k.text(u) }
func (m *Manager) log(name string) (path string) { return m.k.log(name) }

// Install writes a service's file and has it started with the session or the
// machine from now on. Where the very same is installed it does nothing; a service
// that runs by another file is started again by the new one.
func (m *Manager) Install(ctx context.Context, u *Unit) (changed bool, err error) {
	text, err := m.k.text(u)
	if err != nil {
		return false, err
	}
	for _, dir := range u.Writes {
		if err := makeFolder(dir, u); err != nil {
			return false, fmt.Errorf("install %s: %w", u.Name, err)
		}
	}
	if log := m.log(u.Name); log != "" {
		if err := makeFolder(filepath.Dir(log), u); err != nil {
			return false, fmt.Errorf("install %s: %w", u.Name, err)
		}
	}
	file := m.k.file(u.Name)
	old, err := os.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(old, text):
		return false, m.k.added(ctx, u.Name) // once more: it may have been stopped half-way
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("install %s: %w", u.Name, err)
	}
	s := State{Name: u.Name}
	if old != nil {
		if err := m.k.state(ctx, &s); err != nil {
			return false, err
		}
	}
	if err := writeFile(file, text); err != nil {
		return false, fmt.Errorf("install %s: %w", u.Name, err)
	}
	if err := m.k.added(ctx, u.Name); err != nil {
		return true, err
	}
	if s.loaded {
		if err := m.k.stop(ctx, u.Name); err != nil {
			return true, err
		}
		return true, m.k.start(ctx, u.Name)
	}
	return true, nil
}

// Start starts a service that is installed; one that runs goes on.
func (m *Manager) Start(ctx context.Context, name string) error {
	if err := m.there(name); err != nil {
		return err
	}
	return m.k.start(ctx, name)
}

// Stop stops a service, and waits until it left. It starts again with the session
// or the machine.
func (m *Manager) Stop(ctx context.Context, name string) error {
	if err := m.there(name); err != nil {
		return err
	}
	return m.k.stop(ctx, name)
}

// Uninstall stops a service and removes its file, and nothing else: what it wrote
// stays. It reports whether there was one.
func (m *Manager) Uninstall(ctx context.Context, name string) (bool, error) {
	if err := m.there(name); errors.Is(err, ErrAbsent) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := m.k.stop(ctx, name); err != nil {
		return false, err
	}
	if err := m.k.forget(ctx, name); err != nil {
		return false, err
	}
	if err := os.Remove(m.k.file(name)); err != nil {
		return false, fmt.Errorf("uninstall %s: %w", name, err)
	}
	return true, m.k.forgot(ctx)
}

// Status tells how a service stands; one that is not installed is no error.
func (m *Manager) Status(ctx context.Context, name string) (State, error) {
	s := State{Name: name, File: m.k.file(name), Log: m.k.log(name)}
	if err := m.there(name); errors.Is(err, ErrAbsent) {
		return s, nil
	} else if err != nil {
		return s, err
	}
	s.Installed = true
	return s, m.k.state(ctx, &s)
}

// Installed reads what an installed service runs, from its file: Program, Args, Env,
// Home, User and Writes, and with what right to the processor.
func (m *Manager) Installed(name string) (*Unit, error) {
	if err := m.there(name); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(m.k.file(name))
	u := &Unit{Name: name}
	if err == nil {
		err = m.k.read(text, u)
	}
	if err == nil && u.Program == "" {
		err = errors.New("it runs no program")
	}
	if err != nil {
		return nil, fmt.Errorf("service file %q: %w", m.k.file(name), err)
	}
	return u, nil
}

// Tail writes the last lines of what a service said.
func (m *Manager) Tail(ctx context.Context, name string, lines int, w io.Writer) error {
	if err := m.there(name); err != nil {
		return err
	}
	return m.k.tail(ctx, name, lines, w)
}

// Once runs a unit to its end as the service that it is: whoever installed it waits
// on what it does. Nothing of it stays.
func (m *Manager) Once(ctx context.Context, u *Unit, wait func(context.Context) error) (err error) {
	text, err := m.k.text(u)
	if err != nil {
		return err
	}
	file := m.k.file(u.Name)
	if err := writeFile(file, text); err != nil {
		return fmt.Errorf("run %s: %w", u.Name, err)
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.Leave)
		defer cancel()
		_ = m.k.stop(late, u.Name) // most often it ended by itself
		err = errors.Join(err, os.Remove(file), m.k.forgot(late))
	}()
	if err := m.k.forgot(ctx); err != nil { // the file is new
		return err
	}
	if err := m.k.start(ctx, u.Name); err != nil {
		return err
	}
	return wait(ctx)
}

func (m *Manager) there(name string) error {
	_, err := os.Stat(m.k.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("service %s: %w", name, ErrAbsent)
	}
	return err
}

// writeFile makes or replaces a file that all may read, whole or not at all.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".macbatch-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// makeFolder makes a folder, and those above it that are missing, for the account
// that a unit runs as.
func makeFolder(dir string, u *Unit) error {
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolder(filepath.Dir(dir), u); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if u.User == "" {
		return nil
	}
	return os.Chown(dir, u.UID, u.GID)
}

// fields reads lines of "name=value" or "name = value".
func fields(text, between string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), between); ok {
			if _, twice := m[name]; !twice { // what comes deeper inside comes later
				m[name] = value
			}
		}
	}
	return m
}
