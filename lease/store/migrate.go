package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// schemaVersion is the store's layout as a whole.
//
//	1  rows of version 1; actors without a history, projects without rows
//	2  rows of version 2 beside them, pauses, list inputs, checkpoints; actors and
//	   projects have rows with events; marks of plans have sums
//	3  rows of version 3 beside them: jobs know when they ended, the head sums the
//	   identity and the entries of indexes; of the jobs of a key the newest has it
const schemaVersion = 3

// Errors of opening a store.
var (
	// ErrNewer is returned for a store that a newer version of macbatch wrote.
	ErrNewer = errors.New("the store was written by a newer version of macbatch")

	// ErrOlder is returned when a store at rest is of an older schema than can be verified.
	ErrOlder = errors.New("the store was written by an older version of macbatch: start its control plane once with this one, then verify")
)

// Accept refuses what is no store of macbatch, or one that this version does not
// know. An empty engine is one in the making.
func Accept(r kv.Reader) error {
	id := r.Get([]byte{keyStore})
	if id == nil && !empty(r) {
		return errNoIdentity
	}
	if id == nil {
		return nil
	}
	return checkIdentity(id)
}

var errNoIdentity = errors.New("not a macbatch store: it has no identity")

func empty(r kv.Reader) bool {
	none := true
	r.Scan(nil, nil, func(_, _ []byte) bool { none = false; return false })
	r.Log(0, func(uint64, []byte) bool { none = false; return false })
	return none
}

func checkIdentity(id []byte) error {
	switch {
	case len(id) > 0 && id[0] > schemaVersion:
		return fmt.Errorf("%w: its schema is %d, this one knows %d", ErrNewer, id[0], schemaVersion)
	case len(id) != 49 || id[0] == 0:
		return errors.New("the store is damaged: its identity cannot be read")
	}
	return nil
}

// migrate brings a store of an older schema to this one, before anything is
// served. All of it is one commit, the new schema number in it: when that fails
// the store is as it was, and the next start begins again.
func (s *Store) migrate() error {
	if s.schema == schemaVersion {
		return nil
	}
	c := &command{done: make(chan error, 1), run: func(t *tx) error {
		if t.s.schema < 2 {
			if err := t.adopt(); err != nil {
				return err
			}
			t.sumPlans()
		}
		t.put([]byte{keyStore}, t.s.identity())
		t.head.Identity = sum([]byte{keyStore}, t.s.identity())
		if t.s.schema < 3 {
			return t.sumEntries()
		}
		return nil
	}}
	if err := cmp.Or(s.commit(c), <-c.done); err != nil {
		return fmt.Errorf("bring schema %d to %d: %w", s.schema, schemaVersion, err)
	}
	s.log.Info("the store was brought up to date; older versions of macbatch refuse it now", "from", s.schema, "to", schemaVersion)
	s.schema = schemaVersion
	return nil
}

// sumPlans gives the marks of plans the sum that they did not have.
func (t *tx) sumPlans() {
	scan(t.g.w, []byte{keyPlan}, func(k, v []byte) bool {
		if id := shardOfKey(k); id.Seq != 0 && len(v) == 8 {
			t.put(bytes.Clone(k), encodeSpan(id, span{binary.BigEndian.Uint32(v), binary.BigEndian.Uint32(v[4:])}))
		}
		return true
	})
}

// sumEntries sums the entries of indexes, and lets each key lead to the newest of its
// jobs: it led nowhere once the newest had been pruned.
func (t *tx) sumEntries() (err error) {
	for kind, n := range map[byte]*entries{keyKey: &t.head.Keys, keyReuse: &t.head.Reuses} {
		*n = entries{}
		scan(t.g.w, []byte{kind}, func(k, v []byte) bool {
			n.replace(k, nil, v)
			return true
		})
	}
	keys := map[string]lease.JobID{}
	scan(t.g.w, []byte{keyJob}, func(k, v []byte) bool {
		var j *jobRow
		if j, _, err = decodeJob(lease.JobID(decodeKey(k)), v); err == nil && j.key() != nil {
			keys[string(j.key())] = 0
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return t.rekey(keys)
}

// identity is the row of the store itself, in this version's form.
func (s *Store) identity() []byte {
	row := append([]byte{schemaVersion}, s.id[:]...)
	return append(row, s.secret...)
}
