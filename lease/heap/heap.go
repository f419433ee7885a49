package heap

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	room   = 100 << 20       // bytes a heap may take, unless more of it lives
	look   = 5 * time.Second // between two looks
	quiet  = 256 << 10       // bytes allocated between two looks by a process that is idle
	growth = 400             // percent of what lives, below room
	share  = 3               // times what lives, where that is more than room
)

// Run sets the process's limits until ctx ends.
func Run(ctx context.Context) {
	defer debug.SetGCPercent(debug.SetGCPercent(growth))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(room))
	tick := time.NewTicker(look)
	defer tick.Stop()
	u := usage{sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		live, allocated := u.read()
		debug.SetMemoryLimit(limit(live))
		if u.idle(allocated) {
			debug.FreeOSMemory()
		}
	}
}

// limit is how much a process may take of whose heap so many bytes live. Without
// it growing along, a large heap would be collected all the time.
func limit(live uint64) int64 {
	if live > math.MaxInt64/share {
		return math.MaxInt64
	}
	return max(room, share*int64(live))
}

type usage struct {
	sample []metrics.Sample
	before uint64 // bytes ever allocated, at the last look
	calm   int    // looks in a row at a process that is idle
}

func (u *usage) read() (live, allocated uint64) {
	metrics.Read(u.sample)
	return u.sample[0].Value.Uint64(), u.sample[1].Value.Uint64()
}

// idle reports once whether nothing has happened for two looks.
func (u *usage) idle(allocated uint64) bool {
	if allocated-u.before > quiet {
		u.calm = 0
	} else {
		u.calm++
	}
	u.before = allocated
	return u.calm == 2
}
