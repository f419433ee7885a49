package ledger

import "macbatch/lease"

// Record is the events of one commit.
type Record struct {
	First    uint64 // sequence of the first event
	Events   []lease.Event
	Chain    lease.Digest // as stored with it
	Computed lease.Digest // as it follows from the record before
	Err      error        // it cannot be read
}

// Head is where the ledger ends and begins.
type Head struct {
	Seq   uint64 // of the newest event
	Chain lease.Digest

	Seal      uint64       // sequence of the newest checkpoint; 0: none
	Base      uint64       // the newest event that it sealed
	BaseChain lease.Digest // of the chain there, as the checkpoint says

	Cut     uint64 // of a checkpoint in the making; 0: there is none
	Carried uint64 // rows carried for it so far

	Identity uint64  // sum of the row of the store itself
	Keys     Entries // idempotency keys
	Reuses   Entries // of reusable work
}

// Entries are those of an index: how many, and what their sums add up to.
type Entries struct{ N, Sum uint64 }

// Entry is one of an index.
type Entry struct {
	Key string        // of the index: project, NUL and idempotency key, or a digest's bytes
	Of  lease.ShardID // what it leads to; number 0: a job
	Sum uint64
	Err error // it cannot be read
}

// Carried is a row that a carried event keeps: one of these.
type Carried struct {
	Shard   lease.Shard
	Job     lease.Job
	Actor   lease.Identity
	Project lease.Scope
	Sum     uint64
}

// Snapshot is a store at one moment.
type Snapshot interface {
	// Head returns where the ledger ends and begins.
	Head() (Head, error)

	// Records calls fn for each ledger record above sequence after, in order,
	// until it returns false; chain is the digest there.
	Records(after uint64, chain lease.Digest, fn func(Record) bool)

	// Carried decodes the row that a carried event keeps.
	Carried(ev *lease.Event) (Carried, error)

	// Jobs calls fn for each job from an id on, in order, with the number its
	// next shard would get, the sum of the part of its row that only its own
	// events change, or what keeps it from being read.
	Jobs(from lease.JobID, fn func(j lease.Job, next uint32, sum uint64, err error) bool)

	// Shards calls fn for each shard from an id on, in order, with the sum of
	// its row, or what keeps it from being read.
	Shards(from lease.ShardID, fn func(s lease.Shard, sum uint64, err error) bool)

	// Plans counts the results of a job whose shards are still being added, and
	// its input if that is still being cut, with how far it is; err says that a
	// mark cannot be read, or is of another moment.
	Plans(id lease.JobID) (n uint32, cut *Cut, err error)

	// Pauses calls fn for each pause that is not a job's, with the sum of its row.
	Pauses(fn func(p lease.Pause, sum uint64, err error) bool)

	// Successor returns the number of the shard that is noted to supersede id; 0: none.
	Successor(id lease.ShardID) uint32

	// Successors returns how many are noted of a job.
	Successors(id lease.JobID) int

	// Projects and Actors call fn for each with the sum of its row, or what keeps it from being read.
	Projects(fn func(p lease.Scope, sum uint64, err error) bool)
	Actors(fn func(a lease.Identity, sum uint64, err error) bool)

	// Pruning calls fn for each job whose rows are being removed.
	Pruning(fn func(id lease.JobID) bool)

	// Identity returns the sum of the row of the store itself.
	Identity() uint64

	// Keys and Reuses call fn for each idempotency key, and for each identity of
	// reusable work.
	Keys(fn func(Entry) bool)
	Reuses(fn func(Entry) bool)

	// Key returns the job that an idempotency key leads to; 0: it leads nowhere.
	Key(key string) lease.JobID

	// Job and Shard return one; nil: it is not there, or cannot be read.
	Job(id lease.JobID) *lease.Job
	Shard(id lease.ShardID) *lease.Shard

	// Value returns the bytes of a result kept in the store, or nil.
	Value(id lease.ShardID) []byte

	// HasBlob reports whether a blob is there.
	HasBlob(d lease.Digest) (bool, error)
}

// Cut is how far a list input is in shards.
type Cut struct {
	Offset int64  // bytes
	Items  uint32 // lines
}
