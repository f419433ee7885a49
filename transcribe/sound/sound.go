package sound

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcribe"
)

// Rate is samples a second; every sample has two bytes.
const Rate = 16000

const (
	frameMS    = 10
	frameBytes = Rate / 1000 * frameMS * 2
)

// stall is how long ffmpeg may decode nothing.
const stall = 2 * time.Minute

// shortMS is how much may be missing of a sound's stated duration.
const shortMS = 500

// Decode makes a plain 16 kHz mono WAV file of the FLAC or WAV file source and
// looks at it. Less sound than durationMS (0: unknown) is a permanent error,
// for ffmpeg ends with status 0 on half a file.
func Decode(ctx context.Context, ffmpeg, source, wav string, durationMS int64) (Profile, error) {
	abs, err := filepath.Abs(source)
	if err != nil {
		return Profile{}, fmt.Errorf("decode %q: %w", source, err)
	}
	if _, err := os.Stat(abs); err != nil {
		return Profile{}, fmt.Errorf("decode sound: %w", err)
	}
	_, err = child.Run(ctx, child.Command{Path: ffmpeg, Args: []string{
		"-nostdin", "-hide_banner", "-loglevel", "error", "-y",
		"-protocol_whitelist", "file,pipe", "-format_whitelist", "flac,wav",
		"-i", "file:" + abs, "-map", "0:a:0", "-ac", "1", "-ar", "16000", "-c:a", "pcm_s16le",
		"-map_metadata", "-1", "-fflags", "+bitexact", "-progress", "pipe:1", "-f", "wav", "file:" + wav,
	}, Stall: stall})
	if err != nil {
		err = fmt.Errorf("decode %q: %w", filepath.Base(source), err)
		var exit *child.ExitError
		if errors.As(err, &exit) && strings.HasPrefix(exit.Status, "exit status") && !strings.Contains(exit.Stderr, "No space left") {
			return Profile{}, &transcribe.PermanentError{Err: err}
		}
		return Profile{}, err
	}
	p, err := Open(wav)
	if err != nil {
		return Profile{}, err
	}
	if p.DurationMS < durationMS-shortMS {
		return Profile{}, &transcribe.PermanentError{Err: fmt.Errorf("decode %q: holds %d ms of sound, want %d ms", filepath.Base(source), p.DurationMS, durationMS)}
	}
	return p, nil
}

// Open looks at a 16 kHz mono 16-bit WAV file.
func Open(wav string) (p Profile, err error) {
	f, err := os.Open(wav)
	if err != nil {
		return p, fmt.Errorf("read sound: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	offset, err := header(f)
	if err != nil {
		return p, &transcribe.PermanentError{Err: fmt.Errorf("read sound %q: %w", filepath.Base(wav), err)}
	}
	if p, err = scan(f); err != nil {
		return p, fmt.Errorf("read sound %q: %w", filepath.Base(wav), err)
	}
	p.Offset = offset
	return p, nil
}

// header reads up to the first sample and returns how many bytes that took.
func header(r io.Reader) (offset int64, err error) {
	var h [12]byte
	if _, err := io.ReadFull(r, h[:]); err != nil || string(h[:4]) != "RIFF" || string(h[8:]) != "WAVE" {
		return 0, errors.New("not a WAV file")
	}
	offset = int64(len(h))
	for seen := false; ; {
		var c [8]byte
		if _, err := io.ReadFull(r, c[:]); err != nil {
			return 0, errors.New("WAV file without sound")
		}
		offset += int64(len(c))
		size := int64(binary.LittleEndian.Uint32(c[4:]))
		switch string(c[:4]) {
		case "data":
			if !seen {
				return 0, errors.New("WAV file without format")
			}
			return offset, nil
		case "fmt ":
			var f [16]byte
			if _, err := io.ReadFull(r, f[:]); size < 16 || err != nil {
				return 0, errors.New("WAV file with a short format")
			}
			if binary.LittleEndian.Uint16(f[2:]) != 1 || binary.LittleEndian.Uint32(f[4:]) != Rate || binary.LittleEndian.Uint16(f[14:]) != 16 {
				return 0, errors.New("not 16 kHz mono 16-bit")
			}
			seen, size, offset = true, size-16, offset+16
		}
		size += size & 1
		if n, err := io.CopyN(io.Discard, r, size); err != nil {
			return 0, fmt.Errorf("WAV chunk ends after %d bytes: %w", n, err)
		}
		offset += size
	}
}
