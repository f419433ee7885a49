package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"macbatch/lease"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
)

// Price is what a server asks, in US dollars for a million tokens.
type Price struct{ In, Out float64 }

// Of is the price of so many tokens.
func (p Price) Of(in, out int) lease.Cost {
	return lease.Dollars((float64(in)*p.In + float64(out)*p.Out) / 1e6)
}

// The bounds of a paid request that nobody else bounds.
const (
	answerTokens = 4096  // of an answer: the server is told so
	passedTokens = 16384 // of an answer to a body that says nothing and goes as it is
	imageTokens  = 16384 // of an image
	turnTokens   = 64    // of what is put around a message or a text
)

const (
	codeBudget  = "over_budget" // the job's cost limit leaves no room for it
	budgetDelay = 10 * time.Second
	budgetPause = time.Second
	budgetWait  = 30 * time.Second // for room, by a shard that spent nothing
)

// most is a bound of what a request takes. No token is shorter than a byte.
type most struct{ in, out int }

func mostOf(q *model.GenerateRequest) most {
	m := most{in: len(q.Schema), out: q.MaxTokens}
	for _, t := range q.Messages {
		m.in += len(t.Text) + turnTokens + len(t.Images)*imageTokens
	}
	return m
}

func mostOfTexts(texts []string) most {
	m := most{}
	for _, t := range texts {
		m.in += len(t) + turnTokens
	}
	return m
}

// mostOfBody bounds a body that goes as it is; bound says whether the answer has one.
func mostOfBody(body []byte) (m most, bound bool) {
	var b struct {
		Max       *int            `json:"max_tokens"`
		MaxAnswer *int            `json:"max_completion_tokens"`
		MaxOutput *int            `json:"max_output_tokens"`
		N         *int            `json:"n"`
		Best      *int            `json:"best_of"`
		Input     json.RawMessage `json:"input"`
	}
	m.in, m.out = len(body)+turnTokens, passedTokens
	if json.Unmarshal(body, &b) != nil {
		return m, false
	}
	for _, n := range []*int{b.Max, b.MaxAnswer, b.MaxOutput} {
		if n != nil && *n > 0 {
			m.out, bound = *n, true
		}
	}
	times := 1
	for _, n := range []*int{b.N, b.Best} {
		if n != nil {
			times = max(times, *n)
		}
	}
	m.out *= min(times, 1000)
	return m, bound
}

// purse is what a shard spends under its lease.
type purse struct {
	mu     sync.Mutex
	spent  lease.Cost
	flying lease.Cost // bounds of the requests under way
	held   lease.Cost // reserved by the intent
	opened bool
	tried  time.Time     // first in vain
	given  error         // why the shard is given back: nothing is spent any more
	ended  chan struct{} // closed when a request ends; nil: nobody waits for it
}

// enter waits for a lane of the server and, where it is paid, reserves what the
// request costs at most. Where others hold the room for it, it waits outside of the
// lane, until they end or it is told to; a shard that spent nothing is given back.
func (a *asker) enter(ctx context.Context, bound lease.Cost) (leave func(), err error) {
	for {
		leave := func() {}
		if a.Parallel > 0 {
			if err := a.lanes.enter(ctx, a.place, a.Parallel); err != nil {
				return nil, err
			}
			leave = a.lanes.leave
		}
		if !a.Paid {
			return leave, nil
		}
		ended, err := a.shard.purse.open(ctx, &a.shard.task, bound)
		if err == nil {
			if err = a.shard.task.Sure(ctx); err == nil {
				return leave, nil
			}
			a.closed(bound, 0)
		}
		leave()
		switch {
		case errors.Is(err, lease.ErrOverBudget):
			return nil, &itemError{codeBudget, err}
		case !errors.Is(err, lease.ErrBudgetHeld):
			return nil, err
		}
		select {
		case <-ended:
		case <-time.After(budgetPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open is one try. With lease.ErrBudgetHeld comes what tells that a request ended.
func (p *purse) open(ctx context.Context, task *worker.Task, bound lease.Cost) (ended <-chan struct{}, err error) {
	p.mu.Lock() // one intent at a time, each covers all that flies
	defer p.mu.Unlock()
	if p.given != nil {
		return nil, p.given
	}
	all := p.spent.Plus(p.flying).Plus(bound)
	if !p.opened || all > p.held {
		if err := task.Intend(ctx, all, p.flying == 0); err != nil {
			if p.tried.IsZero() {
				p.tried = time.Now()
			}
			if errors.Is(err, lease.ErrBudgetHeld) && !p.opened && time.Since(p.tried) >= budgetWait {
				p.given = &worker.Released{Reason: err.Error(), Delay: budgetDelay}
				return nil, p.given
			}
			if p.ended == nil {
				p.ended = make(chan struct{})
			}
			return p.ended, err
		}
		p.opened, p.held = true, all
	}
	p.flying += bound
	return nil, nil
}

// closed books a request that was made.
func (a *asker) closed(bound, cost lease.Cost) {
	p := &a.shard.purse
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying -= bound
	p.spent = p.spent.Plus(cost)
	if p.ended != nil {
		close(p.ended)
		p.ended = nil
	}
	a.shard.task.Spent(p.spent)
}

// billed is what a request that ended so costs: as the server counts, else at most.
func (a *asker) billed(u model.Usage, err error, bound lease.Cost) lease.Cost {
	var told *model.Error
	switch {
	case u != (model.Usage{}):
		return a.Price.Of(u.InputTokens, u.OutputTokens)
	case err == nil:
		return bound
	case errors.As(err, &told) && told.Status/100 != 2 && told.Status != 0:
		return 0 // it was refused
	case told != nil && told.Status == 0 && !told.Unknown() && !answered(err):
		return 0 // it was not sent
	}
	return bound
}

// answered reports whether an error is about an answer that came.
func answered(err error) bool {
	return errors.Is(err, model.ErrTruncated) || errors.Is(err, model.ErrBadAnswer) || errors.Is(err, model.ErrRefused) || errors.Is(err, model.ErrOverflow)
}

// lostPaid is the end of a shard whose paid request got no answer.
func lostPaid(tier string, err error) error {
	return &worker.Failure{Class: lease.Unknown, Reason: fmt.Sprintf("runtime %s: unknown outcome: %v", tier, err), Final: true}
}
