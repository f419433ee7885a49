package kinds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
)

const (
	waitHere    = time.Minute      // a server's rest that is waited out holding the lease
	deadDelay   = 10 * time.Second // before somebody is granted what a dead server left
	maxBreaks   = 16               // breakdowns in a row, before the server counts as broken: halving 4096 meets fewer
	tryWithin   = time.Minute      // for the smallest of requests
	maxRepeats  = 2                // of a request alone that got no usable answer
	pauseBroken = time.Second      // before a server that broke down is asked again
)

// asker makes the requests of one shard to one server.
type asker struct {
	*Server
	shard *shard
	model model.Model
	need  lease.Need

	try    func(ctx context.Context) error // the smallest request of this kind
	breaks int                             // in a row
}

// asker finds the server of a shard.
func (t *Tools) asker(ctx context.Context, s *shard, p *pipeline.ModelParams) (*asker, error) {
	server, m, err := t.server(ctx, p)
	if err != nil {
		return nil, err
	}
	s.by = pipeline.Maker{Engine: server.Engine, Model: p.Model, Digest: m.Digest, Tier: server.Tier}
	a := &asker{Server: server, shard: s, model: m, need: lease.Need{Model: p.Need()}}
	s.need = a.need
	a.try = func(ctx context.Context) error {
		_, err := a.Generate(ctx, model.GenerateRequest{Model: m.Name, Messages: messages("", "a", nil), MaxTokens: 1})
		return err
	}
	s.still = func(ctx context.Context) error {
		_, now, err := t.server(ctx, p)
		if err == nil && now != m {
			err = &worker.Failure{Class: lease.Retryable, Reason: fmt.Sprintf("model %q became another while it worked", p.Model)}
		}
		return err
	}
	return a, nil
}

// ask makes one request. A full server is waited for; one that is away, or lacks
// the model, gives the shard back; one that breaks down or falls silent is asked
// whether it is there at all. What is left is an error of this request, which a
// smaller one may not meet; alone says that there is no smaller one.
func (a *asker) ask(ctx context.Context, alone bool, request func(ctx context.Context) error) error {
	began := time.Now()
	for repeats, full := 0, false; ; {
		left, err := a.wait(ctx, waitHere)
		if err != nil {
			return err
		}
		if full && time.Since(began) > waitHere {
			left = max(left, deadDelay)
		}
		if left > 0 {
			return &worker.Released{Reason: fmt.Sprintf("runtime %s is full", a.Tier), Delay: left, Withdraw: a.need, For: left}
		}
		if a.Paid {
			if err := a.shard.task.Sure(ctx); err != nil {
				return err
			}
		}
		err = request(ctx)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return cause
		}
		var told *model.Error
		errors.As(err, &told)
		switch {
		case err == nil || model.Permanent(err):
			a.answered()
			a.breaks = 0
			return err
		case errors.Is(err, model.ErrBusy):
			a.rest(told.After)
			full = true
			continue
		case errors.Is(err, model.ErrNoModel), errors.Is(err, model.ErrDenied):
			return &worker.Released{Reason: fmt.Sprintf("runtime %s: %v", a.Tier, err), Withdraw: a.need}
		case a.Paid && told != nil && told.Unknown():
			return &worker.Failure{
				Class: lease.Permanent, Reason: fmt.Sprintf("runtime %s: unknown outcome: %v", a.Tier, err), Final: true,
			}
		case errors.Is(err, model.ErrUnavailable), errors.Is(err, model.ErrStalled):
			if err := a.broken(ctx, err); err != nil {
				return err
			}
		}
		if !alone || a.Paid {
			return err
		}
		if repeats++; repeats > maxRepeats || errors.Is(err, model.ErrStalled) {
			return err
		}
	}
}

// broken decides about a server that broke down or fell silent over a request: nil
// when it is worth to ask it for something else.
func (a *asker) broken(ctx context.Context, why error) error {
	sick := &worker.Failure{Class: lease.Retryable, Reason: fmt.Sprintf("runtime %s: %v", a.Tier, why), Withdraw: a.need}
	if a.breaks++; a.breaks >= maxBreaks {
		return sick
	}
	select {
	case <-time.After(pauseBroken):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := a.look(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &worker.Released{Reason: fmt.Sprintf("runtime %s: %v", a.Tier, why), Delay: deadDelay, Withdraw: a.need}
	}
	if !errors.Is(why, model.ErrStalled) {
		return nil
	}
	// A list of models is no proof that one of them runs.
	if a.Paid {
		return sick
	}
	within, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	if err := a.try(within); err != nil && !model.Permanent(err) {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return sick
	}
	return nil
}

// used adds up what a shard's requests took.
func (a *asker) used(u model.Usage) pipeline.Usage {
	a.shard.by.Usage.InputTokens += u.InputTokens
	a.shard.by.Usage.OutputTokens += u.OutputTokens
	return pipeline.Usage(u)
}
