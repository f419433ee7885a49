package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"macbatch/lease/service"
)

// mac answers like launchctl, as far as it was seen to: it knows what is loaded.
type mac struct {
	loaded bool
	asked  []string
	slow   int    // so often it is still there after bootout
	fail   string // every other command
}

const printed = `gui/501/local.macbatch.serve = {
	active count = 1
	path = %s
	type = LaunchAgent
	state = running

	program = /usr/local/bin/macbatch
	arguments = {
		/usr/local/bin/macbatch
		serve
		state = odd
	}

	domain = gui/501 [100006]
	minimum runtime = 10
	exit timeout = 75
	runs = 3
	pid = 4242
	immediate reason = speculative
	last exit code = 1

	event triggers = {
		pid = 1
	}
	properties = keepalive | runatload | inferred program
}
`

func (m *mac) run(_ context.Context, program string, args ...string) (string, error) {
	m.asked = append(m.asked, args[0])
	if program != "launchctl" {
		return "", fmt.Errorf("%s: not found", program)
	}
	if m.fail != "" && args[0] != "print" {
		return "", errors.New(m.fail)
	}
	switch args[0] {
	case "print":
		if m.loaded && len(m.asked) > 1 && slices.Contains(m.asked, "bootout") {
			if m.slow--; m.slow < 0 {
				m.loaded = false
			}
		}
		if !m.loaded {
			return "", errors.New("launchctl: exit status 113: Could not find service \"local.macbatch.serve\" in domain for user gui: 501")
		}
		return fmt.Sprintf(printed, args[1]), nil
	case "bootstrap":
		if m.loaded {
			return "", errors.New("launchctl: exit status 5: Bootstrap failed: 5: Input/output error")
		}
		m.loaded = true
	case "kickstart", "enable", "bootout":
	default:
		return "", fmt.Errorf("launchctl: unrecognized subcommand: %s", args[0])
	}
	return "", nil
}

// TestLaunchd goes through a service's life by a stand-in for launchctl.
func TestLaunchd(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	sys := &mac{slow: 1}
	m, err := service.New(service.Options{System: "darwin", Home: home, UID: 501, Run: sys.run})
	if err != nil {
		t.Fatal(err)
	}
	u := worker()
	u.Writes = []string{filepath.Join(home, "Library/Application Support/macbatch/worker")}
	did := func(want ...string) {
		t.Helper()
		if !slices.Equal(sys.asked, want) {
			t.Fatalf("launchctl was asked to %q, want %q", sys.asked, want)
		}
		sys.asked = nil
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = m.Install(ctx, u)
	must(err)
	did("enable")
	must(m.Start(ctx, "serve"))
	did("print", "bootstrap")
	must(m.Start(ctx, "serve"))
	did("print", "kickstart")
	s, err := m.Status(ctx, "serve")
	must(err)
	if !s.Running || s.PID != 4242 || s.Starts != 3 || s.LastExit != "status 1" || !s.Installed || s.File != filepath.Join(home, "Library/LaunchAgents/local.macbatch.serve.plist") {
		t.Fatalf("Status = %+v", s)
	}
	did("print")
	u.Args = append(u.Args, "--parallel=2")
	_, err = m.Install(ctx, u)
	must(err)
	did("print", "enable", "print", "bootout", "print", "print", "print", "bootstrap")
	must(os.WriteFile(s.Log, []byte("one\ntwo\nthree\n"), 0o600))
	var b bytes.Buffer
	must(m.Tail(ctx, "serve", 2, &b))
	if b.String() != "two\nthree\n" {
		t.Fatalf("the log's end is %q", b.String())
	}
	there, err := m.Uninstall(ctx, "serve")
	must(err)
	if _, err := os.Stat(s.File); !there || err == nil {
		t.Fatalf("uninstalled: %v, %v", there, err)
	}
	if _, err := os.Stat(u.Writes[0]); err != nil {
		t.Fatalf("the data went too: %v", err)
	}
	if s, err = m.Status(ctx, "serve"); err != nil || s.Installed || s.Running {
		t.Fatalf("Status = %+v, %v", s, err)
	}

	_, err = m.Install(ctx, u)
	must(err)
	sys.fail = "launchctl: exit status 125: Bootstrap failed: 125: Domain does not support specified action"
	if err := m.Start(ctx, "serve"); !errors.Is(err, service.ErrNoManager) || !strings.Contains(err.Error(), "screen") {
		t.Fatalf("Start where nobody is logged in: %v", err)
	}
}
