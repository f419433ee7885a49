package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
)

// done is what a client process tells at its end.
type done struct {
	N     int           // shards
	End   int64         // Unix nanoseconds of the last answer
	Calls []int32       // microseconds each took
	CPU   time.Duration `json:"-"`
}

func dial(r role) (*api.Client, error) {
	return api.Dial(r.URL, func() string { return r.Token }, api.NewHTTPClient(0, nil))
}

// work claims and reports: each claim carries the reports on the one before it.
func work(r role) error {
	c, err := dial(r)
	if err != nil {
		return err
	}
	defer c.Close()
	x := lease.Exchange{
		Hello: lease.Hello{Worker: lease.WorkerID(fmt.Sprintf("worker-%d", r.Worker)), Incarnation: uint64(time.Now().UnixNano()),
			Offer: lease.Offer{Kinds: []lease.Kind{"load"}, Models: modelsOf(r.Classes)}},
		Max: r.Batch, PerKind: map[lease.Kind]int{"load": r.Batch},
	}
	digest := lease.DigestOf(result)
	var d done
	ready()
	d.End = time.Now().UnixNano()
	for {
		if r.Quota > 0 && d.N+len(x.Reports) >= r.Quota {
			x.Max = 0 // the last reports
		}
		x.Request++
		began := time.Now()
		out, err := c.Exchange(context.Background(), x)
		if err != nil {
			return err
		}
		d.Calls = append(d.Calls, int32(time.Since(began).Microseconds()))
		for _, v := range out.Verdicts {
			if v.Verdict != lease.Accepted {
				return fmt.Errorf("shard %v: %s: %s", v.Shard, v.Verdict, v.Reason)
			}
		}
		if d.N += len(x.Reports); len(x.Reports) > 0 {
			d.End = time.Now().UnixNano()
		}
		if x.Max == 0 || len(out.Grants) == 0 {
			break
		}
		x.Reports = x.Reports[:0]
		for _, g := range out.Grants {
			if string(g.Payload) != string(body) {
				return fmt.Errorf("shard %v: another payload", g.Shard)
			}
			x.Reports = append(x.Reports, lease.Report{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeDone,
				Digest: digest, Bytes: int64(len(result)), Result: result})
		}
	}
	return json.NewEncoder(os.Stdout).Encode(d)
}

// submit adds Quota shards in jobs of Batch.
func submit(r role) error {
	c, err := dial(r)
	if err != nil {
		return err
	}
	defer c.Close()
	var d done
	ready()
	for d.N < r.Quota {
		n := min(r.Batch, r.Quota-d.N)
		b, err := json.Marshal(params{n, r.Classes})
		if err != nil {
			return err
		}
		began := time.Now()
		if _, err := c.Submit(context.Background(), lease.Submission{Kind: "load", Params: b}); err != nil {
			return err
		}
		d.Calls = append(d.Calls, int32(time.Since(began).Microseconds()))
		d.N += n
		d.End = time.Now().UnixNano()
	}
	return json.NewEncoder(os.Stdout).Encode(d)
}

// beat claims Batch shards, beats Quota times, and gives them back.
func beat(r role) error {
	c, err := dial(r)
	if err != nil {
		return err
	}
	defer c.Close()
	hello := lease.Hello{Worker: "beating", Incarnation: uint64(time.Now().UnixNano()), Offer: lease.Offer{Kinds: []lease.Kind{"load"}, Models: modelsOf(r.Classes)}}
	out, err := c.Exchange(context.Background(), lease.Exchange{Hello: hello, Request: 1, Max: r.Batch, PerKind: map[lease.Kind]int{"load": r.Batch}})
	if err != nil {
		return err
	}
	if len(out.Grants) == 0 {
		return errors.New("no leases to renew")
	}
	b := lease.Beat{Hello: hello}
	var back []lease.Give
	for _, g := range out.Grants {
		b.Leases = append(b.Leases, lease.LeaseBeat{Shard: g.Shard, Fence: g.Fence, Phase: lease.Running})
		back = append(back, lease.Give{Shard: g.Shard, Fence: g.Fence, Reason: "draining"})
	}
	var d done
	ready()
	for d.N < r.Quota {
		lost, err := c.Heartbeat(context.Background(), b)
		if err != nil {
			return err
		}
		if len(lost.Lost) > 0 {
			return fmt.Errorf("%d leases lost", len(lost.Lost))
		}
		d.N++
	}
	d.End = time.Now().UnixNano()
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return err
	}
	ready()
	if _, err = c.Exchange(context.Background(), lease.Exchange{Hello: hello, Releases: back}); err != nil {
		return err
	}
	fmt.Println("released")
	return nil
}
