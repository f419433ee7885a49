package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"time"

	"macbatch/lease"
)

// Kind is the kind of a probe's shards.
const Kind lease.Kind = "probe"

// params are those of a probe's job.
type params struct {
	Items int `json:"items"`
}

// planner plans so many shards, and takes any result.
type planner struct{}

// Start implements store.Planner.
func (planner) Start(kind lease.Kind, b []byte) (lease.Plan, error) {
	var p params
	if err := json.Unmarshal(b, &p); kind != Kind || err != nil {
		return nil, fmt.Errorf("kind %q with %s: not a probe's", kind, b)
	}
	plan := make(lease.Plan, p.Items)
	for i := range plan {
		plan[i] = lease.Spec{Need: lease.Need{Kind: Kind}, Item: uint32(i), Opens: 1, Settles: 1, Payload: fmt.Appendf(nil, `{"item":%d}`, i)}
	}
	return plan, nil
}

// List implements store.Planner.
func (planner) List(lease.Kind, []byte) (lease.Packing, error) {
	return lease.Packing{}, fmt.Errorf("a probe has no list inputs")
}

// Accept implements store.Planner.
func (planner) Accept(*lease.Job, *lease.Shard, []byte, []lease.Digest) (lease.Acceptance, error) {
	return lease.Acceptance{}, nil
}

// noBlobs are the blobs of work that has none.
type noBlobs struct{}

func (noBlobs) Put(context.Context, lease.Digest, int64, io.Reader) error { return lease.ErrInvalid }
func (noBlobs) Open(lease.Digest) (io.ReadSeekCloser, int64, error)       { return nil, 0, fs.ErrNotExist }
func (noBlobs) Has(lease.Digest) (bool, error)                            { return false, nil }
func (noBlobs) Remove(lease.Digest) error                                 { return nil }
func (noBlobs) List(func(lease.Digest, int64, time.Time) bool) error      { return nil }
