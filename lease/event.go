package lease

import "time"

// EventKind says what happened.
type EventKind string

// The kinds of event. Those of the second group tell of a job, of the third of
// the store, of the fourth of its projects and actors.
const (
	EventQueued       EventKind = "queued"        // the shard was added
	EventReady        EventKind = "ready"         // the last shard it waited for is done
	EventLeased       EventKind = "leased"        // granted to a worker
	EventReleased     EventKind = "released"      // given back without a count
	EventRequeued     EventKind = "requeued"      // failed, to be tried again
	EventLeaseExpired EventKind = "lease_expired" // the lease ended by silence
	EventDone         EventKind = "done"          // a result was accepted
	EventReused       EventKind = "reused"        // the result of earlier, equal work was taken
	EventFailed       EventKind = "failed"        // no further attempt
	EventCanceled     EventKind = "canceled"      // of a shard, and of a job

	EventSubmitted EventKind = "submitted"
	EventPaused    EventKind = "paused"  // of a job; and of the store: a kind, a worker or everything is
	EventResumed   EventKind = "resumed" // likewise

	EventCreated  EventKind = "created"  // the store itself began
	EventRestored EventKind = "restored" // the store's epoch was raised

	EventRetried        EventKind = "retried" // of a job: shards were added to do some of it again
	EventProjectCreated EventKind = "project_created"
	EventProjectClosed  EventKind = "project_closed"
	EventProjectOpened  EventKind = "project_opened" // again
	EventActorAdded     EventKind = "actor_added"
	EventActorRotated   EventKind = "actor_rotated" // another token
	EventActorRevoked   EventKind = "actor_revoked"
	EventAssigned       EventKind = "assigned"      // an actor to a project
	EventUnassigned     EventKind = "unassigned"    // an actor from a project
	EventActorInvited   EventKind = "actor_invited" // to join again
	EventActorJoined    EventKind = "actor_joined"  // by an invitation: it has a token of its own now

	EventIntended   EventKind = "intended"   // of a shard: its holder is about to spend up to Cost
	EventCarried    EventKind = "carried"    // of a shard or a job: its history up to here gives way to its row
	EventPruned     EventKind = "pruned"     // of a job: it is dropped with all its shards
	EventCheckpoint EventKind = "checkpoint" // of the store: all before the cut was carried
)

// EventKinds lists all kinds. Its order is the one byte a stored event spends on
// its kind: append only.
var EventKinds = []EventKind{
	EventQueued, EventReady, EventLeased, EventReleased, EventRequeued, EventLeaseExpired,
	EventDone, EventReused, EventFailed, EventCanceled, EventSubmitted, EventPaused,
	EventResumed, EventCreated, EventRestored, EventRetried,
	EventProjectCreated, EventProjectClosed, EventProjectOpened,
	EventActorAdded, EventActorRotated, EventActorRevoked, EventAssigned, EventUnassigned,
	EventCarried, EventPruned, EventCheckpoint, EventIntended,
	EventActorInvited, EventActorJoined,
}

// Event is one line of the ledger.
type Event struct {
	Seq    uint64       `json:"seq"`             // in the whole ledger, gapless from 1
	Job    JobID        `json:"job,omitzero"`    // zero: of the store
	Shard  uint32       `json:"shard,omitzero"`  // within the job; zero: of the job
	N      uint32       `json:"n"`               // in its shard's (or job's) history, gapless from 1
	Prev   uint64       `json:"prev,omitempty"`  // sequence of number N-1
	At     time.Time    `json:"at"`              // the control plane's wall clock, ms; for people only
	Kind   EventKind    `json:"kind"`            //
	Actor  ActorID      `json:"actor,omitempty"` // who caused it
	Worker WorkerID     `json:"worker,omitempty"`
	Fence  Fence        `json:"fence,omitzero"`
	Class  FailureClass `json:"class,omitempty"`
	Reason string       `json:"reason,omitempty"`
	Digest Digest       `json:"digest,omitzero"` // of the report or the result
	From   ShardID      `json:"from,omitzero"`   // reused: whose result; queued: which shard it supersedes
	Count  bool         `json:"count,omitempty"` // lease_expired: whether it counts as a lapse
	Sum    uint64       `json:"sum,omitempty"`   // of the row as this event left it

	// Cost of an intended event is what its fence holds reserved in all; of one that
	// ends the intent, what was booked for it.
	Cost Cost `json:"cost_nusd,omitempty"`

	For     time.Duration `json:"for_ns,omitempty"`  // paused: it ends after so long; 0: when it is resumed
	What    Kind          `json:"what,omitempty"`    // paused, resumed, of the store: the kind; empty, and no worker: everything
	Project Project       `json:"project,omitempty"` // created, opened, closed, assigned
	Subject ActorID       `json:"subject,omitempty"` // the actor it tells of

	Cut     uint64 `json:"cut,omitempty"`     // checkpoint: the newest event it seals; Digest is the chain's there
	Carried uint64 `json:"carried,omitempty"` // checkpoint: how many rows were carried over the cut
	Row     []byte `json:"-"`                 // carried: the row as of the cut, as the store writes it; for the verifier only
}

// ShardID returns the shard the event tells of; its Seq is zero for a job's event.
func (e *Event) ShardID() ShardID { return ShardID{e.Job, e.Shard} }

// Target is what a pause, or its end, is of: for events paused, resumed, and those
// that carry a pause.
func (e *Event) Target() Target {
	return Target{Job: e.Job, Kind: e.What, Worker: e.Worker, All: e.Job == 0 && e.What == "" && e.Worker == ""}
}
