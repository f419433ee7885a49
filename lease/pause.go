package lease

import (
	"fmt"
	"time"
)

// Target is what a pause stops: exactly one of its fields is set.
type Target struct {
	Job    JobID    `json:"job,omitzero"`
	Kind   Kind     `json:"kind,omitempty"`   // of shards
	Worker WorkerID `json:"worker,omitempty"` // which is told, and drains
	All    bool     `json:"all,omitempty"`
}

func (t Target) String() string {
	switch {
	case t.Job != 0:
		return "job " + t.Job.String()
	case t.Kind != "":
		return fmt.Sprintf("kind %q", string(t.Kind))
	case t.Worker != "":
		return fmt.Sprintf("worker %q", string(t.Worker))
	}
	return "everything"
}

// Check returns ErrInvalid unless exactly one field is set.
func (t Target) Check() error {
	n := 0
	for _, set := range []bool{t.Job != 0, t.Kind != "", t.Worker != "", t.All} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("pause of %d targets, not of a job, a kind, a worker or everything: %w", n, ErrInvalid)
	}
	return nil
}

// Pause stops the grants of a target. One that ends by itself does so For after
// it began, or after the control plane was started again.
type Pause struct {
	Target
	Actor  ActorID       `json:"actor,omitempty"` // who asked for it
	Reason string        `json:"reason,omitempty"`
	Since  time.Time     `json:"since,omitzero"` // wall clock, for people
	For    time.Duration `json:"for_ns,omitempty"`
}

// IsZero reports whether there is no pause.
func (p Pause) IsZero() bool { return p == Pause{} }

// String says who, why and for how long.
func (p Pause) String() string {
	s := "paused by " + string(p.Actor)
	if p.Worker != "" {
		s = "drained by " + string(p.Actor)
	}
	if p.Reason != "" {
		s += ": " + p.Reason
	}
	if p.For > 0 {
		s += fmt.Sprintf(" (for %v)", p.For.Round(time.Second))
	}
	return s
}
