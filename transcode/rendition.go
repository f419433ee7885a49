package transcode

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// off reports whether a length is another than was declared, by what no rounding of
// frames explains. Lengths that are not declared are never missed.
func off(ms, declaredMS int64) bool {
	return declaredMS > 0 && max(ms-declaredMS, declaredMS-ms) > max(2000, declaredMS/50)
}

// Estimate is about how many bytes a rendition of a film of that length takes: of a
// proxy with a lively picture, half of which is usual.
func Estimate(p Preset, durationMS int64) int64 {
	if p == Sheet {
		return 1 << 20
	}
	return 1<<20 + durationMS*1000/8 // 1 Mbit/s
}

// Validate says what is wrong with a rendition of a film that declares a length, by
// what its maker tells of it: shape, size, codec and length of its preset.
func (r *Rendition) Validate(p Preset, declaredMS int64) error {
	if r.Preset != p {
		return fmt.Errorf("a rendition by preset %.100q, where %q was asked for", string(r.Preset), string(p))
	}
	if r.FFmpeg == "" || len(r.FFmpeg) > 200 || len(r.Warnings) > maxWarnings {
		return fmt.Errorf("ffmpeg %.100q with %d warnings", r.FFmpeg, len(r.Warnings))
	}
	if r.NoPicture {
		if r.Digest != "" || r.Bytes != 0 || len(r.StillsMS) > 0 || r.Track != nil {
			return errors.New("a rendition of a film without a picture")
		}
		return nil
	}
	if b, err := hex.DecodeString(r.Digest); err != nil || len(b) != 32 || r.Bytes <= 0 {
		return fmt.Errorf("%d bytes of digest %.100q", r.Bytes, r.Digest)
	}
	if p == Sheet {
		return r.validSheet(declaredMS)
	}
	return r.validProxy(declaredMS)
}

func (r *Rendition) validProxy(declaredMS int64) error {
	i := slices.IndexFunc(encoders, func(e encoder) bool { return e.name == r.Encoder })
	short := min(r.Width, r.Height)
	switch {
	case i < 0 || encoders[i].codec != r.Codec:
		return fmt.Errorf("a proxy by encoder %.100q in %.100q", r.Encoder, r.Codec)
	case short < 2 || short > proxyLines || r.Width%2+r.Height%2 > 0:
		return fmt.Errorf("a proxy of %d x %d", r.Width, r.Height)
	case r.DurationMS <= 0 || off(r.DurationMS, declaredMS) && len(r.Warnings) == 0:
		return fmt.Errorf("a proxy of %s, %s declared", seconds(r.DurationMS), seconds(declaredMS))
	case len(r.StillsMS) > 0:
		return errors.New("a proxy with stills")
	}
	return nil
}

func (r *Rendition) validSheet(declaredMS int64) error {
	if w, h := sheetSize(); r.Width != w || r.Height != h || len(r.StillsMS) != sheetColumns*sheetRows {
		return fmt.Errorf("a sheet of %d x %d with %d stills", r.Width, r.Height, len(r.StillsMS))
	}
	if r.Encoder != "" || r.Codec != "" || r.Track != nil {
		return fmt.Errorf("a sheet by encoder %.100q with a track of sound", r.Encoder)
	}
	if off(r.DurationMS, declaredMS) {
		return fmt.Errorf("a sheet of a film of %s, %s declared", seconds(r.DurationMS), seconds(declaredMS))
	}
	last, some := int64(-1), false
	for i, at := range r.StillsMS {
		if at < -1 || at > r.DurationMS || at >= 0 && at < last {
			return fmt.Errorf("still %d is of %d ms, after %d", i, at, last)
		}
		if at >= 0 {
			last, some = at, true
		}
	}
	if !some {
		return errors.New("a sheet without stills")
	}
	return nil
}
