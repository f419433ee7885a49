package transcode

import (
	"path/filepath"
	"testing"
)

// TestContainers takes the sound out of what cameras, phones and twenty years of
// programs wrote. All films last three seconds.
func TestContainers(t *testing.T) {
	small := []string{"-f", "lavfi", "-i", "testsrc2=s=176x144:r=10:d=3"}
	beep := []string{"-f", "lavfi", "-i", "sine=f=440:r=48000:d=3"}
	plain := filepath.Join(film(t, "plain.mp4", join(small, beep, mp4)...), "plain.mp4")
	chapters := filepath.Join(t.TempDir(), "chapters.txt")
	put(t, chapters, []byte(";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1500\ntitle=one\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=1500\nEND=3000\ntitle=two\n"))
	subtitles := filepath.Join(t.TempDir(), "words.srt")
	put(t, subtitles, []byte("1\n00:00:00,500 --> 00:00:02,000\nwords\n"))
	copied := []string{"-i", plain, "-c", "copy"}
	with := func(args ...string) []string { return append(append([]string{}, copied...), args...) }
	for _, c := range []struct {
		name string
		args []string
	}{
		{"fragmented.mp4", with("-movflags", "frag_keyframe+empty_moov")},
		{"turned.mov", with("-metadata:s:v", "rotate=90")},
		{"phone.mov", []string{"-i", plain, "-c:v", "copy", "-c:a", "pcm_s16le", "-tag:v", "mp4v"}},
		{"chapters.mkv", []string{"-i", plain, "-i", chapters, "-map_metadata", "1", "-map", "0", "-c", "copy"}},
		{"subtitled.mkv", []string{"-i", plain, "-i", subtitles, "-map", "0", "-map", "1", "-c", "copy", "-c:s", "srt"}},
		{"unsteady.mkv", join([]string{"-f", "lavfi", "-i", "testsrc2=s=176x144:r=30:d=3,select='not(mod(n\\,7))+lt(n\\,9)'"}, beep, []string{"-vsync", "vfr"}, mp4)},
		{"old.3gp", []string{"-i", plain, "-c:v", "h263", "-c:a", "aac", "-ac", "1"}},
		{"old.avi", []string{"-i", plain, "-c:v", "copy", "-c:a", "mp3"}},
		{"web.webm", []string{"-i", plain, "-c:v", "libvpx", "-deadline", "realtime", "-c:a", "libopus"}},
		{"vorbis.ogg", []string{"-i", plain, "-vn", "-c:a", "libvorbis"}},
		{"broadcast.ts", []string{"-i", plain, "-c:v", "mpeg2video", "-c:a", "mp2"}},
		{"disc.mpg", []string{"-i", plain, "-c:v", "mpeg2video", "-c:a", "ac3", "-f", "vob"}},
		{"windows.wmv", []string{"-i", plain, "-c:v", "wmv2", "-c:a", "wmav2"}},
		{"surround.mkv", []string{"-i", plain, "-c:v", "copy", "-ac", "6", "-c:a", "ac3"}},
		{"studio.wav", []string{"-i", plain, "-vn", "-c:a", "pcm_s24le", "-ar", "96000"}},
		{"memo.m4a", []string{"-i", plain, "-vn", "-c:a", "alac"}},
	} {
		root := film(t, c.name, c.args...)
		before := content(t, filepath.Join(root, c.name))
		res, err := Run(t.Context(), request(t, root, c.name))
		if err != nil || len(res.Chunks) != 1 || res.Silent || res.DurationMS < 2_800 || res.DurationMS > 3_200 {
			t.Errorf("%s: %+v, %v, want 3 s of sound in one chunk", c.name, res, err)
		}
		if string(content(t, filepath.Join(root, c.name))) != string(before) {
			t.Errorf("%s: the film was changed", c.name)
		}
	}
}

// TestRemuxes: the packets of one recording in other containers are the same sound
// to the sample, so that its words are looked for once.
func TestRemuxes(t *testing.T) {
	picture := []string{"-f", "lavfi", "-i", "testsrc2=s=176x144:r=10:d=3"}
	beep := []string{"-f", "lavfi", "-i", "sine=f=440:r=44100:d=3"}
	for first, c := range map[string]struct{ codec, others []string }{
		"aac.mp4":   {mp4, []string{"x.mkv", "x.mov", "x.ts", "x.m4v"}},
		"mp3.mp3":   {[]string{"-vn", "-c:a", "libmp3lame"}, []string{"x.mkv", "x.mp4", "x.avi"}},
		"opus.webm": {[]string{"-vn", "-ar", "48000", "-c:a", "libopus"}, []string{"x.ogg", "x.mkv", "x.mp4"}},
	} {
		made := filepath.Join(film(t, first, join(picture, beep, c.codec)...), first)
		want, err := Run(t.Context(), request(t, filepath.Dir(made), first))
		if err != nil || want.SoundDigest == "" {
			t.Fatalf("%s: %+v, %v", first, want, err)
		}
		for _, name := range c.others {
			root := film(t, name, "-i", made, "-map", "0", "-c", "copy")
			got, err := Run(t.Context(), request(t, root, name))
			if err != nil || got.SoundDigest != want.SoundDigest || len(got.Chunks) != 1 || got.Chunks[0].Digest != want.Chunks[0].Digest {
				t.Errorf("%s as %s: sound %.12s of %d ms, %v, want %.12s of %d ms", first, name, got.SoundDigest, got.DurationMS, err, want.SoundDigest, want.DurationMS)
			}
		}
	}
}
