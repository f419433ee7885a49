package openai

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

// The caps of the best known provider, and those used where none are given.
const (
	DefaultMaxBytes = 25 << 20
	DefaultMaxMS    = 1400 * 1000
)

// The least caps with which a sound can be sent in pieces that overlap.
const (
	MinBytes = 4 << 20
	MinMS    = 60 * 1000
)

// Options describe a server.
type Options struct {
	URL      string // see Endpoint
	Model    string // what the server calls it; empty: "whisper-1"
	Key      string // sent as a bearer token; may be empty
	Paid     bool   // requests cost money: none is repeated unless it surely did nothing
	MaxBytes int64  // of a request's body; it stays below. 0: DefaultMaxBytes
	MaxMS    int64  // of a request's sound; it stays below. 0: DefaultMaxMS
	Parallel int    // requests at a time; 0: one to this machine, four elsewhere
	FFmpeg   string // absolute path

	// HTTP sends the requests. It must wait for an answer's header for as long as
	// transcribe.Silence allows at most; redirects are not followed whatever it does.
	HTTP *http.Client

	Rand func(n int64) int64 // for jitter; nil: rand.Int64N
}

type engine struct {
	Options
	endpoint *url.URL
	http     http.Client
	flac     bool
	info     transcribe.Info
	gate     gate
	limits   transcribe.Limits
	slots    chan struct{} // as many as there may be requests
}

// New returns a server as an engine. It does not contact it.
func New(o Options) (transcribe.Transcriber, error) {
	u, err := Endpoint(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Model == "" {
		o.Model = "whisper-1"
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxMS == 0 {
		o.MaxMS = DefaultMaxMS
	}
	if o.MaxBytes < MinBytes || o.MaxMS < MinMS {
		return nil, fmt.Errorf("caps of %d bytes and %d ms: at least %d and %d are needed", o.MaxBytes, o.MaxMS, MinBytes, MinMS)
	}
	local := loopback(u.Hostname())
	if o.Parallel <= 0 {
		o.Parallel = 4
		if local {
			o.Parallel = 1
		}
	}
	if o.Rand == nil {
		o.Rand = rand.Int64N
	}
	e := &engine{Options: o, endpoint: u, http: *o.HTTP, flac: !local, limits: transcribe.UsualLimits, slots: make(chan struct{}, o.Parallel)}
	e.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	// Who serves a model is part of what it is: its digest nobody tells.
	e.info = transcribe.Info{Engine: "openai", EngineVersion: u.Host, Model: o.Model}
	return e, nil
}

func (e *engine) Info() transcribe.Info { return e.info }

func (e *engine) Parallel() int { return e.Options.Parallel }

var languageCode = regexp.MustCompile(`^[a-z]{2,3}$`)

// Transcribe recognises one sound.
func (e *engine) Transcribe(ctx context.Context, r transcribe.Request) (transcribe.Transcript, error) {
	t, err := e.transcribe(ctx, r)
	if err != nil {
		return transcribe.Transcript{}, fmt.Errorf("transcribe with %s: %w", e.endpoint.Host, err)
	}
	return t, nil
}

func (e *engine) transcribe(ctx context.Context, r transcribe.Request) (t transcribe.Transcript, err error) {
	if r.Language == "auto" {
		r.Language = ""
	}
	if r.Language != "" && !languageCode.MatchString(r.Language) {
		return t, &transcribe.PermanentError{Err: fmt.Errorf("language %q: want a code such as en, or auto", r.Language)}
	}
	if err := e.gate.wait(ctx, e.Rand, waitHere); err != nil { // before the work of decoding
		return t, err
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return t, err
	}
	wav := filepath.Join(dir, "sound.wav")
	profile, err := sound.Decode(ctx, e.FFmpeg, r.Sound, wav, r.DurationMS)
	if err != nil {
		return t, err
	}
	f, err := os.Open(wav)
	if err != nil {
		return t, err
	}
	defer f.Close()
	if t, err = e.pieces(ctx, r, clip{f, profile}, dir); err != nil {
		return t, err
	}
	e.info.Stamp(&t)
	t.Params = map[string]string{"server": e.endpoint.Host, "language": r.Language}
	if r.Language == "" {
		t.Params["language"] = "auto"
	}
	return t, t.Validate(t.DurationMS)
}

// pieces has the sound transcribed in as many requests as it takes.
func (e *engine) pieces(ctx context.Context, r transcribe.Request, whole clip, dir string) (t transcribe.Transcript, err error) {
	utterances := whole.profile.Utterances()
	parts := split(utterances, whole.profile.DurationMS, e.limitMS(r.Language))
	paid := false
	for i := range parts {
		p := &parts[i]
		c := clip{whole.file, whole.profile.Part(p.StartMS, p.endMS)}
		spoken := within(utterances, p.StartMS, p.endMS)
		if p.Transcript, err = e.piece(ctx, r, c, spoken, dir, &paid); err != nil {
			if len(parts) > 1 {
				err = fmt.Errorf("piece %d of %d: %w", i+1, len(parts), err)
			}
			return t, err
		}
		if r.Progress != nil {
			r.Progress(p.ToMS)
		}
	}
	if len(parts) == 1 {
		t = parts[0].Transcript
		whole.profile.Triage(&t, utterances)
		return t, nil
	}
	all := make([]transcribe.Part, len(parts))
	for i, p := range parts {
		all[i] = p.Part
	}
	if t, err = transcribe.Join(all); err == nil {
		whole.profile.Triage(&t, utterances)
	}
	return t, err
}

// piece has one piece transcribed; nobody speaks in one without utterances.
func (e *engine) piece(ctx context.Context, r transcribe.Request, c clip, utterances []sound.Span, dir string, paid *bool) (t transcribe.Transcript, err error) {
	if len(utterances) > 0 {
		body, err := e.form(ctx, c, r.Language, dir)
		if err != nil {
			return t, err
		}
		b, err := e.ask(ctx, body, c.profile.DurationMS, r.Sure, *paid)
		if err = errors.Join(err, body.close()); err != nil {
			return t, err
		}
		*paid = e.Paid
		if t, err = read(b, utterances, c.profile.DurationMS); err != nil {
			return t, err
		}
		if len(t.Segments) == 0 && c.profile.Speech() {
			e.gate.empty()
			return t, fmt.Errorf("answered with no words for %d utterances of speech", len(utterances))
		}
		e.gate.good()
	}
	if t.Language == "" {
		t.Language = r.Language
	}
	if t.DurationMS = c.profile.DurationMS; len(t.Segments) == 0 {
		t.Flag(transcribe.NoSpeech)
	}
	return t, nil
}
