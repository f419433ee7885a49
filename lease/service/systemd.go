package service

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// systemd asks systemctl, of the machine or of the person.
type systemd struct {
	o   Options
	dir string
}

func newSystemd(o Options) *systemd {
	s := &systemd{o: o, dir: filepath.Join(o.Config, "systemd", "user")}
	if o.Wide {
		s.dir = filepath.Join(o.Root, "/etc/systemd/system")
	}
	return s
}

func unit(name string) string { return "macbatch-" + name + ".service" }

func (s *systemd) file(name string) string      { return filepath.Join(s.dir, unit(name)) }
func (s *systemd) text(u *Unit) ([]byte, error) { return u.UnitFile(s.o.Wide) }
func (s *systemd) log(string) string            { return "" }

func (s *systemd) read(text []byte, u *Unit) error { return u.readUnitFile(string(text)) }

// ctl runs systemctl.
func (s *systemd) ctl(ctx context.Context, args ...string) (string, error) {
	if !s.o.Wide {
		args = append([]string{"--user"}, args...)
	}
	out, err := s.o.Run(ctx, "systemctl", append([]string{"--no-pager", "--quiet"}, args...)...)
	if err != nil && (strings.Contains(err.Error(), "not been booted with systemd") || strings.Contains(err.Error(), "Failed to connect to bus")) {
		return "", fmt.Errorf("%w: %w", ErrNoManager, err)
	}
	return out, err
}

func (s *systemd) added(ctx context.Context, name string) error {
	if _, err := s.ctl(ctx, "daemon-reload"); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	if _, err := s.ctl(ctx, "enable", unit(name)); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

func (s *systemd) start(ctx context.Context, name string) error {
	if _, err := s.ctl(ctx, "start", unit(name)); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	return nil
}

func (s *systemd) stop(ctx context.Context, name string) error {
	if _, err := s.ctl(ctx, "stop", unit(name)); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return nil
}

func (s *systemd) forget(ctx context.Context, name string) error {
	if _, err := s.ctl(ctx, "disable", unit(name)); err != nil {
		return fmt.Errorf("uninstall %s: %w", name, err)
	}
	return nil
}

func (s *systemd) forgot(ctx context.Context) error {
	_, err := s.ctl(ctx, "daemon-reload")
	return err
}

func (s *systemd) state(ctx context.Context, st *State) error {
	out, err := s.ctl(ctx, "show", "--property=ActiveState,SubState,MainPID,NRestarts,ExecMainStatus,ExecMainCode,ExecMainStartTimestamp,Result", unit(st.Name))
	if err != nil {
		return fmt.Errorf("service %s: %w", st.Name, err)
	}
	f := fields(out, "=")
	st.PID, _ = strconv.Atoi(f["MainPID"])
	st.Running = st.PID > 0
	st.loaded = st.Running || strings.HasSuffix(f["ActiveState"], "ing") // activating, also between two tries
	st.Since = f["ExecMainStartTimestamp"]
	if st.Since != "" {
		n, _ := strconv.Atoi(f["NRestarts"])
		st.Starts = n + 1
	}
	if !st.Running && st.Since != "" {
		st.LastExit = f["Result"]
		if code := f["ExecMainStatus"]; code != "0" && code != "" {
			st.LastExit += ", status " + code
		}
	}
	return nil
}

func (s *systemd) tail(ctx context.Context, name string, lines int, w io.Writer) error {
	args := []string{"--no-pager", "--output=short-iso", "--lines=" + strconv.Itoa(lines), "--unit=" + unit(name)}
	if !s.o.Wide {
		args[len(args)-1] = "--user-unit=" + unit(name)
	}
	out, err := s.o.Run(ctx, "journalctl", args...)
	if err != nil {
		return fmt.Errorf("log of %s: %w", name, err)
	}
	_, err = io.WriteString(w, out)
	return err
}
