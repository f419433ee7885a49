package store_test

import (
	"bytes"
	"errors"
	"io"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// copied is a store and its blobs as they were at one moment.
type copied struct {
	db    *memkv.DB
	blobs map[lease.Digest][]byte
}

// hear notes how far a worker saw the store to be.
func (p *player) hear(m lease.Mark) {
	if m.Beyond(p.Mark) {
		p.Mark = m
	}
}

// save copies what is durable.
func (w *world) save() {
	c := &copied{db: leasetest.Copy(w.T, w.db.Reopen()), blobs: map[lease.Digest][]byte{}}
	var held []lease.Digest
	err := w.blobs.List(func(d lease.Digest, _ int64, _ time.Time) bool { held = append(held, d); return true })
	for _, d := range held {
		r, _, e := w.blobs.Open(d)
		if e != nil {
			continue // it was swept meanwhile
		}
		c.blobs[d], e = io.ReadAll(r)
		err = errors.Join(err, e)
	}
	if err != nil {
		w.Fatalf("copy blobs: %v", err)
	}
	w.saved = c
}

// rollBack lets the copy come back in the place of the store. The first to ask is a
// worker that knows of more: from then on no fence comes back.
func (w *world) rollBack() {
	knows := w.workers[0]
	for _, p := range w.workers[1:] {
		if p.Mark.Beyond(knows.Mark) {
			knows = p
		}
	}
	if w.saved == nil || knows.Mark.Store == "" {
		return
	}
	w.halt()
	w.db, w.told = leasetest.Copy(w.T, w.saved.db), false
	for d, b := range w.saved.blobs {
		if err := w.blobs.Put(w.Context(), d, int64(len(b)), bytes.NewReader(b)); err != nil {
			w.Fatalf("put blob: %v", err)
		}
	}
	w.start()
	high := knows.Mark
	var out lease.Beaten
	for {
		var err error
		if out, err = w.ctl().Heartbeat(w.Context(), lease.Beat{Hello: knows.Hello}); !w.failed("heartbeat", err) {
			break
		}
	}
	switch beyond := out.Mark.Epoch > high.Epoch; {
	case beyond:
		w.count["rolled back"]++
	case high.Beyond(out.Mark):
		w.Fatalf("the mark is %+v after %+v was shown", out.Mark, high)
	}
	knows.hear(out.Mark)
	w.lost = true
	w.forget()
}

// forget lets go of what is not so any more, or may not be.
func (w *world) forget() {
	for _, h := range w.open {
		h.over = true
	}
	clear(w.ends)
	clear(w.paused)
	w.newest = 0
	known := map[lease.JobID]bool{}
	for id := range w.jobs {
		known[id] = true
	}
	for id := range w.pruned {
		known[id] = true
	}
	clear(w.jobs)
	clear(w.pruned)
	for id := range known {
		for {
			job, err := w.ctl().Job(w.Context(), id)
			if errors.Is(err, lease.ErrNotFound) {
				w.pruned[id] = true
				break
			}
			if !w.failed("job", err) {
				w.jobs[id] = job.Canceled
				break
			}
		}
	}
}
