package transcode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"macbatch/transcode/inventory"
)

const (
	defaultChunkMS = 10 * 60 * 1000
	minChunkMS     = 10 * 1000
)

// Request asks for the sound of one film.
type Request struct {
	FFmpeg, FFprobe string // absolute paths
	Version         string // of ffmpeg, as Version told; empty: it is asked each time
	Root            string // folder
	Path            inventory.Path
	Want            inventory.Identity // what the scan saw; zero: whatever is there
	AudioLang       []string           // wishes, best first: "rus", "de", "default", the index of a track
	ChunkMS         int64              // at least 10,000; 0: ten minutes
	Dir             string             // an empty work folder; only chunk files stay in it, and none after an error
	Progress        func(mediaMS int64)
}

// Result is the sound of one film.
type Result struct {
	DurationMS  int64    `json:"duration_ms"`            // of the sound, from the film's first moment
	SoundDigest string   `json:"sound_digest,omitempty"` // SHA-256 of all samples, hexadecimal
	Track       Track    `json:"track,omitzero"`
	Chunks      []Chunk  `json:"chunks,omitempty"`
	NoAudio     bool     `json:"no_audio,omitempty"` // the film has no audio track; the fields above are empty
	Silent      bool     `json:"silent,omitempty"`   // it has one in which nothing is to be heard
	Warnings    []string `json:"warnings,omitempty"` // at most five
	FFmpeg      string   `json:"ffmpeg"`             // version
}

// Chunk is a piece of the sound. It answers for [FromMS, ToMS), and its file
// covers DurationMS from StartMS, somewhat more.
type Chunk struct {
	Index      int    `json:"index"`
	File       string `json:"-"`      // absolute path
	Digest     string `json:"digest"` // SHA-256 of the file, hexadecimal
	Bytes      int64  `json:"bytes"`
	StartMS    int64  `json:"start_ms"`
	DurationMS int64  `json:"duration_ms"`
	FromMS     int64  `json:"from_ms"`
	ToMS       int64  `json:"to_ms"`
	Forced     bool   `json:"forced,omitempty"` // ToMS is in running sound: no pause was near
}

// Run takes out the sound of one film. For its errors see the package's comment.
func Run(ctx context.Context, req Request) (Result, error) {
	if req.ChunkMS == 0 {
		req.ChunkMS = defaultChunkMS
	}
	res, err := run(ctx, req)
	if err != nil {
		return Result{}, fmt.Errorf("transcode %q: %w", string(req.Path), err)
	}
	return res, nil
}

func run(ctx context.Context, req Request) (Result, error) {
	if req.ChunkMS < minChunkMS {
		return Result{}, fmt.Errorf("chunks of %d ms are too short", req.ChunkMS)
	}
	version := req.Version
	if version == "" {
		var err error
		if version, err = Version(ctx, req.FFmpeg); err != nil {
			return Result{}, err
		}
	}
	src, err := openSource(req.Root, req.Path, req.Want)
	if err != nil {
		return Result{}, err
	}
	defer src.file.Close()
	media, err := inventory.Probe(ctx, req.FFprobe, src.file)
	// A film that is being replaced is not a bad film.
	if err := first(context.Cause(ctx), src.unchanged, err); err != nil {
		return Result{}, err
	}
	if len(media.Tracks) == 0 {
		return Result{NoAudio: true, FFmpeg: version}, nil
	}

	pcm, err := scratch(req.Dir)
	if err != nil {
		return Result{}, err
	}
	defer pcm.Close()
	s := &sound{pcm: pcm, progress: req.Progress}
	track := choose(media.Tracks, req.AudioLang)
	stderr, err := decode(ctx, req.FFmpeg, src.file, track.AudioTrack, s)
	var warnings []string
	if err != nil {
		err = inventory.Verdict(stderr, err)
	} else {
		warnings, err = check(ctx, req.FFmpeg, src, media, track.AudioTrack, s.durationMS(), stderr)
	}
	if err := first(context.Cause(ctx), src.unchanged, err); err != nil {
		return Result{}, err
	}
	res := Result{DurationMS: s.durationMS(), SoundDigest: s.soundDigest(), Track: track, Silent: s.silent(),
		Warnings: warnings, FFmpeg: version}
	res.Chunks, err = writeChunks(ctx, req, s)
	return res, err
}

// first returns what counts most of three: that we were told to stop, that the
// source changed, and then err.
func first(stop error, changed func() error, err error) error {
	if stop != nil {
		return stop
	}
	if changed := changed(); changed != nil {
		return changed
	}
	return err
}

// scratch makes a file in dir that has no name, so that it is gone with us
// whatever happens to us.
func scratch(dir string) (*os.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("work folder %q is not empty", dir)
	}
	f, err := os.CreateTemp(dir, "sound-*.pcm")
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("work folder: %w", err), f.Close())
	}
	return f, nil
}

func writeChunks(ctx context.Context, req Request, s *sound) ([]Chunk, error) {
	dir, err := filepath.Abs(req.Dir)
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	chunks := withSound(cut(s.levels, s.durationMS(), req.ChunkMS), s.durationMS())
	for i := range chunks {
		if err := encode(ctx, req.FFmpeg, dir, s, &chunks[i]); err != nil {
			for _, c := range chunks[:i+1] {
				if rerr := os.Remove(c.File); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
					err = errors.Join(err, rerr)
				}
			}
			return nil, err
		}
	}
	return chunks, nil
}
