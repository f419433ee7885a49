package lease

import (
	"errors"
	"fmt"
)

// The errors of the Control contract. Each survives the wire: errors.Is holds on
// both of its ends.
var (
	// ErrNotFound is returned when a thing is not there or not the caller's: the two are one answer.
	ErrNotFound = errors.New("no such thing here")

	// ErrUnauthorized is returned when a request carries no credential that is known.
	ErrUnauthorized = errors.New("credential missing or unknown")

	// ErrForbidden is returned when the caller's role does not include the operation.
	ErrForbidden = errors.New("not allowed for this credential")

	// ErrMalformed is returned when an id, a token or a request cannot be read.
	ErrMalformed = errors.New("malformed")

	// ErrInvalid is returned when a request reads well but asks for something that cannot be.
	ErrInvalid = errors.New("invalid")

	// ErrKeyReused is returned when an idempotency key comes again with another input.
	ErrKeyReused = errors.New("the key belongs to another submission")

	// ErrNeedBlob is returned when a submission names an input that is not here: upload it and submit again.
	ErrNeedBlob = errors.New("its input is not here yet")

	// ErrFenced is returned when a shard was granted again, or settled, since the fence shown.
	ErrFenced = errors.New("fence rejected")

	// ErrDuplicate is returned when the report shown is the one that settled this fence.
	ErrDuplicate = errors.New("already reported")

	// ErrConflict is returned when this fence was settled by another report.
	ErrConflict = errors.New("settled by another report")

	// ErrNotAllowed is returned when a command does not fit a shard's state.
	ErrNotAllowed = errors.New("not allowed in this state")

	// ErrTwin is returned when a worker id is in use by another live incarnation.
	ErrTwin = errors.New("another worker of this name is alive")

	// ErrFull is returned when the control host's disk has no room. Nothing changed.
	ErrFull = errors.New("control host out of disk space")

	// ErrUnknownOutcome is returned when the control plane cannot tell whether a
	// change is durable. It restarts; asking again tells.
	ErrUnknownOutcome = errors.New("outcome unknown")

	// ErrUnreachable is returned when the control plane does not answer.
	ErrUnreachable = errors.New("control plane unreachable")

	// ErrBusy is returned when the caller asks too much at once. It is one way not to be
	// reached: whoever waits and asks again then does so here.
	ErrBusy = fmt.Errorf("asked too much at once: %w", ErrUnreachable)

	// ErrTooLarge is returned when a body exceeds its limit.
	ErrTooLarge = errors.New("too large")

	// ErrOverBudget is returned when what is to be spent is beyond a job's limit.
	ErrOverBudget = errors.New("over the job's cost limit")

	// ErrBudgetHeld is returned when others hold what is left below a job's limit: later there may be room.
	ErrBudgetHeld = errors.New("the rest of the job's cost limit is reserved by others")

	// ErrDigest is returned when bytes do not have the length or digest announced.
	ErrDigest = errors.New("bytes differ from their digest")
)
