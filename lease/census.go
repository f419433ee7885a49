package lease

import "time"

// Census is the counts of everything an actor may see, at one moment.
type Census struct {
	At     time.Time    `json:"at"` // the control plane's wall clock
	Jobs   []JobCount   `json:"jobs,omitempty"`
	Shards []ShardCount `json:"shards,omitempty"`
	Leases []LeaseCount `json:"leases,omitempty"`
	Makers []MakerCount `json:"makers,omitempty"`
	Pauses []Pause      `json:"pauses,omitempty"` // in force: of jobs that have not ended, of kinds, of everything
	Store  StoreFigures `json:"store,omitzero"`   // the admin's
}

// JobCount counts the jobs of a kind, and what they add up to.
type JobCount struct {
	Kind   Kind             `json:"kind"`
	Jobs   map[JobState]int `json:"jobs"`
	Items  Progress         `json:"items"`
	Work   Progress         `json:"work"`             // in the kind's unit: media milliseconds
	Cost   Bill             `json:"cost,omitzero"`    // Max: nothing
	Reused uint64           `json:"reused,omitempty"` // items whose last result is that of earlier, equal work
}

// ShardCount counts the shards of a kind.
type ShardCount struct {
	Kind Kind `json:"kind"`
	Counts
	Lapsed uint32 `json:"lapsed,omitempty"` // of those leased
	Old    uint32 `json:"old,omitempty"`    // of all: superseded
}

// LeaseCount counts a worker's open leases.
type LeaseCount struct {
	Worker WorkerID `json:"worker"`
	Leases int      `json:"leases"`
	Lapsed int      `json:"lapsed,omitempty"` // of these
}

// MakerCount counts results in use by what made them.
type MakerCount struct {
	Kind Kind `json:"kind"`
	Maker
	Results int `json:"results"`
	Reused  int `json:"reused,omitempty"` // of these: taken over from an earlier shard
}

// StoreFigures are the size of the control plane's store.
type StoreFigures struct {
	Bytes     int64  `json:"bytes,omitempty"` // of its file, where it is one
	Events    uint64 `json:"events"`          // in the ledger
	Commits   uint64 `json:"commits"`         // since it was made
	Blobs     int    `json:"blobs"`
	BlobBytes int64  `json:"blob_bytes"`
}
