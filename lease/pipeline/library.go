package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"macbatch/lease"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
)

// The kinds of the library pipeline; Library is the job's.
const (
	Library    lease.Kind = "library"
	Scan       lease.Kind = "scan"
	Transcode  lease.Kind = "transcode"
	Transcribe lease.Kind = "transcribe"
	Summarize  lease.Kind = "summarize"
)

// LibraryParams are the parameters of a job over the films of a folder: of a library
// job, or, with a Preset, of a transcode job, which has no words.
type LibraryParams struct {
	Root        string         `json:"root"`                  // name of the root
	Sub         inventory.Path `json:"sub,omitempty"`         // a folder of it; empty: all
	Transcriber string         `json:"transcriber,omitempty"` // an engine's name; empty: the best a worker has
	Language    string         `json:"language,omitempty"`    // spoken; empty: the engine finds out
	AudioLang   []string       `json:"audio_lang,omitempty"`  // tracks wanted, best first
	// Preset makes something of each film's picture instead of transcribing it.
	Preset  transcode.Preset `json:"preset,omitempty"`
	ChunkMS int64            `json:"chunk_ms,omitempty"` // length aimed at; 0: the default
	Fresh   bool             `json:"fresh,omitempty"`    // do all work anew
	Look    bool             `json:"look,omitempty"`     // scan, and plan nothing
	Had     int              `json:"had,omitempty"`      // films that an earlier scan of the folder found
	WatchMS int64            `json:"watch_ms,omitempty"` // scan again so long after each scan, until canceled; 0: once
}

// Kind is that of the jobs whose parameters these are.
func (p *LibraryParams) Kind() lease.Kind {
	if p.Preset != "" {
		return Transcode
	}
	return Library
}

// SameWork reports whether two jobs would do the same to each film of their folders.
func (p *LibraryParams) SameWork(o *LibraryParams) bool {
	return p.Root == o.Root && p.Transcriber == o.Transcriber && p.Language == o.Language &&
		slices.Equal(p.AudioLang, o.AudioLang) && p.ChunkMS == o.ChunkMS && p.Preset == o.Preset
}

// ScanPayload asks for the contents of a folder. Its result is inventory.Result. With
// WatchMS the scan goes on from the one before, whose listing is Known: it has no
// result while nothing is new, and one that changed is new.
type ScanPayload struct {
	Root    string         `json:"root"`
	Sub     inventory.Path `json:"sub,omitempty"`
	Had     int            `json:"had,omitempty"` // films that there were
	WatchMS int64          `json:"watch_ms,omitempty"`
	Known   lease.Digest   `json:"known,omitzero"`
	Next    uint32         `json:"next,omitempty"` // item of the first film it finds
}

// TranscodePayload asks for the sound of one film. Its result is transcode.Result.
type TranscodePayload struct {
	Root      string             `json:"root"`
	Path      inventory.Path     `json:"path"`
	Identity  inventory.Identity `json:"identity"`
	AudioLang []string           `json:"audio_lang,omitempty"`
	ChunkMS   int64              `json:"chunk_ms,omitempty"`
	// Transcriber is the engine for its words where that is not the job's.
	Transcriber string `json:"transcriber,omitempty"`
}

// TranscribePayload asks for the words of one chunk. Its result is
// transcribe.Transcript, with times from the beginning of the chunk's sound.
type TranscribePayload struct {
	Path        inventory.Path `json:"path"` // of the film, for people
	Sound       lease.Digest   `json:"sound"`
	DurationMS  int64          `json:"duration_ms"` // of the sound
	Part        Part           `json:"part"`
	Transcriber string         `json:"transcriber,omitempty"`
	Language    string         `json:"language,omitempty"`
}

// Part is a chunk's place in its film.
type Part struct {
	StartMS int64 `json:"start_ms"` // where its sound begins
	FromMS  int64 `json:"from_ms"`  // the stretch it answers for
	ToMS    int64 `json:"to_ms"`
}

// SummarizePayload asks for a summary of one film. The transcripts of its parts,
// in order, are the results it waits for. Its result is summarize.Summary.
type SummarizePayload struct {
	Title    string `json:"title"`
	Language string `json:"language,omitempty"`
	Parts    []Part `json:"parts"`
}

// The stages of a film, in the order of grants within it: later ones first.
const (
	stageScan = iota
	stageTranscode
	stageTranscribe
	stageSummarize

	stageRender = stageTranscode
)

// revision of the ways work is done: raising one makes earlier results of that
// kind no longer reusable.
var revision = map[lease.Kind]string{
	Transcode: "2", Transcribe: "1", Summarize: "1", Render: "1",
	Embed: "1", Generate: "1", Classify: "1", OCR: "1", SummarizeText: "1",
}

func (p *LibraryParams) check() error {
	switch {
	case p.Root == "":
		return errors.New("no root is named")
	case len(p.Root) > 4096 || strings.ContainsRune(p.Root, 0):
		return errors.New("the root's name is too long or holds a NUL")
	case p.ChunkMS < 0 || p.ChunkMS > 0 && p.ChunkMS < MinChunkMS || p.ChunkMS > MaxChunkMS:
		return fmt.Errorf("chunk of %d ms: must be %d to %d", p.ChunkMS, MinChunkMS, int64(MaxChunkMS))
	case p.Had < 0 || p.WatchMS < 0 || p.WatchMS > 0 && p.WatchMS < MinWatchMS || p.WatchMS > MaxWatchMS:
		return fmt.Errorf("watch every %d ms, %d films before: must be %d to %d, and not below 0", p.WatchMS, p.Had, MinWatchMS, MaxWatchMS)
	case p.Preset != "" && p.Preset != transcode.Proxy && p.Preset != transcode.Sheet:
		return fmt.Errorf("preset %.100q is not known", string(p.Preset))
	case p.Preset != "" && (p.Transcriber != "" || p.Language != "" || p.ChunkMS != 0):
		return errors.New("a preset looks for no words: transcriber, language and chunk do not belong to it")
	case p.Look && p.WatchMS > 0:
		return errors.New("a look that watches")
	case len(p.Language) > 20 || len(p.Transcriber) > 100 || len(p.AudioLang) > 20:
		return errors.New("language, transcriber or audio languages too long")
	}
	if p.Sub != "" {
		return p.Sub.Check()
	}
	return nil
}

// The lengths a chunk may be asked to have.
const (
	MinChunkMS = 15_000
	MaxChunkMS = 4 * 3600 * 1000
)

// The times that may pass between two scans.
const (
	MinWatchMS = 1000
	MaxWatchMS = 24 * 3600 * 1000
)

func startLibrary(p *LibraryParams) lease.Plan {
	return lease.Plan{scanOf(ScanPayload{Root: p.Root, Sub: p.Sub, Had: p.Had, WatchMS: p.WatchMS})}
}

func scanOf(in ScanPayload) lease.Spec {
	sp := lease.Spec{Need: lease.Need{Kind: Scan, Root: in.Root}, Item: in.Next, Stage: stageScan, Payload: encode(in)}
	if !in.Known.IsZero() {
		sp.Inputs = []lease.Digest{in.Known}
	}
	return sp
}

// afterScan plans a transcode, or a rendition, for each source, also for those that can't be
// used: their failure is then told like any other. Where a folder is watched the
// next scan comes last.
func afterScan(p *LibraryParams, in *ScanPayload, res *inventory.Result, blobs []lease.Digest) (lease.Plan, error) {
	if err := checkScan(in, res); err != nil {
		return nil, err
	}
	plan := make(lease.Plan, 0, len(res.Sources)+1)
	var last inventory.Path
	for i, src := range res.Sources {
		if err := src.Path.Check(); err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
		if i > 0 && src.Path <= last {
			return nil, fmt.Errorf("source %q is out of order", src.Path)
		}
		if src.DurationMS < 0 {
			return nil, fmt.Errorf("source %q: duration %d ms", src.Path, src.DurationMS)
		}
		last = src.Path
		sp := soundOf(p, &src)
		if p.Preset != "" {
			sp = renditionOf(p, &src)
		}
		sp.Item, sp.Opens, sp.Settles, sp.Work = in.Next+uint32(i), 1, 1, uint64(src.DurationMS)
		if !p.Fresh {
			sp.Reuse = lease.ReuseDigest(string(sp.Need.Kind), revision[sp.Need.Kind], string(sp.Payload))
		}
		plan = append(plan, sp)
	}
	switch {
	case p.Look:
		return nil, nil
	case in.WatchMS == 0:
		return plan, nil
	}
	known, err := lease.ParseDigest(res.Listing.Digest)
	if err != nil || blobs != nil && !slices.Contains(blobs, known) {
		return nil, fmt.Errorf("listing %.100q was not delivered", res.Listing.Digest)
	}
	again := *in
	again.Had, again.Known, again.Next = res.Listing.Films, known, in.Next+uint32(len(res.Sources))
	return append(plan, scanOf(again)), nil
}

// soundOf is the transcode of one film.
func soundOf(p *LibraryParams, src *inventory.Source) lease.Spec {
	return lease.Spec{
		Need: lease.Need{Kind: Transcode, Root: p.Root, Bulky: true}, Stage: stageTranscode,
		Payload: encode(TranscodePayload{
			Root: p.Root, Path: src.Path, Identity: src.Identity, AudioLang: p.AudioLang, ChunkMS: p.ChunkMS,
		}),
	}
}

// checkScan is the rules of a scan's result but for its sources.
func checkScan(in *ScanPayload, res *inventory.Result) error {
	films := len(res.Sources) + res.Unchanged
	for _, s := range res.Skipped {
		if err := s.Path.Check(); err != nil {
			return fmt.Errorf("skipped: %w", err)
		}
		if s.Reason == "" {
			return fmt.Errorf("skipped %q for no reason", s.Path)
		}
		if s.Reason == inventory.StillGrowing || s.Reason == inventory.SameFile || s.Reason == inventory.NotMedia {
			films++ // it is no empty folder
		}
	}
	switch {
	case in.Had > 0 && films == 0:
		return fmt.Errorf("root %q had %d films and has none: is it mounted?", in.Root, in.Had)
	case res.Unchanged < 0 || res.Unchanged > 0 && in.Known.IsZero():
		return fmt.Errorf("%d files are unchanged since no scan", res.Unchanged)
	case (in.WatchMS > 0) != (res.Listing != nil):
		return errors.New("a listing and a watched folder belong together")
	case res.Listing != nil && res.Listing.Films != len(res.Sources)+res.Unchanged:
		return fmt.Errorf("a listing of %d films, for %d", res.Listing.Films, len(res.Sources)+res.Unchanged)
	case uint64(in.Next)+uint64(len(res.Sources)) > 1<<31:
		return fmt.Errorf("%d films after %d", len(res.Sources), in.Next)
	}
	return nil
}

// afterTranscode plans the transcription of each chunk, and the summary behind them.
func afterTranscode(p *LibraryParams, s *lease.Shard, in *TranscodePayload, res *transcode.Result, blobs []lease.Digest) (lease.Plan, error) {
	if err := checkTranscode(res, blobs); err != nil || res.NoAudio {
		return nil, err
	}
	var plan lease.Plan
	engine := cmp.Or(in.Transcriber, p.Transcriber)
	sum := SummarizePayload{Title: title(in.Path), Language: p.Language}
	for _, c := range res.Chunks {
		sound, err := lease.ParseDigest(c.Digest)
		if err != nil {
			return nil, fmt.Errorf("chunk %d: %w", c.Index, err)
		}
		part := Part{StartMS: c.StartMS, FromMS: c.FromMS, ToMS: c.ToMS}
		sum.Parts = append(sum.Parts, part)
		sp := lease.Spec{
			Need: lease.Need{Kind: Transcribe, Model: engine}, Item: s.Item, Stage: stageTranscribe,
			Work: uint64(c.ToMS - c.FromMS), Inputs: []lease.Digest{sound},
			Payload: encode(TranscribePayload{
				Path: in.Path, Sound: sound, DurationMS: c.DurationMS, Part: part,
				Transcriber: engine, Language: p.Language,
			}),
		}
		if !p.Fresh {
			sp.Reuse = lease.ReuseDigest(string(Transcribe), revision[Transcribe], c.Digest, engine, p.Language)
		}
		plan = append(plan, sp)
	}
	last := lease.Spec{
		Need: lease.Need{Kind: Summarize}, Item: s.Item, Stage: stageSummarize, Settles: 1, Payload: encode(sum),
	}
	for i := range plan {
		last.After = append(last.After, uint32(i))
	}
	if !p.Fresh {
		last.Reuse = lease.ReuseDigest(string(Summarize), revision[Summarize], string(last.Payload))
	}
	return append(plan, last), nil
}

// With implements the store's planner: words by another engine.
func (Planner) With(sp lease.Spec, engine string) (lease.Spec, error) {
	switch sp.Need.Kind {
	case Transcode:
		var in TranscodePayload
		if err := decode(sp.Payload, &in); err != nil {
			return sp, err
		}
		in.Transcriber = engine // the sound is the same, and so is the identity of its work
		sp.Payload = encode(in)
	case Transcribe:
		var in TranscribePayload
		if err := decode(sp.Payload, &in); err != nil {
			return sp, err
		}
		in.Transcriber, sp.Need.Model = engine, engine
		sp.Payload = encode(in)
		if !sp.Reuse.IsZero() {
			sp.Reuse = lease.ReuseDigest(string(Transcribe), revision[Transcribe], in.Sound.String(), engine, in.Language)
		}
	case Summarize:
	default:
		return sp, fmt.Errorf("%s is not done by an engine that can be chosen", sp.Need.Kind)
	}
	return sp, nil
}

// checkTranscode is the rules of a transcode's result.
func checkTranscode(res *transcode.Result, blobs []lease.Digest) error {
	if res.NoAudio {
		if len(res.Chunks) > 0 {
			return errors.New("chunks of a film without sound")
		}
		return nil
	}
	if res.DurationMS <= 0 || len(res.Chunks) == 0 {
		return fmt.Errorf("%d ms of sound in %d chunks", res.DurationMS, len(res.Chunks))
	}
	at := int64(0)
	for i, c := range res.Chunks {
		d, err := lease.ParseDigest(c.Digest)
		switch {
		case err != nil:
			return fmt.Errorf("chunk %d: %w", i, err)
		case c.Index != i || c.FromMS != at || c.ToMS <= c.FromMS:
			return fmt.Errorf("chunk %d answers for %d to %d ms, after %d", i, c.FromMS, c.ToMS, at)
		case c.StartMS < 0 || c.StartMS > c.FromMS || c.StartMS+c.DurationMS < c.ToMS:
			return fmt.Errorf("chunk %d: its sound, %d ms from %d, does not hold %d to %d", i, c.DurationMS, c.StartMS, c.FromMS, c.ToMS)
		case blobs != nil && !slices.Contains(blobs, d):
			return fmt.Errorf("chunk %d: its sound was not delivered", i)
		}
		at = c.ToMS
	}
	if at != res.DurationMS {
		return fmt.Errorf("the chunks end at %d ms, the sound at %d", at, res.DurationMS)
	}
	return nil
}

// title is what a film is called when only its path is known.
func title(p inventory.Path) string {
	name := string(p)
	name = name[strings.LastIndexByte(name, '/')+1:]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		name = name[:dot]
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// Describe says in a few words what a shard is about, for people.
func Describe(kind lease.Kind, payload []byte) string {
	switch kind {
	case Scan:
		var p ScanPayload
		if decode(payload, &p) == nil {
			return p.Root
		}
	case Transcode:
		var p TranscodePayload
		if decode(payload, &p) == nil {
			return string(p.Path)
		}
	case Render:
		var p RenderPayload
		if decode(payload, &p) == nil {
			return string(p.Path)
		}
	case Transcribe:
		var p TranscribePayload
		if decode(payload, &p) == nil {
			return string(p.Path) + " from " + strconv.FormatInt(p.Part.FromMS/1000, 10) + " s"
		}
	case Summarize:
		var p SummarizePayload
		if decode(payload, &p) == nil {
			return p.Title
		}
	}
	return ""
}
