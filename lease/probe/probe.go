package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The scenarios.
const (
	Queue   = "concurrent-queue"
	Reclaim = "kill-and-reclaim"
	Power   = "power-loss"
)

// Scenarios lists them.
var Scenarios = []string{Queue, Reclaim, Power}

// ErrExists is returned when the file to probe with is there already.
var ErrExists = errors.New("the file is there already")

// Options say what to run.
type Options struct {
	Store    string        // the file to make; it must not exist
	Scenario string        // one of Scenarios
	Workers  int           // worker processes
	Items    int           // shards; of power-loss: images
	Seed     uint64        // of the choices made
	Term     time.Duration // of the leases that are to lapse; 0: 3 s
	Command  []string      // starts a process that runs Part, such as this program with an argument
	Started  func()        // called once the workers run; may be nil

	mark *mark
}

// Report is what a scenario counted. Those counts that a scenario does not have
// are 0.
type Report struct {
	Scenario string `json:"scenario"`
	Store    string `json:"store"`
	Workers  int    `json:"workers"`
	Items    int    `json:"items"`
	Seed     uint64 `json:"seed"`

	Claimed         int `json:"claimed"`          // grants that workers were told of
	Distinct        int `json:"distinct"`         // shards among them
	Accepted        int `json:"accepted"`         // results acknowledged
	Terminal        int `json:"terminal"`         // shards that ended, by the rows
	Terminations    int `json:"terminations"`     // events that end a shard, in the ledger
	Granted         int `json:"granted"`          // events that grant one, in the ledger
	DuplicateClaims int `json:"duplicate_claims"` // grants beyond those that the scenario asks for
	FenceErrors     int `json:"fence_errors"`     // grants whose fence is not above all earlier ones of their shard
	Lost            int `json:"lost"`             // acknowledged results or commits that are not there
	StorageErrors   int `json:"storage_errors"`   // answers that tell of trouble, not of a killed control plane
	LedgerProblems  int `json:"ledger_problems"`  // found by verify, at rest

	Kills      int `json:"kills"`      // processes ended by SIGKILL
	Reclaimed  int `json:"reclaimed"`  // leases taken over
	Early      int `json:"early"`      // grants before a lease had lapsed
	Stale      int `json:"stale"`      // reports of killed workers that were refused as stale
	Resurfaced int `json:"resurfaced"` // reports of killed workers that were answered otherwise

	Images  int `json:"images"`  // power losses played
	Torn    int `json:"torn"`    // images in which only part of what was written is there
	Damaged int `json:"damaged"` // images that did not open or whose structure is broken
	Strange int `json:"strange"` // images that hold neither the last acknowledged commit nor the one after it

	Commits  uint64        `json:"commits"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	PerSec   float64       `json:"per_second"` // shards ended, or images played
	Syncs    float64       `json:"syncs_per_second"`
	Faults   []string      `json:"faults,omitempty"` // why it did not pass
	Problems []string      `json:"problems,omitempty"`
	Pass     bool          `json:"pass"`
}

// Run runs a scenario. What an earlier one left that was killed goes first. Its error means that it could not be run to its end; a
// scenario that did not pass is told by the report alone. The store's file is
// left for a look, unless ctx ended.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if o.Term == 0 {
		o.Term = 3 * time.Second
	}
	r = Report{Scenario: o.Scenario, Store: o.Store, Workers: o.Workers, Items: o.Items, Seed: o.Seed}
	run := map[string]func(context.Context, Options, *Report) error{Queue: queue, Reclaim: reclaim, Power: power}[o.Scenario]
	if run == nil {
		return r, fmt.Errorf("probe: scenario %q is not known", o.Scenario)
	}
	if o.Workers < 1 || o.Items < 1 {
		return r, fmt.Errorf("probe: %d workers and %d items: there must be one of each", o.Workers, o.Items)
	}
	if o.Store, err = filepath.Abs(o.Store); err != nil {
		return r, fmt.Errorf("probe: %w", err)
	}
	if o.mark, err = takeMark(o.Store); err != nil {
		return r, fmt.Errorf("probe %q: %w", o.Store, err)
	}
	defer func() { err = errors.Join(err, o.mark.drop()) }()
	for _, name := range siblings(o.Store)[1:] { // a lock is of no use without its store
		if _, err := os.Lstat(name); err == nil {
			return r, fmt.Errorf("probe %q: %w", name, ErrExists)
		}
	}
	if r.Syncs, err = syncRate(o.Store); err != nil {
		return r, fmt.Errorf("probe: time the disk: %w", err)
	}
	began := time.Now()
	err = run(ctx, o, &r)
	if ctx.Err() != nil {
		discard(o.Store)
		return r, fmt.Errorf("probe: %w", context.Cause(ctx))
	}
	if err != nil {
		return r, fmt.Errorf("probe %s: %w", o.Scenario, err)
	}
	r.Elapsed = time.Since(began)
	_ = os.Remove(o.Store + ".lock") // nobody is left who could hold it
	r.PerSec = float64(max(r.Terminal, r.Images)) / r.Elapsed.Seconds()
	r.Pass = len(r.Faults) == 0
	return r, nil
}

// must notes a count that is not what it has to be.
func (r *Report) must(what string, got, want int) {
	if got != want {
		r.Faults = append(r.Faults, fmt.Sprintf("%s: %d, must be %d", what, got, want))
	}
}

// problem keeps the first few findings of the verifier.
func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < 10 {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// siblings are the names that a store's file takes.
func siblings(store string) []string {
	return []string{store + ".lock", store, store + ".new", store + ".image", store + ".image.lock", store + ".sync"}
}

func discard(store string) {
	for _, name := range siblings(store) {
		_ = os.Remove(name) // most of them are not there
	}
}

// syncRate counts how many small writes a second the disk makes durable.
func syncRate(store string) (rate float64, err error) {
	name := store + ".sync"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	page := make([]byte, 4096)
	began := time.Now()
	for n := 0; ; n++ {
		if took := time.Since(began); took > 400*time.Millisecond && n > 0 {
			return float64(n) / took.Seconds(), nil
		}
		if _, err := f.WriteAt(page, int64(n%64)*4096); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
}
