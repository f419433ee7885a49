package openai

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"

	"macbatch/transcode/child"
	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

const (
	bytesPerMS = sound.Rate / 1000 * 2
	wavHeader  = 44
)

// form is the body of a request.
type form struct {
	kind       string // its Content-Type
	head, tail []byte
	sound      *os.File // nil: samples of somebody else's file
	size       int64    // of the sound
	from       io.ReaderAt
	offset     int64
}

// limitMS is how long a piece may be for its request to stay below both caps,
// whatever the form of its sound: FLAC is smaller than the samples in all but noise.
func (e *engine) limitMS(language string) int64 {
	f := e.blank(language)
	room := e.MaxBytes - 1 - int64(len(f.head)+len(f.tail)) - wavHeader
	return min(room/bytesPerMS, e.MaxMS-1)
}

// blank is the body without its sound.
func (e *engine) blank(language string) *form {
	var b bytes.Buffer
	w := multipart.NewWriter(&b) // writing to a buffer never fails
	fields := [][2]string{{"model", e.Model}, {"response_format", "verbose_json"}, {"temperature", "0"},
		{"timestamp_granularities[]", "segment"}, {"timestamp_granularities[]", "word"}}
	if language != "" {
		fields = append(fields, [2]string{"language", language})
	}
	for _, f := range fields {
		_ = w.WriteField(f[0], f[1])
	}
	name := "sound.wav"
	if e.flac {
		name = "sound.flac"
	}
	_, _ = w.CreateFormFile("file", name)
	head := bytes.Clone(b.Bytes())
	_ = w.Close()
	return &form{kind: w.FormDataContentType(), head: head, tail: b.Bytes()[len(head):]}
}

// form makes the body of the request for a clip.
func (e *engine) form(ctx context.Context, c clip, language, dir string) (*form, error) {
	f := e.blank(language)
	size := c.profile.DurationMS * bytesPerMS
	if !e.flac {
		f.head = append(f.head, header(size)...)
		f.from, f.offset, f.size = c.file, c.profile.Offset, size
		return f, nil
	}
	name := filepath.Join(dir, "piece.flac")
	_, err := child.Run(ctx, child.Command{
		Path: e.FFmpeg, Stdin: io.NewSectionReader(c.file, c.profile.Offset, size), Stall: transcribe.Silence(c.profile.DurationMS),
		Args: []string{"-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-f", "s16le", "-ar", fmt.Sprint(sound.Rate), "-ac", "1", "-i", "pipe:0",
			"-map_metadata", "-1", "-c:a", "flac", "-f", "flac", "file:" + name},
	})
	if err != nil {
		return nil, fmt.Errorf("encode sound: %w", err)
	}
	if f.sound, err = os.Open(name); err != nil {
		return nil, err
	}
	st, err := f.sound.Stat()
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	f.from, f.size = f.sound, st.Size()
	return f, nil
}

func (f *form) length() int64 { return int64(len(f.head)+len(f.tail)) + f.size }

func (f *form) reader() io.Reader {
	return io.MultiReader(bytes.NewReader(f.head), io.NewSectionReader(f.from, f.offset, f.size), bytes.NewReader(f.tail))
}

func (f *form) close() error {
	if f.sound == nil {
		return nil
	}
	return errors.Join(f.sound.Close(), os.Remove(f.sound.Name()))
}

// header begins a WAV file of size bytes of samples.
func header(size int64) []byte {
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(size+wavHeader-8))...)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint32(b, sound.Rate)
	b = binary.LittleEndian.AppendUint32(b, 2*sound.Rate)
	b = append(b, "\x02\x00\x10\x00data"...)
	return binary.LittleEndian.AppendUint32(b, uint32(size))
}
