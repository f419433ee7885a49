package gather

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/summarize"
	"macbatch/transcode"
	"macbatch/transcribe"
	"macbatch/transcribe/subtitle"
)

// film is the shards of one item, as a pass met them.
type film struct {
	transcode *lease.Shard
	parts     []*lease.Shard
	summary   *lease.Shard
	open      bool
}

func (f *film) add(s *lease.Shard) {
	f.open = f.open || !s.State.Terminal()
	switch s.Need.Kind {
	case pipeline.Transcode:
		f.transcode = s
	case pipeline.Transcribe:
		f.parts = append(f.parts, s)
	case pipeline.Summarize:
		f.summary = s
	}
}

// of is the digest of all results that the film's outputs are made from.
func (f *film) of() string {
	parts := []string{"1"} // the revision of the outputs' form
	for _, s := range append([]*lease.Shard{f.transcode, f.summary}, f.parts...) {
		if s != nil {
			parts = append(parts, s.State.String(), s.Result.Digest.String())
		}
	}
	return lease.ReuseDigest(parts...).String()
}

// end tells how a film that is settled ended.
func (f *film) end() (Outcome, string) {
	all := append([]*lease.Shard{f.transcode}, f.parts...)
	for _, s := range all {
		switch s.State {
		case lease.Failed:
			return Failed, fmt.Sprintf("%s: %s", s.Need.Kind, s.Reason)
		case lease.Canceled:
			return Canceled, s.Reason
		case lease.Done, lease.Blocked, lease.Ready, lease.Leased:
		}
	}
	switch {
	case f.summary == nil:
		return NoAudio, "the film has no sound"
	case f.summary.State == lease.Failed:
		return Partial, fmt.Sprintf("%s: %s", f.summary.Need.Kind, f.summary.Reason)
	case f.summary.State == lease.Canceled:
		return Partial, f.summary.Reason
	}
	return Done, ""
}

// document is a film's STEM.json. What may differ from one undisturbed run to
// another is in its provenance alone.
type document struct {
	Path       string               `json:"path"`
	DurationMS int64                `json:"duration_ms"`
	Language   string               `json:"language,omitempty"`
	Flags      []string             `json:"flags,omitempty"`
	Segments   []transcribe.Segment `json:"segments"`
	Provenance provenance           `json:"provenance"`
}

type provenance struct {
	Source      Source           `json:"source"`
	SoundDigest string           `json:"sound_digest"`
	AudioTrack  transcode.Track `json:"audio_track"`
	Warnings    []string         `json:"warnings,omitempty"`
	FFmpeg      string           `json:"ffmpeg"`
	Transcode   grant            `json:"transcode"`
	Parts       []part           `json:"parts"`
	Summary     *grant           `json:"summary,omitempty"`
}

// grant is who did a piece of work, under which lease.
type grant struct {
	Shard  lease.ShardID  `json:"shard"`
	Worker lease.WorkerID `json:"worker"`
	Fence  lease.Fence    `json:"fence"`
}

type part struct {
	grant
	pipeline.Part
	Engine        string            `json:"engine"`
	EngineVersion string            `json:"engine_version,omitempty"`
	Model         string            `json:"model,omitempty"`
	ModelDigest   string            `json:"model_digest,omitempty"`
	Params        map[string]string `json:"params,omitempty"`
}

// fetch reads a shard's accepted result, and who did it: the shard itself, or the
// one whose result it took over.
func (g *Gatherer) fetch(ctx context.Context, s *lease.Shard, into any) (grant, error) {
	row, err := g.row(ctx, s.ID)
	if err != nil {
		return grant{}, err
	}
	b := []byte(row.Result.Inline)
	if row.Result.Blob {
		r, n, err := g.ctl.Blob(ctx, row.Result.Digest)
		if err != nil {
			return grant{}, fmt.Errorf("result of shard %v: %w", s.ID, err)
		}
		if n != row.Result.Bytes {
			err = fmt.Errorf("%d bytes, not %d: %w", n, row.Result.Bytes, lease.ErrDigest)
		} else {
			b, err = io.ReadAll(io.LimitReader(r, n+1))
		}
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return grant{}, fmt.Errorf("result of shard %v: %w", s.ID, err)
		}
	}
	if lease.DigestOf(b) != row.Result.Digest {
		return grant{}, fmt.Errorf("result of shard %v: %w", s.ID, lease.ErrDigest)
	}
	if err := wire.Unmarshal(b, into); err != nil {
		return grant{}, fmt.Errorf("result of shard %v: %w", s.ID, err)
	}
	if !row.From.IsZero() {
		if row, err = g.row(ctx, row.From); err != nil {
			return grant{}, err
		}
	}
	return grant{row.ID, row.Holder.Worker, row.Fence}, nil
}

func (g *Gatherer) row(ctx context.Context, id lease.ShardID) (*lease.Shard, error) {
	rows, err := g.ctl.Shards(ctx, id.Job, id.Seq-1, 1, true)
	if err != nil {
		return nil, fmt.Errorf("shard %v: %w", id, err)
	}
	if len(rows) != 1 || rows[0].ID != id {
		return nil, fmt.Errorf("shard %v: %w", id, lease.ErrNotFound)
	}
	return &rows[0], nil
}

// contents are a film's outputs by suffix.
type contents struct {
	bodies     map[string][]byte
	durationMS int64
	noSpeech   bool
}

// assemble makes a film's outputs from its results.
func (g *Gatherer) assemble(ctx context.Context, f *film, src Source) (*contents, error) {
	var sound transcode.Result
	by, err := g.fetch(ctx, f.transcode, &sound)
	if err != nil {
		return nil, err
	}
	doc := document{Path: printablePath(src), Provenance: provenance{
		Source: src, SoundDigest: sound.SoundDigest, AudioTrack: sound.Track, Warnings: sound.Warnings, FFmpeg: sound.FFmpeg, Transcode: by,
	}}
	parts := make([]transcribe.Part, len(f.parts))
	for i, s := range f.parts {
		var in pipeline.TranscribePayload
		if err := wire.Unmarshal(s.Payload, &in); err != nil {
			return nil, fmt.Errorf("payload of shard %v: %w", s.ID, err)
		}
		parts[i] = transcribe.Part{StartMS: in.Part.StartMS, FromMS: in.Part.FromMS, ToMS: in.Part.ToMS}
		t := &parts[i].Transcript
		if by, err = g.fetch(ctx, s, t); err != nil {
			return nil, err
		}
		doc.Provenance.Parts = append(doc.Provenance.Parts, part{
			grant: by, Part: in.Part, Engine: t.Engine, EngineVersion: t.EngineVersion, Model: t.Model, ModelDigest: t.ModelDigest, Params: t.Params,
		})
	}
	whole, err := transcribe.Join(parts)
	if err != nil {
		return nil, err
	}
	out := &contents{bodies: map[string][]byte{}, durationMS: whole.DurationMS, noSpeech: len(whole.Segments) == 0}
	if f.summary.State == lease.Done {
		var sum summarize.Summary
		if by, err = g.fetch(ctx, f.summary, &sum); err != nil {
			return nil, err
		}
		doc.Provenance.Summary = &by
		if out.bodies[suffixSummary], err = body(sum, summarize.WriteMarkdown); err != nil {
			return nil, err
		}
	}
	doc.DurationMS, doc.Language, doc.Flags, doc.Segments = whole.DurationMS, whole.Language, whole.Flags, whole.Segments
	for suffix, write := range map[string]func(io.Writer, transcribe.Transcript) error{
		suffixSRT: subtitle.WriteSRT, suffixVTT: subtitle.WriteVTT, suffixText: subtitle.WriteText,
	} {
		if out.bodies[suffix], err = body(whole, write); err != nil {
			return nil, err
		}
	}
	out.bodies[suffixJSON], err = body(doc, func(w io.Writer, d document) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		return e.Encode(d)
	})
	return out, err
}

func body[T any](v T, write func(io.Writer, T) error) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, v)
	return b.Bytes(), err
}

func printablePath(s Source) string {
	b, err := s.Path.MarshalText()
	if err != nil {
		return ""
	}
	return string(b)
}
