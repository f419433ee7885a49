package store

import (
	"maps"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// sweeper removes blobs that only pruned rows referred to. A blob in question is
// not here as far as reports go, so that one which is needed again is uploaded
// again; then it stays. What a restart forgets goes at the next start.
type sweeper struct {
	waiting map[lease.Digest]bool  // to be looked at next
	asked   map[lease.Digest]int64 // in question, and their sizes
	at      []byte                 // the key of the row to go on from
}

func (w *sweeper) add(blobs map[lease.Digest]bool) {
	if w.waiting == nil {
		w.waiting = map[lease.Digest]bool{}
	}
	maps.Copy(w.waiting, blobs)
}

// sweeping tells whether there are blobs to look at, and nobody reads them all.
func (s *Store) sweeping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds == 0 && len(s.sweeper.waiting)+len(s.sweeper.asked) > 0
}

// sweepStep looks through some rows for those that refer to blobs in question, and
// removes the others at the end.
func (s *Store) sweepStep() *command {
	w := &s.sweeper
	s.mu.Lock()
	if len(w.asked) == 0 {
		w.asked, w.at = map[lease.Digest]int64{}, []byte{keyShard}
		for d := range w.waiting {
			if size, here := s.present[d]; here && s.index.inputs[d] == 0 && s.index.lists[d] == 0 {
				w.asked[d] = size
				s.index.left(d)
				if k := s.known[d]; k != nil {
					k.kept = false // until a row says otherwise
				}
			}
		}
		clear(w.waiting)
	}
	s.mu.Unlock()
	used := map[lease.Digest]lease.Project{}
	n, ended := 0, true
	err := s.engine.View(func(r kv.Reader) (err error) {
		r.Scan(w.at, []byte{keyShard + 1}, func(k, v []byte) bool {
			if n++; n > careScan {
				w.at, ended = append([]byte(nil), k...), false
				return false
			}
			var row *lease.Shard
			if row, err = decodeShard(shardOfKey(k), v); err != nil {
				return false
			}
			if row.State != lease.Done {
				return true
			}
			for _, d := range keeps(&row.Result) {
				if _, asked := w.asked[d]; asked && err == nil {
					var j *jobRow
					if j, _, err = decodeJob(row.ID.Job, r.Get(jobKey(keyJob, row.ID.Job))); err == nil {
						used[d] = j.Project
					}
				}
			}
			return err == nil
		})
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, p := range used {
		s.index.arrived(d, w.asked[d])
		s.know(p, d).kept = true
		delete(w.asked, d)
	}
	if err != nil { // nothing is removed that was not looked at
		s.log.Error("look for blobs of pruned jobs", "error", err)
		for d, size := range w.asked {
			s.index.arrived(d, size)
		}
		clear(w.asked)
	}
	if ended {
		s.sweepAsked()
	}
	return s.care(still)
}

// sweepAsked removes the blobs that no row refers to. s.mu is held.
func (s *Store) sweepAsked() {
	for d, size := range s.sweeper.asked {
		if _, again := s.present[d]; again {
			continue
		}
		if s.holds > 0 { // a reader came meanwhile
			s.sweeper.add(map[lease.Digest]bool{d: true})
			s.index.arrived(d, size)
			continue
		}
		s.forget(d)
	}
	clear(s.sweeper.asked)
}
