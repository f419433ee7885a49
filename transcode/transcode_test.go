package transcode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"macbatch/transcode/inventory"
)

// tools finds the programs; only outside CI may they be missing.
func tools(t *testing.T) Tools {
	t.Helper()
	found, err := Locate("", "")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return found
}

func ffmpeg(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-nostdin", "-v", "error", "-y"}, args...)
	if b, err := exec.Command(tools(t).FFmpeg, args...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg %q: %v: %s", args, err, b)
	}
}

// film makes a film in a new folder by ffmpeg's arguments and returns the folder.
func film(t *testing.T, name string, args ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	ffmpeg(t, append(args, "file:"+filepath.Join(root, name))...)
	return root
}

// request asks for the film name in the folder root.
func request(t *testing.T, root, name string) Request {
	t.Helper()
	found := tools(t)
	return Request{FFmpeg: found.FFmpeg, FFprobe: found.FFprobe, Root: root, Path: inventory.Path(name), Dir: t.TempDir()}
}

// left lists what is in the work folder.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func content(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	picture = []string{"-f", "lavfi", "-i", "color=s=64x48:r=5:d=6"}
	tone    = []string{"-f", "lavfi", "-i", "sine=f=440:r=48000:d=6"}
	mp4     = []string{"-c:v", "mpeg4", "-c:a", "aac"}
)

func join(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestRunNames(t *testing.T) {
	ok := content(t, filepath.Join(film(t, "ok.mp4", "-f", "lavfi", "-i", "sine=r=16000:d=1", "-c:a", "aac"), "ok.mp4"))
	root := t.TempDir()
	names := []string{"-dash first.mp4", "Spacemacs: magit.mp4", "%d.mp4", "quote's \"and\" `tick` $(x).mp4", "new\nline.mp4",
		"http:example.mp4", "concat:x|y.mp4"}
	if os.WriteFile(filepath.Join(root, "latin1_\xe9.mp4"), ok, 0o644) == nil { // APFS refuses such names
		names = append(names, "latin1_\xe9.mp4")
	}
	var first Result
	for _, n := range names {
		put(t, filepath.Join(root, n), ok)
		res, err := Run(t.Context(), request(t, root, n))
		if err != nil || len(res.Chunks) != 1 || res.DurationMS < 990 {
			t.Fatalf("Run(%q) = %+v, %v, want one chunk", n, res, err)
		}
		res.Chunks[0].File = ""
		if first.FFmpeg == "" {
			first = res
		}
		if !reflect.DeepEqual(res, first) {
			t.Fatalf("Run(%q) = %+v, want %+v as for other names of the same bytes", n, res, first)
		}
	}
}

func TestRunTracks(t *testing.T) {
	root := film(t, "two.mkv", join(picture, tone, []string{"-f", "lavfi", "-i", "anullsrc=r=48000:d=6", "-map", "0", "-map", "1", "-map", "2",
		"-metadata:s:a:0", "language=ger", "-metadata:s:a:1", "language=rus", "-disposition:a:0", "default", "-disposition:a:1", "0"}, mp4)...)
	for _, c := range []struct {
		wish   string
		silent bool
		why    string
	}{{"rus", true, `language "rus" was asked for`}, {"default", false, "marked as default"}, {"1", true, "track 1 was asked for"}} {
		req := request(t, root, "two.mkv")
		req.AudioLang = []string{c.wish, "default"}
		res, err := Run(t.Context(), req)
		if err != nil || res.Silent != c.silent || res.Track.Why != c.why {
			t.Fatalf("Run with %q = %+v, %v, want silent %t, %q", c.wish, res, err, c.silent, c.why)
		}
	}
}

func TestRunLateSound(t *testing.T) {
	root := film(t, "late.mkv", join(picture, []string{"-itsoffset", "3"}, tone, mp4)...)
	req := request(t, root, "late.mkv")
	res, err := Run(t.Context(), req)
	if err != nil || res.DurationMS < 8_900 || res.DurationMS > 9_200 {
		t.Fatalf("Run = %+v, %v, want 9 s", res, err)
	}
	wav := filepath.Join(t.TempDir(), "a.raw")
	ffmpeg(t, "-i", "file:"+res.Chunks[0].File, "-f", "s16le", wav)
	pcm := content(t, wav)
	sounds := func(ms int) bool {
		for _, b := range pcm[ms*bytesPerMS:][:100*bytesPerMS] {
			if b != 0 && b != 0xff && b != 1 {
				return true
			}
		}
		return false
	}
	if sounds(2_800) || !sounds(3_100) {
		t.Fatalf("sound at 2.8 s: %t, at 3.1 s: %t, want it to begin at 3 s", sounds(2_800), sounds(3_100))
	}
}

func TestRunCoverFirst(t *testing.T) {
	cover := filepath.Join(film(t, "cover.png", "-f", "lavfi", "-i", "color=red:s=60x60", "-frames:v", "1"), "cover.png")
	plain := filepath.Join(film(t, "a.mp4", join(picture, tone, mp4)...), "a.mp4")
	root := film(t, "c.mp4", "-i", cover, "-i", plain, "-map", "0", "-map", "1", "-c:v:0", "png", "-c:v:1", "copy", "-c:a", "copy",
		"-disposition:v:0", "attached_pic")
	if res, err := Run(t.Context(), request(t, root, "c.mp4")); err != nil || len(res.Chunks) != 1 || res.DurationMS < 5_900 {
		t.Fatalf("Run = %+v, %v, want 6 s of sound", res, err)
	}
}

func TestRunNoAudio(t *testing.T) {
	root := film(t, "mute.mp4", append(picture, "-c:v", "mpeg4")...)
	req := request(t, root, "mute.mp4")
	res, err := Run(t.Context(), req)
	if err != nil || !res.NoAudio || res.Chunks != nil || left(t, req.Dir) != nil {
		t.Fatalf("Run = %+v, %v, want no audio", res, err)
	}
	b, err := json.Marshal(res)
	if want := fmt.Sprintf(`{"duration_ms":0,"no_audio":true,"ffmpeg":%q}`, res.FFmpeg); err != nil || string(b) != want {
		t.Fatalf("JSON %s, %v, want %s", b, err, want)
	}
}

func TestRunRefuses(t *testing.T) {
	whole := filepath.Join(film(t, "whole.mkv", join(picture, tone, mp4, []string{"-g", "5"})...), "whole.mkv")
	moov := filepath.Join(film(t, "moov.mp4", join(picture, tone, mp4, []string{"-movflags", "+faststart"})...), "moov.mp4")
	wav := filepath.Join(film(t, "a.wav", tone...), "a.wav")
	cut := func(name string, percent int) []byte {
		b := content(t, name)
		return b[:len(b)*percent/100]
	}
	for _, c := range []struct {
		name string
		b    []byte
		want []string // in the reason
	}{
		{"truncated.mkv", cut(whole, 55), []string{"cut off: ", " decoded, 6.0", " declared"}},
		{"fs_cut.mp4", cut(moov, 60), []string{"cut off: ", " decoded, 6.0", " declared"}},
		{"fs_cut_late.mp4", cut(moov, 90), []string{"cut off: ", " decoded, 6.0", " declared"}},
		{"cut.wav", cut(wav, 50), []string{"cut off: ", "bytes of"}},
		{"no_moov.mp4", cut(moov, 60)[4096:], []string{"not a media file"}},
		{"zero.mkv", nil, []string{"empty file"}},
		{"list.mp4", []byte("#EXTM3U\n#EXTINF:6,\nfile:" + wav + "\n#EXT-X-ENDLIST\n"), []string{"playlist"}},
	} {
		root := t.TempDir()
		put(t, filepath.Join(root, c.name), c.b)
		req := request(t, root, c.name)
		res, err := Run(t.Context(), req)
		var bad *MediaError
		if !errors.As(err, &bad) || !reflect.DeepEqual(res, Result{}) {
			t.Fatalf("Run(%q) = %+v, %v, want a MediaError", c.name, res, err)
		}
		for _, w := range c.want {
			if !strings.Contains(bad.Reason, w) {
				t.Fatalf("Run(%q): %q, want %q in it", c.name, bad.Reason, w)
			}
		}
		if l := left(t, req.Dir); l != nil {
			t.Fatalf("Run(%q) left %q", c.name, l)
		}
		if string(content(t, filepath.Join(root, c.name))) != string(c.b) {
			t.Fatalf("Run(%q) changed the film", c.name)
		}
	}
}

// FLV declares a length for the whole file only.
func TestRunShortSound(t *testing.T) {
	root := film(t, "short.flv", "-f", "lavfi", "-i", "testsrc=s=64x48:r=5:d=12", "-f", "lavfi", "-i", "anoisesrc=d=4:r=22050",
		"-c:v", "flv", "-c:a", "adpcm_swf")
	res, err := Run(t.Context(), request(t, root, "short.flv"))
	if err != nil || len(res.Warnings) == 0 || !strings.Contains(res.Warnings[0], "declared") {
		t.Fatalf("Run = %+v, %v, want a warning", res, err)
	}
	root = film(t, "cut.flv", "-f", "lavfi", "-i", "testsrc=s=64x48:r=5:d=12", "-f", "lavfi", "-i", "anoisesrc=d=12:r=22050",
		"-c:v", "flv", "-c:a", "adpcm_swf")
	b := content(t, filepath.Join(root, "cut.flv"))
	put(t, filepath.Join(root, "cut.flv"), b[:len(b)/2])
	var bad *MediaError
	if res, err := Run(t.Context(), request(t, root, "cut.flv")); !errors.As(err, &bad) {
		t.Fatalf("Run of half a film = %+v, %v, want a MediaError", res, err)
	}
}

// noise makes three minutes of noise, silent where the expression is 0.
func noise(t *testing.T, loud string) (root string) {
	t.Helper()
	return film(t, "noise.mka", "-f", "lavfi", "-i", "aevalsrc='0.3*(random(0)-0.5)*"+loud+"':s=16000:d=180", "-c:a", "flac")
}

func TestRunCutsAtPauses(t *testing.T) {
	root := noise(t, "lt(mod(t,7),6.4)") // pauses at 6.4–7.0, 13.4–14.0, …
	var results []Result
	var files []string
	for range 2 {
		req := request(t, root, "noise.mka")
		req.ChunkMS = 30_000
		last := int64(-1)
		req.Progress = func(ms int64) {
			if ms <= last {
				t.Errorf("progress %d after %d", ms, last)
			}
			last = ms
		}
		res, err := Run(t.Context(), req)
		if err != nil || len(res.Chunks) != 6 || last < 178_000 {
			t.Fatalf("Run = %+v, %v, progress %d, want six chunks", res, err, last)
		}
		tiles(t, res.Chunks, res.DurationMS)
		all := ""
		for i := range res.Chunks {
			c := &res.Chunks[i]
			if in := c.ToMS % 7000; i < 5 && (c.Forced || in < 6_600 || in > 6_800) {
				t.Fatalf("chunk %+v ends %d ms after a pause began, want its middle", *c, in-6_400)
			}
			b := content(t, c.File)
			if int64(len(b)) != c.Bytes {
				t.Fatalf("chunk %+v has %d bytes", *c, len(b))
			}
			all += string(b)
			c.File = ""
		}
		if l := left(t, req.Dir); len(l) != 6 {
			t.Fatalf("work folder holds %q, want six chunks", l)
		}
		results, files = append(results, res), append(files, all)
	}
	if !reflect.DeepEqual(results[0], results[1]) || files[0] != files[1] {
		t.Fatalf("two runs differ: %+v, %+v", results[0], results[1])
	}
}

func TestRunForcedCuts(t *testing.T) {
	req := request(t, noise(t, "1"), "noise.mka")
	req.ChunkMS = 30_000
	res, err := Run(t.Context(), req)
	if err != nil || len(res.Chunks) != 6 {
		t.Fatalf("Run = %+v, %v, want six chunks", res, err)
	}
	tiles(t, res.Chunks, res.DurationMS)
	for i, c := range res.Chunks {
		if c.Forced != (i < 5) {
			t.Fatalf("chunk %+v of steady noise: forced %t", c, c.Forced)
		}
	}
}
