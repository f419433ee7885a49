package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"macbatch/lease/fleet/sshtest"
)

// systemctl plays systemd on a host: it runs what a unit says, and knows whether that
// lives.
const systemctl = `#!/bin/sh
verb= unit=
for a; do case $a in -*) ;; *) if [ -z "$verb" ]; then verb=$a; else unit=$a; fi ;; esac; done
pid=$HOME/$unit.pid
alive() { [ -f "$pid" ] && s=$(ps -o stat= -p "$(cat "$pid")") && case $s in Z*) false ;; *) true ;; esac; }
case $verb in
start)
	alive && exit 0
	cmd=$(sed -n 's/^ExecStart=//p' "$HOME/.config/systemd/user/$unit")
	setsid sh -c "exec $cmd" </dev/null >"$HOME/log" 2>&1 &
	echo $! >"$pid"
	# Who asked ends our process group once we left: it must be out of that.
	while alive && [ "$(ps -o sid= -p "$!" | tr -d ' ')" != "$!" ]; do :; done ;;
stop)
	if alive; then kill "$(cat "$pid")"; while alive; do :; done; fi ;;
show)
	if alive; then echo "MainPID=$(cat "$pid")"; echo ActiveState=active; fi ;;
daemon-reload | enable | disable) ;;
*) echo "what is $verb?" >&2; exit 1 ;;
esac
`

// TestFleet brings this program to hosts that real sshd processes are, has them join
// and work, and drives them.
func TestFleet(t *testing.T) {
	demand(t, "ffmpeg", "ffprobe", "pocketsphinx_batch", "ps", "setsid")
	tools := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(tools, "systemctl"), []byte(systemctl), 0o755),
		os.WriteFile(filepath.Join(tools, "journalctl"), []byte("#!/bin/sh\ncat \"$HOME/log\"\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	hosts := sshtest.Start(t, sshtest.Host{Name: "one", Path: tools}, sshtest.Host{Name: "two", Path: tools}, sshtest.Host{Name: "dead", Down: true},
		sshtest.Host{Name: "slow", Force: "exec sleep 1000000"})
	t.Cleanup(func() {
		for _, h := range []string{"one", "two"} {
			b, err := os.ReadFile(filepath.Join(hosts.Home(h), "macbatch-serve.service.pid"))
			if pid, perr := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && perr == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it ended, unless the test failed
			}
			if b, err := os.ReadFile(filepath.Join(hosts.Home(h), "log")); t.Failed() && err == nil {
				t.Logf("%s said:\n%s", h, b)
			}
		}
	})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/fleet",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("MACBATCH_SSH_CONFIG", hosts.Config)
			e.Setenv("ONE", hosts.Home("one"))
			e.Setenv("TWO", hosts.Home("two"))
			return errors.Join(setPort(e), os.MkdirAll(e.WorkDir+"/home", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "reach": reach, "workers": workers},
	})
}
