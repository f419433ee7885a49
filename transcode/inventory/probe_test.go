package inventory

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"macbatch/transcode/child"
)

func TestProbeArgs(t *testing.T) {
	want := "-v error -hide_banner -protocol_whitelist file,pipe -format_whitelist " + demuxers +
		" -analyzeduration 20M -probesize 20M -of json -show_entries " +
		"format=format_name,duration,start_time:stream=codec_type,codec_name,duration,start_time,channels,sample_rate,width,height" +
		":stream_tags:stream_disposition -i file:/dev/fd/3"
	if got := strings.Join(probeArgs("file:/dev/fd/3"), " "); got != want {
		t.Fatalf("probeArgs = %q, want %q", got, want)
	}
	for _, bad := range []string{"hls", "concat", "dash", "sdp", "image2", "lavfi", "imf", "rtsp", "webm_dash_manifest", "applehttp", "tedcaptions"} {
		for d := range strings.SplitSeq(demuxers, ",") {
			if d == bad {
				t.Fatalf("the format whitelist allows %q", bad)
			}
		}
	}
}

func TestParseProbe(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     Media
	}{
		{
			"late audio, cover art first",
			`{"streams":[{"codec_type":"video","codec_name":"png","disposition":{"attached_pic":1}},
			 {"codec_type":"audio","codec_name":"aac","sample_rate":"48000","channels":2,"start_time":"4.400000","duration":"6.0",
			  "disposition":{"default":1},"tags":{"language":"rus","title":"Дубляж"}}],
			 "format":{"format_name":"mov,mp4","start_time":"1.400000","duration":"9.000000"}}`,
			Media{Container: "mov,mp4", DurationMS: 9000, Tracks: []AudioTrack{{Codec: "aac", Language: "rus", Title: "Дубляж",
				Default: true, Channels: 2, SampleRate: 48000, StartMS: 3000, DurationMS: 6000}}},
		},
		{
			"Matroska's tags, commentary",
			`{"streams":[{"codec_type":"video","codec_name":"h264","width":1920,"height":-1},{"codec_type":"video","codec_name":"vp9"},{"codec_type":"audio","codec_name":"ac3","start_time":"0.062","sample_rate":"44100","channels":1,
			  "disposition":{"comment":1},"tags":{"DURATION":"01:00:01.071000000"}}],"format":{"format_name":"matroska,webm"}}`,
			Media{Container: "matroska,webm", DurationMS: 3601071, Video: true, Picture: Picture{Codec: "h264", Width: 1920}, Tracks: []AudioTrack{{Codec: "ac3", Comment: true,
				Channels: 1, SampleRate: 44100, StartMS: 62, DurationMS: 3601009}}},
		},
		{
			"nonsense in numbers",
			`{"streams":[{"codec_type":"audio","codec_name":"unknown","start_time":"N/A","sample_rate":"x","channels":-1,
			  "duration":"NaN","tags":{"duration":"99:99:1e99"}}],"format":{"format_name":"wav","duration":"-5"}}`,
			Media{Container: "wav", Tracks: []AudioTrack{{}}},
		},
	} {
		got, err := parseProbe([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Fatalf("%s: parseProbe = %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	var bad *MediaError
	if _, err := parseProbe([]byte(`{"streams":[],"format":{}}`)); !errors.As(err, &bad) {
		t.Fatalf("parseProbe of nothing: %v, want a MediaError", err)
	}
	if _, err := parseProbe([]byte(`{"streams"`)); !errors.Is(err, ErrUnreadable) {
		t.Fatalf("parseProbe of half an answer: %v, want ErrUnreadable", err)
	}
}

func FuzzParseProbe(f *testing.F) {
	f.Add([]byte(`{"streams":[{"codec_type":"audio","start_time":"1e300","tags":{"DURATION":"1:2:3"}}],"format":{"format_name":"x","duration":"9"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseProbe(b)
		if err != nil {
			return
		}
		if m.DurationMS < 0 || m.Container == "" || m.Tracks == nil {
			t.Fatalf("parseProbe(%q) = %+v", b, m)
		}
		for i, a := range m.Tracks {
			if a.Index != i || a.StartMS < 0 || a.DurationMS < 0 {
				t.Fatalf("parseProbe(%q): track %+v", b, a)
			}
		}
	})
}

func TestVerdict(t *testing.T) {
	exit := &child.ExitError{Program: "ffprobe", Status: "exit status 1"}
	for _, c := range []struct {
		stderr string
		err    error
		reason string // of a MediaError
		is     error
	}{
		{"[mov,mp4,m4a,3gp,3g2,mj2 @ 0x55e] moov atom not found\nfile:/dev/fd/3: Invalid data found when processing input\n", exit,
			"moov atom not found", nil},
		{"file:/dev/fd/3: Invalid data found when processing input\n", exit, "Invalid data found when processing input", nil},
		{"", exit, "exit status 1", nil},
		{"file:/dev/fd/3: Input/output error\n", exit, "", ErrUnreadable},
		{"Unrecognized option 'format_whitelist'.\n", exit, "", exit},
		{"x", &child.ExitError{Program: "ffprobe", Status: "signal: killed"}, "", nil},
		{"x", errNoAnswer, "", ErrUnreadable},
	} {
		err := Verdict(c.stderr, c.err)
		var bad *MediaError
		if errors.As(err, &bad) != (c.reason != "") || bad != nil && bad.Reason != c.reason || c.is != nil && !errors.Is(err, c.is) {
			t.Fatalf("Verdict(%q, %v) = %v, want %q, %v", c.stderr, c.err, err, c.reason, c.is)
		}
	}
}

func TestJudgeHead(t *testing.T) {
	ts := make([]byte, 188*6)
	for i := 50; i < len(ts); i += 188 {
		ts[i] = 0x47
	}
	pad := strings.Repeat("\x01", 64)
	for _, c := range []struct{ head, want string }{
		{"", "empty file"},
		{"RIFF", "too short to be media: 4 bytes"},
		{"\x00\x00\x00\x20ftypisom" + pad, ""},
		{"\x00\x00\x00\x08wide\x00\x00\x00\x00mdat" + pad, ""},
		{"\x1aE\xdf\xa3" + pad, ""},
		{"RIFF\x00\x00\x00\x00WAVEfmt ", ""},
		{"RIFF\x00\x00\x00\x00WEBPVP8 ", "not a media file: unknown first bytes"},
		{string(ts), ""},
		{"\xff\xfb\x90\x00" + pad, ""},
		{"\x00\x00\x00\x00\x00\xff\xf1\x50\x80" + pad, ""},
		{"#EXTM3U\n#EXTINF:1,\nother.mp4\n", "is a playlist, not a film"},
		{"\ufeff\n #EXTM3U\nother.mp4\n", "is a playlist, not a film"},
		{"ffconcat version 1.0\nfile other.mp4\n", "is a playlist, not a film"},
		{"file 'other.mp4'\nfile 'b.mp4'\n", "is a playlist, not a film"},
		{"<?xml version=\"1.0\"?><MPD>", "is a playlist, not a film"},
		{"v=0\no=- 0 0 IN IP4 127.0.0.1\n", "is a playlist, not a film"},
		{"<!DOCTYPE html><title>404</title>", "is a playlist, not a film"},
		{"\xff\xfe#\x00E\x00X\x00T\x00M\x003\x00U\x00\n\x00", "not a media file: unknown first bytes"},
		{"not a video, just words\n", "is text, not media"},
		{" ftypisom is a text as well\n", "is text, not media"},
		{strings.Repeat("é", headBytes/2-1) + "aé"[:2], "is text, not media"},
		{strings.Repeat("\x00", 4096), "begins with zeros only: not a media file, or not written yet"},
		{"\x7fELF\x02\x01\x01" + pad, "not a media file: unknown first bytes"},
	} {
		if got := judgeHead([]byte(c.head)); got != c.want {
			t.Fatalf("judgeHead(%.20q) = %q, want %q", c.head, got, c.want)
		}
	}
}

func FuzzJudgeHead(f *testing.F) {
	f.Add([]byte("RIFF\x00\x00\x00\x00AVI "))
	f.Fuzz(func(t *testing.T, b []byte) { judgeHead(b) })
}
