package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"macbatch/lease"
)

// reached is how far a store came by a commit, without its identity and proof.
func (h *head) reached() lease.Mark { return lease.Mark{Epoch: h.Epoch, Seq: h.Seq} }

// publish makes known what is durable. Nothing beyond it is ever told.
func (s *Store) publish() {
	m := s.head.reached()
	m.Store, m.Proof = s.name(), s.proof(m)
	s.durable.Store(&m)
}

// mark is the newest durable point, as it is told to workers.
func (s *Store) mark() lease.Mark { return *s.durable.Load() }

func (s *Store) name() lease.StoreID { return lease.StoreID(hex.EncodeToString(s.id[:])) }

// proof tells a mark of this store, and of its copies, from one that was made up:
// a high epoch cannot be taken back.
func (s *Store) proof(m lease.Mark) string {
	h, ok := s.hashes.Get().(hash.Hash)
	if !ok {
		h = hmac.New(sha256.New, s.secret)
	}
	defer s.hashes.Put(h)
	h.Reset()
	b := make([]byte, 0, 64)
	b = append(b, "mark"...) // no token is of so many bytes
	b = append(b, s.id[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Epoch)
	b = binary.BigEndian.AppendUint64(b, m.Seq)
	h.Write(b)
	return hex.EncodeToString(h.Sum(b[:0])[:16])
}

// heed compares the mark that a worker shows with how far this store is. When the
// store itself was once further, it is an older copy: fences and ids that it would
// give out may have been given out before. So it raises its epoch, and ends what
// is leased, before anything else is done.
func (s *Store) heed(ctx context.Context, m lease.Mark) error {
	if here := s.durable.Load(); m.Store != here.Store || !m.Beyond(*here) || !hmac.Equal([]byte(m.Proof), []byte(s.proof(m))) {
		return nil
	}
	return s.do(ctx, func(t *tx) error {
		here := t.head.reached()
		if !m.Beyond(here) {
			return nil // another worker showed it before
		}
		t.raise(m.Epoch, fmt.Sprintf("a worker knows of event %d of epoch %d, this store only of event %d of epoch %d: it is an older copy", m.Seq, m.Epoch, here.Seq, here.Epoch))
		n, err := t.endLeases(len(t.s.index.leases))
		s.log.Error("this store is an older copy of itself, or was rolled back: what was done since is lost; its epoch was raised and its leases ended",
			"seen", m.Seq, "here", here.Seq, "epoch", t.head.Epoch, "leases", n)
		return err
	})
}

// endLeases ends up to limit open leases, uncounted, and returns how many. Those
// with an intent to spend stay: they will be parked.
func (t *tx) endLeases(limit int) (int, error) {
	var ids []lease.ShardID
	for id := range t.s.index.leases {
		if len(ids) == limit {
			break
		}
		if t.s.index.leases[id].spends {
			continue
		}
		ids = append(ids, id)
	}
	sortShards(ids)
	for _, id := range ids {
		sh, err := t.shard(id)
		if err == nil {
			err = t.step(sh, lease.Expire{Fence: sh.Fence})
		}
		if err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}
