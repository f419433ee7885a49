package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"macbatch/lease/fleet/sshtest"
)

// tool plays macbatch on a host: it keeps in its home what it was told to do.
const tool = `#!/bin/sh
cd || exit 1
case "$1 $2" in
--version*) echo "macbatch version 7" ;;
"service status") [ -f installed ] && echo "{\"installed\":true,\"running\":$([ -f running ] && echo true || echo false)}" ;;
"join use") mkdir -p .config/macbatch && cat >ticket && echo '{"urls":["https://c"],"pin":"0a","actor":"'"$(cat ticket)"'","role":"worker"}' >.config/macbatch/credential.json ;;
"service install") shift 3; : >installed; for a in "$@"; do printf '%s\n' "$a"; done >flags ;;
"service start") : >running; echo start >>did ;;
"service stop") rm -f running; echo stop >>did ;;
"service logs") echo "the end: $4" ;;
*) echo "what is $*?" >&2; exit 2 ;;
esac
`

const own = "linux/own"

func newFleet(t *testing.T, n *sshtest.Net) *Fleet {
	t.Helper()
	file := filepath.Join(t.TempDir(), "macbatch")
	if err := os.WriteFile(file, []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	old := platforms
	platforms = map[string]string{}
	for k := range old {
		platforms[k] = own
	}
	t.Cleanup(func() { platforms = old })
	return &Fleet{
		SSH: SSH{Program: n.Program, Config: n.Config, Connect: time.Minute}, Limit: 10 * time.Minute, Pin: "0a", Lines: 7,
		Programs: &Programs{Own: file, OwnFor: own},
		Invite:   func(_ context.Context, h Host) (string, error) { return h.Name, nil },
	}
}

func inventory(t *testing.T, text string) []Host {
	t.Helper()
	hosts, err := ParseInventory(text)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func read(t *testing.T, n *sshtest.Net, host, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.Home(host), file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

const odd = `/Volumes/it's 100% "of" $HOME \ & ;$(touch pwned)`

// TestFleet drives two hosts by real sshd processes, with a third one down and a fourth
// that never answers: the two are done while it is silent.
func TestFleet(t *testing.T) {
	n := sshtest.Start(t, sshtest.Host{Name: "one"}, sshtest.Host{Name: "two"}, sshtest.Host{Name: "dead", Down: true}, sshtest.Host{Name: "slow", Force: "exec sleep 1000000"})
	f := newFleet(t, n)
	hosts := inventory(t, "flags = [\"--max-load=8\"]\n[[host]]\nhost = \"slow\"\n[[host]]\nhost = \"dead\"\n[[host]]\nhost = \"one\"\nroots = { films = '''"+odd+"''' }\n[[host]]\nhost = \"two\"\nprogram = \"bin of mine/macbatch\"\n")

	// run does a verb until all but the silent host are done, and then gives up.
	run := func(verb Verb) map[string]Result {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left := 3
		got := map[string]Result{}
		f.Run(ctx, verb, hosts, func(r Result) {
			got[r.Host] = r
			if left--; left == 0 {
				cancel()
			}
		})
		if r := got["dead"]; !errors.Is(r.Err, ErrDown) || !strings.Contains(r.Error, "refused") || r.Service != "" {
			t.Fatalf("the dead one: %+v", r)
		}
		if r := got["slow"]; !errors.Is(r.Err, context.Canceled) {
			t.Fatalf("the slow one: %+v", r)
		}
		return got
	}
	want := func(verb Verb, host, service string, did ...string) {
		t.Helper()
		r := run(verb)[host]
		if r.Err != nil || r.Service != service || !slices.Equal(r.Did, did) {
			t.Fatalf("%s %s = %+v, want %s, having done %q", verb, host, r, service, did)
		}
	}

	want(Status, "one", "none")
	if r := run(Start)["one"]; r.Err == nil || !strings.Contains(r.Error, "fleet install") {
		t.Fatalf("start before install: %+v", r)
	}
	got := run(Install)
	for _, host := range []string{"one", "two"} {
		if r := got[host]; r.Err != nil || r.Service != "running" || r.Version != "7" || r.Joined != host || !slices.Equal(r.Did, []string{"program", "joined", "started"}) {
			t.Fatalf("install %s = %+v", host, r)
		}
	}
	if got, want := read(t, n, "one", "flags"), "--name=one\n--root=films="+odd+"\n--max-load=8\n"; got != want {
		t.Fatalf("serve's flags are %q, want %q", got, want)
	}
	if read(t, n, "one", "ticket") != "one\n" || read(t, n, "two", "bin of mine/macbatch") != tool {
		t.Fatal("the join string or the program did not arrive")
	}
	for _, host := range []string{"one", "two"} {
		for _, dir := range []string{".", ".local/bin", "bin of mine"} {
			left, err := filepath.Glob(filepath.Join(n.Home(host), dir, ".macbatch-*"))
			if pwned, _ := filepath.Glob(filepath.Join(n.Home(host), dir, "pwned")); err != nil || len(left)+len(pwned) > 0 {
				t.Fatalf("left behind on %s: %v, %v", host, left, pwned)
			}
		}
	}
	want(Install, "one", "running") // once more: nothing is to be done
	want(Stop, "one", "stopped", "stopped")
	want(Start, "two", "running", "started")
	if r := run(Logs)["two"]; r.Err != nil || r.Output != "the end: --lines=7\n" {
		t.Fatalf("logs: %+v", r)
	}
}

// TestUpgrade: what runs is started anew when its program changed, and only then.
func TestUpgrade(t *testing.T) {
	n := sshtest.Start(t, sshtest.Host{Name: "one"})
	f := newFleet(t, n)
	hosts := inventory(t, "[[host]]\nhost = \"one\"\n")
	run := func(verb Verb, did ...string) {
		t.Helper()
		r := f.Run(t.Context(), verb, hosts, func(Result) {})[0]
		if r.Err != nil || !slices.Equal(r.Did, did) {
			t.Fatalf("%s = %+v, want to have done %q", verb, r, did)
		}
	}
	change := func() {
		t.Helper()
		file, err := os.OpenFile(f.Programs.Own, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString("# new\n")
		}
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		f.Programs = &Programs{Own: f.Programs.Own, OwnFor: own}
	}
	run(Install, "program", "joined", "started")
	run(Upgrade)
	change()
	run(Upgrade, "program", "started anew")
	change()
	run(Install, "program", "started anew")
	run(Stop, "stopped")
	change()
	run(Upgrade, "program")
	if got := read(t, n, "one", "did"); got != "start\nstop\nstart\nstop\nstart\nstop\n" {
		t.Fatalf("the service was told to %q", got)
	}

	f.Pin = "0b"
	if r := f.Run(t.Context(), Install, hosts, func(Result) {})[0]; r.Err == nil || !strings.Contains(r.Error, "another control plane") {
		t.Fatalf("install on one that joined another: %+v", r)
	}
	before := read(t, n, "one", program)
	damaged := &Programs{known: map[string]found{own: {file: f.Programs.Own, digest: strings.Repeat("0", 64)}}}
	f.Programs = damaged
	if r := f.Run(t.Context(), Upgrade, hosts, func(Result) {})[0]; r.Err == nil || !strings.Contains(r.Error, "arrived damaged") {
		t.Fatalf("a damaged program: %+v", r)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("\x7fELF of another machine"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.Programs = &Programs{Own: broken, OwnFor: own}
	if r := f.Run(t.Context(), Upgrade, hosts, func(Result) {})[0]; r.Err == nil || len(r.Did) > 0 {
		t.Fatalf("a program that does not run: %+v", r)
	}
	if read(t, n, "one", program) != before {
		t.Fatal("a bad program was put in place")
	}
}

// TestLimit: a host that is silent is given up in its own time.
func TestLimit(t *testing.T) {
	n := sshtest.Start(t, sshtest.Host{Name: "slow", Force: "exec sleep 1000000"})
	f := newFleet(t, n)
	f.Limit = 100 * time.Millisecond
	if r := f.Run(t.Context(), Status, inventory(t, "[[host]]\nhost = \"slow\"\n"), func(Result) {})[0]; !errors.Is(r.Err, ErrDown) || !strings.Contains(r.Error, "within 100ms") {
		t.Fatalf("status = %+v", r)
	}
}

// TestMany: more hosts than are driven at once all have their turn.
func TestMany(t *testing.T) {
	f := &Fleet{SSH: SSH{Program: "/bin/false"}, Limit: time.Hour}
	var text strings.Builder
	for i := range 3 * many {
		fmt.Fprintf(&text, "[[host]]\nhost = \"h%d\"\n", i)
	}
	n := 0
	for _, r := range f.Run(t.Context(), Status, inventory(t, text.String()), func(Result) { n++ }) {
		if r.Err == nil || r.Host == "" {
			t.Fatalf("%+v", r)
		}
	}
	if n != 3*many {
		t.Fatalf("%d were told of", n)
	}
}

func TestInventory(t *testing.T) {
	hosts := inventory(t, "project = \"films\"\n[[host]]\nhost = \"ann@Mini1.local\"\nlabels = [\"a\"]\n[[host]]\nhost = \"10.0.0.7\"\nname = \"x\"\nproject = \"mails\"\nlabels = [\"a\", \"b\"]\n")
	if hosts[0].Name != "mini1.local" || hosts[0].Project != "films" || hosts[1].Project != "mails" || hosts[0].Program != program {
		t.Fatalf("hosts = %+v", hosts)
	}
	for _, c := range []struct {
		names, labels []string
		want          int
	}{{nil, nil, 2}, {[]string{"x"}, nil, 1}, {[]string{"ann@Mini1.local", "x"}, nil, 2}, {nil, []string{"a"}, 2}, {nil, []string{"b"}, 1}, {[]string{"mini1.local"}, []string{"b"}, -1}, {nil, []string{"c"}, -1}, {[]string{"y"}, nil, -1}} {
		got, err := Select(hosts, c.names, c.labels)
		if (err != nil) != (c.want < 0) || err == nil && len(got) != c.want {
			t.Errorf("Select(%q, %q) = %+v, %v", c.names, c.labels, got, err)
		}
	}
	for name, text := range map[string]string{
		"none":             "",
		"an option":        "[[host]]\nhost = \"-oProxyCommand=x\"\n",
		"an option, later": "[[host]]\nhost = \"ann@-oProxyCommand\"\n",
		"a space":          "[[host]]\nhost = \"a b\"\n",
		"a command":        "[[host]]\nhost = \"a;b\"\n",
		"twice":            "[[host]]\nhost = \"a\"\n[[host]]\nhost = \"a\"\n",
		"a name twice":     "[[host]]\nhost = \"ann@a\"\n[[host]]\nhost = \"bob@a\"\n",
		"unknown":          "[[host]]\nhost = \"a\"\npassword = \"x\"\n",
		"a relative root":  "[[host]]\nhost = \"a\"\nroots = { films = \"films\" }\n",
		"a root's name":    "[[host]]\nhost = \"a\"\nroots = { \"a=b\" = \"/films\" }\n",
		"a line break":     "[[host]]\nhost = \"a\"\nroots = { films = \"/a\\nb\" }\n",
		"an escape":        "[[host]]\nhost = \"a\"\nroots = { films = \"/a\\u001b[2J\" }\n",
		"a flag in two":    "[[host]]\nhost = \"a\"\nflags = [\"--max-load\", \"8\"]\n",
		"a program above":  "[[host]]\nhost = \"a\"\nprogram = \"x/../y\"\n",
		"no TOML":          "[[host]\n",
	} {
		if got, err := ParseInventory(text); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
}

// TestPrograms: a machine gets the program that is for it.
func TestPrograms(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Programs{Own: self, OwnFor: "linux/amd64", Folder: t.TempDir()}
	if file, digest, err := p.For("Linux x86_64"); file != self || len(digest) != 64 || err != nil {
		t.Fatalf("For = %q, %q, %v", file, digest, err)
	}
	if _, _, err := p.For("OpenBSD amd64"); err == nil {
		t.Fatal("another system: no error")
	}
	if _, _, err := p.For("Darwin arm64"); err == nil || !strings.Contains(err.Error(), "GOOS=darwin GOARCH=arm64 go build") {
		t.Fatalf("one that is missing: %v", err)
	}
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.Folder, "macbatch-linux-arm64"), b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.For("Linux aarch64"); err == nil || !strings.Contains(err.Error(), "not") {
		t.Fatalf("one for another machine: %v", err)
	}
}
