package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"macbatch/lease"
)

// restRelease is how long a shard rests that an executor gave back without
// saying what should change: it would be granted again at once, for ever.
const restRelease = 30 * time.Second

// key names a lease.
type key struct {
	shard lease.ShardID
	fence lease.Fence
}

// task is a lease from its grant until its outcome is in the spool or given back.
type task struct {
	grant  lease.Grant
	store  lease.StoreID // that granted it
	dir    string
	ctx    context.Context // of the executor; its cause tells why it ended
	cancel context.CancelCauseFunc
	work   atomic.Uint64
	signs  atomic.Uint64 // of progress
	waits  atomic.Int32  // calls that wait for the control plane
	spent  atomic.Uint64 // lease.Cost

	spoolFailed bool // a report could not be kept, for a reason that stays

	admitted chan struct{} // closed when it has a slot
	began    time.Duration // on the monotonic clock

	// Guarded by Agent.mu.
	phase lease.Phase
	slot  bool      // it has one
	loads bool      // its model counts as in use
	held  time.Time // wall clock when what last granted or renewed the lease was sent

	counted uint64        // signs, when they were looked at last
	moved   time.Duration // when there was a new one, on the monotonic clock
}

func (t *task) key() key { return key{t.grant.Shard, t.grant.Fence} }

func (t *task) attrs() slog.Attr {
	return slog.Group("lease", "shard", t.grant.Shard, "fence", t.grant.Fence, "kind", t.grant.Kind)
}

// attempt runs a task to its end.
func (a *Agent) attempt(t *task) {
	defer a.running.Done()
	defer a.forget(t)
	defer t.cancel(nil)
	out, err := a.execute(t)
	a.mu.Lock()
	if t.phase == lease.Running {
		t.phase = lease.Spooled // or about to be
	}
	a.unuse(t)
	a.mu.Unlock()
	if err == nil && t.ctx.Err() == nil {
		a.learn(t, a.mono()-t.began)
	}
	a.conclude(t, out, err)
	if err := os.RemoveAll(t.dir); err != nil {
		a.log.Warn("work folder stays", t.attrs(), "err", err)
	}
}

// execute starts the executor once the lease is sure, and survives its panics.
func (a *Agent) execute(t *task) (out Output, err error) {
	select {
	case <-t.admitted:
	case <-t.ctx.Done():
		return Output{}, context.Cause(t.ctx)
	}
	if err := a.sure(t.ctx, t); err != nil {
		return Output{}, err
	}
	a.mu.Lock()
	t.phase, t.began = lease.Running, a.mono()
	t.moved = t.began
	a.use(t)
	a.mu.Unlock()
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return Output{}, fmt.Errorf("make work folder: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("executor panicked", t.attrs(), "panic", p, "stack", string(debug.Stack()))
			err = &Failure{Class: lease.Retryable, Reason: fmt.Sprintf("panic: %v", p)}
		}
	}()
	return a.cfg.Executors[t.grant.Kind].Execute(t.ctx, Task{
		Grant:    t.grant,
		Dir:      t.dir,
		Progress: t.progress,
		Blob: func(ctx context.Context, d lease.Digest) (string, error) {
			defer t.waiting()()
			return a.fetch(ctx, t, d)
		},
		Lines: func(ctx context.Context) ([][]byte, error) {
			defer t.waiting()()
			return a.lines(ctx, t)
		},
		Need: func(ctx context.Context, i int) ([]byte, error) {
			defer t.waiting()()
			return a.need(ctx, t, i)
		},
		Sure: func(ctx context.Context) error {
			defer t.waiting()()
			return a.sure(ctx, t)
		},
		Intend: func(ctx context.Context, reserve lease.Cost, idle bool) error {
			defer t.waiting()()
			return a.intend(ctx, t, reserve, idle)
		},
		Room:  func(bytes uint64) error { return a.room(t.grant.Kind, bytes) },
		Spent: func(c lease.Cost) { t.spent.Store(uint64(c)) },
	})
}

// conclude turns the end of an attempt into a spooled report or a release.
func (a *Agent) conclude(t *task, out Output, err error) {
	cause := context.Cause(t.ctx)
	var released *Released
	var failure *Failure
	final := errors.As(err, &failure) && failure.Final
	switch {
	case errors.Is(cause, ErrLeaseLost):
		a.log.Info("dropped: lease lost", t.attrs())
	case errors.Is(cause, errStalled) && err != nil && !final:
		a.fail(t, lease.Retryable, cause.Error())
	case cause != nil && err != nil && !final:
		a.give(t, cause.Error(), 0)
	case err == nil:
		a.succeed(t, out)
	case errors.As(err, &released):
		a.withdraw(released.Withdraw, released.For, released.Reason)
		delay := released.Delay
		if delay <= 0 && released.Withdraw == (lease.Need{}) {
			delay = restRelease
		}
		a.give(t, released.Reason, delay)
	case diskFull(err):
		a.hold(err)
		a.give(t, err.Error(), 0)
	case errors.Is(err, lease.ErrUnauthorized), errors.Is(err, lease.ErrTwin):
		a.give(t, err.Error(), restRelease) // it says nothing of the shard; this worker is about to end
	case errors.As(err, &failure):
		a.withdraw(failure.Withdraw, 0, failure.Reason)
		a.fail(t, failure.Class, failure.Reason)
	default:
		a.fail(t, lease.Retryable, err.Error())
	}
}

// succeed reports a result.
func (a *Agent) succeed(t *task, out Output) {
	if !json.Valid(out.Result) || !utf8.Valid(out.Result) {
		a.fail(t, lease.Retryable, "the result is not JSON")
		return
	}
	// The digest is of the bytes that arrive, and JSON in JSON is re-spaced and
	// escaped on its way. What Marshal wrote once it writes unchanged again.
	result, err := json.Marshal(json.RawMessage(out.Result))
	if err != nil {
		a.fail(t, lease.Retryable, "encode result: "+err.Error())
		return
	}
	r := lease.Report{
		Shard: t.grant.Shard, Fence: t.grant.Fence, Token: t.grant.Token,
		Outcome: lease.OutcomeDone, Digest: lease.DigestOf(result), Bytes: int64(len(result)), Cost: lease.Cost(t.spent.Load()),
	}
	files, digests := out.Files, out.Digests
	if len(digests) == 0 {
		if digests, err = hashFiles(files); err != nil {
			a.fail(t, lease.Retryable, "read output: "+err.Error())
			return
		}
	}
	if len(result) <= lease.InlineResult {
		r.Result = result
	} else {
		file := filepath.Join(t.dir, ".result")
		if !a.untilRoom(t, func() error { return os.WriteFile(file, result, 0o600) }) {
			return
		}
		files, digests = append(files[:len(files):len(files)], file), append(digests[:len(digests):len(digests)], r.Digest)
	}
	seen := map[lease.Digest]bool{}
	for _, d := range digests {
		if !seen[d] {
			seen[d] = true
			r.Blobs = append(r.Blobs, d)
		}
	}
	a.report(t, r, files)
}

// fail reports a failed attempt.
func (a *Agent) fail(t *task, class lease.FailureClass, reason string) {
	if class != lease.Permanent && class != lease.Unknown {
		class = lease.Retryable
	}
	reason = legible(reason)
	a.log.Info("attempt failed", t.attrs(), "class", class, "reason", reason)
	a.report(t, lease.Report{
		Shard: t.grant.Shard, Fence: t.grant.Fence, Token: t.grant.Token,
		Outcome: lease.OutcomeFailed, Digest: lease.FailureDigest(class, reason), Class: class, Reason: reason, Cost: lease.Cost(t.spent.Load()),
	}, nil)
}

// report puts a report into the spool. A full disk is waited out: the work is
// done, and the lease is kept meanwhile.
func (a *Agent) report(t *task, r lease.Report, files []string) {
	b, err := json.Marshal(body{r, t.store})
	if err != nil { // only by a bug here: what comes from outside was checked
		a.give(t, "encode report: "+err.Error(), restRelease)
		return
	}
	a.untilRoom(t, func() error {
		e, err := a.cfg.Spool.Add(r.Shard.String(), uint64(r.Fence), a.wall(), b, files)
		if err != nil {
			return err
		}
		for _, b := range e.Blobs {
			if d, err := lease.ParseDigest(b.Digest); err != nil || !slices.Contains(r.Blobs, d) {
				if err := a.cfg.Spool.Remove(e.Name); err != nil {
					return err
				}
				return fmt.Errorf("an output file has digest %s, which the result does not speak of", b.Digest)
			}
		}
		a.mail.note(e)
		return nil
	})
}

// untilRoom runs f again and again while the disk is full. When f fails
// otherwise the attempt is reported as failed; when the context ends first the
// shard is given back. It reports whether f succeeded.
func (a *Agent) untilRoom(t *task, f func() error) bool {
	for {
		err := f()
		switch {
		case err == nil:
			return true
		case !diskFull(err) && t.spoolFailed:
			a.give(t, err.Error(), restRelease)
			return false
		case !diskFull(err):
			t.spoolFailed = true
			a.fail(t, lease.Retryable, "keep result: "+err.Error())
			return false
		}
		a.hold(err)
		select {
		case <-time.After(diskRetry):
		case <-t.ctx.Done():
			if cause := context.Cause(t.ctx); !errors.Is(cause, ErrLeaseLost) {
				a.give(t, cause.Error()+": "+err.Error(), 0)
			}
			return false
		}
	}
}

// legible makes text fit to be a reason: no control characters, bounded.
func legible(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if s == "" {
		return "no reason given"
	}
	if len(s) > lease.MaxReason {
		s = strings.ToValidUTF8(s[:lease.MaxReason], "")
	}
	return s
}

func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
