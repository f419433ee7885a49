// Package worker pulls shards from a control plane and runs them.
//
// An Agent claims shards for its free slots and a few ahead, hands each to the
// Executor of its kind, puts the outcome into a spool and delivers it from
// there. What it is owed and what it owes are leases (see package lease): it
// renews them by heartbeats, ends the work of one it lost, and gives back what
// it can't do. Nothing canonical lives here: the spool and the work folder are
// all it leaves behind, and a successor replays the one and empties the other.
//
// # Claims
//
// One exchange is in flight at a time. It carries the reports that are ready
// and claims for the slots that are free. An exchange that only waits for work
// is cut short as soon as there is something to tell. Whether a cut or failed
// exchange granted anything is not known, so its request number stays open: the
// next exchange carries the same number, which brings the grants of the first
// back if there were any, and a new number is taken only after an answer.
//
// # Sharing the work
//
// From each shard that is done the Agent learns its pace: the time for a unit of
// work of a kind with a model, in which the newest shards count most. A claim tells
// the paces, how long what is held will take, and which model was begun last. With a
// pace known it asks for more than there are free slots for, so that each slot has
// work for one heartbeat to come (Config.LeaseLimit bounds how many that are); what
// has no slot yet waits, in the order of its grants. The answer to a heartbeat may
// ask for waiting shards: they are given back as if they had never been claimed.
//
// # Reports
//
// A report is an entry of the spool: its body is a lease.Report in JSON, its
// blobs are those the report speaks of. Results over lease.InlineResult bytes
// are blobs too. Blobs are uploaded before the report is sent. An entry leaves
// the spool by its verdict only:
//
//	accepted, duplicate, stale    removed
//	conflict, invalid             moved to rejected/, with the reason
//	need_blobs                    stays; the missing blobs are uploaded, then it is sent again
//	denied, or refused unread     stays; sent again after ten minutes
//	any, by another store         stays; likewise
//
// The body also names the store that granted the lease: a control plane that was
// set up anew, or an address that leads elsewhere now, settles nothing of it. Work
// that runs goes on then, and what did not begin is dropped.
//
// Entries of a former run, and of other workers whose spool was copied here, are
// treated alike. One process delivers a spool at a time (spool.Lock).
//
// # Time
//
// Deadlines are the control plane's to judge. The Agent compares its wall clock
// with its monotonic one: when they part by more than five seconds the machine
// slept, and nothing is started, claimed or sent before a heartbeat was answered.
//
// # Guards
//
// Config.Guards are asked every fifteen seconds whether work is welcome: while one names a
// reason not to, nothing is claimed, heartbeats tell the reason, and what runs goes
// on. Config.Awake is told when the first lease is held and when the last one went.
//
// # Withdrawn, drained, stalled
//
// What a worker turns out to lack (a root that is away, a model, a server that asks
// to wait) it does not offer until a look, every minute, finds it again; while the
// disk is too full it claims nothing. Heartbeats tell it, with the reason. Their
// answers tell whether the worker is drained: then it gives back what did not
// begin, finishes what runs, and claims nothing until it is drained no more.
//
// A shard that runs without a sign of progress (its work moves on, bytes arrive) for
// lease.StallLimit is ended and reported as failed. The time that the machine
// slept, and waits for the control plane, do not count.
//
// # The end
//
// When Run's context ends the worker claims nothing, gives back what did not begin,
// and keeps the leases of what runs for the grace; then it ends it and gives it
// back. The spool is delivered within the grace for as long as that gets on, and
// for a moment in any case; what stays is the next run's. Kill ends all at once.
//
// # Marks
//
// Each answer tells how far the store has come; the Agent shows the highest of it
// in its next requests, so that a store that was rolled back learns of it.
// Config.Marks keeps them, as a list in JSON, the store last heard of at the end.
//
// # Folders
//
// Config.Dir holds one folder per running shard, JOB.SHARD-FENCE, removed when
// the attempt ended; Run removes what it finds of them first. So Config.Dir and
// the adding side of the spool belong to one process: the caller sees to it.
package worker
