package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"macbatch/lease"
	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
)

// The codes of items that have no value.
const (
	codeInvalid     = "invalid_item"     // the line is not what its kind asks for
	codeRefused     = "refused"          // the server or the model will not answer it
	codeOverflow    = "context_overflow" // longer than the model's context
	codeTruncated   = "truncated_output" // the answer was cut before its end
	codeBadAnswer   = "bad_answer"       // no usable answer, again and again
	codeUnavailable = "server_failed"    // the server breaks down over it, and over nothing else
	codeUnsupported = "unsupported"      // this runtime has no such call
	codeLabel       = "no_label"         // the answer is none of the labels
	codeSchema      = "schema_mismatch"  // the answer does not meet its schema
)

// shard is a list shard under way: its items and what became of them.
type shard struct {
	task  worker.Task
	width int // items asked about at once; 0: one
	purse purse

	mu    sync.Mutex   // guards what follows but items, need and still
	items []*item.Item // nil for a line that is no item
	out   []pipeline.Outcome
	by    pipeline.Maker
	done  uint64 // items with an outcome
	good  int    // of them, with a value

	suspects map[int]error // items without a value, which another attempt may find one for

	need  lease.Need                      // the model
	still func(ctx context.Context) error // whether it is the same as at first; may be nil
}

// list runs an executor of a kind over the lines of a shard.
func list[P any](run func(ctx context.Context, s *shard, p *P) error) executor {
	return func(ctx context.Context, t worker.Task) (any, []string, []lease.Digest, error) {
		p := new(P)
		if err := pipeline.ListParams(t.Grant.Payload, p); err != nil {
			return nil, nil, nil, &worker.Released{
				Reason: "this worker cannot read the parameters: " + err.Error(), Delay: time.Minute,
				Withdraw: lease.Need{Kind: t.Grant.Kind},
			}
		}
		lines, err := t.Lines(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		s := &shard{task: t, items: make([]*item.Item, len(lines)), out: make([]pipeline.Outcome, len(lines)), suspects: map[int]error{}}
		for i, line := range lines {
			if s.items[i], err = item.Parse(line); err != nil {
				s.items[i] = nil
				s.fail(i, codeInvalid, err)
			}
		}
		began := time.Now()
		if err := run(ctx, s, p); err != nil {
			return nil, nil, nil, err
		}
		s.by.Seconds = seconds(time.Since(began))
		if err := s.settle(); err != nil {
			return nil, nil, nil, err
		}
		if s.still != nil && s.by.Digest != "" {
			if err := s.still(ctx); err != nil {
				return nil, nil, nil, err
			}
		}
		return pipeline.ListResult{By: s.by, Outcomes: s.out}, nil, nil, nil
	}
}

// value gives an item its value.
func (s *shard) value(i int, v any) error {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return fmt.Errorf("encode the value of item %d: %w", i, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[i] = pipeline.Outcome{Value: raw}
	s.good++
	s.progress()
	return nil
}

// fail says that an item will never have a value.
func (s *shard) fail(i int, code string, err error) {
	text := err.Error()
	if len(text) > lease.MaxReason {
		text = text[:lease.MaxReason]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[i] = pipeline.Outcome{Error: &pipeline.ItemError{Code: code, Message: strings.ToValidUTF8(text, "\uFFFD")}}
	s.progress()
}

// progress counts an item. The caller holds s.mu.
func (s *shard) progress() {
	s.done++
	s.task.Progress(s.done)
}

// answer notes the outcome of a request that was one item's alone; the error is
// one that ends the shard.
func (s *shard) answer(i int, v any, err error) error {
	switch code := codeOf(err); {
	case err == nil:
		return s.value(i, v)
	case code == "":
		return err
	case model.Permanent(err):
		s.fail(i, code, err)
	default:
		s.suspect(i, err)
	}
	return nil
}

func (s *shard) suspect(i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspects[i] = err
}

// codeOf is the code for an error that is an item's; "" for one that ends the shard.
func codeOf(err error) string {
	for _, c := range []struct {
		kind error
		code string
	}{
		{model.ErrOverflow, codeOverflow}, {model.ErrTruncated, codeTruncated}, {model.ErrRefused, codeRefused},
		{model.ErrBadAnswer, codeBadAnswer}, {model.ErrUnavailable, codeUnavailable}, {model.ErrStalled, codeUnavailable},
	} {
		var released *worker.Released
		var failure *worker.Failure
		if errors.Is(err, c.kind) && !errors.As(err, &released) && !errors.As(err, &failure) {
			return c.code
		}
	}
	return ""
}

// settle decides about the suspects. A server that did well by others finds no
// answer for these; one that did well by none is sick itself, and the attempt counts.
func (s *shard) settle() error {
	for i, err := range s.suspects {
		if s.good == 0 {
			f := &worker.Failure{Class: lease.Retryable, Reason: fmt.Sprintf("no item was answered; item %d: %v", int(s.task.Grant.Lines.First)+i, err)}
			if len(s.suspects) > 1 { // one alone may be its own fault
				f.Withdraw = s.need
			}
			return f
		}
	}
	for i, err := range s.suspects {
		s.fail(i, codeOf(err), err)
	}
	return nil
}

// each runs f for every item.
func (s *shard) each(ctx context.Context, f func(ctx context.Context, it *item.Item) (value any, err error)) error {
	return s.atOnce(ctx, len(s.items), func(ctx context.Context, i int) error {
		if s.items[i] == nil {
			return nil
		}
		v, err := f(ctx, s.items[i])
		if bad, ok := errors.AsType[*itemError](err); ok {
			s.fail(i, bad.code, bad.err)
			return nil
		}
		return s.answer(i, v, err)
	})
}

// atOnce runs f for 0 to n-1, as many at once as the server takes. After an error,
// which ends the shard, no more begins; what costs nothing is broken off.
func (s *shard) atOnce(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group errgroup.Group
	group.SetLimit(max(s.width, 1))
	var ended atomic.Bool
	for i := range n {
		group.Go(func() error {
			if cause := context.Cause(ctx); cause != nil || ended.Load() {
				return cause
			}
			err := f(ctx, i)
			if err != nil && !ended.Swap(true) && !s.pays() {
				cancel(err)
			}
			return err
		})
	}
	return group.Wait()
}

// pays reports whether money is being spent.
func (s *shard) pays() bool {
	s.purse.mu.Lock()
	defer s.purse.mu.Unlock()
	return s.purse.opened
}

// itemError is the error of an item that no server was asked about, or whose
// answer was judged here.
type itemError struct {
	code string
	err  error
}

func (e *itemError) Error() string { return e.code + ": " + e.err.Error() }

func invalid(err error) error { return &itemError{codeInvalid, err} }
