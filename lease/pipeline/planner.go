package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/wire"
	"macbatch/summarize"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// maxJSON bounds a payload or result that is decoded.
const maxJSON = 64 << 20

// Planner implements the store's planner for all compiled-in kinds.
type Planner struct{}

// Start implements store.Planner.
func (Planner) Start(kind lease.Kind, params []byte) (lease.Plan, error) {
	if _, ok := lists[kind]; ok {
		return nil, fmt.Errorf("a job of kind %q works on an input, and none is named", kind)
	}
	if !OfFilms(kind) {
		return nil, fmt.Errorf("kind %q is not known", kind)
	}
	p, err := Params(params)
	if err != nil {
		return nil, err
	}
	if kind != p.Kind() {
		return nil, fmt.Errorf("parameters: a job of kind %q and preset %q", kind, string(p.Preset))
	}
	return startLibrary(p), nil
}

// Params reads and checks the parameters of a job over films.
func Params(b []byte) (*LibraryParams, error) {
	var p LibraryParams
	if err := decode(b, &p); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return &p, nil
}

// Accept implements store.Planner. A nil blobs means that they were looked at before.
func (Planner) Accept(job *lease.Job, s *lease.Shard, result []byte, blobs []lease.Digest) (lease.Acceptance, error) {
	if s.Range != (lease.Range{}) {
		return acceptList(job, s, result)
	}
	return acceptFilm(job, s, result, blobs)
}

// acceptFilm is Accept for the pipelines over films.
func acceptFilm(job *lease.Job, s *lease.Shard, result []byte, blobs []lease.Digest) (means lease.Acceptance, err error) {
	p, err := Params(job.Params)
	if err != nil {
		return means, err
	}
	switch s.Need.Kind {
	case Scan:
		var in ScanPayload
		var res inventory.Result
		if err := decode(s.Payload, &in); err != nil {
			return means, fmt.Errorf("scan payload: %w", err)
		}
		if err := decode(result, &res); err != nil {
			return means, fmt.Errorf("scan result: %w", err)
		}
		means.Plan, err = afterScan(p, &in, &res, blobs)
		return means, err
	case Transcode:
		var in TranscodePayload
		var res transcode.Result
		if err := decode(s.Payload, &in); err != nil {
			return means, fmt.Errorf("transcode payload: %w", err)
		}
		if err := decode(result, &res); err != nil {
			return means, fmt.Errorf("transcode result: %w", err)
		}
		means.Plan, err = afterTranscode(p, s, &in, &res, blobs)
		return means, err
	case Render:
		var in RenderPayload
		var res transcode.Rendition
		if err := decode(s.Payload, &in); err != nil {
			return means, fmt.Errorf("render payload: %w", err)
		}
		if err := decode(result, &res); err != nil {
			return means, fmt.Errorf("rendition: %w", err)
		}
		return acceptRendition(&in, &res, blobs)
	case Transcribe:
		var in TranscribePayload
		var res transcribe.Transcript
		if err := decode(s.Payload, &in); err != nil {
			return means, fmt.Errorf("transcribe payload: %w", err)
		}
		if err := decode(result, &res); err != nil {
			return means, fmt.Errorf("transcript: %w", err)
		}
		means.Maker = lease.Maker{Engine: res.Engine, Model: res.Model}
		return means, checkTranscript(&in, &res)
	case Summarize:
		var res summarize.Summary
		if err := decode(result, &res); err != nil {
			return means, fmt.Errorf("summary: %w", err)
		}
		if res.Engine == "" || len(res.Sentences) == 0 && !res.NoSpeech {
			return means, fmt.Errorf("summary by %q of %d sentences says nothing", res.Engine, res.Of)
		}
		means.Maker = lease.Maker{Engine: res.Engine}
		return means, nil
	}
	return means, fmt.Errorf("kind %q is not known", s.Need.Kind)
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these types always encode
	}
	return b
}

func decode(b []byte, into any) error { return wire.Decode(bytes.NewReader(b), maxJSON, into) }
