package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/blob"
	"macbatch/lease/heap"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

// body is the work of one shard: 191 bytes, as each peer's.
var body = json.RawMessage(`{"task":"` + strings.Repeat("x", 180) + `"}`)

// result is what a shard's work comes to.
var result = json.RawMessage(`{"ok":true}`)

// params are those of a job: so many shards of one item, in turns of so many needs;
// or of a list: so many items in a shard.
type params struct {
	Items   int `json:"items"`
	Classes int `json:"classes"`
}

// planner plans jobs of many shards that all have one body.
type planner struct{}

func (planner) Start(_ lease.Kind, b []byte) (lease.Plan, error) {
	var p params
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	models := modelsOf(p.Classes)
	plan := make(lease.Plan, p.Items)
	for i := range plan {
		plan[i] = lease.Spec{Need: lease.Need{Kind: "load", Model: models[i%len(models)]}, Item: uint32(i), Opens: 1, Settles: 1, Work: 1, Payload: body}
	}
	return plan, nil
}

func (planner) List(_ lease.Kind, b []byte) (lease.Packing, error) {
	var p params
	err := json.Unmarshal(b, &p)
	return lease.Packing{Need: lease.Need{Kind: "load"}, Items: max(p.Items, 1), Bytes: 1 << 20, Line: 1 << 20}, err
}

func (planner) Accept(_ *lease.Job, _ *lease.Shard, b []byte, _ []lease.Digest) (means lease.Acceptance, err error) {
	if string(b) != string(result) {
		err = errors.New("not the result of this load")
	}
	return means, err
}

// modelsOf names n classes of need.
func modelsOf(n int) []string {
	models := make([]string, max(n, 1))
	for i := range models {
		models[i] = fmt.Sprintf("model-%d", i)
	}
	return models
}

// figures are what a control process tells of itself.
type figures struct {
	Commits uint64
	Size    int64 // bytes of the store's file
	Free    int64 // of which hold nothing
}

// serve is the control process: it prints its URL and token, and its figures for
// each line it reads, until its input ends.
func serve(r role) (err error) {
	db, err := boltkv.Open(filepath.Join(r.Dir, "store.db"), boltkv.Options{SyncDelay: r.Delay})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	blobs, err := blob.Open(filepath.Join(r.Dir, "blobs"))
	if err != nil {
		return err
	}
	s, err := store.Open(store.Options{Engine: db, Blobs: blobs, Planner: planner{}})
	if err != nil {
		return err
	}
	token, hash := store.NewToken("admin")
	if err := s.SetActor(lease.Actor{ID: "admin", Role: lease.Admin}, hash); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := api.NewServer(api.NewHandler(api.Options{Authenticate: s.Authenticate, Control: s.As}), nil)
	go server.Serve(l) //nolint:errcheck // it ends with the process
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go heap.Run(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	fmt.Printf("http://%s %s\n", l.Addr(), token)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "profile" { // of all that follows
			f, err := os.Create(r.Pprof)
			if err != nil {
				return err
			}
			defer f.Close()
			if err := pprof.StartCPUProfile(f); err != nil {
				return err
			}
			defer pprof.StopCPUProfile()
			fmt.Println("profiling")
			continue
		}
		if in.Text() == "verify" {
			problems, err := s.As(lease.Actor{ID: "admin", Role: lease.Admin}).Verify(ctx)
			fmt.Println(len(problems), err)
			continue
		}
		st, err := db.Stats()
		if err != nil {
			return err
		}
		b, err := json.Marshal(figures{st.Commits, st.Size, st.Free})
		if err != nil {
			return err
		}
		fmt.Println(string(b))
	}
	stop()
	err = errors.Join(<-ended, server.Close())
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
