package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"macbatch/lease"
)

// lines brings the lines of a list shard, each without its end. Like fetch it
// outlasts outages of the control plane, but not bytes that are others than those
// granted.
func (a *Agent) lines(ctx context.Context, t *task) ([][]byte, error) {
	l := t.grant.Lines
	if l == nil {
		return nil, fmt.Errorf("lines of shard %v: it works on no list: %w", t.grant.Shard, lease.ErrInvalid)
	}
	torn := 0
	for tries := 0; ; tries++ {
		b, err := a.input(ctx, t.grant.Shard, l)
		if err == nil {
			return split(b, l)
		}
		if errors.Is(err, lease.ErrDigest) {
			torn++
		}
		if refused(err) || fatal(err) || torn == maxTorn {
			return nil, fmt.Errorf("lines of shard %v: %w", t.grant.Shard, err)
		}
		if err := a.pause(ctx, tries); err != nil {
			return nil, fmt.Errorf("lines of shard %v: %w", t.grant.Shard, err)
		}
	}
}

// maxLines bounds the bytes of a list shard: they are held in memory.
const maxLines = 64 << 20

func (a *Agent) input(ctx context.Context, id lease.ShardID, l *lease.Lines) ([]byte, error) {
	if l.From < 0 || l.To <= l.From || l.To-l.From > maxLines {
		return nil, fmt.Errorf("bytes %d to %d: %w", l.From, l.To, lease.ErrInvalid)
	}
	r, err := a.cfg.Control.Input(ctx, id, l.From, l.To)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, l.To-l.From)
	if _, err := io.ReadFull(r, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("bytes %d to %d end early: %w", l.From, l.To, lease.ErrDigest)
	} else if err != nil {
		return nil, err
	}
	if lease.DigestOf(b) != l.Digest {
		return nil, fmt.Errorf("bytes %d to %d: %w", l.From, l.To, lease.ErrDigest)
	}
	return b, nil
}

// split cuts what was granted into its lines.
func split(b []byte, l *lease.Lines) ([][]byte, error) {
	items := bytes.Split(b, []byte("\n"))
	if last := len(items) - 1; len(items[last]) > 0 || uint64(last) != uint64(l.Items) {
		return nil, fmt.Errorf("bytes %d to %d are not %d lines: %w", l.From, l.To, l.Items, lease.ErrInvalid)
	}
	return items[:l.Items], nil
}
