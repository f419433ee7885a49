package transcode

import (
	"strings"
	"testing"

	"macbatch/transcode/inventory"
)

func TestChoose(t *testing.T) {
	film := []inventory.AudioTrack{
		{Index: 0, Codec: "aac", Language: "ger", Default: true},
		{Index: 1, Codec: "aac", Language: "rus", Comment: true},
		{Index: 2, Codec: "aac", Language: "rus"},
		{Index: 3, Language: "eng", Title: "no decoder"},
		{Index: 4, Codec: "ac3", Language: "en-GB"},
	}
	for _, c := range []struct {
		wishes string
		index  int
		why    string
	}{
		{"", 0, "marked as default"},
		{"rus,default", 2, `language "rus" was asked for`},
		{"RU", 2, `language "ru" was asked for`},
		{"deu", 0, `language "deu" was asked for`},
		{"eng", 4, `language "eng" was asked for`},
		{"fra,de", 0, `language "de" was asked for`},
		{"1", 1, "track 1 was asked for"},
		{"9,4", 4, "track 4 was asked for"},
		{"-1,fra", 0, `no track fits "-1,fra"; marked as default`},
		{"default,rus", 0, "marked as default"},
	} {
		var wishes []string
		if c.wishes != "" {
			wishes = strings.Split(c.wishes, ",")
		}
		if got := choose(film, wishes); got.Index != c.index || got.Why != c.why {
			t.Fatalf("choose(%q) = %d, %q, want %d, %q", c.wishes, got.Index, got.Why, c.index, c.why)
		}
	}
	if got := choose(film[1:3], nil); got.Index != 2 || got.Why != "the first track" {
		t.Fatalf("choose among commentary and film = %+v, want the film", got)
	}
	if got := choose(film[1:2], nil); got.Why != "the only track" {
		t.Fatalf("choose of one = %+v", got)
	}
}

func TestArgs(t *testing.T) {
	white := strings.Join(append(inventory.Whitelist(), inventory.Analysis()...), " ")
	for _, c := range []struct {
		args []string
		want string
	}{
		{decodeArgs("file:/dev/fd/3", inventory.AudioTrack{Index: 2, StartMS: 49}), "-nostdin -hide_banner -loglevel warning " + white + " -flags2 skip_manual " +
			"-i file:/dev/fd/3 -map 0:a:2 -vn -sn -dn -af asetpts=PTS-STARTPTS,aresample=async=1:first_pts=0 -ac 1 -ar 16000 -f s16le pipe:1"},
		{decodeArgs("file:/dev/fd/3", inventory.AudioTrack{StartMS: 50}), "-nostdin -hide_banner -loglevel warning " + white + " -flags2 skip_manual " +
			"-i file:/dev/fd/3 -map 0:a:0 -vn -sn -dn -af aresample=async=1:first_pts=0 -ac 1 -ar 16000 -f s16le pipe:1"},
		{encodeArgs("/w/chunk-0000.flac"), "-nostdin -hide_banner -loglevel warning -n -f s16le -ar 16000 -ac 1 -i pipe:0 -map_metadata -1 " +
			"-fflags +bitexact -flags bitexact -c:a flac -compression_level 5 -progress pipe:1 -f flac file:/w/chunk-0000.flac"},
		{walkArgs("file:/dev/fd/3"), "-nostdin -hide_banner -loglevel error " + white + " -i file:/dev/fd/3 -map 0:V -c copy -f null -progress pipe:1 -"},
		{proxyArgs(encoder{"libx264", "h264", []string{"-crf", "27"}}, 2, "/w/proxy.mp4"), "-map 0:V:0 -map 0:a:2 -af aresample=async=1:first_pts=0 -c:a aac -b:a 96k -ac 2 -ar 48000 " +
			"-sn -dn -map_metadata -1 -map_chapters -1 -fflags +bitexact -flags +bitexact -vf yadif=deint=interlaced,scale='trunc(iw*if(sar,sar,1)/2)*2':'trunc(ih/2)*2',setsar=1," +
			"scale='if(gt(iw,ih),-2,min(iw,360))':'if(gt(iw,ih),min(ih,360),-2)',setsar=1,format=yuv420p -c:v libx264 -crf 27 -movflags +faststart -progress pipe:1 -f mp4 -n file:/w/proxy.mp4"},
		{stillArgs(), "-map 0:V:0 -frames:v 1 -an -sn -dn -vf scale='trunc(iw*if(sar,sar,1)/2)*2':'trunc(ih/2)*2',setsar=1," +
			"scale=320:180:force_original_aspect_ratio=decrease,pad=320:180:(ow-iw)/2:(oh-ih)/2,format=rgb24 -f rawvideo pipe:1"},
	} {
		if got := strings.Join(c.args, " "); got != c.want {
			t.Fatalf("arguments %q, want %q", got, c.want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	if v, err := parseVersion("ffmpeg version 5.1.9-0+deb12u1 Copyright (c) 2000-2026\nbuilt with gcc\n"); err != nil || v != "5.1.9-0+deb12u1" {
		t.Fatalf("parseVersion = %q, %v", v, err)
	}
	for _, s := range []string{"", "bash: hello\n", "ffmpeg version"} {
		if v, err := parseVersion(s); err == nil {
			t.Fatalf("parseVersion(%q) = %q, want an error", s, v)
		}
	}
}
