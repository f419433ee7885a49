package store

import (
	"math"
	"testing"
)

// A size is at most its work, and more than eight ninths of it; larger work never
// has a smaller size.
func TestSizes(t *testing.T) {
	last := size(0)
	for w := uint64(1); w < math.MaxUint64/17*16; w += w/16 + 1 {
		s := sizeOf(w)
		if s < last {
			t.Fatalf("sizeOf(%d) = %d, less than that of less work", w, s)
		}
		last = s
		if got := s.work(); got > w || w < 1<<31 && float64(got) <= float64(w)*8/9 {
			t.Errorf("work %d has size %d, of at least %d", w, s, got)
		}
	}
	if sizeOf(0) != 0 || size(0).work() != 0 {
		t.Errorf("no work has size %d, of %d", sizeOf(0), size(0).work())
	}
}
