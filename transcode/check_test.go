package transcode

import (
	"bytes"
	"testing"

	"macbatch/transcode/inventory"
)

func TestJudge(t *testing.T) {
	const partial = "[mov,mp4,m4a,3gp,3g2,mj2 @ 0x1] stream 0, offset 0x99: partial file\n"
	for _, c := range []struct {
		name      string
		container string
		video     bool
		film      int64 // declared by the container,
		track     int64 // and by the track, which begins at 1000 if it is declared
		decoded   int64
		stderr    string
		want      shortfall
	}{
		{"as declared", "matroska,webm", true, 60_000, 59_000, 60_000, "", whole},
		{"longer", "matroska,webm", true, 60_000, 59_000, 99_000, "", whole},
		{"a frame short", "matroska,webm", true, 60_000, 59_000, 59_800, partial, whole},
		{"ends early by its own account", "mov,mp4", true, 60_000, 59_000, 59_700, partial, cutOff},
		{"a little short", "mov,mp4", true, 60_000, 59_000, 58_100, "", short},
		{"more than 2 s short", "mov,mp4", true, 60_000, 59_000, 57_900, "", cutOff},
		{"2 % of two hours", "mov,mp4", true, 7_200_000, 7_199_000, 7_060_000, "", short},
		{"3 % of two hours", "mov,mp4", true, 7_200_000, 7_199_000, 6_980_000, "", cutOff},
		{"sound shorter than the picture", "mov,mp4", true, 60_000, 29_000, 30_000, "", whole},
		{"half, and only the container to compare with", "flv", true, 60_000, 0, 30_000, "", suspect},
		{"half, and no picture", "flv", false, 60_000, 0, 30_000, "", cutOff},
		{"a guess", "mp3", false, 60_000, 59_000, 30_000, "", short},
		{"a counted MP3", "mp3", false, 60_000, 59_000, 30_000, "filesize and duration do not match (growing file?)", cutOff},
		{"nothing declared", "matroska,webm", true, 0, 0, 30_000, partial, whole},
	} {
		m := inventory.Media{Container: c.container, Video: c.video, DurationMS: c.film}
		track := inventory.AudioTrack{DurationMS: c.track}
		if c.track > 0 {
			track.StartMS = 1000
		}
		if got := judge(m, track, c.decoded, c.stderr); got != c.want {
			t.Fatalf("%s: judge = %d, want %d", c.name, got, c.want)
		}
	}
}

func TestRIFFLacks(t *testing.T) {
	for _, c := range []struct {
		head string
		size int64
		want int64
	}{
		{"RIFF\x00\x00\x10\x00WAVE", 1<<20 + 8, 0},
		{"RIFF\x00\x00\x10\x00WAVE", 1<<20 + 8 - 64<<10, 0},
		{"RIFF\x00\x00\x10\x00WAVE", 1 << 19, 1<<19 + 8},
		{"RIFF\xff\xff\xff\xffWAVE", 1 << 19, 0},
		{"RIFF\x00\x00\x00\x00WAVE", 1 << 19, 0},
		{"RF64\x00\x00\x10\x00WAVE", 1 << 19, 0},
		{"RIFF", 4, 0},
	} {
		if got := riffLacks(bytes.NewReader([]byte(c.head)), c.size); got != c.want {
			t.Fatalf("riffLacks(%q, %d) = %d, want %d", c.head, c.size, got, c.want)
		}
	}
}

func TestLastTime(t *testing.T) {
	var l lastTime
	for _, s := range []string{"frame=1\nout_time_us=N/A\nprogress=continue\n", "out_time_us=1500000\n", "out_time_us=2500000\nprogress=end\n"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", s, n, err)
		}
	}
	if l.us != 2_500_000 {
		t.Fatalf("last time %d, want 2500000", l.us)
	}
}
