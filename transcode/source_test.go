package transcode

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcode/inventory"
)

// fake is a program in ffmpeg's place: a shell script in which "$real" is ffmpeg.
func fake(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(name, []byte("#!/bin/sh\nreal='"+tools(t).FFmpeg+"'\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRunSourceChanges(t *testing.T) {
	six := content(t, filepath.Join(film(t, "a.wav", tone...), "a.wav"))
	for _, c := range []struct {
		name string
		do   func(root, film string) error
		want error
	}{
		{"replaced", func(root, film string) error {
			if err := os.WriteFile(film+".new", six, 0o644); err != nil {
				return err
			}
			return os.Rename(film+".new", film)
		}, ErrSourceChanged},
		{"replaced by its like", func(root, film string) error {
			fi, err := os.Stat(film)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(film+".new", six, 0o644), os.Chtimes(film+".new", time.Time{}, fi.ModTime()), os.Rename(film+".new", film))
		}, ErrSourceChanged},
		{"rewritten", func(root, film string) error { return os.WriteFile(film, six[:len(six)/2], 0o644) }, ErrSourceChanged},
		{"touched", func(root, film string) error {
			fi, err := os.Stat(film)
			if err != nil {
				return err
			}
			return os.Chtimes(film, time.Time{}, fi.ModTime().Add(time.Nanosecond))
		}, ErrSourceChanged},
		{"now a link", func(root, film string) error {
			if err := os.Rename(film, film+".moved"); err != nil {
				return err
			}
			return os.Symlink(film+".moved", film)
		}, ErrSourceChanged},
		{"removed", func(root, film string) error {
			return errors.Join(os.Remove(film), os.WriteFile(film+".other", nil, 0o644))
		}, ErrSourceMissing},
		{"root emptied", func(root, film string) error { return os.Remove(film) }, inventory.ErrEmptyRoot},
		{"root gone", func(root, film string) error { return os.Rename(root, root+".gone") }, inventory.ErrNoRoot},
	} {
		root := filepath.Join(t.TempDir(), "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		film := filepath.Join(root, "a.wav")
		put(t, film, six)
		req := request(t, root, "a.wav")
		done := false
		req.Progress = func(int64) {
			if !done {
				done = true
				if err := c.do(root, film); err != nil {
					t.Error(err)
				}
			}
		}
		res, err := Run(t.Context(), req)
		var bad *MediaError
		if !done || !errors.Is(err, c.want) || errors.As(err, &bad) || errors.Is(err, ErrSourceBusy) != errors.Is(c.want, ErrSourceChanged) {
			t.Fatalf("%s: Run = %+v, %v, want %v", c.name, res, err, c.want)
		}
		if l := left(t, req.Dir); l != nil {
			t.Fatalf("%s: Run left %q", c.name, l)
		}
	}
}

func TestRunWant(t *testing.T) {
	root := film(t, "a.wav", "-f", "lavfi", "-i", "sine=r=16000:d=1")
	fi, err := os.Stat(filepath.Join(root, "a.wav"))
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, root, "a.wav")
	req.Want = inventory.IdentityOf(fi)
	req.Want.Inode++ // another machine may see another
	if _, err := Run(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	req = request(t, root, "a.wav")
	req.Want = inventory.Identity{Size: fi.Size() + 1, MtimeNS: fi.ModTime().UnixNano()}
	if _, err := Run(t.Context(), req); !errors.Is(err, ErrSourceChanged) {
		t.Fatalf("Run of a film of another size: %v, want ErrSourceChanged", err)
	}
	for age, busy := range map[time.Duration]bool{0: true, time.Hour: false, -time.Hour: false} {
		then := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(root, "a.wav"), then, then); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), req); !errors.Is(err, ErrSourceChanged) || errors.Is(err, ErrSourceBusy) != busy {
			t.Errorf("Run of a film of another size, written %v ago: %v, want busy %v", age, err, busy)
		}
	}
	if _, err := Run(t.Context(), request(t, root, "b/c.wav")); !errors.Is(err, ErrSourceMissing) {
		t.Fatalf("Run of no film: %v, want ErrSourceMissing", err)
	}
	if _, err := Run(t.Context(), request(t, root, "../a.wav")); !errors.Is(err, inventory.ErrPath) {
		t.Fatalf("Run outside the root: %v, want ErrPath", err)
	}
	if _, err := Run(t.Context(), request(t, root+"/none", "a.wav")); !errors.Is(err, inventory.ErrNoRoot) {
		t.Fatalf("Run without a root: %v, want ErrNoRoot", err)
	}
	req = request(t, root, "a.wav")
	put(t, filepath.Join(req.Dir, "chunk-0000.flac"), nil)
	if _, err := Run(t.Context(), req); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Fatalf("Run in a used work folder: %v, want it refused", err)
	}
}

func TestRunCanceled(t *testing.T) {
	root := film(t, "a.wav", "-f", "lavfi", "-i", "sine=r=16000:d=180")
	req := request(t, root, "a.wav")
	pids := filepath.Join(t.TempDir(), "pids")
	req.FFmpeg = fake(t, "echo $$ >>'"+pids+"'\nexec \"$real\" \"$@\"\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lease lost")
	req.Progress = func(int64) { cancel(lost) }
	if res, err := Run(ctx, req); !errors.Is(err, lost) {
		t.Fatalf("Run = %+v, %v, want the cause", res, err)
	}
	if l := left(t, req.Dir); l != nil {
		t.Fatalf("a canceled run left %q", l)
	}
	for l := range strings.FieldsSeq(string(content(t, pids))) {
		pid, err := strconv.Atoi(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("process %d after a canceled run: %v, want it gone", pid, err)
		}
	}
}

// A fault of the disk or the network must not condemn the film.
func TestRunFaultsAround(t *testing.T) {
	root := film(t, "a.wav", tone...)
	for _, c := range []struct {
		name, script string
		want         error
	}{
		{"input fails", `case "$*" in *"s16le pipe:1") "$real" "$@" | head -c 32000; echo "file:/dev/fd/3: Input/output error" >&2;;
			*) exec "$real" "$@";; esac`, inventory.ErrUnreadable},
		{"output fails", `case "$*" in *compression_level*) cat >/dev/null; echo "av_interleaved_write_frame(): No space left on device" >&2;;
			*) exec "$real" "$@";; esac`, syscall.ENOSPC},
		{"output is short", `case "$*" in *compression_level*) head -c 32000 | "$real" "$@";; *) exec "$real" "$@";; esac`, nil},
	} {
		req := request(t, root, "a.wav")
		req.FFmpeg = fake(t, c.script)
		res, err := Run(t.Context(), req)
		var bad *MediaError
		if err == nil || errors.As(err, &bad) || c.want != nil && !errors.Is(err, c.want) {
			t.Fatalf("%s: Run = %+v, %v, want %v", c.name, res, err, c.want)
		}
		if l := left(t, req.Dir); l != nil {
			t.Fatalf("%s: Run left %q", c.name, l)
		}
	}
}

// The program itself refuses what names other files, whatever looked at it before.
func TestDecodeArgsRefusePlaylists(t *testing.T) {
	root := film(t, "other.wav", tone...)
	for name, text := range map[string]string{
		"x.m3u8":     "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\nother.wav\n#EXT-X-ENDLIST\n",
		"x.ffconcat": "ffconcat version 1.0\nfile other.wav\n",
	} {
		put(t, filepath.Join(root, name), []byte(text))
		var out bytes.Buffer
		stderr, err := child.Run(t.Context(), child.Command{Path: tools(t).FFmpeg, Args: decodeArgs("file:"+filepath.Join(root, name), inventory.AudioTrack{}), Out: &out})
		if err == nil || out.Len() != 0 {
			t.Fatalf("ffmpeg on %s: %d bytes, %v, %s, want nothing", name, out.Len(), err, stderr)
		}
	}
}

func TestLocate(t *testing.T) {
	found := tools(t)
	if again, err := Locate(found.FFmpeg, found.FFprobe); err != nil || again != found || !filepath.IsAbs(found.FFmpeg) {
		t.Fatalf("Locate(%q) = %q, %v", found, again, err)
	}
	_, err := Locate(found.FFmpeg, filepath.Join(t.TempDir(), "ffprobe"))
	if !errors.Is(err, ErrNoTool) || !strings.HasPrefix(err.Error(), "ffprobe ") || !strings.Contains(err.Error(), "brew install ffmpeg") {
		t.Fatalf("Locate without ffprobe: %v", err)
	}
	if v, err := Version(t.Context(), found.FFmpeg); err != nil || v == "" {
		t.Fatalf("Version = %q, %v", v, err)
	}
}
