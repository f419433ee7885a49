package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"macbatch/lease"
)

// rowVersion begins every row. See the package documentation for how to raise it.
const rowVersion = 6

// version reads the version byte of a row. Rows of every earlier version are read.
func (d *decoder) version() byte {
	v := d.byte()
	if d.err == nil && v > rowVersion {
		d.fail(fmt.Errorf("%w: row version %d", ErrNewer, v))
	} else if d.err == nil && v < 1 {
		d.fail(fmt.Errorf("row version %d is not known", v))
	}
	return v
}

// The first byte of a key says what it holds.
const (
	keyStore   = 'm' // the store's identity
	keyHead    = 'h' // the ledger's head, with the counters
	keyJob     = 'j' // + job
	keyShard   = 's' // + job + seq
	keyValue   = 'o' // + job + seq: an inline result
	keyPlan    = 'p' // + job + seq: an accepted result whose shards are still being added; seq 0: an input
	keyNext    = 'n' // + job + seq: the number of the shard that supersedes it
	keyKey     = 'k' // + project, 0, idempotency key
	keyReuse   = 'u' // + digest
	keyActor   = 'a' // + actor id
	keyProject = 'q' // + project
	keyPause   = 'z' // + kind, or a byte 0 and a worker; nothing: of everything
	keyDrop    = 'd' // + job: its rows are being removed
)

func jobKey(kind byte, id lease.JobID) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(id))
}

const shardKeyBytes = 1 + 8 + 4

func shardKey(kind byte, id lease.ShardID) []byte {
	return appendShardKey(make([]byte, 0, shardKeyBytes), kind, id)
}

func appendShardKey(b []byte, kind byte, id lease.ShardID) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(append(b, kind), uint64(id.Job)), id.Seq)
}

func shardOfKey(k []byte) lease.ShardID {
	if len(k) != 13 {
		return lease.ShardID{}
	}
	return lease.ShardID{Job: lease.JobID(binary.BigEndian.Uint64(k[1:])), Seq: binary.BigEndian.Uint32(k[9:])}
}

func reuseKey(d lease.Digest) []byte { return append([]byte{keyReuse}, d[:]...) }

func idempotencyKey(p lease.Project, key string) []byte {
	return append(append(append([]byte{keyKey}, p...), 0), key...)
}

// prefixEnd is the first key beyond those that begin with p.
func prefixEnd(p []byte) []byte {
	e := slices.Clone(p)
	for i := len(e) - 1; i >= 0; i-- {
		if e[i]++; e[i] != 0 {
			return e[:i+1]
		}
	}
	return nil
}

// sum is what an event keeps of the row it left behind.
func sum(key, row []byte) uint64 {
	return sumOf(append(append(make([]byte, 0, len(key)+len(row)), key...), row...))
}

// sumOf is sum of a key with its row behind it.
func sumOf(b []byte) uint64 {
	d := lease.DigestOf(b)
	return binary.BigEndian.Uint64(d[:])
}

// shardBytes is about the length of a shard's key and row.
func shardBytes(s *lease.Shard) int {
	return 176 + len(s.Need.Kind) + len(s.Need.Root) + len(s.Need.Model) + len(s.Need.Tags) + len(s.Payload) + 32*len(s.Inputs) + 32*len(s.Result.Keeps) + 3*len(s.After) + 3*len(s.Next) +
		len(s.Holder.Worker) + len(s.Holder.Actor) + len(s.Reason)
}

func encodeShard(s *lease.Shard) []byte { return appendShard(make([]byte, 0, shardBytes(s)), s) }

func appendShard(b []byte, s *lease.Shard) []byte {
	e := encoder{b}
	e.byte(rowVersion)
	e.string(string(s.Need.Kind))
	e.string(s.Need.Root)
	e.string(s.Need.Model)
	e.bool(s.Need.Bulky)
	e.uint(uint64(s.Item))
	e.byte(s.Stage)
	e.uint(uint64(s.Opens))
	e.uint(uint64(s.Settles))
	e.uint(s.Work)
	e.string(string(s.Payload))
	e.uint(uint64(len(s.Inputs)))
	for _, d := range s.Inputs {
		e.b = append(e.b, d[:]...)
	}
	e.uints(s.After)
	e.uints(s.Next)
	e.digest(s.Reuse)

	e.byte(byte(s.State))
	e.fixed64(uint64(s.Fence))
	e.bool(s.Holder.Worker != "")
	if s.Holder.Worker != "" {
		e.string(string(s.Holder.Worker))
		e.string(string(s.Holder.Actor))
		e.uint(s.Holder.Incarnation)
		e.uint(s.Holder.Request)
	}
	e.uint(uint64(s.Failures))
	e.uint(uint64(s.Lapses))
	e.uint(uint64(s.Delay))
	e.string(string(s.Class))
	e.string(s.Reason)
	e.bool(s.Settled.Fence != 0)
	if s.Settled.Fence != 0 {
		e.fixed64(uint64(s.Settled.Fence))
		e.b = append(e.b, s.Settled.Digest[:]...)
	}
	e.digest(s.Result.Digest)
	e.uint(uint64(s.Result.Bytes))
	e.bool(s.Result.Blob)
	e.shard(s.From)
	e.uint(uint64(s.Planned))
	e.uint(uint64(s.Events))
	e.uint(s.Last)
	e.span(s.Range)
	e.uint(uint64(s.Result.Failed))
	e.uint(uint64(s.First))
	e.uint(uint64(s.Parent))
	e.uint(uint64(s.Generation))
	e.uints(s.Supersedes)
	e.bool(s.Fresh)
	e.bool(s.Result.Maker != lease.Maker{})
	if m := s.Result.Maker; m != (lease.Maker{}) {
		e.string(m.Engine)
		e.string(m.Model)
		e.string(m.Server)
	}
	e.fixed64(uint64(s.Intent.Fence))
	e.uint(uint64(s.Intent.Reserved))
	e.uint(uint64(s.Spent))
	e.uint(uint64(len(s.Result.Keeps)))
	for _, d := range s.Result.Keeps {
		e.b = append(e.b, d[:]...)
	}
	e.bool(s.Resend)
	e.string(string(s.Need.Tags))
	return e.b
}

// decodeShard reads a row. The project and priority are its job's.
func decodeShard(id lease.ShardID, b []byte) (*lease.Shard, error) {
	s := &lease.Shard{}
	if err := readShard(s, id, b, nil); err != nil {
		return nil, err
	}
	if len(s.Payload) > 0 {
		s.Payload = bytes.Clone(s.Payload)
	} else {
		s.Payload = nil
	}
	return s, nil
}

// readShard is decodeShard into s, a zero shard, whose payload is then a part of b.
func readShard(s *lease.Shard, id lease.ShardID, b []byte, names names) error {
	d := decoder{b: b, names: names}
	v := d.version()
	s.ID = id
	s.Need = lease.Need{Kind: lease.Kind(d.name()), Root: d.name(), Model: d.name(), Bulky: d.bool()}
	s.Item, s.Stage = d.uint32(), d.byte()
	s.Opens, s.Settles, s.Work = d.uint32(), d.uint32(), d.uint()
	s.Payload = d.bytes()
	s.Inputs = d.digests()
	s.After, s.Next, s.Reuse = d.uints(), d.uints(), d.digest()

	s.State, s.Fence = lease.State(d.byte()), lease.Fence(d.fixed64())
	if s.State < lease.Blocked || s.State > lease.Canceled {
		d.fail(fmt.Errorf("state %d is not known", s.State))
	}
	if d.bool() {
		s.Holder = lease.Holder{Worker: lease.WorkerID(d.name()), Actor: lease.ActorID(d.name()), Incarnation: d.uint(), Request: d.uint()}
	}
	s.Failures, s.Lapses, s.Delay = d.uint16(), d.uint16(), time.Duration(d.uint())
	s.Class, s.Reason = lease.FailureClass(d.string()), d.string()
	if d.bool() {
		s.Settled.Fence = lease.Fence(d.fixed64())
		copy(s.Settled.Digest[:], d.take(32))
	}
	s.Result = lease.Result{Digest: d.digest(), Bytes: int64(d.uint()), Blob: d.bool()}
	s.From, s.Planned = d.shard(), d.uint32()
	s.Events, s.Last = d.uint32(), d.uint()
	if v >= 2 {
		s.Range, s.Result.Failed = d.span(), d.uint32()
		s.First, s.Parent, s.Generation = d.uint32(), d.uint32(), d.uint32()
		s.Supersedes, s.Fresh = d.uints(), d.bool()
		if d.bool() {
			s.Result.Maker = lease.Maker{Engine: d.name(), Model: d.name(), Server: d.name()}
		}
	}
	if v >= 4 {
		s.Intent = lease.Intent{Fence: lease.Fence(d.fixed64()), Reserved: lease.Cost(d.uint())}
		s.Spent = lease.Cost(d.uint())
	}
	if v >= 5 {
		s.Result.Keeps, s.Resend = d.digests(), d.bool()
	}
	if v >= 6 {
		s.Need.Tags = lease.Tags(d.name())
	}
	if err := d.done(); err != nil {
		return fmt.Errorf("shard %v: row damaged: %w", id, err)
	}
	return nil
}

// jobRow is a job as stored: the job, and how many shard numbers are given out.
type jobRow struct {
	lease.Job
	NextSeq uint32 // the next shard's number
	former  bool   // as read: in the form of an earlier version
}

// encodeJob writes a job: first what only the job's own events change, then the
// counts. It returns the length of the first part, which those events sum.
func encodeJob(j *jobRow) (row []byte, fixed int) {
	e := encoder{make([]byte, 0, 160+len(j.Params))}
	e.byte(rowVersion)
	e.string(string(j.Project))
	e.string(string(j.Kind))
	e.string(string(j.Params))
	e.uint(uint64(uint32(j.Priority)))
	e.string(j.Key)
	e.string(string(j.Actor))
	e.uint(uint64(j.Submitted.UnixMilli()))
	e.bool(j.Canceled)
	e.string(j.Reason)
	e.uint(uint64(j.Events))
	e.uint(j.Last)
	e.digest(j.Input.Digest)
	e.uint(uint64(j.Input.Bytes))
	e.digest(j.Reuse)
	e.pause(&j.Pause)
	e.uint(uint64(j.Cost.Max))
	e.string(string(lease.TagsOf(j.Require)))
	fixed = len(e.b)
	for _, s := range lease.States {
		e.uint(uint64(*j.Shards.Of(s)))
	}
	e.uint(uint64(j.Plans))
	for _, p := range []lease.Progress{j.Items, j.Work} {
		e.uint(p.Total)
		e.uint(p.Done)
		e.uint(p.Failed)
	}
	e.uint(uint64(j.NextSeq))
	for _, s := range []lease.State{lease.Done, lease.Failed, lease.Canceled} {
		e.uint(uint64(*j.Old.Of(s)))
	}
	e.bool(!j.Ended.IsZero())
	if !j.Ended.IsZero() {
		e.uint(uint64(j.Ended.UnixMilli()))
	}
	e.uint(uint64(j.Cost.Reserved))
	e.uint(uint64(j.Cost.Spent))
	e.fixed64(sum(jobKey(keyJob, j.ID), e.b)) // no event sums the counts
	return e.b, fixed
}

// decodeJobMarks reads the first part alone, as a carried event keeps it.
func decodeJobMarks(id lease.JobID, b []byte) (*jobRow, error) {
	d := decoder{b: b}
	j, _ := d.jobMarks(id)
	if err := d.done(); err != nil {
		return nil, fmt.Errorf("job %v: row damaged: %w", id, err)
	}
	return j, nil
}

func (d *decoder) jobMarks(id lease.JobID) (j *jobRow, version byte) {
	v := d.version()
	j = &jobRow{former: d.err == nil && v < rowVersion}
	j.ID, j.Project, j.Kind = id, lease.Project(d.string()), lease.Kind(d.string())
	j.Params = bytes.Clone(d.bytes())
	j.Priority, j.Key, j.Actor = int32(d.uint32()), d.string(), lease.ActorID(d.string())
	j.Submitted = time.UnixMilli(int64(d.uint())).UTC()
	j.Canceled, j.Reason = d.bool(), d.string()
	j.Events, j.Last = d.uint32(), d.uint()
	if v >= 2 {
		j.Input, j.Reuse = lease.Input{Digest: d.digest(), Bytes: int64(d.uint())}, d.digest()
		if j.Pause = d.pause(); !j.Pause.IsZero() {
			j.Pause.Job = id
		}
	}
	if v >= 4 {
		j.Cost.Max = lease.Cost(d.uint())
	}
	if v >= 6 {
		j.Require = lease.Tags(d.string()).Labels()
	}
	return j, v
}

func decodeJob(id lease.JobID, b []byte) (j *jobRow, fixed int, err error) {
	d := decoder{b: b}
	j, v := d.jobMarks(id)
	fixed = len(b) - len(d.b)
	for _, s := range lease.States {
		*j.Shards.Of(s) = d.uint32()
	}
	j.Plans = d.uint32()
	for _, p := range []*lease.Progress{&j.Items, &j.Work} {
		p.Total, p.Done, p.Failed = d.uint(), d.uint(), d.uint()
	}
	j.NextSeq = d.uint32()
	if v >= 2 {
		j.Old.Done, j.Old.Failed, j.Old.Canceled = d.uint32(), d.uint32(), d.uint32()
	}
	if v >= 3 && d.bool() {
		j.Ended = time.UnixMilli(int64(d.uint())).UTC()
	}
	if v >= 4 {
		j.Cost.Reserved, j.Cost.Spent = lease.Cost(d.uint()), lease.Cost(d.uint())
	}
	if s := d.fixed64(); d.err == nil && s != sum(jobKey(keyJob, id), b[:len(b)-8]) {
		d.fail(errors.New("its sum differs"))
	}
	if err := d.done(); err != nil {
		return nil, 0, fmt.Errorf("job %v: row damaged: %w", id, err)
	}
	if j.State = j.Derive(); v < 3 && j.State.Terminal() {
		j.Ended = j.Submitted // when it did was not kept
	}
	return j, fixed, nil
}

// encodePlace writes the mark of a list job whose shards are still being added.
// No event sums it: it sums itself.
func encodePlace(id lease.JobID, at place) []byte {
	var e encoder
	e.fixed64(uint64(at.offset))
	e.fixed64(uint64(at.item))
	e.fixed64(sum(shardKey(keyPlan, lease.ShardID{Job: id}), e.b))
	return e.b
}

func decodePlace(id lease.JobID, b []byte) (at place, err error) {
	d := decoder{b: b}
	at = place{int64(d.fixed64()), uint32(d.fixed64())}
	if v := d.fixed64(); d.err == nil && v != sum(shardKey(keyPlan, lease.ShardID{Job: id}), b[:len(b)-8]) {
		d.fail(errors.New("its sum differs"))
	}
	if err := d.done(); err != nil {
		return at, fmt.Errorf("job %v: the mark of its input is damaged: %w", id, err)
	}
	return at, nil
}

// span is how far the shards that a result planned are added.
type span struct {
	base uint32 // number of the first
	next uint32 // how many are there
}

// encodeSpan writes the mark of a result whose shards are still being added. It
// sums itself too.
func encodeSpan(id lease.ShardID, s span) []byte {
	b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, s.base), s.next)
	return binary.BigEndian.AppendUint64(b, sum(shardKey(keyPlan, id), b))
}

func decodeSpan(id lease.ShardID, b []byte) (span, error) {
	if len(b) != 16 || binary.BigEndian.Uint64(b[8:]) != sum(shardKey(keyPlan, id), b[:8]) {
		return span{}, fmt.Errorf("shard %v: the mark of its plan is damaged", id)
	}
	return span{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}, nil
}

func encodeEvent(e *encoder, ev *lease.Event) {
	// Its length goes in front, once it is known; for most it is one or two bytes.
	const room = 2
	at := len(e.b)
	e.b = append(e.b, make([]byte, room)...)
	e.byte(byte(slices.Index(lease.EventKinds, ev.Kind)))
	e.fixed64(uint64(ev.Job))
	e.uint(uint64(ev.Shard))
	e.uint(uint64(ev.N))
	e.uint(ev.Prev)
	e.uint(uint64(ev.At.UnixMilli()))
	e.string(string(ev.Actor))
	e.string(string(ev.Worker))
	e.fixed64(uint64(ev.Fence))
	e.string(string(ev.Class))
	e.string(ev.Reason)
	e.digest(ev.Digest)
	e.shard(ev.From)
	e.bool(ev.Count)
	e.fixed64(ev.Sum)
	switch ev.Kind { //nolint:exhaustive // the others have no more
	case lease.EventCheckpoint:
		e.uint(ev.Cut)
		e.uint(ev.Carried)
	case lease.EventCarried:
		e.string(string(ev.Row))
		e.string(string(ev.What))
		e.string(string(ev.Project))
		e.string(string(ev.Subject))
	case lease.EventIntended, lease.EventDone, lease.EventFailed, lease.EventRequeued, lease.EventReleased, lease.EventLeaseExpired, lease.EventCanceled:
		if ev.Cost > 0 {
			e.uint(uint64(ev.Cost))
		}
	case lease.EventPaused, lease.EventResumed:
		e.uint(uint64(ev.For))
		e.string(string(ev.What))
	case lease.EventProjectCreated, lease.EventProjectClosed, lease.EventProjectOpened, lease.EventActorAdded,
		lease.EventActorRotated, lease.EventActorRevoked, lease.EventActorInvited, lease.EventActorJoined, lease.EventAssigned, lease.EventUnassigned:
		e.string(string(ev.Project))
		e.string(string(ev.Subject))
	}
	var n [binary.MaxVarintLen64]byte
	l := binary.PutUvarint(n[:], uint64(len(e.b)-at-room))
	e.b = slices.Replace(e.b, at, at+room, n[:l]...)
}

// decodeRecord reads the events of one commit: the record without its chain digest.
func decodeRecord(first uint64, b []byte) ([]lease.Event, error) {
	var events []lease.Event
	d := decoder{b: b}
	for len(d.b) > 0 && d.err == nil {
		ev, err := decodeEvent(first+uint64(len(events)), d.bytes())
		if err != nil {
			d.fail(err)
			break
		}
		events = append(events, ev)
	}
	if err := d.done(); err != nil {
		return nil, fmt.Errorf("ledger record %d: damaged: %w", first, err)
	}
	return events, nil
}

// decodeEvent reads one event of a record.
func decodeEvent(seq uint64, b []byte) (ev lease.Event, err error) {
	in := decoder{b: b}
	ev.Seq = seq
	if k := int(in.byte()); k < len(lease.EventKinds) {
		ev.Kind = lease.EventKinds[k]
	} else {
		in.fail(errors.New("event kind is not known"))
	}
	ev.Job, ev.Shard = lease.JobID(in.fixed64()), in.uint32()
	ev.N, ev.Prev, ev.At = in.uint32(), in.uint(), time.UnixMilli(int64(in.uint())).UTC()
	ev.Actor, ev.Worker, ev.Fence = lease.ActorID(in.string()), lease.WorkerID(in.string()), lease.Fence(in.fixed64())
	ev.Class, ev.Reason = lease.FailureClass(in.string()), in.string()
	ev.Digest, ev.From, ev.Count, ev.Sum = in.digest(), in.shard(), in.bool(), in.fixed64()
	switch ev.Kind { //nolint:exhaustive // the others have no more
	case lease.EventCheckpoint:
		ev.Cut, ev.Carried = in.uint(), in.uint()
	case lease.EventCarried:
		ev.Row, ev.What = bytes.Clone(in.bytes()), lease.Kind(in.string())
		ev.Project, ev.Subject = lease.Project(in.string()), lease.ActorID(in.string())
	case lease.EventIntended, lease.EventDone, lease.EventFailed, lease.EventRequeued, lease.EventReleased, lease.EventLeaseExpired, lease.EventCanceled:
		if len(in.b) > 0 {
			ev.Cost = lease.Cost(in.uint())
		}
	case lease.EventPaused, lease.EventResumed:
		ev.For, ev.What = time.Duration(in.uint()), lease.Kind(in.string())
	case lease.EventProjectCreated, lease.EventProjectClosed, lease.EventProjectOpened, lease.EventActorAdded,
		lease.EventActorRotated, lease.EventActorRevoked, lease.EventActorInvited, lease.EventActorJoined, lease.EventAssigned, lease.EventUnassigned:
		ev.Project, ev.Subject = lease.Project(in.string()), lease.ActorID(in.string())
	}
	return ev, in.done()
}

// eventJob is the job an encoded event tells of, without reading the rest.
func eventJob(b []byte) lease.JobID {
	if len(b) < 9 {
		return 0
	}
	return lease.JobID(binary.BigEndian.Uint64(b[1:]))
}

// head is the ledger's end and the counters, written with every commit.
type head struct {
	Seq     uint64       // of the newest event
	Chain   lease.Digest // over all records
	Commits uint64       // that wrote anything
	Epoch   uint32
	Fence   uint32 // counter of the newest fence in this epoch
	Job     uint32 // counter of the newest job in this epoch

	Events uint32 // how many events tell of the store itself
	Last   uint64 // sequence of the newest of them

	Seal      uint64       // sequence of the newest checkpoint; 0: none
	Base      uint64       // the newest event that it sealed; the ledger begins behind it
	BaseChain lease.Digest // the chain's digest there

	Want     bool         // the ledger is to be cut again
	Cut      uint64       // of the checkpoint in the making; 0: there is none
	CutChain lease.Digest // the chain's digest there
	Carried  uint64       // rows carried over it so far

	Identity uint64  // sum of the identity's row
	Keys     entries // idempotency keys
	Reuses   entries // of reusable work
}

// entries are the rows of an index, none of which any event tells of: how many
// there are, and what their sums add up to.
type entries struct {
	N, Sum uint64
}

// replace counts an entry's new value, nil for none, in the place of the old one.
func (n *entries) replace(key, old, value []byte) {
	if old != nil {
		n.N, n.Sum = n.N-1, n.Sum-sum(key, old)
	}
	if value != nil {
		n.N, n.Sum = n.N+1, n.Sum+sum(key, value)
	}
}

func encodeHead(h *head) []byte {
	var e encoder
	e.byte(rowVersion)
	e.uint(h.Seq)
	e.b = append(e.b, h.Chain[:]...)
	e.uint(h.Commits)
	e.uint(uint64(h.Epoch))
	e.uint(uint64(h.Fence))
	e.uint(uint64(h.Job))
	e.uint(uint64(h.Events))
	e.uint(h.Last)
	e.uint(h.Seal)
	e.uint(h.Base)
	e.digest(h.BaseChain)
	e.bool(h.Want)
	e.uint(h.Cut)
	e.digest(h.CutChain)
	e.uint(h.Carried)
	e.fixed64(h.Identity)
	for _, n := range []entries{h.Keys, h.Reuses} {
		e.uint(n.N)
		e.fixed64(n.Sum)
	}
	e.fixed64(sum([]byte{keyHead}, e.b)) // the counters are in no event
	return e.b
}

func decodeHead(b []byte) (h head, err error) {
	d := decoder{b: b}
	v := d.version()
	h.Seq = d.uint()
	copy(h.Chain[:], d.take(32))
	h.Commits, h.Epoch, h.Fence, h.Job = d.uint(), d.uint32(), d.uint32(), d.uint32()
	if h.Events, h.Last = 1, 1; v >= 2 { // before, a store had its creation only
		h.Events, h.Last = d.uint32(), d.uint()
		h.Seal, h.Base, h.BaseChain = d.uint(), d.uint(), d.digest()
		h.Want, h.Cut, h.CutChain, h.Carried = d.bool(), d.uint(), d.digest(), d.uint()
	}
	if v >= 3 {
		h.Identity = d.fixed64()
		h.Keys, h.Reuses = entries{d.uint(), d.fixed64()}, entries{d.uint(), d.fixed64()}
	}
	if s := d.fixed64(); d.err == nil && s != sum([]byte{keyHead}, b[:len(b)-8]) {
		d.fail(errors.New("its sum differs"))
	}
	if err := d.done(); err != nil {
		return h, fmt.Errorf("ledger head: damaged: %w", err)
	}
	return h, nil
}

// chain is the digest after a record: over the one before it, its place, and its events.
func chain(before lease.Digest, first uint64, record []byte) lease.Digest {
	h := sha256.New()
	h.Write(before[:])
	h.Write(binary.BigEndian.AppendUint64(nil, first))
	h.Write(record)
	return lease.Digest(h.Sum(nil))
}
