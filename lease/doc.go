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
//	Release     F         F          F            ready             ready                   F
//	Complete    F         F          F            done              done                    F
//	Fail        F         F          F            ready³ or failed  ready³ or failed        F
//	Depend      –         failed     –            –                 –                       –
//	Reuse       –         –          done         –                 –                       –
//	Cancel      –         canceled   canceled     canceled          canceled                –
//
// ¹ blocked, when it waits for others. ² failed: poison, when its counted lapses
// reach PoisonLapses. ³ event requeued; failed when the class is Permanent or the
// failures reach MaxFailures.
//
// Lapsed is not a state but a leased shard past its deadline: the lease is still
// its holder's until somebody else claims the shard. A row's deadline is not
// stored: renewals would be commits. The store keeps deadlines in memory and
// gives every open lease a full term when it starts.
package lease
