package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"macbatch/lease/service"
)

// The variables by which the tests' own program knows what it is to be.
const (
	inside    = "MACBATCH_TEST_INSIDE"  // a test, in a namespace with a systemd of its own
	asService = "MACBATCH_TEST_SERVICE" // the service, which writes what it sees to this file
)

// seen is what the service tells of itself.
type seen struct {
	PID   int
	Args  []string
	Env   string
	Umask int
	Files uint64
	Left  bool
}

func TestMain(m *testing.M) {
	if file := os.Getenv(asService); file != "" {
		serve(file)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve is the service of the tests: it tells what it sees, and leaves when asked.
func serve(file string) {
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGTERM)
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	s := seen{PID: os.Getpid(), Args: os.Args[1:], Env: os.Getenv("MACBATCH_CONFIG"), Umask: syscall.Umask(0o077), Files: limit.Max}
	s.write(file)
	if os.Getenv("MACBATCH_TEST_ONCE") == "" {
		<-leave
	}
	s.Left = true
	s.write(file)
}

func (s *seen) write(file string) {
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		panic(err)
	}
}

// bare runs a program of the system for a manager.
func bare(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", errors.New(program + " " + strings.Join(args, " ") + ": " + err.Error() + ": " + string(out))
	}
	return string(out), nil
}

// TestSystemd installs, starts, kills, changes, stops and removes a service by a real
// systemd: that of the session, or one of its own where the machine has none but
// lets root make namespaces. Elsewhere it says that it could not.
func TestSystemd(t *testing.T) {
	if os.Getenv(inside) != "" || exec.CommandContext(t.Context(), "systemctl", "--user", "show-environment").Run() == nil {
		throughSystemd(t)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), "unshare", "-mpf", "--mount-proc", "mount", "-t", "tmpfs", "none", "/run").Run(); err != nil || !exists("/lib/systemd/systemd") {
		t.Skipf("not verified here: no systemd runs for this account, and one of its own needs root, namespaces and /lib/systemd/systemd (%v)", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `
		for top in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
			if [ -e $top/cgroup.procs ]; then mkdir -p $top/$0 && echo $$ >$top/$0/cgroup.procs; fi
		done
		exec unshare -mpf --mount-proc sh -c '
			mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/own && chmod 700 /run/own
			XDG_RUNTIME_DIR=/run/own /lib/systemd/systemd --user >/dev/null 2>&1 &
			exec "$0" -test.run "^TestSystemd$" -test.v' "$1"`, filepath.Base(t.TempDir())+"-"+filepath.Base(os.TempDir())+"-services", program)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), inside+"=1", "XDG_RUNTIME_DIR=/run/own", "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "DBUS_SESSION_BUS_ADDRESS=")
	t.Cleanup(func() { sweepGroups(filepath.Base(cmd.Args[3])) })
	out, err := cmd.CombinedOutput()
	t.Logf("inside:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSystemd") {
		t.Fatalf("inside: %v", err)
	}
}

// sweepGroups removes the control groups of a systemd that is gone.
func sweepGroups(name string) {
	for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"} {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(top, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, d := range slices.Backward(dirs) {
			_ = os.Remove(d)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// until asks again until it is so; the test's own time limit ends it.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func throughSystemd(t *testing.T) {
	ctx := t.Context()
	until(t, "systemd is there", func() bool {
		return exec.CommandContext(ctx, "systemctl", "--user", "show-environment").Run() == nil
	})
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	m, err := service.New(service.Options{System: "linux", Home: home, Config: config, Run: bare})
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), `a "b" 100%`)
	file := filepath.Join(dir, "data", "seen")
	u := worker()
	u.Name, u.Program, u.Home, u.Writes = "test", program, home, []string{filepath.Join(dir, "data")}
	u.Env = append(u.Env, asService+"="+file)
	t.Cleanup(func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if _, err := m.Uninstall(late, u.Name); err != nil {
			t.Error(err)
		}
	})
	look := func() (s seen) {
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return s
	}
	state := func() service.State {
		t.Helper()
		s, err := m.Status(ctx, u.Name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	install := func(want bool) {
		t.Helper()
		if changed, err := m.Install(ctx, u); err != nil || changed != want {
			t.Fatalf("Install = %v, %v, want %v", changed, err, want)
		}
	}

	if err := m.Start(ctx, u.Name); !errors.Is(err, service.ErrAbsent) {
		t.Fatalf("Start of nothing: %v", err)
	}
	if s := state(); s.Installed || s.Running {
		t.Fatalf("before: %+v", s)
	}
	install(true)
	install(false)
	if s := state(); !s.Installed || s.Running {
		t.Fatalf("installed: %+v", s)
	}
	for range 2 { // the second finds it running
		if err := m.Start(ctx, u.Name); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "it runs", func() bool { return look().PID > 0 })
	s := look()
	if !slices.Equal(s.Args, u.Args) || "MACBATCH_CONFIG="+s.Env != u.Env[1] {
		t.Fatalf("it sees %q and %q, want %q and %q", s.Args, s.Env, u.Args, u.Env[1])
	}
	if s.Umask != 0o077 || s.Files == 0 {
		t.Fatalf("umask %04o, %d files", s.Umask, s.Files)
	}
	if st := state(); !st.Running || st.Starts != 1 {
		t.Fatalf("running: %+v", st)
	}

	install(false) // and it went on
	if look().PID != s.PID {
		t.Fatal("the same once more started it anew")
	}
	if err := syscall.Kill(state().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "it is started again", func() bool { return look().PID != s.PID })
	if st := state(); !st.Running || st.Starts != 2 {
		t.Fatalf("after a kill: %+v", st)
	}

	u.Args = []string{"serve", "--parallel=2"}
	install(true)
	until(t, "the new one runs", func() bool { return slices.Equal(look().Args, u.Args) })
	if err := m.Stop(ctx, u.Name); err != nil {
		t.Fatal(err)
	}
	if st := state(); st.Running || !look().Left {
		t.Fatalf("stopped: %+v, it saw %+v", st, look())
	}

	one := *u
	one.Name, one.Once, one.Env = "test-once", true, append(slices.Clone(u.Env), "MACBATCH_TEST_ONCE=1", asService+"="+file+"2")
	err = m.Once(ctx, &one, func(context.Context) error {
		until(t, "it ran once", func() bool {
			b, _ := os.ReadFile(file + "2")
			return strings.Contains(string(b), `"Left":true`)
		})
		return nil
	})
	if err != nil || exists(m.File(&one)) {
		t.Fatalf("Once: %v; %s is there: %v", err, m.File(&one), exists(m.File(&one)))
	}

	if err := m.Start(ctx, u.Name); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if there, err := m.Uninstall(ctx, u.Name); err != nil || there != want {
			t.Fatalf("Uninstall, time %d = %v, %v", i+1, there, err)
		}
	}
	if exists(m.File(u)) || !exists(file) {
		t.Fatal("uninstalling left the file, or took the data")
	}
	if err := syscall.Kill(look().PID, 0); err == nil && os.Getenv(inside) != "" {
		t.Fatal("it still runs")
	}
}
