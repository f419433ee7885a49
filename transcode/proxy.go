package transcode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"macbatch/transcode/child"
	"macbatch/transcode/inventory"
)

// proxyLines is the shorter side of a proxy, at most.
const proxyLines = 360

// encoder is a way to encode a proxy's picture.
type encoder struct {
	name  string
	codec string // what it makes, as ffprobe calls it
	args  []string
}

// encoders are those that are used, best first: what a Mac has a chip for, else
// what is made everywhere. HEVC is smaller, but not all players have it.
var encoders = []encoder{
	{"h264_videotoolbox", "h264", []string{"-b:v", "800k", "-maxrate", "1600k", "-bufsize", "3200k", "-profile:v", "main"}},
	{"libx264", "h264", []string{"-preset", "veryfast", "-crf", "27", "-profile:v", "main"}},
	{"hevc_videotoolbox", "hevc", []string{"-b:v", "600k", "-tag:v", "hvc1"}},
	{"libx265", "hevc", []string{"-preset", "veryfast", "-crf", "30", "-tag:v", "hvc1", "-x265-params", "log-level=error"}},
}

// Encoders asks the program ffmpeg which of the encoders that proxies are made
// with it has, best first.
func Encoders(ctx context.Context, ffmpeg string) ([]string, error) {
	var out bytes.Buffer
	if _, err := child.Run(ctx, child.Command{Path: ffmpeg, Args: []string{"-hide_banner", "-encoders"}, Out: &out, Stall: stallLimit}); err != nil {
		return nil, fmt.Errorf("encoders of %q: %w", ffmpeg, err)
	}
	has := map[string]bool{}
	for s := bufio.NewScanner(&out); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 1 && strings.HasPrefix(f[0], "V") {
			has[f[1]] = true
		}
	}
	var names []string
	for _, e := range encoders {
		if has[e.name] {
			names = append(names, e.name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%q has no encoder for H.264 or HEVC", ffmpeg)
	}
	return names, nil
}

// proxyArgs are the arguments behind the film's name. The picture is turned as a
// player would turn it, its pixels made square, its frames made whole, and its
// times kept; the sound begins with it.
func proxyArgs(e encoder, track int, out string) []string {
	args := []string{"-map", "0:V:0"}
	if track >= 0 {
		args = append(args, "-map", fmt.Sprintf("0:a:%d", track), "-af", "aresample=async=1:first_pts=0", "-c:a", "aac", "-b:a", "96k", "-ac", "2", "-ar", "48000")
	} else {
		args = append(args, "-an")
	}
	args = append(args, "-sn", "-dn", "-map_metadata", "-1", "-map_chapters", "-1", "-fflags", "+bitexact", "-flags", "+bitexact",
		"-vf", fmt.Sprintf("yadif=deint=interlaced,scale='trunc(iw*if(sar,sar,1)/2)*2':'trunc(ih/2)*2',setsar=1,"+
			"scale='if(gt(iw,ih),-2,min(iw,%d))':'if(gt(iw,ih),min(ih,%d),-2)',setsar=1,format=yuv420p", proxyLines, proxyLines),
		"-c:v", e.name)
	args = append(args, e.args...)
	return append(args, "-movflags", "+faststart", "-progress", "pipe:1", "-f", "mp4", "-n", "file:"+out)
}

// proxy makes the film again, small. Where a chip's encoder does not work, as in a
// virtual machine, the next one is taken.
func (j *job) proxy(ctx context.Context) (err error) {
	if len(j.Encoders) == 0 {
		if j.Encoders, err = Encoders(ctx, j.FFmpeg); err != nil {
			return err
		}
	}
	track := -1
	if len(j.media.Tracks) > 0 {
		if t := choose(j.media.Tracks, j.AudioLang); t.Codec != "" {
			j.res.Track, track = &t, t.Index
		}
	}
	for _, e := range encoders {
		if !slices.Contains(j.Encoders, e.name) {
			continue
		}
		j.res.Encoder = e.name
		j.res.File = filepath.Join(j.Dir, "proxy.mp4")
		if err = j.encode(ctx, e, track); err == nil {
			return j.measure()
		}
		if context.Cause(ctx) != nil || !strings.HasSuffix(e.name, "_videotoolbox") {
			return err
		}
		if cerr := j.clear(); cerr != nil {
			return errors.Join(err, cerr)
		}
	}
	if err == nil {
		err = fmt.Errorf("encoders %q: none is one of ours", j.Encoders)
	}
	return err
}

func (j *job) encode(ctx context.Context, e encoder, track int) error {
	args, files := j.input("warning")
	stderr, err := child.Run(ctx, child.Command{
		Path: j.FFmpeg, Args: append(args, proxyArgs(e, track, j.res.File)...), Files: files, Dir: j.Dir,
		Out: &pace{told: j.Progress}, Stall: stallLimit,
	})
	if strings.Contains(stderr, "No space left") { // ffmpeg doesn't always end with an error
		return fmt.Errorf("write proxy: %w", syscall.ENOSPC)
	}
	if err != nil {
		return inventory.Verdict(stderr, err)
	}
	return j.checkProxy(ctx, e, stderr, track)
}

// checkProxy looks at what was written as at any film, and compares it with the
// film that it is of.
func (j *job) checkProxy(ctx context.Context, e encoder, stderr string, track int) error {
	f, err := os.Open(j.res.File)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := inventory.Probe(ctx, j.FFprobe, f)
	if err != nil {
		return fmt.Errorf("look at the proxy: %w", err)
	}
	p := got.Picture
	if !got.Video || p.Codec != e.codec || min(p.Width, p.Height) > proxyLines || p.Width < 2 || p.Height < 2 || (len(got.Tracks) == 1) != (track >= 0) {
		return fmt.Errorf("the proxy by %s has a picture of %d x %d in %q and %d tracks of sound", e.name, p.Width, p.Height, p.Codec, len(got.Tracks))
	}
	j.res.Codec, j.res.Width, j.res.Height, j.res.DurationMS = p.Codec, p.Width, p.Height, got.DurationMS
	return j.checkLength(got.DurationMS, stderr)
}

// checkLength holds a proxy's length against what the film declares, by the rules
// that the film's sound is judged by. What another track of sound is longer by is
// not missing.
func (j *job) checkLength(ms int64, stderr string) error {
	verdict := judge(j.media, inventory.AudioTrack{}, ms, stderr)
	if verdict > short {
		if err := inventory.Verdict(stderr, &child.ExitError{}); errors.Is(err, inventory.ErrUnreadable) {
			return err
		}
	}
	if verdict == suspect {
		verdict = cutOff
		for _, t := range j.media.Tracks {
			if j.res.Track != nil && t.Index != j.res.Track.Index && t.StartMS+t.DurationMS >= j.media.DurationMS-nearMS {
				verdict = short
			}
		}
	}
	lengths := fmt.Sprintf("%s in the proxy, %s declared", seconds(ms), seconds(j.media.DurationMS))
	warnings := inventory.Complaints(stderr, maxWarnings)
	switch {
	case verdict == cutOff, riffLacks(j.src.file, j.src.id.Size) > 0:
		return &MediaError{Reason: "cut off: " + lengths}
	case verdict == short, off(ms, j.media.DurationMS):
		warnings = append([]string{lengths}, warnings...)
	}
	j.res.Warnings = warnings[:min(len(warnings), maxWarnings)]
	return nil
}

// pace tells of ffmpeg's progress, each second of media once.
type pace struct {
	lastTime
	told func(ms int64)
	at   int64
}

func (p *pace) Write(b []byte) (int, error) {
	n, err := p.lastTime.Write(b)
	if ms := p.us / 1000; p.told != nil && ms-p.at >= 1000 {
		p.at = ms
		p.told(ms)
	}
	return n, err
}
