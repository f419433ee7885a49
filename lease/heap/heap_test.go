package heap

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
)

func TestLimit(t *testing.T) {
	for live, want := range map[uint64]int64{0: room, 10 << 20: room, 1 << 30: 3 << 30, math.MaxUint64: math.MaxInt64} {
		if got := limit(live); got != want {
			t.Errorf("limit(%d) = %d, want %d", live, got, want)
		}
	}
}

func TestIdle(t *testing.T) {
	u := usage{}
	n := uint64(0)
	for i, step := range []struct {
		bytes uint64
		want  bool
	}{{1 << 20, false}, {10, false}, {10, true}, {10, false}, {10, false}, {1 << 20, false}, {0, false}, {0, true}} {
		n += step.bytes
		if got := u.idle(n); got != step.want {
			t.Errorf("look %d: idle = %v, want %v", i, got, step.want)
		}
	}
}

// TestRunRestores: the limits are the process's only while it runs.
func TestRunRestores(t *testing.T) {
	percent, bytes := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer debug.SetGCPercent(percent)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	Run(ctx)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("percent is %d afterwards, want 100", got)
	}
	if got := debug.SetMemoryLimit(-1); got != bytes {
		t.Errorf("limit is %d afterwards, want %d", got, bytes)
	}
}
