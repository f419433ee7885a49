package transcribe

import "context"

// Info names an engine and its model so exactly that equal values mean equal results.
type Info struct {
	Engine        string // "pocketsphinx", "whisper.cpp"
	EngineVersion string
	Model         string // base name of the model
	ModelDigest   string // "sha256:" and hex, over what the model consists of
}

// Request is one sound to be recognised.
type Request struct {
	Sound      string // path of a 16 kHz mono FLAC or WAV file
	DurationMS int64  // how long it should be; 0 when unknown
	Language   string // "en", or "auto"
	Dir        string // scratch folder, which the caller empties afterwards

	// Progress, if not nil, is told how far into the sound the engine is. It is
	// called from one goroutine at a time, and not after Transcribe returned.
	Progress func(ms int64)

	// Sure, if not nil, is asked before each request that costs money; its error
	// ends the call.
	Sure func(ctx context.Context) error
}

// Transcriber is a speech engine with its model.
type Transcriber interface {
	Info() Info

	// Parallel is how many calls of Transcribe keep this machine just busy.
	Parallel() int

	// Transcribe recognises one sound. The transcript keeps the package's rules.
	// It returns *PermanentError for a sound that can't be read or a language the
	// model doesn't know, *BusyError, *UnavailableError, *UnknownOutcomeError, the
	// context's cause, or an error that may go away.
	Transcribe(ctx context.Context, r Request) (Transcript, error)
}

// Stamp fills in which engine made t.
func (i Info) Stamp(t *Transcript) {
	t.Engine, t.EngineVersion, t.Model, t.ModelDigest = i.Engine, i.EngineVersion, i.Model, i.ModelDigest
}
