package leasetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/store"
)

// Work is the kind that Planner's jobs are made of.
const Work lease.Kind = "work"

// Params are the parameters of a job of kind "test".
type Params struct {
	Items    int      `json:"items"`              // shards to begin with
	Root     string   `json:"root,omitempty"`     // they need it
	Model    string   `json:"model,omitempty"`    // they need it, too
	Works    []uint64 `json:"works,omitempty"`    // of each of them; none: 10
	Reuse    bool     `json:"reuse,omitempty"`    // their results may be reused
	Then     int      `json:"then,omitempty"`     // each accepted result plans so many more, and one that joins them
	Sound    bool     `json:"sound,omitempty"`    // the planned ones need the blob the result delivers
	Keep     bool     `json:"keep,omitempty"`     // the blob that a first one's result delivers belongs to it
	Bulky    bool     `json:"bulky,omitempty"`    // the first ones are
	Distinct string   `json:"distinct,omitempty"` // tells jobs apart
}

// Payload is a test shard's.
type Payload struct {
	Item  int  `json:"item"`
	Stage int  `json:"stage"` // 0 first, 1 planned, 2 the join
	Reuse bool `json:"reuse,omitempty"`
}

// Result is a test shard's. Bad makes it break its kind's rules.
type Result struct {
	Text string `json:"text"`
	Bad  bool   `json:"bad,omitempty"`
}

// Planner plans test jobs.
type Planner struct{}

// Start implements store.Planner.
func (Planner) Start(kind lease.Kind, params []byte) (lease.Plan, error) {
	if kind != "test" {
		return nil, fmt.Errorf("kind %q is not known", kind)
	}
	var p Params
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	plan := make(lease.Plan, p.Items)
	for i := range plan {
		b, _ := json.Marshal(Payload{Item: i}) // it always encodes
		plan[i] = lease.Spec{Need: lease.Need{Kind: Work, Root: p.Root, Model: p.Model, Bulky: p.Bulky}, Item: uint32(i), Opens: 1, Settles: 1, Work: 10, Payload: b}
		if i < len(p.Works) {
			plan[i].Work = p.Works[i]
		}
		if p.Reuse {
			plan[i].Reuse = lease.ReuseDigest("test", string(b))
		}
	}
	return plan, nil
}

// Accept implements store.Planner.
func (Planner) Accept(job *lease.Job, s *lease.Shard, result []byte, blobs []lease.Digest) (means lease.Acceptance, err error) {
	if s.Range != (lease.Range{}) {
		return acceptList(s, result)
	}
	var p Params
	var in Payload
	var res Result
	if err := errors.Join(json.Unmarshal(job.Params, &p), json.Unmarshal(s.Payload, &in), json.Unmarshal(result, &res)); err != nil {
		return means, err
	}
	if res.Bad {
		return means, errors.New("the result is bad")
	}
	if p.Keep && in.Stage == 0 {
		means.Keeps = []lease.Digest{SoundOf(s.ID)}
	}
	if in.Stage != 0 || p.Then == 0 {
		return means, nil
	}
	var plan lease.Plan
	join := lease.Spec{Need: lease.Need{Kind: Work}, Item: s.Item, Stage: 2, Settles: 1, Payload: json.RawMessage(`{"item":0,"stage":2}`)}
	for i := range p.Then {
		sp := lease.Spec{Need: lease.Need{Kind: Work}, Item: s.Item, Stage: 1, Work: 1, Payload: json.RawMessage(fmt.Sprintf(`{"item":%d,"stage":1}`, i))}
		if p.Sound {
			sp.Inputs = []lease.Digest{SoundOf(s.ID)}
		}
		if p.Reuse {
			sp.Reuse = lease.ReuseDigest("test", string(s.Payload), string(sp.Payload))
		}
		plan = append(plan, sp)
		join.After = append(join.After, uint32(i))
	}
	means.Plan = append(plan, join)
	return means, nil
}

// SoundBytes are the bytes of the blob that a test shard's result delivers.
func SoundBytes(lease.ShardID) []byte { return []byte("the sound of work") }

// SoundOf is their digest.
func SoundOf(id lease.ShardID) lease.Digest { return lease.DigestOf(SoundBytes(id)) }

// Clock is a clock that moves only when it is told to.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at a fixed instant.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now is the clock's instant.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Step moves the wall clock only, as an operator or a time server does.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Round(0).Add(d)
}

// Blobs keeps blobs in memory.
type Blobs struct {
	mu   sync.Mutex
	held map[lease.Digest][]byte
}

// NewBlobs returns an empty one.
func NewBlobs() *Blobs { return &Blobs{held: map[lease.Digest][]byte{}} }

// Put implements store.Blobs. Of a blob that is here already it reads nothing.
func (b *Blobs) Put(_ context.Context, d lease.Digest, size int64, r io.Reader) error {
	if here, _ := b.Has(d); here {
		return nil
	}
	v, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(v)) != size || lease.DigestOf(v) != d {
		return lease.ErrDigest
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[d] = v
	return nil
}

// Open implements store.Blobs.
func (b *Blobs) Open(d lease.Digest) (io.ReadSeekCloser, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.held[d]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return nopCloser{bytes.NewReader(v)}, int64(len(v)), nil
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// Has implements store.Blobs.
func (b *Blobs) Has(d lease.Digest) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.held[d]
	return ok, nil
}

// Remove implements store.Blobs.
func (b *Blobs) Remove(d lease.Digest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, d)
	return nil
}

// List implements store.Blobs.
func (b *Blobs) List(fn func(d lease.Digest, size int64, received time.Time) bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, v := range b.held {
		if !fn(d, int64(len(v)), time.Now()) {
			break
		}
	}
	return nil
}

// Admin is an actor that may do everything.
var Admin = lease.Actor{ID: "admin", Role: lease.Admin}

// Fixture is a running store.
type Fixture struct {
	*store.Store
	Engine kv.Engine
	Blobs  *Blobs
	Clock  *Clock
	Said   *Said
	stop   context.CancelFunc
	ended  chan error
}

// Open runs a store over an engine. When the test ends the store is stopped and
// verified.
func Open(t testing.TB, e kv.Engine, blobs *Blobs, clock *Clock) *Fixture {
	t.Helper()
	f := &Fixture{Engine: e, Blobs: blobs, Clock: clock, Said: &Said{}}
	f.start(t)
	t.Cleanup(func() {
		f.Stop(t)
		f.Check(t)
	})
	return f
}

func (f *Fixture) start(t testing.TB) {
	t.Helper()
	s, err := store.Open(store.Options{
		Engine: f.Engine, Blobs: f.Blobs, Planner: Planner{}, Words: f.Said, Budget: 1, Now: f.Clock.Now, Rand: rand.New(rand.NewPCG(1, 2)),
	})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.Store, f.stop, f.ended = s, stop, make(chan error, 1)
	go func() { f.ended <- s.Run(ctx) }()
}

// Stop ends the writer, as a clean shutdown does. It may be called twice.
func (f *Fixture) Stop(t testing.TB) {
	t.Helper()
	if f.stop == nil {
		return
	}
	f.stop()
	if err := <-f.ended; err != nil {
		t.Errorf("run store: %v", err)
	}
	f.stop = nil
}

// Restart opens the engine anew, as the next process does.
func (f *Fixture) Restart(t testing.TB) {
	t.Helper()
	f.Stop(t)
	f.start(t)
}

// Check verifies rows against ledger.
func (f *Fixture) Check(t testing.TB) {
	t.Helper()
	problems, err := store.Check(f.Engine, f.Blobs)
	if err != nil {
		t.Errorf("verify: %v", err)
	}
	for _, p := range problems {
		t.Errorf("verify: %s %s: %s", p.Kind, p.Subject, p.Detail)
	}
}
