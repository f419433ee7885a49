// Package lease holds the nouns of macbatch, the Control contract between its
// parts, and Step, the pure life of a shard. It does no I/O and reads no clock.
//
// # The life of a shard
//
//	blocked ─► ready ─► leased ─► done | failed | canceled      (terminal absorbs)
//	             ▲         │
//	             └─────────┘  released · requeued · lapsed and claimed anew
//
// A cell is the state that a command leads to, with the events it writes; "–" is
// ErrNotAllowed; F is the answer to a report under a fence that is not open:
// ErrFenced, or ErrDuplicate or ErrConflict when that fence was settled by this
// report or by another.
//
//	            (new)     blocked    ready        leased            lapsed                  terminal
//	Queue       ready¹    –          –            –                 –                       –
//	Unblock     –         ready      –            –                 –                       –
//	Claim       –         –          leased       –                 lease_expired+leased²   –
//	Expire      –         –          –            ready²            ready²                  –
//	Intend      F         F          F            leased⁴           F                       F
//	Release     F         F          F            ready             ready                   F
//	Complete    F         F          F            done              done                    F
//	Fail        F         F          F            ready³ or failed  ready³ or failed        F
//	Depend      –         failed     –            –                 –                       –
//	Reuse       –         –          done         –                 –                       –
//	Cancel      –         canceled   canceled     canceled          canceled                –
//
// ¹ blocked, when it waits for others. ² failed: poison, when its counted lapses
// reach PoisonLapses. ³ event requeued; failed when the class is Permanent or the
// failures reach MaxFailures, or Unknown. ⁴ with an intent, or more of it.
//
// # Money
//
// Before a worker sends what must be paid it opens an intent for its lease: so much
// it may spend, in all. The intents of a job and what is booked for it never exceed
// its limit. An intent ends with its lease. A report or a release says what was
// spent; when the lease ends otherwise, all that was reserved counts as spent.
//
// A lapsed lease with an intent is not taken over: whether the request was made
// nobody knows, and to make it again may be to pay twice. Its shard is parked until
// its holder comes back, with a heartbeat or the report, or until a retry says that
// it is to be sent again (Selection.Resend). Likewise a retry leaves alone what its
// worker itself reported as Unknown.
//
// Lapsed is not a state but a leased shard past its deadline: the lease is still
// its holder's until somebody else claims the shard. A row's deadline is not
// stored: renewals would be commits. The store keeps deadlines in memory and
// gives every open lease a full term when it starts.
//
// # Generations
//
// Terminal absorbs: a retry adds shards. One that repeats another has a higher
// Generation and names in Supersedes what it stands in for: first the shard it
// repeats, then all that the former result of that one had planned. What waited
// for it is repeated with it, and waits for its copies and for those beside it
// that are done; where an input was dropped its producer is repeated instead. The
// shards that such a result plans are of its generation.
//
// The newest shards are those that nothing supersedes. A job's items and work
// count these alone, by how they ended: an item that is asked for again is not
// done until its newest shards are. The current results of an item are another
// matter: those of its newest generation that came to all results, else to some;
// so the earlier ones stay in use until the new ones are accepted, and for good
// when no new ones come.
//
// # Lists
//
// A job may work on a list: a blob of lines, each an item. Its shards are ranges of
// the blob's bytes, in order and without a gap, each with the digest of its lines;
// nothing of the job is granted before all of them are there. The result of such a
// shard has one outcome for each of its lines: a value, or an error that another
// attempt would meet too. A done shard of n items of which k have an error counts
// as n−k items done and k failed; a failed shard fails all its items. The job is
// done when no item failed, failed when all did, and partial in between.
package lease
