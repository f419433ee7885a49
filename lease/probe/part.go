package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

// order says what a process is to be.
type order struct {
	Role   string         `json:"role"`            // "control" or "worker"
	Store  string         `json:"store,omitempty"` // control: the file
	Listen string         `json:"listen,omitempty"`
	Term   time.Duration  `json:"term,omitempty"`
	Hash   lease.Digest   `json:"hash,omitzero"` // of the token
	URL    string         `json:"url,omitempty"` // worker: of the control plane
	Token  string         `json:"token,omitempty"`
	Name   lease.WorkerID `json:"name,omitempty"`
	Batch  int            `json:"batch,omitempty"` // shards a claim asks for
	Hold   bool           `json:"hold,omitempty"`  // claim so many, tell them, and wait for the end
	Job    lease.JobID    `json:"job,omitzero"`
}

// news is what a process tells.
type news struct {
	Address  string            `json:"address,omitempty"` // control: where it listens
	Grants   []lease.Grant     `json:"grants,omitempty"`
	Verdicts []lease.Judgement `json:"verdicts,omitempty"`
	Away     bool              `json:"away,omitempty"`  // the control plane did not answer
	Fault    string            `json:"fault,omitempty"` // it answered with trouble
	Over     bool              `json:"over,omitempty"`  // the job has ended
}

// stopWord asks a control plane to end and to leave its store.
const stopWord = "stop"

// probeID is the actor of everybody in a probe.
const probeID lease.ActorID = "probe"

// Part is a process of a scenario. It returns when it was told to end, when its
// input ends, or when ctx does.
func Part(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.Join(errors.New("part of a probe: no order"), lines.Err())
	}
	var o order
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("part of a probe: order: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	told := make(chan bool, 1)
	go func() { // it ends with the process: a read of a pipe can't be called off
		stop := false
		for lines.Scan() {
			stop = stop || lines.Text() == stopWord
		}
		told <- stop
		end()
	}()
	enc := json.NewEncoder(out)
	if o.Role == "worker" {
		return o.work(ctx, enc)
	}
	if err := o.control(ctx, enc); err != nil {
		return err
	}
	select {
	case stop := <-told:
		if stop {
			return nil
		}
	default: // a signal
	}
	discard(o.Store)
	return nil
}

// control serves a store until ctx ends.
func (o *order) control(ctx context.Context, out *json.Encoder) (err error) {
	db, err := boltkv.Open(o.Store, boltkv.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := store.Open(store.Options{Engine: db, Blobs: noBlobs{}, Planner: planner{}, Term: o.Term})
	if err != nil {
		return err
	}
	if err := s.SetActor(lease.Actor{ID: probeID, Role: lease.Admin}, o.Hash); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	server := api.NewServer(api.NewHandler(api.Options{Authenticate: s.Authenticate, Control: s.As}), nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	if err := out.Encode(news{Address: l.Addr().String()}); err != nil {
		return errors.Join(err, server.Close())
	}
	err = s.Run(ctx)
	err = errors.Join(err, server.Close())
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// work claims and reports until the job has ended, or claims once and waits.
func (o *order) work(ctx context.Context, out *json.Encoder) error {
	ctl, err := api.Dial(o.URL, func() string { return o.Token }, api.NewHTTPClient(1, nil))
	if err != nil {
		return err
	}
	defer ctl.Close()
	x := lease.Exchange{
		Hello: lease.Hello{Worker: o.Name, Incarnation: 1, Machine: string(o.Name), Offer: lease.Offer{Kinds: []lease.Kind{Kind}}},
		Max:   o.Batch, PerKind: map[lease.Kind]int{Kind: o.Batch}, Wait: time.Second,
	}
	for ctx.Err() == nil {
		x.Request++
		got, err := o.exchange(ctx, ctl, x, out)
		if err != nil {
			return end(ctx, err)
		}
		if err := out.Encode(news{Grants: got.Grants, Verdicts: got.Verdicts}); err != nil {
			return err
		}
		if o.Hold {
			<-ctx.Done()
			return nil
		}
		x.Reports = nil
		for _, g := range got.Grants {
			x.Reports = append(x.Reports, report(o.Name, g))
		}
		if len(got.Grants) > 0 {
			continue
		}
		if over, err := o.over(ctx, ctl, out); err != nil || over {
			return end(ctx, err)
		}
	}
	return nil
}

// end is nil when the process was told to end.
func end(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// exchange asks again until there is an answer, and tells of each that was none.
func (o *order) exchange(ctx context.Context, ctl lease.Control, x lease.Exchange, out *json.Encoder) (got lease.Exchanged, err error) {
	err = insist(ctx, out, func() error {
		got, err = ctl.Exchange(ctx, x)
		return err
	})
	return got, err
}

// over tells the end of the job.
func (o *order) over(ctx context.Context, ctl lease.Control, out *json.Encoder) (bool, error) {
	var job lease.Job
	err := insist(ctx, out, func() (err error) {
		job, err = ctl.Job(ctx, o.Job)
		return err
	})
	if err != nil || !job.State.Terminal() {
		return false, err
	}
	return true, out.Encode(news{Over: true})
}

// insist repeats ask while the control plane is away.
func insist(ctx context.Context, out *json.Encoder, ask func() error) error {
	for {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return err
		}
		n := news{Away: errors.Is(err, lease.ErrUnreachable)}
		if !n.Away {
			n.Fault = err.Error()
		}
		if err := out.Encode(n); err != nil {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// report is a worker's result of a shard: it tells who made it, and under which fence.
func report(by lease.WorkerID, g lease.Grant) lease.Report {
	b := fmt.Appendf(nil, `{"by":%q,"fence":%q}`, by, g.Fence)
	return lease.Report{
		Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeDone,
		Digest: lease.DigestOf(b), Bytes: int64(len(b)), Result: b,
	}
}
