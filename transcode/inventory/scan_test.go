package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tool finds an external program; only outside CI may it be missing.
func tool(t *testing.T, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: %v", name, err)
		}
		t.Skipf("%s is missing", name)
	}
	return p
}

// film makes a media file of two seconds with ffmpeg's arguments and returns its path.
func film(t *testing.T, name string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	if len(args) == 0 {
		args = []string{"-f", "lavfi", "-i", "color=s=64x48:r=5:d=2", "-f", "lavfi", "-i", "sine=f=440:r=48000:d=2", "-c:v", "mpeg4", "-c:a", "aac"}
	}
	args = append([]string{"-nostdin", "-v", "error"}, append(args, "file:"+out)...)
	if b, err := exec.Command(tool(t, "ffmpeg"), args...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg %q: %v: %s", args, err, b)
	}
	return out
}

func put(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// settled are options under which no file is young, so that nothing is waited for.
func settled(t *testing.T) Options {
	return Options{
		FFprobe: tool(t, "ffprobe"),
		Now:     func() time.Time { return time.Now().Add(time.Hour) },
		Wait:    func(context.Context, time.Duration) error { return errors.New("waited, though no file is young") },
	}
}

// list writes a result as one line for each path.
func list(r Result) string {
	var lines []string
	for _, s := range r.Sources {
		lines = append(lines, fmt.Sprintf("%q %d tracks %s", string(s.Path), len(s.Tracks), s.Error))
	}
	for _, s := range r.Skipped {
		lines = append(lines, fmt.Sprintf("%q skipped: %s %s", string(s.Path), s.Reason, s.Of))
	}
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestScanNames(t *testing.T) {
	ok := content(t, film(t, "ok.mp4"))
	root := t.TempDir()
	names := []string{
		"-dash first.mp4", "Spacemacs: magit.mp4", "100%done.mp4", "%d.mp4", "quote's \"and\" `tick`.mp4", "dollar $(touch pwned) ; & |.mp4",
		"new\nline.mp4", "tab\there.mp4", " leading space.mp4", "trailing space.mp4 ", "[brackets] {braces} *star?.mp4", "WALL·E (2008).mp4",
		"🫟 emoji.mp4", "עברית.mp4", ".hidden.mp4", "UPPER.MP4", "a=b,c#d@e!.mp4", "concat:x|y.mp4", "http:example.mp4", "C:\\win\\path.mp4",
		"café_nfc.mp4", "cafe\u0301_nfd.mp4", "percent:x.mp4", "dir.mp4/one.mp4",
	}
	if latin := filepath.Join(root, "latin1_\xe9.mp4"); os.WriteFile(latin, ok, 0o644) == nil { // APFS refuses such names
		names = append(names, "latin1_\xe9.mp4")
	}
	for _, n := range names {
		put(t, filepath.Join(root, n), ok)
	}
	put(t, filepath.Join(root, "._ok.mp4"), []byte("Mac OS X        "))
	var progress []int
	opts := settled(t)
	opts.Progress = func(n int, _ Path) { progress = append(progress, n) }
	r, err := Scan(t.Context(), root, opts)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Sources {
		if s.Error != "" || len(s.Tracks) != 1 || s.DurationMS < 1900 || s.DurationMS > 2100 || !s.Video || s.Tracks[0].Codec != "aac" {
			t.Fatalf("source %+v, want one track of 2 s", s)
		}
		b, err := s.Path.MarshalText()
		var back Path
		if err != nil || back.UnmarshalText(b) != nil || back != s.Path {
			t.Fatalf("round trip of %q: %q, %v", s.Path, back, err)
		}
		got = append(got, string(s.Path))
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Fatalf("Scan found %q, want %q", got, names)
	}
	if len(r.Skipped) != 1 || r.Skipped[0] != (Skipped{Path: "._ok.mp4", Reason: AppleDouble}) {
		t.Fatalf("skipped %+v, want the apple double", r.Skipped)
	}
	if len(progress) != len(names) || !slices.IsSorted(progress) {
		t.Fatalf("progress %v, want 1…%d", progress, len(names))
	}
}

func TestScanTree(t *testing.T) {
	ok := film(t, "ok.mp4")
	outer := t.TempDir()
	root := filepath.Join(outer, "lib")
	put(t, filepath.Join(root, "one.mp4"), content(t, ok))
	put(t, filepath.Join(root, "sub/film.srt"), []byte("1\n"))
	put(t, filepath.Join(root, "sub/noext"), content(t, ok))
	put(t, filepath.Join(root, ".Trashes/501/gone.mp4"), content(t, ok))
	put(t, filepath.Join(root, "code.ts"), []byte("export const a = 1\n// and so on\n"))
	put(t, filepath.Join(outer, "outside.mp4"), content(t, ok))
	for name, target := range map[string]string{"self": ".", "sub/up": "../..", "broken.mp4": "nowhere", "alias.mp4": "one.mp4", "out.mp4": "../outside.mp4"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "one.mp4"), filepath.Join(root, "hard.mp4")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe.mp4"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "dir.mp4"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`".Trashes" skipped: system folder`,
		`"alias.mp4" skipped: symbolic link`,
		`"broken.mp4" skipped: symbolic link`,
		`"code.ts" skipped: not media`,
		`"hard.mp4" 1 tracks`,
		`"one.mp4" skipped: same file hard.mp4`,
		`"out.mp4" skipped: symbolic link`,
		`"pipe.mp4" skipped: not a regular file`,
		`"self" skipped: symbolic link`,
		`"sub/film.srt" skipped: not media`,
		`"sub/noext" skipped: not media`,
		`"sub/up" skipped: symbolic link`,
	}
	if os.Geteuid() != 0 { // the superuser reads it all the same
		put(t, filepath.Join(root, "unreadable.mp4"), content(t, ok))
		put(t, filepath.Join(root, "vault/x.mp4"), content(t, ok))
		for _, n := range []string{"unreadable.mp4", "vault"} {
			if err := os.Chmod(filepath.Join(root, n), 0); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if err := os.Chmod(filepath.Join(root, "vault"), 0o755); err != nil {
				t.Error(err)
			}
		})
		want = append(want, `"unreadable.mp4" skipped: unreadable`, `"vault" skipped: unreadable`)
	}
	r, err := Scan(t.Context(), root, settled(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := list(r); got != strings.Join(want, "\n") {
		t.Fatalf("Scan:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	opts := settled(t)
	opts.Sub = "sub"
	if r, err = Scan(t.Context(), root, opts); err != nil || len(r.Sources) != 0 || len(r.Skipped) != 3 {
		t.Fatalf("Scan of sub = %+v, %v, want three skipped", r, err)
	}
}

func TestScanBadMedia(t *testing.T) {
	ok := content(t, film(t, "ok.mp4"))
	root := t.TempDir()
	secret := "a line of another file"
	put(t, filepath.Join(root, "other.txt"), []byte(secret))
	put(t, filepath.Join(root, "zero.mkv"), nil)
	put(t, filepath.Join(root, "four.wav"), []byte("RIFF"))
	put(t, filepath.Join(root, "no_moov.mp4"), ok[:len(ok)/2])
	put(t, filepath.Join(root, "text.mp4"), []byte("not a video at all\n"))
	put(t, filepath.Join(root, "list.mp4"), []byte("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nother.mp4\n#EXT-X-ENDLIST\n"))
	put(t, filepath.Join(root, "stub.mkv"), []byte("\x81\x9a\x00\x17\x03\x44\xde\xad\xbe\xef\x10\x20\x30\x40\x50\x60\x70"))
	put(t, filepath.Join(root, "silent.mp4"), content(t, film(t, "s.mp4", "-f", "lavfi", "-i", "color=s=64x48:r=5:d=2", "-c:v", "mpeg4")))
	r, err := Scan(t.Context(), root, settled(t))
	if err != nil {
		t.Fatal(err)
	}
	want := `"four.wav" 0 tracks too short to be media: 4 bytes
"list.mp4" 0 tracks is a playlist, not a film
"no_moov.mp4" 0 tracks moov atom not found
"other.txt" skipped: not media
"silent.mp4" 0 tracks
"stub.mkv" 0 tracks not a media file: unknown first bytes
"text.mp4" 0 tracks is text, not media
"zero.mkv" 0 tracks empty file`
	if got := list(r); got != want {
		t.Fatalf("Scan:\n%s\nwant:\n%s", got, want)
	}
}

// The whitelist must hold by itself, should a playlist ever pass the first look.
func TestWhitelistRefusesPlaylist(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "other.ts"), content(t, film(t, "other.ts")))
	list := filepath.Join(dir, "x.mp4")
	put(t, list, []byte("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nother.ts\n#EXT-X-ENDLIST\n"))
	cmd := exec.Command(tool(t, "ffprobe"), probeArgs("file:"+list)...)
	if out, err := cmd.Output(); err == nil || strings.Contains(string(out), "codec_name") {
		t.Fatalf("ffprobe of a playlist: %v, %s, want it refused", err, out)
	}
}

func TestScanMissingAndEmpty(t *testing.T) {
	opts := settled(t)
	missing := filepath.Join(t.TempDir(), "films")
	if _, err := Scan(t.Context(), missing, opts); !errors.Is(err, ErrNoRoot) || !strings.Contains(err.Error(), missing) {
		t.Fatalf("Scan of a missing root: %v, want ErrNoRoot naming it", err)
	}
	empty := t.TempDir()
	if err := os.MkdirAll(filepath.Join(empty, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(empty, ".DS_Store"), []byte("x"))
	if _, err := Scan(t.Context(), empty, opts); !errors.Is(err, ErrEmptyRoot) || !strings.Contains(err.Error(), empty) {
		t.Fatalf("Scan of an empty root: %v, want ErrEmptyRoot naming it", err)
	}
	put(t, filepath.Join(empty, "readme.txt"), []byte("x"))
	if r, err := Scan(t.Context(), empty, opts); err != nil || len(r.Sources) != 0 || len(r.Skipped) != 2 {
		t.Fatalf("Scan without media = %+v, %v, want two skipped", r, err)
	}
	opts.Sub = "a"
	if _, err := Scan(t.Context(), empty, opts); !errors.Is(err, ErrEmptyRoot) {
		t.Fatalf("Scan of an empty folder: %v, want ErrEmptyRoot", err)
	}
	opts.Sub = "nowhere"
	if _, err := Scan(t.Context(), empty, opts); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Scan of a missing folder: %v, want ErrNotExist", err)
	}
	opts.Sub = "../" + filepath.Base(empty)
	if _, err := Scan(t.Context(), empty, opts); !errors.Is(err, ErrPath) {
		t.Fatalf("Scan outside the root: %v, want ErrPath", err)
	}
}

func TestScanGrowing(t *testing.T) {
	ok := content(t, film(t, "ok.mp4"))
	root := t.TempDir()
	now := time.Now()
	at := func(name string, b []byte, age time.Duration) string {
		p := filepath.Join(root, name)
		put(t, p, b)
		if err := os.Chtimes(p, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	at("old.mp4", ok, time.Hour)
	at("fresh.mp4", ok, time.Second)
	growing := at("growing.mp4", ok, time.Second)
	half := at("half.mp4", ok[:len(ok)/2], 20*time.Second)
	at("broken.mp4", ok[:len(ok)/2], 20*time.Second)
	vanishing := at("vanishing.mp4", ok, 0)
	waits := 0
	opts := settled(t)
	opts.Now = func() time.Time { return now }
	opts.Wait = func(_ context.Context, d time.Duration) error {
		waits++
		for _, p := range []string{growing, half} {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			if _, err := f.WriteString("more"); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
		return os.Remove(vanishing)
	}
	r, err := Scan(t.Context(), root, opts)
	want := `"broken.mp4" 0 tracks moov atom not found
"fresh.mp4" 1 tracks
"growing.mp4" skipped: still growing
"half.mp4" skipped: still growing
"old.mp4" 1 tracks`
	if err != nil || list(r) != want || waits != 1 {
		t.Fatalf("Scan, %d waits, %v:\n%s\nwant:\n%s", waits, err, list(r), want)
	}
}

// A root that goes away under the scan must not read as one without films.
func TestScanRootGoesAway(t *testing.T) {
	ok := content(t, film(t, "ok.mp4"))
	root := filepath.Join(t.TempDir(), "films")
	put(t, filepath.Join(root, "a.mp4"), ok)
	opts := settled(t)
	opts.Progress = func(int, Path) {
		if err := os.Rename(root, root+".away"); err != nil {
			t.Error(err)
		}
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Error(err)
		}
	}
	if r, err := Scan(t.Context(), root, opts); !errors.Is(err, ErrNoRoot) {
		t.Fatalf("Scan = %+v, %v, want ErrNoRoot", r, err)
	}
}

func TestScanFailsWithoutProgram(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "a.mp4"), content(t, film(t, "ok.mp4")))
	opts := settled(t)
	opts.FFprobe = filepath.Join(root, "nothing")
	if r, err := Scan(t.Context(), root, opts); err == nil {
		t.Fatalf("Scan without ffprobe = %+v, want an error", r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := Scan(ctx, root, settled(t)); !errors.Is(err, stop) {
		t.Fatalf("Scan under an ended context: %v, want its cause", err)
	}
}

func TestOpenRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a.mp4"), []byte("a"))
	if err := os.Symlink("a.mp4", filepath.Join(dir, "l.mp4")); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := Open(r, "l.mp4"); !errors.Is(err, ErrNotRegular) {
		t.Fatalf("Open of a link: %v, want ErrNotRegular", err)
	}
	if _, _, err := Open(r, "../a.mp4"); !errors.Is(err, ErrPath) {
		t.Fatalf("Open outside: %v, want ErrPath", err)
	}
	f, id, err := Open(r, "a.mp4")
	if err != nil || id.Size != 1 || id.Inode == 0 || id.MtimeNS == 0 {
		t.Fatalf("Open = %+v, %v", id, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	other := id
	other.Inode, other.MtimeNS = 0, id.MtimeNS/1000*1000
	if !id.Same(id) || id.Same(other) && other != id || !id.Alike(other) {
		t.Fatalf("Same or Alike of %+v and %+v is wrong", id, other)
	}
	if other.Size++; id.Alike(other) {
		t.Fatalf("Alike(%+v, %+v) = true, want false", id, other)
	}
}

// What is known is passed over while it is the same; a root that had films and has
// none is not taken for an empty one, whatever else lies there.
func TestScanKnown(t *testing.T) {
	root := filepath.Dir(film(t, "a.mp4", "-f", "lavfi", "-i", "sine=d=1"))
	opts := settled(t)
	first, err := Scan(t.Context(), root, opts)
	if err != nil || len(first.Sources) != 1 || first.Unchanged != 0 {
		t.Fatalf("Scan = %+v, %v", first, err)
	}
	opts.Known = map[Path]Identity{"a.mp4": first.Sources[0].Identity}
	opts.Had = 1
	again, err := Scan(t.Context(), root, opts)
	if err != nil || len(again.Sources) != 0 || again.Unchanged != 1 {
		t.Fatalf("Scan of what is known = %+v, %v", again, err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(root, "a.mp4"), old, old); err != nil {
		t.Fatal(err)
	}
	if again, err = Scan(t.Context(), root, opts); err != nil || len(again.Sources) != 1 || again.Unchanged != 0 {
		t.Fatalf("Scan of what changed = %+v, %v", again, err)
	}
	put(t, filepath.Join(root, "notes.txt"), []byte("x"))
	if err := os.Remove(filepath.Join(root, "a.mp4")); err != nil {
		t.Fatal(err)
	}
	if _, err := Scan(t.Context(), root, opts); !errors.Is(err, ErrNoFilms) {
		t.Fatalf("Scan without the film: %v, want %v", err, ErrNoFilms)
	}
}

// Where there will be another scan a film that changed lately is left to it.
func TestScanSettles(t *testing.T) {
	root := filepath.Dir(film(t, "a.mp4", "-f", "lavfi", "-i", "sine=d=1"))
	opts := settled(t)
	opts.Now, opts.Settle = time.Now, 10*time.Second
	changed := time.Now().Add(-5 * time.Second)
	if err := os.Chtimes(filepath.Join(root, "a.mp4"), changed, changed); err != nil {
		t.Fatal(err)
	}
	if r, err := Scan(t.Context(), root, opts); err != nil || len(r.Sources) != 0 || len(r.Skipped) != 1 || r.Skipped[0].Reason != StillGrowing {
		t.Fatalf("Scan = %+v, %v, want it to be left", r, err)
	}
	opts.Settle = 4 * time.Second
	if r, err := Scan(t.Context(), root, opts); err != nil || len(r.Sources) != 1 {
		t.Fatalf("Scan = %+v, %v, want the film", r, err)
	}
}
