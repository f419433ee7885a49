package kinds

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
	breaks atomic.Int32                    // in a row
	place  uint64                          // among the shards of the server
}

// asker finds the server of a shard.
func (t *Tools) asker(ctx context.Context, s *shard, p *pipeline.ModelParams) (*asker, error) {
	server, m, err := t.server(ctx, p, (*Server).lately)
	if _, lacks := errors.AsType[*worker.Released](err); lacks { // it may have come since
		server, m, err = t.server(ctx, p, (*Server).look)
	}
	if err != nil {
		return nil, err
	}
	s.by = pipeline.Maker{Engine: server.Engine, Model: p.Model, Digest: m.Digest, Tier: server.Tier}
	a := &asker{Server: server, shard: s, model: m, need: lease.Need{Model: p.Need()}, place: server.lanes.begin()}
	s.width = server.Parallel
	s.need = a.need
	a.try = func(ctx context.Context) error {
		_, err := a.Generate(ctx, model.GenerateRequest{Model: m.Name, Messages: messages("", "a", nil), MaxTokens: 1})
		return err
	}
	s.still = func(ctx context.Context) error {
		_, now, err := t.server(ctx, p, (*Server).look)
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
// smaller one may not meet; alone says that there is no smaller one. A request
// that is paid is made within what it costs at most.
func (a *asker) ask(ctx context.Context, alone bool, m most, request func(ctx context.Context) (model.Usage, error)) (pipeline.Usage, error) {
	began := time.Now()
	for repeats, full := 0, false; ; {
		left, err := a.wait(ctx, waitHere)
		if err != nil {
			return pipeline.Usage{}, err
		}
		if full && time.Since(began) > waitHere {
			left = max(left, deadDelay)
		}
		if left > 0 {
			return pipeline.Usage{}, &worker.Released{Reason: fmt.Sprintf("runtime %s is full", a.Tier), Delay: left, Withdraw: a.need, For: left}
		}
		used, err := a.once(ctx, m, request)
		if err == nil {
			return used, nil
		}
		if failure, final := errors.AsType[*worker.Failure](err); final && failure.Final {
			return used, err
		}
		if cause := context.Cause(ctx); cause != nil {
			return used, cause
		}
		var told *model.Error
		errors.As(err, &told)
		switch {
		case model.Permanent(err):
			return used, err
		case errors.Is(err, model.ErrBusy):
			a.rest(told.After)
			full = true
			continue
		case errors.Is(err, model.ErrNoModel), errors.Is(err, model.ErrDenied):
			return used, &worker.Released{Reason: fmt.Sprintf("runtime %s: %v", a.Tier, err), Withdraw: a.need}
		case errors.Is(err, model.ErrUnavailable), errors.Is(err, model.ErrStalled):
			if err := a.broken(ctx, err); err != nil {
				return used, err
			}
		}
		if !alone || a.Paid || told == nil {
			return used, err
		}
		if repeats++; repeats > maxRepeats || errors.Is(err, model.ErrStalled) {
			return used, err
		}
	}
}

// once makes a request in its lane, and keeps the books.
func (a *asker) once(ctx context.Context, m most, request func(ctx context.Context) (model.Usage, error)) (used pipeline.Usage, err error) {
	bound := a.Price.Of(m.in, m.out)
	leave, err := a.enter(ctx, bound)
	if err != nil {
		return used, err
	}
	defer leave()
	began := time.Now()
	u, err := request(ctx)
	used = pipeline.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Seconds: seconds(time.Since(began))}
	if a.Paid {
		used.Cost = a.billed(u, err, bound)
		a.closed(bound, used.Cost)
		told, _ := errors.AsType[*model.Error](err)
		if err != nil && (context.Cause(ctx) != nil || told == nil || told.Unknown()) {
			return used, lostPaid(a.Tier, err)
		}
	}
	if err == nil || model.Permanent(err) {
		a.answered()
		a.breaks.Store(0)
	}
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	usage := &a.shard.by.Usage
	at := usage.Seconds // the shard's own time is told beside it
	usage.Add(used)
	usage.Seconds = at
	return used, err
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// broken decides about a server that broke down or fell silent over a request: nil
// when it is worth to ask it for something else.
func (a *asker) broken(ctx context.Context, why error) error {
	sick := &worker.Failure{Class: lease.Retryable, Reason: fmt.Sprintf("runtime %s: %v", a.Tier, why), Withdraw: a.need}
	if a.breaks.Add(1) >= maxBreaks {
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
