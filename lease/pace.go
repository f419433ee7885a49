package lease

import (
	"math"
	"time"
)

// Bounds of how the order of grants may be left: see package lease/store.
const (
	MaxPassed = 10 * time.Minute // a shard is passed by younger ones, at most
)

// Pace is how fast a worker does the shards of a kind with a model, as it learned.
type Pace struct {
	Kind  Kind   `json:"kind"`
	Model string `json:"model,omitempty"`
	// Thousand is how long a shard takes for each thousand units of its work, while
	// the worker's other slots are busy too.
	Thousand time.Duration `json:"thousand_ns"`
	Slots    int           `json:"slots"` // shards of the kind at once
}

// Takes is the time that so much work is estimated to take; 0: not known.
func (p Pace) Takes(work uint64) time.Duration {
	t := float64(p.Thousand) / 1000 * float64(work)
	return time.Duration(min(max(t, 0), math.MaxInt64/2))
}

// Speed is the units of work that all slots do in a nanosecond.
func (p Pace) Speed() float64 {
	if p.Thousand <= 0 || p.Slots <= 0 {
		return 0
	}
	return 1000 * float64(p.Slots) / float64(p.Thousand)
}

// PaceOf finds the pace for a need, which is nil when none is known.
func PaceOf(paces []Pace, kind Kind, model string) *Pace {
	for i := range paces {
		if p := &paces[i]; p.Kind == kind && p.Model == model && p.Thousand > 0 {
			return p
		}
	}
	return nil
}
