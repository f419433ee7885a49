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
	sure, sent := task.Sure, 0
	cost := lease.Dollars(engine.Minute * float64(p.DurationMS) / 60_000)
	if engine.Paid {
		switch err := task.Intend(ctx, cost, true); {
		case errors.Is(err, lease.ErrOverBudget):
			return nil, nil, nil, &worker.Failure{Class: lease.Permanent, Reason: err.Error()}
		case errors.Is(err, lease.ErrBudgetHeld):
			return nil, nil, nil, &worker.Released{Reason: err.Error(), Delay: budgetDelay}
		case err != nil:
			return nil, nil, nil, err
		}
		sure = func(ctx context.Context) error {
			err := task.Sure(ctx)
			if err == nil {
				sent++
				task.Spent(cost) // from here on it may have been
			}
			return err
		}
	}
	res, err := engine.Transcribe(ctx, transcribe.Request{
		Sound: sound, DurationMS: p.DurationMS, Language: language, Dir: task.Dir,
		Progress: func(ms int64) { task.Progress(uint64(ms)) }, Sure: sure,
	})
	if err != nil {
		_, busy := errors.AsType[*transcribe.BusyError](err)
		if _, away := errors.AsType[*transcribe.UnavailableError](err); engine.Paid && sent == 1 && (busy || away) {
			task.Spent(0) // the one request was turned away
		}
		return nil, nil, nil, speechError(err, lease.Need{Kind: pipeline.Transcribe, Model: p.Transcriber})
	}
	return res, nil, nil, nil
}

// speechError says what an engine's error means for the shard, which needed need.
func speechError(err error, need lease.Need) error {
	if _, is := errors.AsType[*transcribe.UnknownOutcomeError](err); is {
		// To try again may mean to pay twice: that is for a person to say.
		return &worker.Failure{Class: lease.Unknown, Reason: err.Error(), Final: true}
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
func (t *Tools) transcriber(name string) (*Transcriber, error) {
	for i := range t.Transcribers {
		if tr := &t.Transcribers[i]; tr.Name == name || name == "" && !tr.Paid {
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
