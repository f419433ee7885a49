package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/join"
)

// look does one check.
func look(t *testing.T, c Check) (list []Finding) {
	t.Helper()
	if err := Run(t.Context(), Limit, []Check{c}, func(f Finding) { list = append(list, f) }); err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Check == "" || f.Text == "" || f.Level != OK && f.Level != Warn && f.Level != Fail {
			t.Errorf("%+v is no finding", f)
		}
	}
	return list
}

// one is the only finding of a check, which must be of a level and say a thing.
func one(t *testing.T, c Check, level Level, says string) Finding {
	t.Helper()
	list := look(t, c)
	if len(list) != 1 || list[0].Level != level || !strings.Contains(list[0].Text, says) {
		t.Fatalf("found %+v, want one %s that says %q", list, level, says)
	}
	if level != OK && list[0].Fix == "" {
		t.Errorf("%+v says not what to do", list[0])
	}
	return list[0]
}

// TestHung: a check that never ends, as on a share that is gone, does not keep the
// others.
func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var got []string
		err := Run(t.Context(), Limit, []Check{
			{"root", "a", func(context.Context) []Finding { <-end; return nil }},
			{"root", "b", func(ctx context.Context) []Finding {
				<-ctx.Done()
				return []Finding{ok("root", "b", "in time")}
			}},
			{"root", "c", func(context.Context) []Finding { return []Finding{ok("root", "c", "at once")} }},
		}, func(f Finding) { got = append(got, fmt.Sprint(f.Of, " ", f.Level)) })
		if want := []string{"a fail", "b ok", "c ok"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("found %q, %v, want %q", got, err, want)
		}
		close(end)
	})
}

func TestCompare(t *testing.T) {
	here := []Finding{ok("root", "films", "read"), ok("control", "", "reached"), bad(Warn, "sleep", "", "x", "sleeps"), {Check: "speed", Level: OK, Text: "fast", Rate: 900}, {Check: "disk", Level: OK, Text: "disk", Rate: 30}}
	inside := []Finding{bad(Fail, "root", "films", "switch", "operation not permitted"), ok("control", "", "reached"), ok("sleep", "", "awake"), {Check: "speed", Level: OK, Text: "slow", Rate: 200}, {Check: "disk", Level: OK, Text: "disk", Rate: 20}, ok("new", "", "x")}
	var got []string
	for _, f := range Compare(here, inside) {
		got = append(got, f.Check+" "+string(f.Level)+" "+f.Fix)
	}
	want := []string{"root fail switch", "sleep ok ", "speed warn on a Mac its ProcessType must not be Background: macbatch service install writes the right one; elsewhere see what else runs"}
	if !slices.Equal(got, want) {
		t.Errorf("Compare = %q, want %q", got, want)
	}
	if got := Compare(here, here); len(got) > 0 {
		t.Errorf("the same differs: %+v", got)
	}
}

// TestExplain: what macOS says of what it guards leads to the switch.
func TestExplain(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	for _, c := range []struct {
		system, path string
		err          error
		want         string
	}{
		{"darwin", "", fmt.Errorf("mini: %w: %w", lease.ErrUnreachable, dial), "Local Network"},
		{"linux", "", dial, "network or VPN"},
		{"darwin", "/Volumes/films/a.mov", &fs.PathError{Op: "open", Path: "/Volumes/films", Err: syscall.EPERM}, "Full Disk Access: add macbatch; macOS guards other disks"},
		{"darwin", "/Users/ann/Documents", &fs.PathError{Op: "open", Err: syscall.EPERM}, "guards Documents"},
		{"darwin", "/Users/ann/Library/Mobile Documents/x", &fs.PathError{Op: "open", Err: syscall.EPERM}, "iCloud Drive"},
		{"darwin", "/Volumes/films", &fs.PathError{Op: "open", Err: syscall.EACCES}, "account"},
		{"linux", "/mnt", &fs.PathError{Op: "open", Err: syscall.EPERM}, "account"},
		{"linux", "/mnt", &fs.PathError{Op: "open", Err: syscall.ENOENT}, "mount the disk"},
		{"linux", "/mnt", &fs.PathError{Op: "open", Err: syscall.ESTALE}, "mount it anew"},
		{"darwin", "", os.NewSyscallError("connect", syscall.ECONNREFUSED), "nothing listens"},
		{"darwin", "", errors.New("odd"), ""},
	} {
		if got := Explain(c.system, c.path, c.err); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("Explain(%s, %q, %v) = %q, want something of %q", c.system, c.path, c.err, got, c.want)
		}
	}
}

// TestSleep reads what Macs printed.
func TestSleep(t *testing.T) {
	for file, want := range map[string][]string{
		"pmset-laptop.txt": {"warn  sleeps after 1 minutes", "warn lowpowermode slow", "ok disksleep rest after 10"},
		"pmset-mini.txt":   {"ok  does not fall asleep"},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		list := look(t, Awake(func(context.Context) (string, error) { return string(text), nil }))
		if len(list) != len(want) {
			t.Fatalf("%s: found %+v", file, list)
		}
		for i, f := range list {
			level, rest, _ := strings.Cut(want[i], " ")
			of, says, _ := strings.Cut(rest, " ")
			if string(f.Level) != level || f.Of != of || !strings.Contains(f.Text, says) {
				t.Errorf("%s: found %+v, want %q", file, f, want[i])
			}
		}
	}
	for _, text := range []string{"", "Currently in use:\n sleep often\n", "Currently in use:\n displaysleep 10\n"} {
		if list := Sleep(text); len(list) != 1 || list[0].Level != Warn {
			t.Errorf("Sleep(%q) = %+v", text, list)
		}
	}
}

func TestRoot(t *testing.T) {
	dir := t.TempDir()
	one(t, Root("films", filepath.Join(dir, "none")), Fail, "no such file")
	f := one(t, Root("films", dir), Warn, "no files")
	if f.Of != "films" {
		t.Errorf("it is of %q", f.Of)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	film := filepath.Join(dir, "a", "b", "film.mov")
	if err := os.WriteFile(film, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	one(t, Root("films", dir), OK, "can be read")
	if os.Geteuid() == 0 {
		return // root reads everything
	}
	if err := os.Chmod(film, 0); err != nil {
		t.Fatal(err)
	}
	one(t, Root("films", dir), Fail, "permission denied")
}

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	if f := one(t, Disk("worker", filepath.Join(dir, "not", "yet"), 1), OK, "durable writes"); f.Rate <= 0 {
		t.Errorf("its rate is %v", f.Rate)
	}
	one(t, Disk("worker", dir, 1<<62), Fail, "only")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "credential.json")
	if list := look(t, Modes(file)); len(list) > 0 {
		t.Fatalf("nothing is there: %+v", list)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one(t, Modes(dir, file), OK, "2 files")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if f := one(t, Modes(dir, file), Fail, "mode 0640"); !strings.HasPrefix(f.Fix, "chmod 600 ") {
		t.Errorf("the advice is %q", f.Fix)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if f := one(t, Modes(dir), Fail, "mode 0770"); !strings.HasPrefix(f.Fix, "chmod 700 ") {
		t.Errorf("the advice is %q", f.Fix)
	}
}

func TestProcess(t *testing.T) {
	if f := one(t, Speed(), OK, "a second"); f.Rate <= 0 {
		t.Errorf("its rate is %v", f.Rate)
	}
	if list := look(t, Descriptors()); len(list) != 1 {
		t.Errorf("found %+v", list)
	}
}

// TestRestarts: starts that follow each other within a term, up to now, are told of.
func TestRestarts(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		ago  []time.Duration // of each start, oldest first
		want Level
		says string
	}{
		{"none", nil, OK, "never"},
		{"one", []time.Duration{time.Second}, OK, "last at"},
		{"by hand, twice", []time.Duration{time.Minute, 30 * time.Second, 0}, OK, "last at"},
		{"in a loop", []time.Duration{time.Hour, 40 * time.Second, 30 * time.Second, 20 * time.Second, 10 * time.Second}, Fail, "started 4 times"},
		{"each a term apart", []time.Duration{6 * time.Minute, 270 * time.Second, 180 * time.Second, 90 * time.Second}, OK, "last at"},
		{"each almost a term", []time.Duration{356 * time.Second, 267 * time.Second, 178 * time.Second, 89 * time.Second}, Fail, "started 4 times"},
		{"a loop of yesterday", []time.Duration{24*time.Hour + 30*time.Second, 24*time.Hour + 20*time.Second, 24*time.Hour + 10*time.Second, 24 * time.Hour}, OK, "last at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, ago := range c.ago {
				if err := Started(dir, now.Add(-ago)); err != nil {
					t.Fatal(err)
				}
			}
			one(t, Restarts("control", dir, lease.Term, now, "bad"), c.want, c.says)
		})
	}
	dir := t.TempDir()
	for i := range 100 {
		if err := Started(dir, now.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := starts(dir); err != nil || len(list) != keepStarts || !list[keepStarts-1].Equal(now.Add(99*time.Hour)) {
		t.Fatalf("%d starts are kept, the last of %v, %v", len(list), list[len(list)-1], err)
	}
	if err := os.WriteFile(filepath.Join(dir, startsName), []byte("torn\n\x00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one(t, Restarts("control", dir, lease.Term, now, "bad"), OK, "never")
}

// TestControl: who answers, whether it knows us, and what time it has.
func TestControl(t *testing.T) {
	var ahead time.Duration
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(status)
	}))
	defer s.Close()
	var answer error
	c := &Control{URL: s.URL, Client: s.Client(), Ask: func(context.Context) error { return answer }}
	levels := func() (text string) {
		for _, f := range look(t, c.Check()) {
			text += f.Check + " " + string(f.Level) + "; "
		}
		return text
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "control ok; credential ok; clock ok; "},
		{func() { answer = fmt.Errorf("x: %w", lease.ErrForbidden) }, "control ok; credential ok; clock ok; "},
		{func() { answer = fmt.Errorf("x: %w", lease.ErrUnauthorized) }, "control ok; credential fail; clock ok; "},
		{func() { answer, ahead = nil, time.Hour }, "control ok; credential ok; clock warn; "},
		{func() { ahead = -time.Minute }, "control ok; credential ok; clock warn; "},
		{func() { status = http.StatusBadGateway }, "control fail; "},
		{func() { c.URL = "https" + strings.TrimPrefix(s.URL, "http") }, "control fail; "},
		{s.Close, "control fail; "},
	} {
		step.do()
		if got := levels(); got != step.want {
			t.Errorf("found %q, want %q", got, step.want)
		}
	}
	pinned := httptest.NewTLSServer(http.NotFoundHandler())
	defer pinned.Close()
	c = &Control{URL: pinned.URL, Client: &http.Client{Transport: &http.Transport{TLSClientConfig: join.Pin{1}.Config()}}, Ask: func(context.Context) error { t.Error("it was asked"); return nil }}
	if list := look(t, c.Check()); len(list) != 1 || list[0].Level != Fail || !strings.Contains(list[0].Fix, "--replace") {
		t.Errorf("another key: found %+v", list)
	}
}
