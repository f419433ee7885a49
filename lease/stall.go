package lease

import "time"

// StallLimit is how long a running shard of so much work may go without a sign of
// progress: its lease is not renewed after it. Programs and servers that fall silent
// are noticed long before; this bounds what nobody watches. Work counts as
// milliseconds of media; where it counts something else it is small.
func StallLimit(work uint64) time.Duration {
	const most = 24 * time.Hour
	return 30*time.Minute + min(3*time.Duration(min(work, uint64(most/time.Millisecond)))*time.Millisecond, most)
}
