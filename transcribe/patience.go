package transcribe

import (
	"context"
	"errors"
	"time"
)

// ErrTooSlow is returned when an engine was not done within its Patience.
var ErrTooSlow = errors.New("not done in the time allowed")

// Limits bound a run of an engine over a sound of ms; tests set shorter ones.
type Limits struct {
	Silence, Patience func(ms int64) time.Duration
}

// UsualLimits are Silence and Patience.
var UsualLimits = Limits{Silence, Patience}

// Within returns a context that ends with ErrTooSlow when the patience does.
func (l Limits) Within(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.Patience(ms), ErrTooSlow)
}

// Silence is how long an engine may go without a sign of life over a sound of ms:
// the time to load a model, and as far as the sound goes what a large one on a
// slow machine takes for the half minute that it hears at once, five times over.
func Silence(ms int64) time.Duration {
	return min(2*time.Minute+10*time.Duration(max(ms, 0))*time.Millisecond, 30*time.Minute)
}

// Patience is how long an engine may take over a sound of ms in all. It ends one
// that says the same words for ever.
func Patience(ms int64) time.Duration {
	return 5*time.Minute + 20*time.Duration(max(ms, 0))*time.Millisecond
}
