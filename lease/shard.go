package lease

import (
	"encoding/json"
	"time"
)

// Need is what a shard asks of a worker. Shards of equal needs form one class
// and are granted first in, first out.
type Need struct {
	Kind  Kind   `json:"kind"`
	Root  string `json:"root,omitempty"`  // the named root that must be mounted
	Model string `json:"model,omitempty"` // the engine or model that must be there
	Tags  Tags   `json:"tags,omitempty"`  // the labels that it must carry
	// Bulky work brings blobs that wait for later shards: it is not granted while
	// too many bytes wait already.
	Bulky bool `json:"bulky,omitempty"`
}

// Spec is what a shard is from its birth on: the immutable half of its row.
type Spec struct {
	Need    Need            `json:"need"`
	Item    uint32          `json:"item"`              // the item within the job, from 0: order of grants
	Stage   uint8           `json:"stage"`             // within an item, later stages are granted first
	Opens   uint32          `json:"opens,omitempty"`   // user-visible items that begin with this shard
	Settles uint32          `json:"settles,omitempty"` // items that end with it, unless it plans successors
	Work    uint64          `json:"work,omitempty"`    // size, in the kind's unit (media: ms), for progress
	Payload json.RawMessage `json:"payload,omitempty"` // none: it works on a Range, by the job's parameters
	Inputs  []Digest        `json:"inputs,omitempty"`  // blobs it needs until it is terminal
	After   []uint32        `json:"after,omitempty"`   // shards whose results it waits for; in a Plan: indexes into it
	// Parent is the number of the shard whose result planned this one; 0: it came
	// with the job. The store sets it and the following.
	Parent     uint32   `json:"parent,omitempty"`
	Generation uint32   `json:"generation,omitempty"` // how often its work was asked for again
	Supersedes []uint32 `json:"supersedes,omitempty"` // ended shards in whose place it came: first the one it repeats
	Fresh      bool     `json:"fresh,omitempty"`      // no earlier result serves
	Resend     bool     `json:"resend,omitempty"`     // what may have been paid for is paid for again
	// Reuse identifies the work by its inputs and parameters (the results it
	// waits for are added by the store); zero when a result is never to be reused.
	Reuse Digest `json:"reuse,omitzero"`
	// Range is the lines of the job's input that it works on; zero for other work.
	Range Range `json:"range,omitzero"`
}

// Plan is the shards to add to a job. Item numbers and After are as in Spec.
type Plan []Spec

// Shard is the unit of lease: its spec and where it stands.
type Shard struct {
	ID       ShardID  `json:"id"`
	Project  Project  `json:"project"`
	Priority int32    `json:"priority,omitempty"`
	Next     []uint32 `json:"next,omitempty"` // shards of this job that wait for it
	Spec

	State    State         `json:"state"`
	Fence    Fence         `json:"fence"`
	Holder   Holder        `json:"holder,omitzero"`    // of the newest grant, kept after its end
	Failures uint16        `json:"failures,omitempty"` // reported failures and invalid results
	Lapses   uint16        `json:"lapses,omitempty"`   // leases that ended by silence and were counted
	Delay    time.Duration `json:"delay_ns,omitempty"` // a ready shard rests so long, from its last event or a restart on
	Class    FailureClass  `json:"class,omitempty"`    // of the last failure
	Reason   string        `json:"reason,omitempty"`   // of the last failure, release or cancel
	Settled  Settled       `json:"settled,omitzero"`
	Intent   Intent        `json:"intent,omitzero"`      // of its open lease, to spend money
	Spent    Cost          `json:"spent_nusd,omitempty"` // booked for all its attempts
	Result   Result        `json:"result,omitzero"`      // of a done shard
	From     ShardID       `json:"from,omitzero"`        // whose result a reused one is
	Planned  uint32        `json:"planned,omitempty"`    // how many shards its result planned
	First    uint32        `json:"first,omitempty"`      // number of the first of them

	Events uint32 `json:"events"` // how many events tell its history
	Last   uint64 `json:"last"`   // sequence of the newest of them

	// Successor is the number of the shard that superseded it: no part of the row,
	// but known of those that are listed.
	Successor uint32 `json:"successor,omitempty"`

	// Deadline is when an open lease lapses. It lives in memory only: the store
	// sets it on what it loads. Zero means not known to have a deadline.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Holder is who was granted a shard, by which claim.
type Holder struct {
	Worker      WorkerID `json:"worker"`
	Actor       ActorID  `json:"actor"`
	Incarnation uint64   `json:"incarnation"` // of the worker: rises with its restarts
	Request     uint64   `json:"request"`     // of the claim, within the incarnation
}

// Settled is the answer that ended a fence: what a repeated report is told.
type Settled struct {
	Fence  Fence  `json:"fence"`
	Digest Digest `json:"digest"` // of the report
}

// Result names the accepted bytes of a done shard.
type Result struct {
	Digest Digest          `json:"digest"`
	Bytes  int64           `json:"bytes"`
	Blob   bool            `json:"blob,omitempty"`   // kept as a blob; else in the store
	Failed uint32          `json:"failed,omitempty"` // items of a list shard whose outcome is an error
	Maker  Maker           `json:"maker,omitzero"`   // what made it; not told with a grant
	Keeps  []Digest        `json:"keeps,omitempty"`  // blobs that belong to it; not told with a grant
	Inline json.RawMessage `json:"inline,omitempty"` // the bytes, where an answer carries them
}

// Maker is what made a result, as far as its kind knows.
type Maker struct {
	Engine string `json:"engine,omitempty"` // the program or method
	Model  string `json:"model,omitempty"`
	Server string `json:"server,omitempty"` // an alias of the worker's, never an address
}

// Parked reports whether the shard's holder fell silent after it said that it would
// spend money: what became of that is not known, so nobody is granted the shard.
func (s *Shard) Parked(now time.Time) bool { return s.Intent.Fence != 0 && s.Lapsed(now) }

// Suspect reports whether the shard lapsed so often that it is leased alone.
func (s *Shard) Suspect() bool { return s.Lapses >= SuspectLapses && !s.State.Terminal() }

// Lapsed reports whether the shard is leased and past its deadline at now.
func (s *Shard) Lapsed(now time.Time) bool {
	return s.State == Leased && !s.Deadline.IsZero() && !now.Before(s.Deadline)
}
