package leasetest

import (
	"context"
	"io"
	"time"

	"macbatch/lease"
)

// near is the control of whichever store a fixture runs at the moment.
type near struct{ f *Fixture }

// Near returns the fixture's store as Admin sees it; it stays valid across restarts.
func (f *Fixture) Near() lease.Control { return near{f} }

func (n near) ctl() lease.Control { return n.f.As(Admin) }

func (n near) Submit(ctx context.Context, s lease.Submission) (lease.JobID, error) {
	return n.ctl().Submit(ctx, s)
}

func (n near) Job(ctx context.Context, id lease.JobID) (lease.Job, error) {
	return n.ctl().Job(ctx, id)
}

func (n near) Jobs(ctx context.Context, before lease.JobID, limit int) ([]lease.Job, error) {
	return n.ctl().Jobs(ctx, before, limit)
}

func (n near) Cancel(ctx context.Context, id lease.JobID, reason string) error {
	return n.ctl().Cancel(ctx, id, reason)
}

func (n near) Retry(ctx context.Context, id lease.JobID, what lease.Selection, after uint32) (lease.Retried, error) {
	return n.ctl().Retry(ctx, id, what, after)
}

func (n near) Pause(ctx context.Context, of lease.Target, reason string, d time.Duration) error {
	return n.ctl().Pause(ctx, of, reason, d)
}

func (n near) Resume(ctx context.Context, of lease.Target, reason string) error {
	return n.ctl().Resume(ctx, of, reason)
}

func (n near) Shards(ctx context.Context, id lease.JobID, after uint32, limit int, results bool) ([]lease.Shard, error) {
	return n.ctl().Shards(ctx, id, after, limit, results)
}

func (n near) Events(ctx context.Context, of lease.ShardID, after uint64, limit int) ([]lease.Event, error) {
	return n.ctl().Events(ctx, of, after, limit)
}

func (n near) Follow(ctx context.Context, of lease.ShardID, after uint64, limit int, wait time.Duration) ([]lease.Event, error) {
	return n.ctl().Follow(ctx, of, after, limit, wait)
}

func (n near) Why(ctx context.Context, of lease.ShardID) (lease.Why, error) {
	return n.ctl().Why(ctx, of)
}

func (n near) Workers(ctx context.Context) ([]lease.Worker, error) { return n.ctl().Workers(ctx) }

func (n near) Census(ctx context.Context) (lease.Census, error) { return n.ctl().Census(ctx) }

func (n near) Search(ctx context.Context, q lease.Query) (lease.Found, error) {
	return n.ctl().Search(ctx, q)
}

func (n near) Verify(ctx context.Context) ([]lease.Problem, error) { return n.ctl().Verify(ctx) }

func (n near) Prune(ctx context.Context, ids []lease.JobID) error { return n.ctl().Prune(ctx, ids) }

func (n near) Backup(ctx context.Context, w io.Writer) error { return n.ctl().Backup(ctx, w) }

func (n near) Exchange(ctx context.Context, x lease.Exchange) (lease.Exchanged, error) {
	return n.ctl().Exchange(ctx, x)
}

func (n near) Intend(ctx context.Context, i lease.Intention) error { return n.ctl().Intend(ctx, i) }

func (n near) Heartbeat(ctx context.Context, b lease.Beat) (lease.Beaten, error) {
	return n.ctl().Heartbeat(ctx, b)
}

func (n near) PutBlob(ctx context.Context, u lease.Upload, r io.Reader) error {
	return n.ctl().PutBlob(ctx, u, r)
}

func (n near) Blob(ctx context.Context, of lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	return n.ctl().Blob(ctx, of, d)
}

func (n near) Projects(ctx context.Context) ([]lease.Scope, error) { return n.ctl().Projects(ctx) }

func (n near) CreateProject(ctx context.Context, p lease.Project) error {
	return n.ctl().CreateProject(ctx, p)
}

func (n near) CloseProject(ctx context.Context, p lease.Project) error {
	return n.ctl().CloseProject(ctx, p)
}

func (n near) OpenProject(ctx context.Context, p lease.Project) error {
	return n.ctl().OpenProject(ctx, p)
}

func (n near) Actors(ctx context.Context) ([]lease.Identity, error) { return n.ctl().Actors(ctx) }

func (n near) AddActor(ctx context.Context, a lease.Actor, token lease.Digest) error {
	return n.ctl().AddActor(ctx, a, token)
}

func (n near) RotateActor(ctx context.Context, id lease.ActorID, token lease.Digest, overlap time.Duration) error {
	return n.ctl().RotateActor(ctx, id, token, overlap)
}

func (n near) Invite(ctx context.Context, i lease.Invitation) (lease.Reach, error) {
	return n.ctl().Invite(ctx, i)
}

func (n near) Join(ctx context.Context, token lease.Digest) (lease.Actor, error) {
	return n.ctl().Join(ctx, token)
}

func (n near) RevokeActor(ctx context.Context, id lease.ActorID) error {
	return n.ctl().RevokeActor(ctx, id)
}

func (n near) Assign(ctx context.Context, id lease.ActorID, p lease.Project) error {
	return n.ctl().Assign(ctx, id, p)
}

func (n near) Unassign(ctx context.Context, id lease.ActorID, p lease.Project) error {
	return n.ctl().Unassign(ctx, id, p)
}

func (n near) Input(ctx context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	return n.ctl().Input(ctx, of, from, to)
}
