package transcode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"macbatch/transcode/inventory"
)

// Preset is a way to make something small of a film's picture.
type Preset string

// The presets.
const (
	Proxy Preset = "proxy" // the film again, to be watched over any network: MP4, 360 lines
	Sheet Preset = "sheet" // a contact sheet of stills: JPEG
)

// maxPixels bounds a picture that is decoded: 8K and something.
const maxPixels = 64 << 20

// RenderRequest asks for a rendition of one film.
type RenderRequest struct {
	Preset          Preset
	FFmpeg, FFprobe string             // absolute paths
	Version         string             // of ffmpeg, as Version told; empty: it is asked each time
	Encoders        []string           // for proxies, best first, as Encoders told; empty: it is asked each time
	Root            string             // folder
	Path            inventory.Path     //
	Want            inventory.Identity // what the scan saw; zero: whatever is there
	AudioLang       []string           // wishes for a proxy's sound, as in Request
	Dir             string             // an empty work folder; only the rendition stays in it, and nothing after an error
	Progress        func(mediaMS int64)
}

// Rendition is what was made.
type Rendition struct {
	Preset     Preset   `json:"preset"`
	NoPicture  bool     `json:"no_picture,omitempty"` // the film has none; what follows, but for ffmpeg, is empty
	File       string   `json:"-"`                    // absolute path
	Digest     string   `json:"digest,omitempty"`     // SHA-256 of the file, hexadecimal
	Bytes      int64    `json:"bytes,omitempty"`
	Width      int      `json:"width,omitempty"`
	Height     int      `json:"height,omitempty"`
	DurationMS int64    `json:"duration_ms,omitempty"` // of a proxy, or of the film on a sheet
	Encoder    string   `json:"encoder,omitempty"`     // of a proxy's picture
	Codec      string   `json:"codec,omitempty"`       // of it, as it was read back: h264 or hevc
	Track      *Track   `json:"track,omitempty"`       // of a proxy's sound; nil: it has none
	StillsMS   []int64  `json:"stills_ms,omitempty"`   // times of a sheet's stills, row by row; -1: none was there
	Warnings   []string `json:"warnings,omitempty"`    // at most five
	FFmpeg     string   `json:"ffmpeg"`                // version
}

// Render makes a rendition of one film. For its errors see the package's comment.
func Render(ctx context.Context, req RenderRequest) (Rendition, error) {
	res, err := render(ctx, req)
	if err != nil {
		return Rendition{}, fmt.Errorf("%s of %q: %w", req.Preset, string(req.Path), err)
	}
	return res, nil
}

func render(ctx context.Context, req RenderRequest) (res Rendition, err error) {
	var do func(*job, context.Context) error
	switch req.Preset {
	case Proxy:
		do = (*job).proxy
	case Sheet:
		do = (*job).sheet
	default:
		return res, fmt.Errorf("preset %q is not known", req.Preset)
	}
	if req.Version == "" {
		if req.Version, err = Version(ctx, req.FFmpeg); err != nil {
			return res, err
		}
	}
	if entries, err := os.ReadDir(req.Dir); err != nil || len(entries) > 0 {
		return res, errors.Join(fmt.Errorf("work folder %q: must be there and empty", req.Dir), err)
	}
	if req.Dir, err = filepath.Abs(req.Dir); err != nil {
		return res, err
	}
	src, err := openSource(req.Root, req.Path, req.Want)
	if err != nil {
		return res, err
	}
	defer src.file.Close()
	media, err := inventory.Probe(ctx, req.FFprobe, src.file)
	if err := first(context.Cause(ctx), src.unchanged, err); err != nil {
		return res, err
	}
	j := &job{RenderRequest: req, src: src, media: media, res: Rendition{Preset: req.Preset, FFmpeg: req.Version}}
	if !media.Video {
		j.res.NoPicture = true
		return j.res, nil
	}
	p := media.Picture
	switch {
	case p.Codec == "":
		return res, &MediaError{Reason: "its picture is in a form that ffmpeg does not know"}
	case int64(p.Width)*int64(p.Height) > maxPixels:
		return res, &MediaError{Reason: fmt.Sprintf("a picture of %d x %d, more than %d pixels", p.Width, p.Height, maxPixels)}
	}
	err = do(j, ctx)
	if err := first(context.Cause(ctx), src.unchanged, err); err != nil {
		return res, errors.Join(err, j.clear())
	}
	return j.res, nil
}

// job is a rendition under way.
type job struct {
	RenderRequest
	src   *source
	media inventory.Media
	res   Rendition
}

// clear removes what an error left.
func (j *job) clear() error {
	if j.res.File == "" {
		return nil
	}
	if err := os.Remove(j.res.File); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// measure reads the rendition back for its digest.
func (j *job) measure() (err error) {
	f, err := os.Open(j.res.File)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	j.res.Bytes, err = io.Copy(h, f)
	j.res.Digest = hex.EncodeToString(h.Sum(nil))
	return err
}

// input are ffmpeg's arguments up to the film, and the files that go with them.
func (j *job) input(level string, before ...string) (args []string, files []*os.File) {
	name, files := inventory.Input(j.src.file)
	args = append([]string{"-nostdin", "-hide_banner", "-loglevel", level}, inventory.Whitelist()...)
	args = append(args, inventory.Analysis()...)
	args = append(args, "-max_pixels", fmt.Sprint(maxPixels))
	return append(append(args, before...), "-i", name), files
}
