package transcode

import (
	"context"
	"errors"
	"fmt"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"macbatch/transcode/inventory"
)

// rendering asks for a rendition of the film name in the folder root.
func rendering(t *testing.T, preset Preset, root, name string) RenderRequest {
	t.Helper()
	found := tools(t)
	return RenderRequest{Preset: preset, FFmpeg: found.FFmpeg, FFprobe: found.FFprobe, Root: root, Path: inventory.Path(name), Dir: t.TempDir()}
}

// shown is what ffprobe says of the streams and tags of a file.
func shown(t *testing.T, name string) string {
	t.Helper()
	b, err := exec.Command(tools(t).FFprobe, "-v", "error", "-show_entries",
		"format_tags:stream=codec_name,width,height,sample_aspect_ratio,channels,pix_fmt:stream_tags=language,title:chapter=id", "-of", "compact=p=0:nk=1", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

// beep is as long as wide is.
var beep = []string{"-f", "lavfi", "-i", "sine=f=440:r=48000:d=3"}

var wide = []string{"-f", "lavfi", "-i", "testsrc2=s=640x480:r=5:d=3"}

func TestProxy(t *testing.T) {
	cover := filepath.Join(film(t, "cover.png", "-f", "lavfi", "-i", "color=red:s=60x60", "-frames:v", "1"), "cover.png")
	for _, c := range []struct {
		name          string
		args          []string
		width, height int
		sound         bool
	}{
		{"large.mp4", join(wide, beep, mp4), 480, 360, true},
		{"small.mkv", join([]string{"-f", "lavfi", "-i", "testsrc2=s=64x48:r=5:d=3"}, beep, mp4), 64, 48, true}, // never made larger
		{"portrait.mov", join([]string{"-f", "lavfi", "-i", "testsrc2=s=480x854:r=5:d=3"}, beep, mp4), 360, 640, true},
		{"odd.mkv", join([]string{"-f", "lavfi", "-i", "testsrc2=s=401x301:r=5:d=3"}, beep, []string{"-c:v", "ffv1"}), 400, 300, true},
		{"anamorphic.mkv", join([]string{"-f", "lavfi", "-i", "testsrc2=s=720x576:r=5:d=3,setsar=64/45"}, beep, mp4), 640, 360, true},
		{"mute.mp4", join(wide, []string{"-c:v", "mpeg4"}), 480, 360, false},
		{"late.mkv", join(wide, []string{"-itsoffset", "2"}, beep, mp4), 480, 360, true},
		{"vfr.mkv", join([]string{"-f", "lavfi", "-i", "testsrc2=s=640x480:r=30:d=3,select='not(mod(n\\,7))+lt(n\\,5)'"}, beep, []string{"-vsync", "vfr"}, mp4), 480, 360, true},
		{"cover.mp4", join([]string{"-i", cover}, wide, beep, []string{"-map", "0", "-map", "1", "-map", "2", "-c:v:0", "png", "-c:v:1", "mpeg4", "-c:a", "aac",
			"-disposition:v:0", "attached_pic", "-metadata", "title=Holiday", "-metadata", "location=+48.1+11.5/"}), 480, 360, true},
		{"old.avi", join(wide, beep, []string{"-c:v", "mpeg4", "-c:a", "mp3"}), 480, 360, true},
	} {
		root := film(t, c.name, c.args...)
		req := rendering(t, Proxy, root, c.name)
		var last int64
		req.Progress = func(ms int64) { last = ms }
		res, err := Render(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := 3000
		if c.name == "late.mkv" {
			want = 5000
		}
		if res.Width != c.width || res.Height != c.height || res.DurationMS < int64(want)-250 || res.DurationMS > int64(want)+250 || (res.Track != nil) != c.sound || last == 0 {
			t.Errorf("%s: %+v, progress %d, want %d x %d, sound %t", c.name, res, last, c.width, c.height, c.sound)
		}
		sound := ""
		if c.sound {
			sound = " aac|2|und"
		}
		// Nothing of the film's tags and covers is in it.
		if got, want := shown(t, res.File), fmt.Sprintf("h264|%d|%d|1:1|yuv420p|und%s isom|512|isomiso2avc1mp41", c.width, c.height, sound); got != want {
			t.Errorf("%s: the proxy holds %q, want %q", c.name, got, want)
		}
		if l := left(t, req.Dir); !reflect.DeepEqual(l, []string{"proxy.mp4"}) || int64(len(content(t, res.File))) != res.Bytes {
			t.Errorf("%s: work folder holds %q, %d bytes", c.name, l, res.Bytes)
		}
	}
}

// TestProxyTurned: a film that is stored on its side is one that stands.
func TestProxyTurned(t *testing.T) {
	plain := filepath.Join(film(t, "plain.mp4", join(wide, beep, mp4)...), "plain.mp4")
	root := film(t, "turned.mp4", "-i", plain, "-c", "copy", "-metadata:s:v", "rotate=90")
	if res, err := Render(t.Context(), rendering(t, Proxy, root, "turned.mp4")); err != nil || res.Width != 360 || res.Height != 480 {
		t.Errorf("Render = %+v, %v, want 360 x 480", res, err)
	}
}

func TestProxyEncoders(t *testing.T) {
	found := tools(t)
	names, err := Encoders(t.Context(), found.FFmpeg)
	if err != nil || len(names) == 0 {
		t.Fatalf("Encoders = %q, %v", names, err)
	}
	root := film(t, "a.mp4", join(wide, beep, mp4)...)
	// A chip's encoder that is named and does not work gives way to the next.
	if runtime.GOOS != "darwin" {
		req := rendering(t, Proxy, root, "a.mp4")
		req.Encoders = []string{"h264_videotoolbox", "libx264"}
		if res, err := Render(t.Context(), req); err != nil || res.Encoder != "libx264" {
			t.Errorf("without VideoToolbox: %+v, %v", res, err)
		}
		req.Dir, req.Encoders = t.TempDir(), []string{"h264_videotoolbox"}
		if res, err := Render(t.Context(), req); err == nil {
			t.Errorf("without any encoder: %+v", res)
		}
		if l := left(t, req.Dir); l != nil {
			t.Errorf("without any encoder: left %q", l)
		}
	}
	req := rendering(t, Proxy, root, "a.mp4")
	req.Encoders = []string{"libx265"}
	if res, err := Render(t.Context(), req); err != nil || !strings.HasPrefix(shown(t, res.File), "hevc|480|360") {
		t.Errorf("HEVC: %+v, %v", res, err)
	}
}

func TestSheet(t *testing.T) {
	// A quarter of the film each: red, green, blue, white.
	root := film(t, "quarters.mkv", "-f", "lavfi", "-i", "color=red:s=320x180:r=10:d=5", "-f", "lavfi", "-i", "color=lime:s=320x180:r=10:d=5",
		"-f", "lavfi", "-i", "color=blue:s=320x180:r=10:d=5", "-f", "lavfi", "-i", "color=white:s=320x180:r=10:d=5",
		"-filter_complex", "[0][1][2][3]concat=n=4", "-c:v", "mpeg4", "-q:v", "2", "-g", "10")
	req := rendering(t, Sheet, root, "quarters.mkv")
	res, err := Render(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.StillsMS) != 20 || res.StillsMS[0] != 500 || res.StillsMS[19] != 19_500 || res.Warnings != nil || res.Width != 1624 || res.Height != 740 {
		t.Fatalf("Render = %+v", res)
	}
	f, err := os.Open(res.File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := jpeg.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		r, g, b, _ := img.At(4+i%5*324+160, 4+i/5*184+90).RGBA()
		got := fmt.Sprint(r>>15, g>>15, b>>15)
		if want := []string{"1 0 0", "0 1 0", "0 0 1", "1 1 1"}[i/5]; got != want {
			t.Errorf("still %d is %s, want %s", i, got, want)
		}
	}
	again, err := Render(t.Context(), rendering(t, Sheet, root, "quarters.mkv"))
	if err != nil || again.Digest != res.Digest {
		t.Fatalf("a second sheet: %s, %v, want %s", again.Digest, err, res.Digest)
	}
}

func TestRenderRefuses(t *testing.T) {
	long := filepath.Join(film(t, "long.mp4", join([]string{"-f", "lavfi", "-i", "testsrc2=s=160x120:r=10:d=40", "-f", "lavfi", "-i", "sine=d=40"}, mp4, []string{"-movflags", "+faststart", "-g", "10"})...), "long.mp4")
	mkv := filepath.Join(film(t, "long.mkv", "-i", long, "-c", "copy"), "long.mkv")
	cut := func(name string) []byte { b := content(t, name); return b[:len(b)*55/100] }
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"cut.mp4", cut(long), "cut off: "},
		{"cut.mkv", cut(mkv), "cut off: "},
		{"list.mp4", []byte("#EXTM3U\n#EXTINF:6,\nfile:" + long + "\n#EXT-X-ENDLIST\n"), "playlist"},
		{"zero.mkv", nil, "empty file"},
		{"huge.mkv", content(t, filepath.Join(film(t, "huge.mkv", "-f", "lavfi", "-i", "color=s=10240x8192:r=5:d=0.2", "-c:v", "mjpeg"), "huge.mkv")), "a picture of 10240 x 8192"},
	} {
		for _, preset := range []Preset{Proxy, Sheet} {
			root := t.TempDir()
			put(t, filepath.Join(root, c.name), c.b)
			req := rendering(t, preset, root, c.name)
			res, err := Render(t.Context(), req)
			var bad *MediaError
			if !errors.As(err, &bad) || !strings.Contains(bad.Reason, c.want) || !reflect.DeepEqual(res, Rendition{}) {
				t.Errorf("%s of %s = %+v, %v, want a MediaError with %q", preset, c.name, res, err, c.want)
			}
			if l := left(t, req.Dir); l != nil {
				t.Errorf("%s of %s left %q", preset, c.name, l)
			}
			if string(content(t, filepath.Join(root, c.name))) != string(c.b) {
				t.Errorf("%s of %s changed the film", preset, c.name)
			}
		}
	}
}

// TestRenderNoPicture: sound without a picture is no failure, a cover no picture.
func TestRenderNoPicture(t *testing.T) {
	root := film(t, "song.m4a", append(beep, "-c:a", "aac")...)
	for _, preset := range []Preset{Proxy, Sheet} {
		if res, err := Render(t.Context(), rendering(t, preset, root, "song.m4a")); err != nil || !res.NoPicture || res.File != "" {
			t.Errorf("%s of a song = %+v, %v", preset, res, err)
		}
	}
}

func TestRenderSourceReplaced(t *testing.T) {
	root := film(t, "a.mp4", join(wide, beep, mp4)...)
	other := content(t, filepath.Join(film(t, "b.mp4", join(picture, beep, mp4)...), "b.mp4"))
	for _, preset := range []Preset{Proxy, Sheet} {
		req := rendering(t, preset, root, "a.mp4")
		req.Progress = func(int64) {
			put(t, filepath.Join(root, "new"), other)
			if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, "a.mp4")); err != nil {
				t.Error(err)
			}
		}
		if res, err := Render(t.Context(), req); !errors.Is(err, ErrSourceChanged) || left(t, req.Dir) != nil {
			t.Errorf("%s = %+v, %v, left %q", preset, res, err, left(t, req.Dir))
		}
		other, root = content(t, filepath.Join(film(t, "b.mp4", join(picture, beep, mp4)...), "b.mp4")), film(t, "a.mp4", join(wide, beep, mp4)...)
	}
}

func TestRenderStops(t *testing.T) {
	root := film(t, "a.mp4", join([]string{"-f", "lavfi", "-i", "testsrc2=s=320x240:r=30:d=60"}, mp4)...)
	stop := errors.New("lease lost")
	for _, preset := range []Preset{Proxy, Sheet} {
		ctx, cancel := context.WithCancelCause(t.Context())
		req := rendering(t, preset, root, "a.mp4")
		req.Progress = func(int64) { cancel(stop) }
		if res, err := Render(ctx, req); !errors.Is(err, stop) || left(t, req.Dir) != nil {
			t.Errorf("%s = %+v, %v, left %q", preset, res, err, left(t, req.Dir))
		}
	}
}
