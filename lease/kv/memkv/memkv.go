// Package memkv keeps a kv.Engine in memory, for tests and models. Reads are
// snapshots that a running write does not disturb; as in bbolt, the slices given
// to a transaction are used uncopied until it commits, and those handed out are
// the engine's own. Commits can be made to fail.
package memkv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/google/btree"

	"macbatch/lease/kv"
)

// Fault is what a commit is made to end with.
type Fault struct {
	Err     error // what Update returns
	Applied bool  // whether the commit is there all the same, as Reopen then shows
}

// DB is an engine in memory. The zero value is not usable: call Open.
type DB struct {
	// OnCommit, where set before use, is asked at each commit, the first being
	// number 1. A fault of kv.ErrUnknownOutcome ends the engine.
	OnCommit func(n int) *Fault

	open    sync.RWMutex // held for reading by each transaction
	closed  bool
	write   sync.Mutex
	commits int
	broken  atomic.Bool // once an outcome is unknown
	current atomic.Pointer[state]
	durable *state // what Reopen starts from; guarded by write
}

// state is one version of everything; published ones are never changed.
type state struct {
	tree *btree.BTreeG[*pair]
	log  []record
	last uint64 // the highest sequence ever appended
}

type pair struct{ key, value []byte }

type record struct {
	seq  uint64
	data []byte
}

var _ kv.Engine = (*DB)(nil)

// Open returns an empty engine.
func Open() *DB {
	return from(&state{tree: btree.NewG(32, func(a, b *pair) bool { return bytes.Compare(a.key, b.key) < 0 })})
}

func from(s *state) *DB {
	db := &DB{durable: s}
	db.current.Store(s)
	return db
}

// Reopen returns a new engine that holds what is durable in this one, as if its
// process had died. This one should not be used any more.
func (db *DB) Reopen() *DB {
	db.write.Lock()
	defer db.write.Unlock()
	s := *db.durable
	s.tree, s.log = s.tree.Clone(), slices.Clone(s.log)
	return from(&s)
}

// Commits returns how many commits were attempted.
func (db *DB) Commits() int {
	db.write.Lock()
	defer db.write.Unlock()
	return db.commits
}

// View runs fn on the newest committed state.
func (db *DB) View(fn func(kv.Reader) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.open.RUnlock()
	s := *db.current.Load()
	return fn(&tx{state: s})
}

// Update runs fn on a copy that becomes the newest state if it returns nil.
func (db *DB) Update(fn func(kv.Writer) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.open.RUnlock()
	db.write.Lock()
	defer db.write.Unlock()
	if db.broken.Load() { // by a transaction this one waited for
		return kv.ErrUnknownOutcome
	}
	s := *db.current.Load()
	s.tree = s.tree.Clone()
	t := &tx{state: s}
	if err := fn(t); err != nil || !t.wrote {
		return err
	}
	return db.commit(t)
}

// enter checks that the engine serves, and keeps it from closing.
func (db *DB) enter() error {
	db.open.RLock()
	switch {
	case db.closed:
		db.open.RUnlock()
		return kv.ErrClosed
	case db.broken.Load():
		db.open.RUnlock()
		return kv.ErrUnknownOutcome
	}
	return nil
}

func (db *DB) commit(t *tx) error {
	t.own()
	db.commits++
	var fault *Fault
	if db.OnCommit != nil {
		fault = db.OnCommit(db.commits)
	}
	if fault == nil || fault.Applied {
		db.durable = &t.state
	}
	if fault == nil {
		db.current.Store(&t.state)
		return nil
	}
	if errors.Is(fault.Err, kv.ErrUnknownOutcome) {
		db.broken.Store(true)
	}
	return fault.Err
}

// Close ends the engine.
func (db *DB) Close() error {
	db.open.Lock()
	defer db.open.Unlock()
	db.closed = true
	return nil
}

// tx is a transaction of either kind.
type tx struct {
	state
	wrote bool
	dirty []*pair // pairs whose values are still the caller's
	fresh int     // records at the end of the log whose data still is
}

// own copies what the caller gave: after the commit its slices are its own again.
func (t *tx) own() {
	for _, p := range t.dirty {
		p.value = bytes.Clone(p.value)
	}
	for i := len(t.log) - min(t.fresh, len(t.log)); i < len(t.log); i++ {
		t.log[i].data = append([]byte{}, t.log[i].data...)
	}
}

func (t *tx) Get(key []byte) []byte {
	p, ok := t.tree.Get(&pair{key: key})
	if !ok {
		return nil
	}
	return p.value
}

func (t *tx) Scan(from, to []byte, fn func(key, value []byte) bool) {
	each := func(p *pair) bool { return fn(p.key, p.value) }
	if to == nil {
		t.tree.AscendGreaterOrEqual(&pair{key: from}, each)
		return
	}
	t.tree.AscendRange(&pair{key: from}, &pair{key: to}, each)
}

// at returns the index of the first record whose sequence is >= seq.
func (t *tx) at(seq uint64) int {
	return sort.Search(len(t.log), func(i int) bool { return t.log[i].seq >= seq })
}

func (t *tx) Log(from uint64, fn func(seq uint64, record []byte) bool) {
	for _, r := range t.log[t.at(from):] {
		if !fn(r.seq, r.data) {
			return
		}
	}
}

func (t *tx) LogBack(from uint64, fn func(seq uint64, record []byte) bool) {
	i := t.at(from)
	if i < len(t.log) && t.log[i].seq == from {
		i++
	}
	for _, r := range slices.Backward(t.log[:i]) {
		if !fn(r.seq, r.data) {
			return
		}
	}
}

func checkKey(key []byte) error {
	if len(key) == 0 || len(key) > kv.MaxKey {
		return fmt.Errorf("%w: %d bytes", kv.ErrKey, len(key))
	}
	return nil
}

func (t *tx) Put(key, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if value == nil {
		value = []byte{}
	}
	p := &pair{bytes.Clone(key), value}
	t.tree.ReplaceOrInsert(p)
	t.dirty = append(t.dirty, p)
	t.wrote = true
	return nil
}

func (t *tx) Delete(key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	t.tree.Delete(&pair{key: key})
	t.wrote = true
	return nil
}

func (t *tx) Append(seq uint64, data []byte) error {
	if seq <= t.last {
		return fmt.Errorf("%w: %d after %d", kv.ErrOrder, seq, t.last)
	}
	if data == nil {
		data = []byte{}
	}
	// States share the array: nobody reads behind the end of a published one, so
	// what a rolled-back transaction left there may be overwritten.
	t.log = append(t.log, record{seq, data})
	t.last, t.wrote = seq, true
	t.fresh++
	return nil
}

func (t *tx) Trim(before uint64) error {
	t.log = slices.Clone(t.log[t.at(before):])
	t.wrote = true
	return nil
}
