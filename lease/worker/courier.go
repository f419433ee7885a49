package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"macbatch/lease"
	"macbatch/spool"
)

const (
	batchBytes  = 8 << 20          // of the reports in one exchange, one may be more
	parkDenied  = 10 * time.Minute // before a report that was denied or refused is sent again
	parkBroken  = time.Minute      // the same for one that could not be handled here
	parkBusy    = time.Second      // while another process delivers the spool
	maxMissing  = 3                // how often blobs may turn out missing before the report is parked
	maxRotten   = 3                // how often a blob may arrive damaged before its report is rejected
	neverParked = time.Duration(math.MaxInt64)
)

// letter is an entry of the spool and what became of it so far.
type letter struct {
	name    spool.Name
	key     key            // zero until it was read
	pending bool           // blobs have to be uploaded first
	missing []lease.Digest // of these the control plane said so
	after   time.Duration  // not to be sent before, on the monotonic clock
	tries   int            // that ended in need_blobs
	rotten  int            // uploads that arrived damaged
}

// parcel is a letter about to be sent.
type parcel struct {
	*letter
	report lease.Report
	store  lease.StoreID
	blobs  []spool.Blob
}

// body is an entry's.
type body struct {
	lease.Report
	Store lease.StoreID `json:"store,omitempty"` // that granted the lease
}

// courier delivers the reports in a spool. Its methods may be called from
// several goroutines, but only one of them may be between batch and settle.
type courier struct {
	ctl     lease.Control
	sp      *spool.Spool
	log     *slog.Logger
	mono    func() time.Duration
	parcels chan struct{} // a letter's blobs wait for upload

	mu      sync.Mutex
	letters map[spool.Name]*letter
	up      map[lease.Digest]bool // blobs uploaded before their report was settled
	alone   int                   // so many reports go one by one
	scanned bool
	tally   Tally
	users   int // of the spool's lock
	unlock  func() error
}

func newCourier(ctl lease.Control, sp *spool.Spool, log *slog.Logger, mono func() time.Duration) *courier {
	return &courier{
		ctl: ctl, sp: sp, log: log, mono: mono, parcels: make(chan struct{}, 1),
		letters: map[spool.Name]*letter{}, up: map[lease.Digest]bool{},
	}
}

// scan compares what is known with what is there.
func (c *courier) scan() error {
	_, err := c.look()
	return err
}

// look is scan; fresh says whether there is anything new.
func (c *courier) look() (fresh bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, err := c.sp.List()
	if err != nil {
		return false, err
	}
	c.scanned = true
	there := make(map[spool.Name]bool, len(names))
	for _, n := range names {
		there[n] = true
		if c.letters[n] == nil {
			c.letters[n] = &letter{name: n}
			fresh = true
		}
	}
	for n := range c.letters {
		if !there[n] {
			delete(c.letters, n) // somebody else delivered it
		}
	}
	return fresh, nil
}

// note makes an entry known that was added just now.
func (c *courier) note(e spool.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.letters[e.Name]
	if l == nil {
		l = &letter{name: e.Name}
		c.letters[e.Name] = l
	}
	if s, err := lease.ParseShardID(e.Shard); err == nil {
		l.key = key{s, lease.Fence(e.Fence)}
	}
	if len(e.Blobs) > 0 {
		l.pending = true
		poke(c.parcels)
	}
}

// waiting lists the leases whose reports wait, up to limit.
func (c *courier) waiting(limit int) []key {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []key
	for _, n := range c.names() {
		if k := c.letters[n].key; k != (key{}) && len(keys) < limit {
			keys = append(keys, k)
		}
	}
	return keys
}

// holds reports whether the outcome of a lease waits here.
func (c *courier) holds(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.letters {
		if l.key == k {
			return true
		}
	}
	return false
}

// clear reports whether the spool was scanned and holds nothing to be sent now.
func (c *courier) clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.letters {
		if l.after <= c.mono() {
			return false
		}
	}
	return c.scanned
}

// burden is what is left to be sent: reports, and blobs ahead of them.
func (c *courier) burden() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.letters {
		if n++; l.pending {
			n++
		}
	}
	return 1000*n - min(len(c.up), 999)
}

// apart reports whether reports go one by one, to find the one that was refused.
func (c *courier) apart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alone > 0
}

// names lists all letters, oldest first. The caller holds c.mu.
func (c *courier) names() []spool.Name {
	names := make([]spool.Name, 0, len(c.letters))
	for n := range c.letters {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// batch collects reports to send, oldest first. When there are any, the spool is
// locked until release. due is when more may have become ready by itself.
func (c *courier) batch() (batch []parcel, due time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit, size, held := lease.MaxReports, 0, false
	if c.alone > 0 {
		limit = 1
	}
	due = neverParked
	for _, n := range c.names() {
		l := c.letters[n]
		if now := c.mono(); l.after > now {
			due = min(due, l.after)
			continue
		}
		if l.pending || len(batch) == limit {
			continue
		}
		if !held {
			if err := c.acquire(); err != nil {
				return nil, c.mono() + parkBusy
			}
			held = true
		}
		p, ok := c.read(l)
		if !ok {
			continue
		}
		if c.toUpload(p) {
			l.pending = true
			poke(c.parcels)
			continue
		}
		if size += reportSize(p.report); size > batchBytes && len(batch) > 0 {
			break
		}
		batch = append(batch, p)
	}
	if held && len(batch) == 0 {
		c.releaseLocked()
	}
	return batch, due
}

// reportSize is about the length of a report in an exchange.
func reportSize(r lease.Report) int { return 512 + len(r.Result) + len(r.Reason) + 70*len(r.Blobs) }

// read opens a letter, and puts it aside when it can't be. The caller holds c.mu
// and the spool's lock.
func (c *courier) read(l *letter) (parcel, bool) {
	e, err := c.sp.Read(l.name)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		delete(c.letters, l.name)
		return parcel{}, false
	case errors.Is(err, spool.ErrDamaged):
		c.log.Error("entry put aside: its shard runs again", "err", err)
		c.tally.Damaged++
		delete(c.letters, l.name)
		return parcel{}, false
	default:
		c.log.Error("entry can't be read", "err", err)
		l.after = c.mono() + parkDenied
		return parcel{}, false
	}
	var b body
	err = json.Unmarshal(e.Body, &b)
	r := b.Report
	if err == nil && (r.Shard.String() != e.Shard || uint64(r.Fence) != e.Fence) {
		err = fmt.Errorf("it tells of %v under %v: %w", r.Shard, r.Fence, lease.ErrMalformed)
	}
	if err != nil {
		c.tally.Damaged++
		c.reject(l, "not a report: "+err.Error())
		return parcel{}, false
	}
	l.key = key{r.Shard, r.Fence}
	return parcel{l, r, b.Store, e.Blobs}, true
}

// toUpload reports whether blobs of p have to go first. The caller holds c.mu.
func (c *courier) toUpload(p parcel) bool {
	for _, b := range p.blobs {
		if d, err := lease.ParseDigest(b.Digest); err == nil && !c.up[d] {
			return true
		}
	}
	return len(p.missing) > 0
}

// acquire takes the spool's lock, unless it is ours already. The caller holds c.mu.
func (c *courier) acquire() error {
	if c.users == 0 {
		unlock, err := c.sp.Lock()
		if err != nil {
			if !errors.Is(err, spool.ErrBusy) {
				c.log.Error("the spool can't be locked", "err", err)
			}
			return err
		}
		c.unlock = unlock
	}
	c.users++
	return nil
}

func (c *courier) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked()
}

// releaseLocked ends one use of the spool's lock. The caller holds c.mu.
func (c *courier) releaseLocked() {
	if c.users--; c.users > 0 {
		return
	}
	if err := c.unlock(); err != nil {
		c.log.Error("the spool can't be unlocked", "err", err)
	}
}

// release ends what batch began.
func (c *courier) release(batch []parcel) {
	if len(batch) > 0 {
		c.free()
	}
}
