// Package store is the control plane's state and its one writer: a command loads
// rows, calls lease.Step, and saves rows and events together. Scope is enforced
// here. Concurrent commands share a commit; a command that is refused leaves
// nothing behind in it.
//
// # Keys
//
// Numbers in keys are big-endian: job 8 bytes, seq 4. The first byte of a key
// says what it holds:
//
//	m                     identity: schema version (1 byte), store id (16), secret (32)
//	h                     head of the ledger, and the counters
//	j job                 a job
//	s job seq             a shard
//	o job seq             the result of a done shard, when it is not a blob
//	p job seq             an accepted result whose shards are still being added:
//	                      number of the first (4 bytes), how many are added (4), and a sum (8);
//	                      with seq 0 a list job whose input is still being cut:
//	                      offset and item of the next shard (8 each), and a sum (8)
//	k project 0 key       idempotency key → job (8 bytes)
//	u digest              identity of reusable work → job, seq of the shard that did it
//	a actor               an actor: role, projects, SHA-256 of its token, of the one
//	                      before and of an invitation's secret, with their ends
//	q project             a project: open or closed
//	n job seq             the number of the shard that supersedes this one (4 bytes)
//	d job                 the job was pruned, and its shards are being removed
//	z kind                a pause of the kind; without one, of everything; behind a byte 0, of a worker
//
// # Rows
//
// A value begins with a version byte: 6 is written, those before it are read too. Fields follow in the order of encodeShard,
// encodeJob, encodeHead, encodeActor, encodeProject: integers as unsigned varints in their shortest form,
// strings and lists behind their length, fences and sums as 8 bytes big-endian,
// digests as 0 or as 1 and 32 bytes. A decoder refuses bytes that are left over.
// A shard's project and priority are its job's.
//
// # Ledger
//
// The events of one commit are one record of the engine's log, under the sequence
// of the first: each event behind its length, then the 32-byte digest of the
// chain, SHA-256(digest before, sequence of the first, events). The head, written
// with every commit, names the newest event and the digest there.
//
// No event tells of the entries under k and u, and of m: the head counts the entries
// and adds up their sums, and keeps the sum of the identity. A key leads to the newest
// job that has it.
//
// Each event keeps the sequence of the one before it in its shard, so that a
// history is read backwards from its row without an index; and the newest one
// keeps a sum of the row it left behind, so that a row that was edited, swapped
// or put back is found. So do the events of projects and actors: two more fields
// at their end, project and actor, say whose they are.
//
// # Scope
//
// An actor sees the projects it is assigned to, an admin all. Whatever is asked
// for is decided by the actor's row as it stands at that moment, within a command
// too: a revoked actor's request under way, a waiting claim among them, ends in
// ErrUnauthorized. What is not the actor's is answered as what is not there. A
// closed project takes no jobs and grants no shards; open leases may be completed.
// When an actor is revoked, or unassigned, its leases lapse at that moment in
// memory (after a restart within their term): heartbeats do not revive them.
//
// Names of projects and actors stay taken for ever. The role of an actor does not
// change. The blobs of a project are known to it alone: one that is here for
// another project is missing here, and taken only from who has the bytes. Workers
// are listed for those who share a project with them.
//
// # List inputs
//
// The input of a list job is one blob, looked at line by line when the job is
// submitted; its shards are byte ranges, each with the digest of its lines. The
// first 256 shards, of the first 4 MiB, are added by the commit that adds the job, the
// rest in pages, each with the mark of where the next one begins. Nothing of the
// job is granted before it is whole.
//
// # Retention
//
// A pruned job's row goes with one commit, behind a pruned event, and leaves a mark
// (d). Then, in pages: the shards, the entries that point to them, their results,
// unless a shard of another job reuses one: that stays for as long as it does. At
// last the marks go, and the ledger is cut.
//
// A cut is made at the newest commit: its sequence and the chain's digest there are
// kept in the head. Every row that was last told of before it is carried over it by
// an event that holds the row as of the cut, in pages, or before it changes if
// that comes first. A checkpoint seals the cut: the ledger begins behind it from
// then on, and what lies before is removed, in pages. Each commit leaves a store
// that verifies and that the next start goes on from.
//
// Ids do not come back: the head keeps the newest of the epoch. A restored store,
// and one that learns that it is an older copy of itself, raises its epoch and ends
// its open leases. It learns so from a worker's mark: store id, epoch and sequence
// of the newest durable event, as this store or a copy told it, with a proof that
// is keyed with the store's secret.
//
// # In memory
//
// Queues by need and project (a ready shard is 12 bytes in that of its job, and a
// claim looks at each once), deadlines of leases, who waits for whom, and which
// blobs are needed are derived from the rows at start and move along with them;
// that a blob was uploaded and not yet reported is memory only: after a restart it
// is asked for again. A sweep removes such blobs a day after they came.
// Memory nominates, the row decides. Renewals are memory only. A lease token is a
// keyed hash of shard and fence: it can be told again to a repeated claim and
// needs no place in the row.
//
// # Order of grants
//
// Who lacks a label that a shard's job requires is granted none of it. A shard's need
// has them as one text, sorted, so that equal needs are one queue.
//
// Priority, then first in, first out by job and item, later stages of an item first,
// among what a worker is able to do. Two things may pass, each for a bounded time by
// the monotonic clock, and neither across priorities:
//
// A claim tells which models the worker has loaded. Their shards pass those of other
// models, but not such as need none, until the oldest shard of a class has been
// passed for ten minutes (lease.MaxPassed): that one is granted next, to whoever is
// able. What a worker was granted in a claim counts as loaded in the rest of it. So
// small jobs of two models in turns cost a load for each ten minutes, and not for
// each job.
//
// A claim also tells the worker's paces. Near the end of a job, a worker that is
// slower than the fastest of the others by half and more leaves to them each shard
// that would take it longer than half the time in which they will be through with
// all that is left of the job, and takes the next one that fits: begun last on the
// slowest machine, a large shard would hold up everybody's end. The oldest one that
// is left like that is granted anyway once that time is over, or ten minutes. A
// worker without equals or betters, and one that knows no pace, gets the oldest.
// Longest-first would end no sooner and leave the order more.
//
// What is granted beyond a claim's free slots is no more than the worker's share of
// the job by speed, and nothing while somebody waits for work. Who does is served
// from what others hold and have not begun: the answers to their heartbeats ask for
// it. A place in the queue knows the size of its shard in one byte, within an eighth.
//
// # Changing the format
//
// Raise rowVersion, add the new fields behind the old ones, read them only from
// rows of that version on, and write only the new form.
//
// When older programs must not open the store at all, raise schemaVersion, say in
// migrate.go what the new number stands for, and let migrate do what it takes for a
// store of each lower number. It runs at the start, before anything is served, as
// one commit that also writes the new number: a store is of one schema or the
// other, and a start that failed is repeated. What is too much for one commit must
// be readable in both forms and be renewed as it is written, as rows are. A store at
// rest is verified in the newest schema only. Keep a store of the former schema in
// testdata, and let the test fail its commit in each way.
package store
