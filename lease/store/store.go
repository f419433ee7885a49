package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Planner says what work means: it validates submissions and results, and plans
// the shards that follow. Its methods are pure: the same input gives the same
// plan, also after a restart.
type Planner interface {
	// Start validates the parameters of a job without an input and plans its first shards.
	Start(kind lease.Kind, params []byte) (lease.Plan, error)

	// List validates the parameters of a job with a list input and says how its
	// lines become shards.
	List(kind lease.Kind, params []byte) (lease.Packing, error)

	// Accept validates the result of a shard and says what it means.
	Accept(job *lease.Job, s *lease.Shard, result []byte, blobs []lease.Digest) (lease.Acceptance, error)
}

// Blobs keeps accepted bytes by their digest.
type Blobs interface {
	Put(ctx context.Context, d lease.Digest, size int64, r io.Reader) error
	Open(d lease.Digest) (io.ReadSeekCloser, int64, error)
	Has(d lease.Digest) (bool, error)
	Remove(d lease.Digest) error
	List(fn func(d lease.Digest, size int64, received time.Time) bool) error
}

// Options configure a Store. Engine, Blobs and Planner are required.
type Options struct {
	Engine  kv.Engine
	Blobs   Blobs
	Planner Planner
	Words   Words         // what Search asks; nil: nothing can be searched for
	Budget  int64         // bytes of blobs that may wait for open shards before bulky work rests; 0: 8 GiB
	Term    time.Duration // of a lease; 0: lease.Term. A shorter one is for proofs: workers beat for lease.Term
	Log     *slog.Logger
	Now     func() time.Time // with a monotonic reading; nil: time.Now
	Rand    *mrand.Rand      // jitter; nil: seeded by the system
}

// Store is the control plane's state and its one writer. Commands are served
// while Run runs.
type Store struct {
	engine  kv.Engine
	blobs   Blobs
	planner Planner
	words   Words
	log     *slog.Logger
	now     func() time.Time
	rand    *mrand.Rand // the writer's only
	budget  int64
	term    time.Duration

	schema byte // of the store as it was loaded
	id     [16]byte
	secret []byte    // keys lease tokens
	hashes sync.Pool // of hash.Hash, keyed with secret
	head   head      // the writer's only
	names  names     // of what it reads
	spare  *tx       // for the next command
	room   room      // for the next group

	commands chan *command
	stopped  chan struct{} // closed when Run returned
	broken   atomic.Bool   // a commit's outcome is unknown

	scope   atomic.Pointer[scope]      // replaced by the writer only
	durable atomic.Pointer[lease.Mark] // likewise: how far the last commit came

	mu      sync.Mutex // guards what follows
	index   *index
	present map[lease.Digest]int64 // blobs that are here, and their sizes
	known   map[lease.Digest]*known
	uploads map[lease.Digest]bool // those of known that submitters uploaded, and perhaps more
	grown   chan struct{}         // closed when the ledger has grown; nil: nobody waits for it
	wake    chan struct{}         // closed and replaced when there may be new work
	paging  []*page               // work that follows in pages
	unused  []lease.Digest        // blobs to look at once no plan is paging
	rest    bool                  // no page before the next command or tick: the last one could not be written or read
	beat    time.Time             // when the writer last looked at the clock
	drops   []lease.JobID         // pruned jobs whose rows are still there
	holds   int                   // readers of all blobs: meanwhile none is removed

	carrier  carrier // the writer's only, as are those that follow
	dropper  dropper
	sweeper  sweeper // but what it adds, under mu
	trimmed  uint64  // up to which event the ledger is known to hold no more records
	relieved bool    // the engine's reserve was given up
}

// token proves that its bearer was granted a shard under a fence. It is derived,
// so that a repeated claim can be answered and no row needs to hold it.
func (s *Store) token(id lease.ShardID, f lease.Fence) string {
	m, ok := s.hashes.Get().(hash.Hash)
	if !ok {
		m = hmac.New(sha256.New, s.secret)
	}
	defer s.hashes.Put(m)
	m.Reset()
	var b [24 + sha256.Size]byte
	binary.BigEndian.PutUint64(b[:], uint64(id.Job))
	binary.BigEndian.PutUint64(b[8:], uint64(id.Seq))
	binary.BigEndian.PutUint64(b[16:], uint64(f))
	m.Write(b[:24])
	return hex.EncodeToString(m.Sum(b[:24])[24 : 24+16])
}

func isNotFound(err error) bool { return errors.Is(err, lease.ErrNotFound) }
