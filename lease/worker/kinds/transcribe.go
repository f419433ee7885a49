package kinds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/transcribe"
)

func (t *Tools) transcribe(ctx context.Context, task worker.Task) (any, []string, []lease.Digest, error) {
	var p pipeline.TranscribePayload
	if err := payload(task, &p); err != nil {
		return nil, nil, nil, err
	}
	engine, err := t.transcriber(p.Transcriber)
	if err != nil {
		return nil, nil, nil, err
	}
	sound, err := task.Blob(ctx, p.Sound)
	if err != nil {
		return nil, nil, nil, err
	}
	language := p.Language
	if language == "" {
		language = "auto"
	}
	res, err := engine.Transcribe(ctx, transcribe.Request{
		Sound: sound, DurationMS: p.DurationMS, Language: language, Dir: task.Dir,
		Progress: func(ms int64) { task.Progress(uint64(ms)) }, Sure: task.Sure,
	})
	if err != nil {
		return nil, nil, nil, speechError(err, lease.Need{Kind: pipeline.Transcribe, Model: p.Transcriber})
	}
	return res, nil, nil, nil
}

// speechError says what an engine's error means for the shard, which needed need.
func speechError(err error, need lease.Need) error {
	if _, is := errors.AsType[*transcribe.UnknownOutcomeError](err); is {
		// To try again may mean to pay twice: that is for a person to say.
		return &worker.Failure{Class: lease.Permanent, Reason: err.Error(), Final: true}
	}
	if _, is := errors.AsType[*transcribe.PermanentError](err); is {
		return &worker.Failure{Class: lease.Permanent, Reason: err.Error()}
	}
	if busy, is := errors.AsType[*transcribe.BusyError](err); is {
		return &worker.Released{Reason: err.Error(), Delay: busy.After, Withdraw: need, For: busy.After}
	}
	if _, is := errors.AsType[*transcribe.UnavailableError](err); is {
		return &worker.Released{Reason: err.Error(), Delay: unavailableDelay, Withdraw: need}
	}
	return err
}

// unavailableDelay is how long a shard rests that an engine could not be used for:
// another worker may have a better one.
const unavailableDelay = 10 * time.Second

// transcriber is the engine of a name; without one the first that costs nothing.
func (t *Tools) transcriber(name string) (transcribe.Transcriber, error) {
	for _, tr := range t.Transcribers {
		if tr.Name == name || name == "" && !tr.Paid {
			return tr, nil
		}
	}
	if name == "" {
		return nil, &worker.Released{Reason: "all transcribers of this worker cost money: the job must name one", Delay: time.Minute}
	}
	return nil, &worker.Released{
		Reason:   fmt.Sprintf("transcriber %q is not installed on this worker", name),
		Withdraw: lease.Need{Kind: pipeline.Transcribe, Model: name},
	}
}
