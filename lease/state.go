package lease

import "fmt"

// State is where a shard stands. Lapsed is not among them: it is a leased shard
// past its deadline, derived and never written.
type State uint8

// The states of a shard. The last three are terminal: nothing leaves them.
const (
	Blocked  State = iota + 1 // waits for other shards
	Ready                     // may be claimed, once its back-off is over
	Leased                    // held by a worker
	Done                      // has an accepted result
	Failed                    // has none and will get none
	Canceled                  // its job was canceled first
)

// States lists all states in order.
var States = []State{Blocked, Ready, Leased, Done, Failed, Canceled}

var stateNames = [...]string{"", "blocked", "ready", "leased", "done", "failed", "canceled"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Terminal reports whether nothing leaves s.
func (s State) Terminal() bool { return s == Done || s == Failed || s == Canceled }

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for i, n := range stateNames {
		if i > 0 && n == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("state %q: %w", b, ErrMalformed)
}

// JobState is where a job stands, derived from its marks and counts.
type JobState string

// The states of a job. The last four are terminal.
const (
	JobRunning  JobState = "running"
	JobPaused   JobState = "paused"
	JobDone     JobState = "done"
	JobPartial  JobState = "partial" // some items failed
	JobFailed   JobState = "failed"  // all did
	JobCanceled JobState = "canceled"
)

// Terminal reports whether nothing leaves s.
func (s JobState) Terminal() bool { return s != JobRunning && s != JobPaused }

// FailureClass says what a failure means for further attempts.
type FailureClass string

// The classes of failure.
const (
	Retryable  FailureClass = "retryable"  // another attempt may succeed
	Permanent  FailureClass = "permanent"  // no attempt can succeed
	Invalid    FailureClass = "invalid"    // a result that breaks its kind's rules; retried
	Dependency FailureClass = "dependency" // what it waited for failed
	Poison     FailureClass = "poison"     // it kept killing its worker

	// Unknown is the class of an attempt that sent a paid request and got no answer:
	// whether it was done, and must be paid, is not known. Only a retry that says so
	// sends it again.
	Unknown FailureClass = "unknown_outcome"
)
