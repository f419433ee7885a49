package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/lease/worker"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
	"macbatch/transcribe/ocr"
)

// Tools is what this worker has: all that a payload may refer to.
type Tools struct {
	FFmpeg, FFprobe string            // absolute paths
	FFmpegVersion   string            // as it calls itself
	Encoders        []string          // for proxies, best first, as transcode.Encoders tells; none: no proxies are made
	Roots           map[string]string // name of a root → folder it is mounted at
	Transcribers    []Transcriber     // best first
	Servers         []*Server         // of models, best first
	OCR             *ocr.Tools        // nil: not installed

	// Lost, where set, is told of a root that went away, by a worker that is the
	// only one: nobody else will do what it cannot.
	Lost func(err error)
}

// Transcriber is a speech engine under the name that jobs ask for it by.
type Transcriber struct {
	Name string
	Paid bool // costs money: for jobs that name it alone
	// Minute is its price for a minute of sound, in US dollars.
	Minute float64
	transcribe.Transcriber
}

// Offer tells the control plane what the tools are able to do.
func (t *Tools) Offer() lease.Offer {
	o := lease.Offer{Kinds: []lease.Kind{pipeline.Summarize, pipeline.SummarizeText}}
	if t.FFmpeg != "" && len(t.Roots) > 0 {
		o.Kinds = append(o.Kinds, pipeline.Scan, pipeline.Transcode, pipeline.Render)
	}
	for name := range t.Roots {
		o.Roots = append(o.Roots, name)
	}
	if len(t.Transcribers) > 0 {
		o.Kinds = append(o.Kinds, pipeline.Transcribe)
	}
	if len(t.Servers) > 0 {
		o.Kinds = append(o.Kinds, pipeline.Embed, pipeline.Generate, pipeline.Classify)
	}
	if t.OCR != nil {
		o.Kinds = append(o.Kinds, pipeline.OCR)
	}
	o.Models = t.models()
	return o
}

// Executors is the closed table of kinds.
func (t *Tools) Executors() map[lease.Kind]worker.Executor {
	return map[lease.Kind]worker.Executor{
		pipeline.Scan:       executor(t.scan),
		pipeline.Transcode:  executor(t.transcode),
		pipeline.Render:     executor(t.render),
		pipeline.Transcribe: executor(t.transcribe),
		pipeline.Summarize:  executor(t.summarize),

		pipeline.Embed:         list(t.embed),
		pipeline.Generate:      list(t.generate),
		pipeline.Classify:      list(t.classify),
		pipeline.OCR:           list(t.ocr),
		pipeline.SummarizeText: list(t.summarizeTexts),
	}
}

// Slots bounds how many shards of a kind run at once, of parallel in all.
func (t *Tools) Slots(parallel int) map[lease.Kind]int {
	speech := parallel
	if len(t.Transcribers) > 0 {
		if n := t.Transcribers[0].Parallel(); n < runtime.NumCPU() {
			speech = min(speech, n)
		}
	}
	return map[lease.Kind]int{
		pipeline.Scan: 1, pipeline.Transcode: parallel, pipeline.Render: parallel, pipeline.Transcribe: speech, pipeline.Summarize: parallel,
	}
}

// executor decodes the payload of its kind and encodes the result.
type executor func(ctx context.Context, t worker.Task) (result any, files []string, digests []lease.Digest, err error)

// Execute implements worker.Executor.
func (e executor) Execute(ctx context.Context, t worker.Task) (worker.Output, error) {
	result, files, digests, err := e(ctx, t)
	if err != nil {
		return worker.Output{}, err
	}
	b, err := json.Marshal(result)
	if err != nil {
		return worker.Output{}, fmt.Errorf("encode the result: %w", err)
	}
	return worker.Output{Result: b, Files: files, Digests: digests}, nil
}

// payload reads a payload; one that this worker cannot read is not a failure of
// the shard: a newer worker may.
func payload(t worker.Task, into any) error {
	if err := wire.Unmarshal(t.Grant.Payload, into); err != nil {
		return &worker.Released{
			Reason: "this worker cannot read the payload: " + err.Error(), Delay: time.Minute,
			Withdraw: lease.Need{Kind: t.Grant.Kind},
		}
	}
	return nil
}

// root is the folder that a named root is mounted at here.
func (t *Tools) root(name string) (string, error) {
	dir, ok := t.Roots[name]
	if !ok {
		return "", &worker.Released{Reason: fmt.Sprintf("root %q is not one of this worker's", name), Withdraw: lease.Need{Root: name}}
	}
	return dir, nil
}

// unmounted gives a shard back because its root is not there at the moment: another
// worker may have it, or this one later.
func (t *Tools) unmounted(name string, err error) error {
	if t.Lost != nil {
		t.Lost(err)
		return &worker.Released{Reason: err.Error(), Delay: time.Second}
	}
	return &worker.Released{Reason: fmt.Sprintf("root %q: %v", name, err), Delay: 10 * time.Second, Withdraw: lease.Need{Root: name}}
}

// transcodeShare is how much more work the words of a film are than its sound: its
// progress counts so much less.
const transcodeShare = 20

func (t *Tools) transcode(ctx context.Context, task worker.Task) (any, []string, []lease.Digest, error) {
	var p pipeline.TranscodePayload
	if err := payload(task, &p); err != nil {
		return nil, nil, nil, err
	}
	dir, err := t.root(p.Root)
	if err != nil {
		return nil, nil, nil, err
	}
	res, err := transcode.Run(ctx, transcode.Request{
		FFmpeg: t.FFmpeg, FFprobe: t.FFprobe, Version: t.FFmpegVersion, Root: dir, Path: p.Path, Want: p.Identity, AudioLang: p.AudioLang,
		ChunkMS: p.ChunkMS, Dir: task.Dir, Progress: func(ms int64) { task.Progress(uint64(ms) / transcodeShare) },
	})
	if err != nil {
		return nil, nil, nil, t.filmError(p.Root, err)
	}
	var files []string
	var digests []lease.Digest
	for _, c := range res.Chunks {
		d, err := lease.ParseDigest(c.Digest)
		if err != nil {
			return nil, nil, nil, err
		}
		files, digests = append(files, c.File), append(digests, d)
	}
	return res, files, digests, nil
}

// filmError says what an error of transcode means for the shard.
func (t *Tools) filmError(root string, err error) error {
	var bad *transcode.MediaError
	switch {
	case errors.Is(err, inventory.ErrNoRoot), errors.Is(err, inventory.ErrEmptyRoot):
		return t.unmounted(root, err)
	case errors.Is(err, transcode.ErrSourceMissing):
		return &worker.Failure{Class: lease.Permanent, Reason: err.Error() + "; start anew to take what is there now"}
	case errors.Is(err, transcode.ErrSourceBusy): // no attempt is spent on it
		return &worker.Released{Reason: err.Error() + "; looked at again once it may be quiet", Delay: parkFor}
	case errors.Is(err, transcode.ErrSourceChanged):
		// Where it is mounted may show it as it was before. One that stays another
		// file than was scanned fails in the end: only another scan makes good for that.
		return &worker.Failure{Class: lease.Retryable, Reason: err.Error() + "; start anew to take it as it is now"}
	case errors.As(err, &bad):
		return &worker.Failure{Class: lease.Permanent, Reason: bad.Error()}
	}
	return err
}
