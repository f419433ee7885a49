package load

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
)

// lists times list jobs of a million items, one in a shard and packed: until the
// submission is answered, until the job is whole, and the cancel of all of it.
func (b *bench) lists() {
	b.say("-- a list of 1,000,000 items")
	var input bytes.Buffer
	for i := range 1_000_000 {
		fmt.Fprintf(&input, `{"custom_id":"item-%d","input":"what there is to do about number %d"}`+"\n", i, i)
	}
	for _, packed := range []int{1, 64} {
		p, dir := b.control(0)
		began := time.Now()
		ctl := dialPlane(b, p)
		in := lease.Input{Digest: lease.DigestOf(input.Bytes()), Bytes: int64(input.Len())}
		if err := ctl.PutBlob(b.Context(), lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: lease.DefaultProject}, bytes.NewReader(input.Bytes())); err != nil {
			b.Fatal(err)
		}
		upload, cpu, commits := time.Since(began), cpuOf(p.Process.Pid), p.figures(b).Commits
		began = time.Now()
		id, err := ctl.Submit(b.Context(), lease.Submission{Kind: "list", Params: fmt.Appendf(nil, `{"items":%d}`, packed), Input: in})
		if err != nil {
			b.Fatal(err)
		}
		answered, most := time.Since(began), 0
		j := follow(b, ctl, id, func(j *lease.Job) bool { most = max(most, anon(p.Process.Pid)); return j.Plans == 0 })
		whole := time.Since(began)
		f := p.figures(b)
		b.say("%7d shards: %d MB uploaded in %.2f s, submit answered in %.0f ms, whole in %.2f s, CPU of control %.2f s, %d commits, RssAnon %d MB at most, store %.0f MB",
			j.Shards.Ready, in.Bytes>>20, upload.Seconds(), answered.Seconds()*1000, whole.Seconds(), cpuOf(p.Process.Pid)-cpu, f.Commits-commits, most, float64(f.Size)/1e6)
		began = time.Now()
		if err := ctl.Cancel(b.Context(), id, "enough"); err != nil {
			b.Fatal(err)
		}
		answered = time.Since(began)
		follow(b, ctl, id, func(j *lease.Job) bool { return j.Shards.Open() == 0 })
		b.say("         cancel answered in %.1f ms, its rows followed in %.2f s", answered.Seconds()*1000, time.Since(began).Seconds())
		p.verify(b)
		b.end(p, dir)
	}
}

func dialPlane(t testing.TB, p *plane) *api.Client {
	c, err := api.Dial(p.url, func() string { return p.token }, api.NewHTTPClient(0, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// follow looks at a job a hundred times a second until it is as wanted.
func follow(t testing.TB, ctl lease.Control, id lease.JobID, want func(*lease.Job) bool) lease.Job {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		j, err := ctl.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if want(&j) {
			return j
		}
	}
}

// TestKilledWhileCutting: a control process that is killed while it cuts a list
// into shards goes on where it stopped.
func TestKilledWhileCutting(t *testing.T) {
	const n = 60_000
	dir := t.TempDir()
	p := control(t, dir, 0)
	ctl := dialPlane(t, p)
	input := bytes.Repeat([]byte("one of many\n"), n)
	in := lease.Input{Digest: lease.DigestOf(input), Bytes: int64(len(input))}
	if err := ctl.PutBlob(t.Context(), lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: lease.DefaultProject}, bytes.NewReader(input)); err != nil {
		t.Fatal(err)
	}
	id, err := ctl.Submit(t.Context(), lease.Submission{Kind: "list", Params: []byte(`{"items":1}`), Input: in})
	if err != nil {
		t.Fatal(err)
	}
	cut, last := 0, uint64(0)
	for j := (lease.Job{Plans: 1}); j.Plans > 0 && cut < 3; {
		j = follow(t, ctl, id, func(j *lease.Job) bool { return j.Items.Total > last+2000 || j.Plans == 0 })
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // it was killed
		if last = j.Items.Total; j.Plans > 0 {
			cut++
		}
		p = control(t, dir, 0)
		ctl = dialPlane(t, p)
		if j := follow(t, ctl, id, func(*lease.Job) bool { return true }); j.Items.Total < last {
			t.Fatalf("%d items after a kill, %d before", j.Items.Total, last)
		}
	}
	j := follow(t, ctl, id, func(j *lease.Job) bool { return j.Plans == 0 })
	if j.Items.Total != n || j.Shards.Ready != n || cut == 0 {
		t.Fatalf("job %+v, killed %d times before it was whole; want it killed, and %d items", j, cut, n)
	}
	p.verify(t)
	p.end(t)
}
