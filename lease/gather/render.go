package gather

import (
	"context"
	"io"

	"macbatch/lease"
	"macbatch/transcode"
)

// Made is how a rendition came to be, as far as its line does not say so already.
type Made struct {
	Render   grant            `json:"render"`
	FFmpeg   string           `json:"ffmpeg"`
	Encoder  string           `json:"encoder,omitempty"`
	Codec    string           `json:"codec,omitempty"`
	Width    int              `json:"width"`
	Height   int              `json:"height"`
	Track    *transcode.Track `json:"audio_track,omitempty"`
	StillsMS []int64          `json:"stills_ms,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`
}

// rendition brings the one output of a film of a transcode job up to date, and sets
// its line.
func (g *Gatherer) rendition(ctx context.Context, f *film, l *Line) (did deed, err error) {
	old := g.lines[l.key()]
	if old != nil && (old.Of != l.Of || len(old.Outputs) == 0 && old.Outcome != NoImage) {
		old = nil
	}
	if old != nil { // made from this very result
		missing, edited, err := g.check(old)
		if err != nil {
			return did, err
		}
		if !missing {
			old.Source = l.Source
			return deed{edited: edited}, nil
		}
	}
	var res transcode.Rendition
	row, by, err := g.fetch(ctx, f.render, &res)
	if err != nil {
		return did, err
	}
	if res.NoPicture {
		g.without(l.Source, NoImage, "the film has no picture")
		g.lines[l.key()].Of = l.Of
		return did, nil
	}
	digest, err := lease.ParseDigest(res.Digest)
	if err != nil {
		return did, err
	}
	suffix := suffixProxy
	if res.Preset == transcode.Sheet {
		suffix = suffixSheet
	}
	l.DurationMS = res.DurationMS
	l.Made = &Made{
		Render: by, FFmpeg: res.FFmpeg, Encoder: res.Encoder, Codec: res.Codec, Width: res.Width, Height: res.Height,
		Track: res.Track, StillsMS: res.StillsMS, Warnings: res.Warnings,
	}
	c := &contents{files: map[string]file{suffix: {size: res.Bytes, digest: res.Digest, open: func() (io.ReadCloser, error) {
		r, _, err := g.ctl.Blob(ctx, row.ID, digest)
		return r, err
	}}}}
	if did, err = g.put(l, c, old); err != nil {
		return did, err
	}
	g.lines[l.key()] = l
	return did, nil
}
