package transcribe

import "time"

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
