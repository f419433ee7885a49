package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/spool"
)

// leave is "leave FOLDER KIND...": a worker claimed a shard of each kind, put a
// report on it into the spool at FOLDER, and died.
func leave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: leave folder kind...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	token, err := readToken(ts.MkAbs(ts.Getenv("MACBATCH_TOKEN_FILE")))
	ts.Check(err)
	ctl, err := api.Dial(ts.Getenv("MACBATCH_CONTROL"), func() string { return token }, api.NewHTTPClient(0, nil))
	ts.Check(err)
	sp, err := spool.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	var offer lease.Offer
	per := map[lease.Kind]int{}
	for _, k := range args[1:] {
		offer.Kinds = append(offer.Kinds, lease.Kind(k))
		per[lease.Kind(k)]++
	}
	offer.Roots = []string{"films"}
	// Its own incarnation each time: it died and came back.
	ans, err := ctl.Exchange(ctx, lease.Exchange{
		Hello:   lease.Hello{Worker: "late", Incarnation: uint64(time.Now().UnixNano()), Offer: offer},
		Request: 1, Max: len(args) - 1, PerKind: per, Wait: lease.MaxWait,
	})
	ts.Check(err)
	if len(ans.Grants) != len(args)-1 {
		ts.Fatalf("%d grants, want %d", len(ans.Grants), len(args)-1)
	}
	for _, g := range ans.Grants {
		r := lease.Report{
			Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeFailed, Class: lease.Permanent, Reason: "broken",
			Digest: lease.FailureDigest(lease.Permanent, "broken"),
		}
		b, err := json.Marshal(r)
		ts.Check(err)
		_, err = sp.Add(g.Shard.String(), uint64(g.Fence), time.Now(), b, nil)
		ts.Check(err)
	}
}

// drained is "drained FOLDER": the spool at FOLDER gets empty. Each look is a
// process, which takes time enough.
func drained(ts *testscript.TestScript, _ bool, args []string) {
	for range 2000 {
		if ts.Exec("macbatch", "gather", "--dry-run", "--spool", args[0]) == nil {
			return
		}
	}
	ts.Fatalf("the spool is not delivered")
}
