package gather

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/summarize"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// film is the shards of one item that its outputs are made from.
type film struct {
	transcode *lease.Shard
	parts     []*lease.Shard
	summary   *lease.Shard
	render    *lease.Shard // of a transcode job: instead of the others
	open      bool
}

func (f *film) add(s *lease.Shard) {
	f.open = f.open || !s.State.Terminal()
	switch s.Need.Kind {
	case pipeline.Transcode:
		f.transcode = s
	case pipeline.Render:
		f.render = s
	case pipeline.Transcribe:
		f.parts = append(f.parts, s)
	case pipeline.Summarize:
		f.summary = s
	}
}

// settled reports whether all of the film's shards are there, and terminal.
func (f *film) settled() bool {
	return !f.open && (f.render != nil || f.transcode != nil && (f.transcode.Planned == 0 || f.summary != nil))
}

// path is the film's.
func (f *film) path() (inventory.Path, error) {
	if f.render != nil {
		var in pipeline.RenderPayload
		if err := wire.Unmarshal(f.render.Payload, &in); err != nil {
			return "", fmt.Errorf("payload of shard %v: %w", f.render.ID, err)
		}
		return in.Path, nil
	}
	var in pipeline.TranscodePayload
	if err := wire.Unmarshal(f.transcode.Payload, &in); err != nil {
		return "", fmt.Errorf("payload of shard %v: %w", f.transcode.ID, err)
	}
	return in.Path, nil
}

// of is the digest of all results that the film's outputs are made from.
func (f *film) of() string {
	parts := []string{"2"} // the revision of the outputs' form
	for _, s := range append([]*lease.Shard{f.transcode, f.summary, f.render}, f.parts...) {
		if s != nil {
			parts = append(parts, s.State.String(), s.Result.Digest.String())
		}
	}
	return lease.ReuseDigest(parts...).String()
}

// end tells how a film that is settled ended.
func (f *film) end() (Outcome, string) {
	all := append([]*lease.Shard{f.transcode}, f.parts...)
	if f.render != nil {
		all = []*lease.Shard{f.render}
	}
	is := func(state lease.State) func(*lease.Shard) bool {
		return func(s *lease.Shard) bool { return s.State == state }
	}
	if i := slices.IndexFunc(all, is(lease.Failed)); i > 0 {
		n := len(slices.DeleteFunc(slices.Clone(f.parts), func(s *lease.Shard) bool { return s.State != lease.Failed }))
		return Failed, fmt.Sprintf("no transcript is written, for %d of its %d parts failed: %s", n, len(f.parts), why(all[i]))
	} else if i == 0 {
		return Failed, why(all[i])
	}
	if i := slices.IndexFunc(all, is(lease.Canceled)); i >= 0 {
		return Canceled, all[i].Reason
	}
	switch {
	case f.render != nil:
		return Done, ""
	case f.summary == nil:
		return NoAudio, "the film has no sound"
	case f.summary.State == lease.Failed:
		return Partial, "no summary: " + why(f.summary)
	case f.summary.State == lease.Canceled:
		return Partial, "no summary: canceled: " + f.summary.Reason
	}
	return Done, ""
}

// why tells why a shard failed.
func why(s *lease.Shard) string { return fmt.Sprintf("%s (%s): %s", s.Need.Kind, s.Class, s.Reason) }

// document is a film's STEM.json. What may differ from one undisturbed run to
// another is in its provenance alone.
type document struct {
	Path       inventory.Path       `json:"path"`
	DurationMS int64                `json:"duration_ms"`
	Language   string               `json:"language,omitempty"`
	Flags      []string             `json:"flags,omitempty"`
	Doubts     []transcribe.Doubt   `json:"doubts,omitempty"`
	Segments   []transcribe.Segment `json:"segments"`
	Provenance provenance           `json:"provenance"`
}

type provenance struct {
	Source      Source          `json:"source"`
	SoundDigest string          `json:"sound_digest"`
	AudioTrack  transcode.Track `json:"audio_track"`
	Warnings    []string        `json:"warnings,omitempty"`
	FFmpeg      string          `json:"ffmpeg"`
	Transcode   grant           `json:"transcode"`
	Parts       []part          `json:"parts"`
	Summary     *grant          `json:"summary,omitempty"`
}

// grant is who did a piece of work, under which lease.
type grant struct {
	Shard  lease.ShardID  `json:"shard"`
	Worker lease.WorkerID `json:"worker,omitempty"` // neither is known when the
	Fence  lease.Fence    `json:"fence,omitzero"`   // job it was done for is gone
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

// fetch reads a shard's accepted result, and who did it.
func (g *Gatherer) fetch(ctx context.Context, s *lease.Shard, into any) (*lease.Shard, grant, error) {
	row, err := g.row(ctx, s.ID, true)
	if err != nil {
		return nil, grant{}, err
	}
	b, err := g.result(ctx, row)
	if err == nil {
		err = wire.Unmarshal(b, into)
	}
	if err != nil {
		return nil, grant{}, fmt.Errorf("result of shard %v: %w", s.ID, err)
	}
	by, err := g.doer(ctx, row)
	return row, by, err
}

// result is a row's accepted bytes.
func (g *Gatherer) result(ctx context.Context, row *lease.Shard) ([]byte, error) {
	b := []byte(row.Result.Inline)
	if row.Result.Blob {
		r, n, err := g.ctl.Blob(ctx, row.ID, row.Result.Digest)
		if err != nil {
			return nil, err
		}
		if n == row.Result.Bytes {
			b, err = io.ReadAll(io.LimitReader(r, n+1))
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
	}
	if int64(len(b)) != row.Result.Bytes || lease.DigestOf(b) != row.Result.Digest {
		return nil, lease.ErrDigest
	}
	return b, nil
}

// doer is who did the work: the shard's holder, or that of the one whose result
// it took over.
func (g *Gatherer) doer(ctx context.Context, row *lease.Shard) (grant, error) {
	for !row.From.IsZero() {
		from, err := g.row(ctx, row.From, false)
		if errors.Is(err, lease.ErrNotFound) {
			return grant{Shard: row.From}, nil
		}
		if err != nil {
			return grant{}, err
		}
		row = from
	}
	return grant{row.ID, row.Holder.Worker, row.Fence}, nil
}

func (g *Gatherer) row(ctx context.Context, id lease.ShardID, results bool) (*lease.Shard, error) {
	rows, err := g.ctl.Shards(ctx, id.Job, id.Seq-1, 1, results)
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
	sound  string // digest
	bodies map[string][]byte
	files  map[string]file // those that are too large for a body
	whole  transcribe.Transcript
}

// file is the output of a suffix under a name; false: there is none.
func (c *contents) file(name, suffix string) (file, bool) {
	if b, ok := c.bodies[suffix]; ok {
		return newFile(name+suffix, b), true
	}
	x, ok := c.files[suffix]
	x.path = name + suffix
	return x, ok
}

// assemble makes a film's outputs from its results.
func (g *Gatherer) assemble(ctx context.Context, f *film, src Source) (*contents, error) {
	var sound transcode.Result
	_, by, err := g.fetch(ctx, f.transcode, &sound)
	if err != nil {
		return nil, err
	}
	doc := document{Path: src.Path, Provenance: provenance{
		Source: src, SoundDigest: sound.SoundDigest, AudioTrack: sound.Track, Warnings: sound.Warnings, FFmpeg: sound.FFmpeg, Transcode: by,
	}}
	parts := make([]transcribe.Part, len(f.parts))
	for i, s := range f.parts {
		t := &parts[i].Transcript
		row, by, err := g.fetch(ctx, s, t)
		if err != nil {
			return nil, err
		}
		var in pipeline.TranscribePayload
		if err := wire.Unmarshal(row.Payload, &in); err != nil {
			return nil, fmt.Errorf("payload of shard %v: %w", s.ID, err)
		}
		parts[i].StartMS, parts[i].FromMS, parts[i].ToMS = in.Part.StartMS, in.Part.FromMS, in.Part.ToMS
		doc.Provenance.Parts = append(doc.Provenance.Parts, part{
			grant: by, Part: in.Part, Engine: t.Engine, EngineVersion: t.EngineVersion, Model: t.Model, ModelDigest: t.ModelDigest, Params: t.Params,
		})
	}
	whole, err := transcribe.Join(parts)
	if err != nil {
		return nil, err
	}
	out := &contents{sound: sound.SoundDigest, bodies: map[string][]byte{}, whole: whole}
	if f.summary.State == lease.Done {
		var sum summarize.Summary
		if _, by, err = g.fetch(ctx, f.summary, &sum); err != nil {
			return nil, err
		}
		doc.Provenance.Summary = &by
		if out.bodies[suffixSummary], err = body(sum, summarize.WriteMarkdown); err != nil {
			return nil, err
		}
	}
	doc.DurationMS, doc.Language, doc.Flags, doc.Doubts, doc.Segments = whole.DurationMS, whole.Language, whole.Flags, whole.Doubts, whole.Segments
	for _, form := range formats {
		if !g.wanted(form.name, form.suffix, g.key(&src)) {
			continue
		}
		out.bodies[form.suffix], err = body(whole, func(w io.Writer, t transcribe.Transcript) error { return form.write(w, &doc, t) })
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func body[T any](v T, write func(io.Writer, T) error) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, v)
	return b.Bytes(), err
}
