package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// launchd asks launchctl, in the domain of the machine or of the person's session.
type launchd struct {
	o      Options
	domain string
	dir    string
	logs   string
}

func newLaunchd(o Options) *launchd {
	l := &launchd{
		o: o, domain: "gui/" + strconv.Itoa(o.UID),
		dir: filepath.Join(o.Home, "Library", "LaunchAgents"), logs: filepath.Join(o.Home, "Library", "Logs", "macbatch"),
	}
	if o.Wide {
		l.domain, l.dir, l.logs = "system", filepath.Join(o.Root, "/Library/LaunchDaemons"), filepath.Join(o.Root, "/Library/Logs/macbatch")
	}
	return l
}

func label(name string) string { return "local.macbatch." + name }

func (l *launchd) file(name string) string      { return filepath.Join(l.dir, label(name)+".plist") }
func (l *launchd) log(name string) string       { return filepath.Join(l.logs, name+".log") }
func (l *launchd) text(u *Unit) ([]byte, error) { return u.Plist(l.log(u.Name)) }
func (l *launchd) target(name string) string    { return l.domain + "/" + label(name) }

func (l *launchd) read(text []byte, u *Unit) error { return u.readPlist(text) }

func (l *launchd) ctl(ctx context.Context, args ...string) (string, error) {
	return l.o.Run(ctx, "launchctl", args...)
}

// loaded tells what launchd knows of a service; "" when it does not know it.
func (l *launchd) loaded(ctx context.Context, name string) string {
	out, err := l.ctl(ctx, "print", l.target(name))
	if err != nil {
		return "" // it has no other answer for that
	}
	return out
}

// added does no more than allow it: launchd reads the folder when the session or
// the machine starts.
func (l *launchd) added(ctx context.Context, name string) error {
	if _, err := l.ctl(ctx, "enable", l.target(name)); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

func (l *launchd) start(ctx context.Context, name string) error {
	args := []string{"bootstrap", l.domain, l.file(name)}
	if l.loaded(ctx, name) != "" {
		args = []string{"kickstart", l.target(name)}
	}
	_, err := l.ctl(ctx, args...)
	if err != nil && strings.Contains(err.Error(), "125") {
		err = fmt.Errorf("nobody is logged in at this Mac's screen, where its agents live: %w: %w", ErrNoManager, err)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

// stop unloads it: one that stays loaded is kept alive. launchctl may return
// before the process is gone.
func (l *launchd) stop(ctx context.Context, name string) error {
	if l.loaded(ctx, name) == "" {
		return nil
	}
	_, err := l.ctl(ctx, "bootout", l.target(name))
	for err == nil || strings.Contains(err.Error(), "in progress") {
		if l.loaded(ctx, name) == "" {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
			err = nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return fmt.Errorf("stop %s: %w", name, err)
}

func (l *launchd) forget(context.Context, string) error { return nil }
func (l *launchd) forgot(context.Context) error         { return nil }

func (l *launchd) state(ctx context.Context, st *State) error {
	out := l.loaded(ctx, st.Name)
	f := fields(out, " = ")
	st.loaded = out != ""
	st.PID, _ = strconv.Atoi(f["pid"])
	st.Running = st.PID > 0
	st.Starts, _ = strconv.Atoi(f["runs"])
	if code := f["last exit code"]; code != "" && code != "(never exited)" {
		st.LastExit = "status " + code
	}
	return ctx.Err()
}

// tailBytes bounds what is read of a log's end.
const tailBytes = 1 << 20

func (l *launchd) tail(_ context.Context, name string, lines int, w io.Writer) error {
	f, err := os.Open(l.log(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it said nothing yet
	}
	if err != nil {
		return fmt.Errorf("log of %s: %w", name, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("log of %s: %w", name, err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-tailBytes), tailBytes))
	if err != nil {
		return fmt.Errorf("log of %s: %w", name, err)
	}
	all := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	_, err = io.WriteString(w, strings.Join(all[max(0, len(all)-lines):], "")+"\n")
	return err
}
