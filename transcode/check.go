package transcode

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"macbatch/transcode/child"
	"macbatch/transcode/inventory"
)

const (
	maxWarnings = 5
	nearMS      = 250 // decoders differ by a few frames at the ends
)

// guessed are the formats that declare no length, or only by time stamps that
// may jump: ffprobe's figure is not to be held against the film.
var guessed = []string{"mp3", "aac", "ac3", "eac3", "dts", "dtshd", "amr", "mpeg", "mpegvideo", "mpegts", "dv"}

// early are what ffmpeg says when a file ends before it should.
var early = []string{"partial file", "ended prematurely", "Truncating packet", "truncated", "filesize and duration do not match"}

// shortfall is the judgement of a decoded length.
type shortfall int

const (
	whole   shortfall = iota
	short             // less than declared, yet possible
	suspect           // half of the film may be missing; its picture will tell
	cutOff            // a part is missing
)

// declared is the length that the sound should have, and whether it is the
// track's own.
func declared(m inventory.Media, t inventory.AudioTrack) (ms int64, own bool) {
	if t.DurationMS > 0 {
		return t.StartMS + t.DurationMS, true
	}
	return m.DurationMS, false
}

func judge(m inventory.Media, t inventory.AudioTrack, decodedMS int64, stderr string) shortfall {
	wantMS, own := declared(m, t)
	missing := wantMS - decodedMS
	if missing <= nearMS {
		return whole
	}
	for _, e := range early {
		if strings.Contains(stderr, e) {
			return cutOff
		}
	}
	if slices.Contains(guessed, m.Container) {
		return short
	}
	switch {
	case missing <= max(2000, wantMS/50):
		return short
	case own || !m.Video:
		return cutOff
	}
	return suspect
}

// check compares what was decoded with what the film declares and returns the
// warnings, or a *MediaError that has both lengths.
func check(ctx context.Context, ffmpeg string, src *source, m inventory.Media, t inventory.AudioTrack, decodedMS int64, stderr string) ([]string, error) {
	warnings := slices.DeleteFunc(inventory.Complaints(stderr, 2*maxWarnings), func(l string) bool {
		return strings.HasPrefix(l, "Guessed Channel Layout") // of any mono WAV
	})
	wantMS, _ := declared(m, t)
	lengths := fmt.Sprintf("%s of sound decoded, %s declared", seconds(decodedMS), seconds(wantMS))
	verdict := judge(m, t, decodedMS, stderr)
	if verdict > short {
		// A disk or network that fails ends the film early as well.
		if err := inventory.Verdict(stderr, &child.ExitError{}); errors.Is(err, inventory.ErrUnreadable) {
			return nil, err
		}
	}
	if verdict == suspect {
		reach, err := pictureEnd(ctx, ffmpeg, src)
		if err != nil {
			return nil, err
		}
		verdict = cutOff
		if wantMS-reach <= max(2000, wantMS/50) {
			verdict = short
		}
	}
	switch {
	case decodedMS == 0:
		return nil, &MediaError{Reason: "no sound could be decoded, " + seconds(wantMS) + " declared"}
	case riffLacks(src.file, src.id.Size) > 0:
		return nil, &MediaError{Reason: fmt.Sprintf("cut off: %d bytes of %d declared, %s of sound decoded",
			src.id.Size, src.id.Size+riffLacks(src.file, src.id.Size), seconds(decodedMS))}
	case verdict == cutOff:
		return nil, &MediaError{Reason: "cut off: " + lengths}
	case verdict == short:
		warnings = append([]string{lengths}, warnings...)
	case wantMS == 0:
		warnings = append([]string{"declares no length"}, warnings...)
	}
	return warnings[:min(len(warnings), maxWarnings)], nil
}

// pictureEnd returns the time of the last picture in the file. Sound may well be
// shorter than the picture, but a file that was cut off lacks both.
func pictureEnd(ctx context.Context, ffmpeg string, src *source) (ms int64, err error) {
	name, files := inventory.Input(src.file)
	var out lastTime
	stderr, err := child.Run(ctx, child.Command{Path: ffmpeg, Args: walkArgs(name), Files: files, Out: &out, Stall: stallLimit})
	if err != nil {
		return 0, inventory.Verdict(stderr, err)
	}
	return out.us / 1000, nil
}

// riffLacks returns how many bytes a WAV or AVI file of the given size lacks of
// what its first header declares, or 0 if they are few: ffprobe takes the length
// of such a file from what is there. Recorders that can't seek declare the
// greatest sizes they can.
func riffLacks(f io.ReaderAt, size int64) int64 {
	var head [8]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:4]) != "RIFF" {
		return 0
	}
	want := int64(binary.LittleEndian.Uint32(head[4:])) + 8
	if want > 0x7f00_0000 || want-size <= max(64<<10, want/50) {
		return 0
	}
	return want - size
}

// lastTime reads the last out_time_us in ffmpeg's lines of progress; each report
// comes in one write.
type lastTime struct{ us int64 }

func (l *lastTime) Write(p []byte) (int, error) {
	for s := bufio.NewScanner(bytes.NewReader(p)); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), "out_time_us="); ok {
			if us, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				l.us = us
			}
		}
	}
	return len(p), nil
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d s", ms/1000, ms%1000) }
