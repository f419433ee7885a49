package worker

import (
	"context"
	"errors"
	"time"

	"macbatch/lease"
)

// ErrLeaseLost is the cause of an executor's ended context when the control
// plane gave the shard to somebody else, or wants it no more.
var ErrLeaseLost = errors.New("lease lost")

// Task is one attempt at a shard, as its executor sees it.
type Task struct {
	Grant lease.Grant
	Dir   string // scratch folder of this attempt, removed after it

	// Progress tells how much is done, in the unit of Grant.Work.
	Progress func(work uint64)

	// Blob fetches a blob into Dir and returns its path there. Its bytes were
	// checked. It tries again for as long as ctx lasts while the control plane
	// is away.
	Blob func(ctx context.Context, d lease.Digest) (path string, err error)

	// Lines fetches the lines of Grant.Lines, checked, each without its end. The
	// result of a list shard has an outcome for each of them, in order.
	Lines func(ctx context.Context) ([][]byte, error)

	// Need returns the bytes of Grant.Needs[i], checked.
	Need func(ctx context.Context, i int) ([]byte, error)

	// Sure returns nil when the lease surely holds. It asks the control plane
	// where the clock leaves that open. Call it before what can't be undone,
	// such as a paid request.
	Sure func(ctx context.Context) error

	// Intend returns nil once the control plane knows that up to reserve may be spent
	// under this lease in all, and the lease surely holds: call it before a request
	// that must be paid. idle: none is under way. It outlasts outages.
	// lease.ErrOverBudget: the job may not spend so much; lease.ErrBudgetHeld: not
	// now. Every other error ends the attempt.
	Intend func(ctx context.Context, reserve lease.Cost, idle bool) error

	// Room returns nil when the disks have room for so many bytes above what must stay
	// free, and what gives the shard back when not.
	Room func(bytes uint64) error

	// Spent tells what was spent so far under this lease; the report tells it on.
	Spent func(c lease.Cost)
}

// Output is what a successful attempt yields.
type Output struct {
	Result []byte   // JSON, of the kind's own shape
	Files  []string // regular files the result speaks of; they are moved into the spool

	// Digests are those of Files, in order, and after them those of blobs that
	// the result speaks of and the control plane already has. When empty, the
	// files are hashed here.
	Digests []lease.Digest
}

// Executor does the work of one kind. Execute must return soon after its
// context ended, leaving no process or goroutine behind.
//
// It returns *Failure for a failed attempt and *Released to give the shard back.
// Any other error counts as a retryable failure.
type Executor interface {
	Execute(ctx context.Context, t Task) (Output, error)
}

// Failure is the error of an attempt that failed.
type Failure struct {
	Class    lease.FailureClass // lease.Retryable, lease.Permanent or lease.Unknown
	Reason   string
	Final    bool       // true whether or not the attempt was told to stop: something was done that can't be undone
	Withdraw lease.Need // as in Released: what turned out to be sick
}

func (f *Failure) Error() string { return string(f.Class) + " failure: " + f.Reason }

// Released is the error of an attempt that should not count: the shard is given
// back.
type Released struct {
	Reason string
	Delay  time.Duration // nobody is granted the shard for so long

	// Withdraw names what this worker lacks: it is not offered until a re-check
	// finds it again. With a Model, that model is withdrawn; else with a Root,
	// that root; else the Kind. Zero withdraws nothing.
	Withdraw lease.Need
	For      time.Duration // it is offered again after so long, without a re-check; 0: see above
}

func (r *Released) Error() string { return "released: " + r.Reason }
