package lease

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Limits of one request. Larger ones are refused with ErrTooLarge.
const (
	MaxReports   = 1000     // reports in one exchange
	MaxGrants    = 1000     // shards granted by one exchange
	MaxPage      = 1000     // rows in one page
	MaxParams    = 64 << 10 // bytes of a job's parameters
	MaxPaces     = 1000     // paces, and loaded models, that a claim tells
	InlineResult = 64 << 10 // bytes of a result carried in the report; larger ones travel as blobs
	MaxReason    = 2000     // bytes of a reason
)

// The times of the lease handshake.
const (
	Term      = 90 * time.Second // of a lease, renewed by each heartbeat
	Heartbeat = 15 * time.Second // between two heartbeats of a worker
	MaxWait   = 20 * time.Second // of an exchange that waits for work
)

// Control is the control plane as its clients and workers see it: the store
// itself where it runs in the same process, an HTTP client elsewhere. A Control
// is bound to the actor who asks.
//
// Every method returns ErrNotFound for what is not there or not the actor's,
// ErrForbidden where its role lacks the right, and, from afar, ErrUnreachable,
// ErrUnauthorized and ErrUnknownOutcome.
type Control interface {
	// Submit queues a job and returns its id. ErrInvalid names what is wrong
	// with the submission; ErrKeyReused tells of a key in use for another one;
	// ErrNeedBlob of an input that must be uploaded first.
	Submit(ctx context.Context, s Submission) (JobID, error)

	// Job tells where a job stands.
	Job(ctx context.Context, id JobID) (Job, error)

	// Jobs lists up to limit jobs with ids below before (0: from the newest on), newest first.
	Jobs(ctx context.Context, before JobID, limit int) ([]Job, error)

	// Cancel ends a job. Once it returned nil nothing of the job turns done.
	Cancel(ctx context.Context, id JobID, reason string) error

	// Pause stops grants for d, or until Resume when d is 0: at once, while what is
	// leased goes on and is accepted. Pausing again replaces reason and duration.
	// A worker need not be known yet; it is told by its heartbeats. All but a job's
	// pause are the admin's. ErrNotAllowed: the job has ended.
	Pause(ctx context.Context, of Target, reason string, d time.Duration) error

	// Resume ends a pause. There need not be one.
	Resume(ctx context.Context, of Target, reason string) error

	// Retry adds shards that do again what is selected, one page at a time: the
	// shards above after, up to what one commit should hold; call it again with
	// the Next it returns. What ended stays as it ended. Asking again while the
	// new shards are open adds nothing.
	Retry(ctx context.Context, id JobID, what Selection, after uint32) (Retried, error)

	// Shards pages through a job's shards by number, those above after. With
	// results, small results come along inline.
	Shards(ctx context.Context, id JobID, after uint32, limit int, results bool) ([]Shard, error)

	// Events lists the ledger: of a shard (Seq > 0), of a job with its shards
	// (Seq == 0), or of everything (zero), above sequence after, oldest first.
	Events(ctx context.Context, of ShardID, after uint64, limit int) ([]Event, error)

	// Follow is Events that waits for the first of them, up to wait and MaxWait.
	Follow(ctx context.Context, of ShardID, after uint64, limit int, wait time.Duration) ([]Event, error)

	// Why tells what keeps a shard from ending: itself, and each worker that the
	// actor sees. Of a job (Seq == 0) it tells of the shard that comes next.
	Why(ctx context.Context, of ShardID) (Why, error)

	// Workers lists the workers seen since the control plane started, and to an
	// admin those that are drained.
	Workers(ctx context.Context) ([]Worker, error)

	// Census counts what there is in the actor's projects.
	Census(ctx context.Context) (Census, error)

	// Search finds words in the accepted transcripts of the actor's projects.
	// ErrInvalid tells what is wrong with the query; ErrNotFound: the project is not
	// there; ErrNotAllowed: this control plane has no index of them.
	Search(ctx context.Context, q Query) (Found, error)

	// Verify checks rows against the ledger. An empty list means they agree.
	Verify(ctx context.Context) ([]Problem, error)

	// Prune drops ended jobs with all that belongs to them; those that are gone
	// already are passed over. ErrNotAllowed when one has not ended; then none is
	// dropped. It also cuts the ledger: of what stays, histories begin anew.
	Prune(ctx context.Context, ids []JobID) error

	// Backup writes an archive of everything, as of one commit, to w. After an
	// error what was written is worthless.
	Backup(ctx context.Context, w io.Writer) error

	// Exchange delivers reports and claims work, in one commit. A verdict comes
	// back for each report, in order. A repeated request, by its number, gets
	// the same grants while they are open.
	Exchange(ctx context.Context, x Exchange) (Exchanged, error)

	// Intend opens the intent of a held lease to spend money, or raises it. Once it
	// returned nil that is durable: the request may be made. ErrFenced: the lease is
	// not open, or lapsed. ErrOverBudget: the job may not spend so much.
	// ErrBudgetHeld: not now, for others hold what is left, and use it. When all that
	// hold something of it ask for more and are idle, one gets ErrOverBudget: it ends.
	Intend(ctx context.Context, i Intention) error

	// Heartbeat renews leases and tells which of them are lost.
	Heartbeat(ctx context.Context, b Beat) (Beaten, error)

	// PutBlob stores bytes under their digest. ErrDigest when they differ,
	// ErrFenced when the lease it is for is no longer open.
	PutBlob(ctx context.Context, u Upload, r io.Reader) error

	// Blob opens bytes that a shard refers to and tells their number: its inputs,
	// its result, and the results it waits for. A worker must hold the shard.
	Blob(ctx context.Context, of ShardID, d Digest) (io.ReadCloser, int64, error)

	// Input opens the bytes from ≤ offset < to of a job's list input: for a reader
	// of the job any of them (of.Seq == 0), for a worker those in the range of a
	// shard it holds a lease on. They are unchecked: a shard's range has a digest.
	Input(ctx context.Context, of ShardID, from, to int64) (io.ReadCloser, error)

	Registry
}

// Submission asks for a job.
type Submission struct {
	Project  Project         `json:"project,omitempty"` // empty: DefaultProject
	Kind     Kind            `json:"kind"`
	Params   json.RawMessage `json:"params"` // of the kind's own shape
	Priority int32           `json:"priority,omitempty"`
	Input    Input           `json:"input,omitzero"` // of a kind that works on a list
	// Key makes a submission idempotent: the same key and input give the same job,
	// unless that failed or was canceled. Empty, with an Input: project, kind,
	// parameters and input are the key.
	Key     string   `json:"key,omitempty"`
	Require []string `json:"require,omitempty"` // labels, NAME=VALUE: only workers that carry them all work on it
	// MaxCost is what the job may cost at most; 0: no limit.
	MaxCost Cost `json:"max_cost_nusd,omitempty"`
}

// Job is one submission and where it stands.
type Job struct {
	ID        JobID           `json:"id"`
	Project   Project         `json:"project"`
	Kind      Kind            `json:"kind"`
	Params    json.RawMessage `json:"params"`
	Priority  int32           `json:"priority,omitempty"`
	Require   []string        `json:"require,omitempty"` // labels that its workers must carry, sorted
	Key       string          `json:"key,omitempty"`
	Input     Input           `json:"input,omitzero"`
	Reuse     Digest          `json:"reuse,omitzero"` // identity of its work but for the lines of the input
	Actor     ActorID         `json:"actor"`
	Submitted time.Time       `json:"submitted"`
	Ended     time.Time       `json:"ended,omitzero"` // when its state became a terminal one
	State     JobState        `json:"state"`
	Canceled  bool            `json:"canceled,omitempty"` // the mark; shards may follow later
	Reason    string          `json:"reason,omitempty"`   // of the mark
	Pause     Pause           `json:"pause,omitzero"`     // of the job itself
	Shards    Counts          `json:"shards"`
	Old       Counts          `json:"old,omitzero"`    // of these: superseded
	Plans     uint32          `json:"plans,omitempty"` // plans whose shards are still being added: of accepted results, of the input
	Items     Progress        `json:"items"`
	Work      Progress        `json:"work"`             // in the kind's unit: media milliseconds
	Cost      Bill            `json:"cost,omitzero"`    // of paid work
	Parked    uint32          `json:"parked,omitempty"` // of the leased shards: lapsed with an intent to spend; told by Control.Job
	Waits     string          `json:"waits,omitempty"`  // why nothing of it is being worked on; told by Control.Job

	Events uint32 `json:"events"`
	Last   uint64 `json:"last"`
}

// Counts is the number of shards in each state.
type Counts struct {
	Blocked  uint32 `json:"blocked"`
	Ready    uint32 `json:"ready"`
	Leased   uint32 `json:"leased"`
	Done     uint32 `json:"done"`
	Failed   uint32 `json:"failed"`
	Canceled uint32 `json:"canceled"`
}

// Of returns the counter of a state.
func (c *Counts) Of(s State) *uint32 {
	return [...]*uint32{&c.Blocked, &c.Ready, &c.Leased, &c.Done, &c.Failed, &c.Canceled}[s-Blocked]
}

// Open is the number of shards that are not terminal.
func (c *Counts) Open() uint32 { return c.Blocked + c.Ready + c.Leased }

// Progress counts units of something: all that are known of, and how they ended.
type Progress struct {
	Total   uint64 `json:"total"`
	Done    uint64 `json:"done"`
	Failed  uint64 `json:"failed,omitempty"`
	Running uint64 `json:"running,omitempty"` // what open leases report to have done
}

// Derive returns the state that follows from a job's marks and counts.
func (j *Job) Derive() JobState {
	switch {
	case j.Canceled:
		return JobCanceled
	case (j.Shards.Open() > 0 || j.Plans > 0) && !j.Pause.IsZero():
		return JobPaused
	case j.Shards.Open() > 0 || j.Plans > 0:
		return JobRunning
	case j.Shards.Failed == j.Old.Failed && j.Shards.Canceled == j.Old.Canceled && j.Items.Failed == 0:
		return JobDone
	case j.Items.Done > 0:
		return JobPartial
	}
	return JobFailed
}

// Offer is what a worker can do.
type Offer struct {
	Kinds  []Kind   `json:"kinds"`
	Roots  []string `json:"roots,omitempty"`
	Models []string `json:"models,omitempty"`
	Labels []string `json:"labels,omitempty"` // NAME=VALUE, as its operator calls it
}

// Able reports whether the worker can meet n.
func (o *Offer) Able(n Need) bool {
	has := func(list []string, v string) bool {
		for _, x := range list {
			if x == v {
				return true
			}
		}
		return v == ""
	}
	for _, k := range o.Kinds {
		if k == n.Kind {
			return has(o.Roots, n.Root) && has(o.Models, n.Model) && n.Tags.Missing(o.Labels) == ""
		}
	}
	return false
}

// Worker is a worker as the control plane knows it.
type Worker struct {
	ID          WorkerID  `json:"id"`
	Incarnation uint64    `json:"incarnation"`
	Host        string    `json:"host,omitempty"`
	Version     string    `json:"version,omitempty"`
	Offer       Offer     `json:"offer"`
	Seen        time.Time `json:"seen,omitzero"`  // zero: not since the control plane started
	Away        bool      `json:"away,omitempty"` // silent for longer than a lease lasts
	Leases      int       `json:"leases"`
	Facts       Facts     `json:"facts,omitzero"`

	Drain     Pause        `json:"drain,omitzero"`      // it is granted nothing
	Withdrawn []Withdrawal `json:"withdrawn,omitempty"` // what it does not offer though it is set up for it
}

// Hello says which worker speaks. Incarnation is greater at every restart of a
// worker; a smaller one is refused with ErrTwin.
type Hello struct {
	Worker      WorkerID `json:"worker"`
	Incarnation uint64   `json:"incarnation"`
	Host        string   `json:"host,omitempty"`
	Machine     string   `json:"machine,omitempty"` // identity of the machine, to tell a copied folder
	Version     string   `json:"version,omitempty"`
	Offer       Offer    `json:"offer"`
	Mark        Mark     `json:"mark,omitzero"` // the highest seen of the store it last heard of
}

// Exchange delivers reports, gives shards back and claims others, in that order.
// A zero Hello.Worker delivers only: a spool whose worker does not run.
type Exchange struct {
	Hello
	Request  uint64       `json:"request,omitempty"` // number of the claim, rising within the incarnation
	Reports  []Report     `json:"reports,omitempty"`
	Releases []Give       `json:"releases,omitempty"`
	Max      int          `json:"max,omitempty"`      // shards wanted
	PerKind  map[Kind]int `json:"per_kind,omitempty"` // at most so many of a kind; kinds not named: none
	Job      JobID        `json:"job,omitzero"`       // claim from this job only
	// Loaded are the models that the worker has in memory: within a priority their
	// shards go first, and pass older ones of other models for up to MaxPassed.
	Loaded []string `json:"loaded,omitempty"`
	// Paces say how long what takes. By them the control plane leaves to faster workers
	// what would end last here, and grants up to Extra shards more than Max, as long as
	// what is held, which takes one slot Held, takes no longer than Ahead for each slot
	// and is no more than a fair share of what there is.
	Paces []Pace        `json:"paces,omitempty"`
	Extra int           `json:"extra,omitempty"`
	Ahead time.Duration `json:"ahead_ns,omitempty"`
	Held  time.Duration `json:"held_ns,omitempty"`
	Wait  time.Duration `json:"wait_ns,omitempty"` // how long to wait for work, when there is neither work nor a report
}

// Claims reports whether x asks for work.
func (x *Exchange) Claims() bool { return x.Max > 0 || x.Extra > 0 }

// Give gives a granted shard back uncounted.
type Give struct {
	Shard  ShardID       `json:"shard"`
	Fence  Fence         `json:"fence"`
	Reason string        `json:"reason"`
	Cost   Cost          `json:"cost_nusd,omitempty"` // spent under this fence
	Delay  time.Duration `json:"delay_ns,omitempty"`  // nobody is granted it for so long
}

// Exchanged answers an Exchange.
type Exchanged struct {
	Verdicts []Judgement `json:"verdicts,omitempty"`
	Grants   []Grant     `json:"grants,omitempty"`
	More     bool        `json:"more,omitempty"` // ask again at once: there is more to do than one commit should hold
	Mark     Mark        `json:"mark,omitzero"`
}

// Grant is a lease: work, and the proof of holding it.
type Grant struct {
	Shard   ShardID         `json:"shard"`
	Fence   Fence           `json:"fence"`
	Token   string          `json:"token"`
	Kind    Kind            `json:"kind"`
	Model   string          `json:"model,omitempty"` // of its need
	Payload json.RawMessage `json:"payload"`         // of a list shard: the job's parameters
	Lines   *Lines          `json:"lines,omitempty"` // of a list shard: what it works on
	Work    uint64          `json:"work,omitempty"`
	Needs   []Result        `json:"needs,omitempty"`  // results of the shards it waited for, in Spec.After's order; of a list shard: the one it is to complete
	Capped  bool            `json:"capped,omitempty"` // what it may cost has a limit
	Resend  bool            `json:"resend,omitempty"` // what may have been paid for is paid for again
	Term    time.Duration   `json:"term_ns"`          // it lapses so long after the last heartbeat
}

// Outcome says how an attempt ended.
type Outcome string

// The outcomes.
const (
	OutcomeDone   Outcome = "done"
	OutcomeFailed Outcome = "failed"
)

// Report tells how an attempt ended. Digest is that of the result's bytes, or of
// FailureDigest: with the fence it identifies the report.
type Report struct {
	Shard   ShardID         `json:"shard"`
	Fence   Fence           `json:"fence"`
	Token   string          `json:"token"`
	Outcome Outcome         `json:"outcome"`
	Digest  Digest          `json:"digest"`
	Class   FailureClass    `json:"class,omitempty"`     // failed: Retryable, Permanent or Unknown
	Reason  string          `json:"reason,omitempty"`    // failed
	Bytes   int64           `json:"bytes,omitempty"`     // done: length of the result
	Result  json.RawMessage `json:"result,omitempty"`    // done: the bytes, unless they travel as a blob
	Cost    Cost            `json:"cost_nusd,omitempty"` // spent under this fence
	Blobs   []Digest        `json:"blobs,omitempty"`     // blobs the result speaks of, and the result itself if it is one
}

// Verdict is the control plane's answer to a report.
type Verdict string

// The verdicts. All but NeedBlobs and Denied are durable: the worker may forget the report.
const (
	Accepted      Verdict = "accepted"   // recorded
	Duplicate     Verdict = "duplicate"  // this very report settled the fence before
	Conflict      Verdict = "conflict"   // another report settled the fence
	Stale         Verdict = "stale"      // the shard was granted again, or is no longer open
	InvalidReport Verdict = "invalid"    // the result breaks its kind's rules: a failed attempt
	NeedBlobs     Verdict = "need_blobs" // upload Missing and report again
	Denied        Verdict = "denied"     // not there, or not the caller's
)

// Judgement is the verdict on one report.
type Judgement struct {
	Shard   ShardID  `json:"shard"`
	Fence   Fence    `json:"fence"`
	Verdict Verdict  `json:"verdict"`
	Reason  string   `json:"reason,omitempty"`
	Missing []Digest `json:"missing,omitempty"`
}

// Phase says what a worker does with a lease.
type Phase string

// The phases of a lease.
const (
	Waiting Phase = "waiting" // not begun
	Running Phase = "running"
	Spooled Phase = "spooled" // finished, its report not yet delivered
)

// Beat is a worker's heartbeat: all the leases it believes to hold, and what it
// does not offer at the moment.
type Beat struct {
	Hello
	Leases    []LeaseBeat  `json:"leases,omitempty"`
	Withdrawn []Withdrawal `json:"withdrawn,omitempty"`
	Facts     *Facts       `json:"facts,omitempty"`
}

// LeaseBeat is one lease in a heartbeat.
type LeaseBeat struct {
	Shard ShardID `json:"shard"`
	Fence Fence   `json:"fence"`
	Phase Phase   `json:"phase"`
	Work  uint64  `json:"work,omitempty"`  // done so far, in the unit of Grant.Work
	Signs uint64  `json:"signs,omitempty"` // of progress so far, of any kind: one that runs and gives none for StallLimit is not renewed
}

// Beaten answers a heartbeat. Work on lost leases must end within 5 s.
type Beaten struct {
	Lost  []ShardID `json:"lost,omitempty"`
	Back  []ShardID `json:"back,omitempty"` // to be given back if they have not begun: others wait for work
	Mark  Mark      `json:"mark,omitzero"`
	Drain Pause     `json:"drain,omitzero"` // of the worker: it finishes what runs, and claims nothing until there is none
}

// Problem is a verifier's finding.
type Problem struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // a shard's or job's id, or "ledger"
	Detail  string `json:"detail"`
}
