package transcode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcode/inventory"
)

// MediaError says why a film cannot be used. The same bytes give the same answer.
type MediaError = inventory.MediaError

var (
	// ErrSourceChanged is returned when the file is not, or no longer, the one that was scanned.
	ErrSourceChanged = errors.New("the source changed")
	// ErrSourceMissing is returned when there is no file of that name any more.
	ErrSourceMissing = errors.New("the source is gone")
)

// Request asks for the sound of one film.
type Request struct {
	FFmpeg, FFprobe string // absolute paths
	Root            string // folder
	Path            inventory.Path
	Want            inventory.Identity // what the scan saw; zero: anything
	AudioLang       []string           // tracks wanted, best first: languages, numbers, "default"
	ChunkMS         int64              // 0: DefaultChunkMS
	Dir             string             // an empty folder for the chunks
	Progress        func(ms int64)     // sound decoded so far; may be nil
}

// Result is the sound of one film.
type Result struct {
	DurationMS  int64    `json:"duration_ms"`
	SoundDigest string   `json:"sound_digest,omitempty"` // SHA-256 of the decoded samples
	Track       Choice   `json:"track,omitzero"`
	NoAudio     bool     `json:"no_audio,omitempty"` // there is no sound to take; no chunks
	Silent      bool     `json:"silent,omitempty"`   // nothing to hear anywhere
	Chunks      []Chunk  `json:"chunks,omitempty"`
	Warnings    []string `json:"warnings,omitempty"` // of ffmpeg, and about the length; at most maxWarnings
	FFmpeg      string   `json:"ffmpeg,omitempty"`   // version
}

const (
	maxWarnings = 5
	stall       = 3 * time.Minute // a network disk may wake up slowly
)

// Run takes the sound of a film.
func Run(ctx context.Context, r Request) (res Result, err error) {
	root, err := inventory.OpenRoot(r.Root)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	f, id, err := inventory.Open(root, r.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return res, fmt.Errorf("%w: %w", ErrSourceMissing, err)
	}
	if errors.Is(err, inventory.ErrNotRegular) {
		return res, fmt.Errorf("%w: %w", ErrSourceChanged, err)
	}
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if r.Want != (inventory.Identity{}) && !id.Alike(r.Want) {
		return res, fmt.Errorf("%w since the scan: %d bytes, modified %s", ErrSourceChanged, id.Size, when(id))
	}
	media, err := inventory.Probe(ctx, r.FFprobe, f)
	if err != nil {
		return res, err
	}
	if res.FFmpeg, err = Version(ctx, r.FFmpeg); err != nil {
		return res, err
	}
	if len(media.Tracks) == 0 {
		res.NoAudio, res.DurationMS = true, media.DurationMS
	} else if err := r.take(ctx, f, &media, &res); err != nil {
		return Result{}, errors.Join(unchanged(root, r.Path, f, id), err)
	}
	return res, unchanged(root, r.Path, f, id)
}

// unchanged compares the open file, and what its path names now, with what they
// were at the beginning.
func unchanged(root *os.Root, p inventory.Path, f *os.File, id inventory.Identity) error {
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the source again: %w", err)
	}
	now := inventory.IdentityOf(fi)
	if !now.Same(id) {
		return fmt.Errorf("%w while it was read: %d bytes, modified %s", ErrSourceChanged, now.Size, when(now))
	}
	if fi, err = root.Lstat(string(p)); err != nil || !inventory.IdentityOf(fi).Same(id) {
		return fmt.Errorf("%w: it was replaced while it was read", ErrSourceChanged)
	}
	return nil
}

func when(id inventory.Identity) string { return time.Unix(0, id.MtimeNS).UTC().Format(time.RFC3339) }

// take decodes the chosen track, checks its length and writes the chunks.
func (r *Request) take(ctx context.Context, f *os.File, media *inventory.Media, res *Result) (err error) {
	res.Track = choose(media.Tracks, r.AudioLang)
	raw, err := os.Create(filepath.Join(r.Dir, "sound.pcm"))
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	defer func() { err = errors.Join(err, raw.Close(), os.Remove(raw.Name())) }()
	sound := newPCM(raw, r.Progress)
	name, files := inventory.Input(f)
	stderr, err := child.Run(ctx, child.Command{
		Path: r.FFmpeg, Args: decodeArgs(name, res.Track.Index), Files: files, Out: sound, Stall: stall,
	})
	if err != nil {
		return inventory.Verdict(stderr, err)
	}
	if err := sound.out.Flush(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	res.DurationMS, res.SoundDigest, res.Silent = sound.ms(), sound.digest(), sound.silent()
	res.Warnings = inventory.Complaints(stderr, maxWarnings)
	if res.DurationMS == 0 {
		return &MediaError{Reason: fmt.Sprintf("audio track %d holds no sound", res.Track.Index)}
	}
	warning, err := checkLength(media.DurationMS, &res.Track.AudioTrack, res.DurationMS, stderr)
	if err != nil {
		return err
	}
	if warning != "" {
		res.Warnings = append(res.Warnings[:min(len(res.Warnings), maxWarnings-1)], warning)
	}
	res.Chunks = plan(sound.levels, res.DurationMS, r.ChunkMS)
	for i := range res.Chunks {
		if err := r.encode(ctx, raw, &res.Chunks[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkLength compares what was decoded with what the file declares. ffmpeg ends
// a truncated film with status 0. A track that declares its own length must keep
// it; of the container's, which may be the picture's, sound may fall short, unless
// the file ended early.
func checkLength(containerMS int64, t *inventory.AudioTrack, decodedMS int64, stderr string) (warning string, err error) {
	declared, own := containerMS, false
	if t.DurationMS > 0 {
		declared, own = t.StartMS+t.DurationMS, true
	}
	short := declared - decodedMS
	if declared == 0 || short <= max(1000, declared/50) {
		return "", nil
	}
	text := fmt.Sprintf("declared are %s s of sound, decoded were %s s", seconds(declared), seconds(decodedMS))
	cut := false
	for _, s := range []string{"File ended prematurely", "partial file", "Truncat", "truncat", "end of file"} {
		cut = cut || strings.Contains(stderr, s)
	}
	if own || cut {
		return "", &MediaError{Reason: "truncated: " + text}
	}
	return text, nil
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 2, 64) }

// decodeArgs are ffmpeg's arguments for one audio track as raw sound. With
// first_pts=0 a track that starts late does not move its words forward.
func decodeArgs(input string, track int) []string {
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "warning"}, inventory.Whitelist()...)
	args = append(args, inventory.Analysis()...)
	return append(args, "-i", input, "-map", "0:a:"+strconv.Itoa(track), "-vn", "-sn", "-dn",
		"-af", "aresample=async=1:first_pts=0", "-ac", "1", "-ar", strconv.Itoa(sampleRate), "-f", "s16le", "pipe:1")
}

// encodeArgs are ffmpeg's arguments for raw sound from its input as a FLAC file
// that depends on nothing but the sound.
func encodeArgs(out string) []string {
	return []string{"-hide_banner", "-loglevel", "error", "-protocol_whitelist", "file,pipe", "-f", "s16le",
		"-ar", strconv.Itoa(sampleRate), "-ac", "1", "-i", "pipe:0", "-map_metadata", "-1", "-fflags", "+bitexact", "-flags", "bitexact",
		"-c:a", "flac", "-compression_level", "5", "-f", "flac", "-y", "file:" + out}
}

// encode writes the file of one chunk.
func (r *Request) encode(ctx context.Context, raw io.ReaderAt, c *Chunk) error {
	c.File = filepath.Join(r.Dir, fmt.Sprintf("chunk-%04d.flac", c.Index))
	in := io.NewSectionReader(raw, c.StartMS*bytesPerMS, c.DurationMS*bytesPerMS)
	if stderr, err := child.Run(ctx, child.Command{Path: r.FFmpeg, Args: encodeArgs(c.File), Stdin: in, Stall: stall}); err != nil {
		return fmt.Errorf("encode chunk %d: %w%s", c.Index, err, tail(stderr))
	}
	f, err := os.Open(c.File)
	if err != nil {
		return fmt.Errorf("encode chunk %d: %w", c.Index, err)
	}
	h := sha256.New()
	c.Bytes, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("encode chunk %d: %w", c.Index, err)
	}
	c.Digest = hex.EncodeToString(h.Sum(nil))
	return nil
}

func tail(stderr string) string {
	if lines := inventory.Complaints(stderr, 3); len(lines) > 0 {
		return ": " + strings.Join(lines, "; ")
	}
	return ""
}
