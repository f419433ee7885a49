package transcribe

import "time"

// PermanentError is returned when trying again can't help.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// BusyError is returned when the engine wants to be left alone for After. Nothing
// was done, and nothing of the sound is to blame.
type BusyError struct {
	Err   error
	After time.Duration
}

func (e *BusyError) Error() string { return e.Err.Error() }
func (e *BusyError) Unwrap() error { return e.Err }

// UnavailableError is returned when the engine, as this machine is configured,
// can serve no sound: a key that is refused, a model that is not there.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }
func (e *UnavailableError) Unwrap() error { return e.Err }

// UnknownOutcomeError is returned when a paid request was sent and no whole answer
// came: it may have been carried out and charged for. Only a person may have it
// sent again.
type UnknownOutcomeError struct{ Err error }

func (e *UnknownOutcomeError) Error() string { return "unknown outcome: " + e.Err.Error() }
func (e *UnknownOutcomeError) Unwrap() error { return e.Err }
