package pipeline

import (
	"fmt"
	"slices"

	"macbatch/lease"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
)

// Render is the kind of the shards that make a rendition of a film. Their job is of
// kind Transcode: a scan, and one of them for each film.
const Render lease.Kind = "render"

// OfFilms reports whether jobs of a kind work on the films of a folder, by LibraryParams.
func OfFilms(k lease.Kind) bool { return k == Library || k == Transcode }

// RenderPayload asks for a rendition of one film. Its result is transcode.Rendition,
// and the file is a blob that belongs to it.
type RenderPayload struct {
	Root       string             `json:"root"`
	Path       inventory.Path     `json:"path"`
	Identity   inventory.Identity `json:"identity"`
	DurationMS int64              `json:"duration_ms"` // as the scan read it; 0: none is declared
	Preset     transcode.Preset   `json:"preset"`
	AudioLang  []string           `json:"audio_lang,omitempty"`
}

// MaxRendition bounds the bytes of a rendition.
const MaxRendition = 4 << 30

// PresetNeed is what a worker offers that can render by a preset; "": each can that
// has ffmpeg.
func PresetNeed(p transcode.Preset) string {
	if p == transcode.Proxy {
		return "preset:" + string(p)
	}
	return ""
}

// renditionOf is the rendition of one film.
func renditionOf(p *LibraryParams, src *inventory.Source) lease.Spec {
	return lease.Spec{
		Need: lease.Need{Kind: Render, Root: p.Root, Model: PresetNeed(p.Preset)}, Stage: stageRender,
		Payload: encode(RenderPayload{
			Root: p.Root, Path: src.Path, Identity: src.Identity, DurationMS: src.DurationMS, Preset: p.Preset, AudioLang: p.AudioLang,
		}),
	}
}

// acceptRendition is the rules of a rendition. A film without a picture has none.
func acceptRendition(in *RenderPayload, res *transcode.Rendition, blobs []lease.Digest) (means lease.Acceptance, err error) {
	if err := res.Validate(in.Preset, in.DurationMS); err != nil {
		return means, err
	}
	means.Maker = lease.Maker{Engine: "ffmpeg", Model: res.Encoder}
	if res.NoPicture {
		return means, nil
	}
	d, err := lease.ParseDigest(res.Digest)
	switch {
	case err != nil:
		return means, err
	case res.Bytes > MaxRendition:
		return means, fmt.Errorf("a rendition of %d bytes, over %d", res.Bytes, int64(MaxRendition))
	case blobs != nil && !slices.Contains(blobs, d):
		return means, fmt.Errorf("the file of %d bytes was not delivered", res.Bytes)
	}
	means.Keeps = []lease.Digest{d}
	return means, nil
}
