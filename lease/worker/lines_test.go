package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

func (c *torn) Input(ctx context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	r, err := c.fake.Input(ctx, of, from, to)
	if c.times--; err == nil && c.times >= 0 {
		return io.NopCloser(io.LimitReader(r, (to-from)/2)), nil
	}
	return r, err
}

// TestLines: an executor gets the lines that were granted, and no others.
func TestLines(t *testing.T) {
	input := []byte("zero\none\n\"two\"\nthree\n")
	span := func(from, to int64) lease.Range {
		return lease.Range{From: from, To: to, Digest: lease.DigestOf(input[from:to])}
	}
	other := span(5, 15)
	other.Digest = lease.DigestOf([]byte("other"))
	for _, c := range []struct {
		name  string
		lines *lease.Lines
		down  bool
		torn  int
		want  error
	}{
		{"there", &lease.Lines{Range: span(5, 15), First: 1, Items: 2}, false, 0, nil},
		{"outage", &lease.Lines{Range: span(5, 15), First: 1, Items: 2}, true, 0, nil},
		{"torn twice", &lease.Lines{Range: span(5, 15), First: 1, Items: 2}, false, 2, nil},
		{"always torn", &lease.Lines{Range: span(5, 15), First: 1, Items: 2}, false, 100, lease.ErrDigest},
		{"other bytes", &lease.Lines{Range: other, First: 1, Items: 2}, false, 0, lease.ErrDigest},
		{"fewer lines", &lease.Lines{Range: span(5, 15), First: 1, Items: 3}, false, 0, lease.ErrInvalid},
		{"half a line", &lease.Lines{Range: span(5, 12), First: 1, Items: 2}, false, 0, lease.ErrInvalid},
		{"backwards", &lease.Lines{Range: lease.Range{From: 9, To: 5}, Items: 2}, false, 0, lease.ErrInvalid},
		{"far too many bytes", &lease.Lines{Range: lease.Range{To: 1 << 60}, Items: 2}, false, 0, lease.ErrInvalid},
		{"gone", &lease.Lines{Range: lease.Range{From: 5, To: 99}, Items: 2}, false, 0, lease.ErrNotFound},
		{"no list", nil, false, 0, lease.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got [][]byte
				err := errors.New("not executed")
				r := newRig(t, nil)
				r.cfg.Control = &torn{r.fake, c.torn}
				r.blobs[lease.DigestOf(input)] = input
				r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
					r.set(func() { r.down = c.down })
					got, err = k.Lines(ctx)
					return Output{Result: []byte(`1`)}, nil
				})
				id := r.add("k", 1)
				r.set(func() { r.list = map[lease.ShardID]*lease.Lines{id: c.lines} })
				r.start()
				pass(30 * time.Second)
				r.set(func() { r.down = false })
				pass(30 * time.Second)
				if !errors.Is(err, c.want) || c.want == nil && fmt.Sprintf("%q", got) != `["one" "\"two\""]` {
					t.Errorf("Lines = %q, %v, want %v", got, err, c.want)
				}
				r.stop()
			})
		})
	}
}
