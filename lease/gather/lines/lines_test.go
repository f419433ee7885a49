package lines_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"macbatch/lease"
	"macbatch/lease/blob"
	"macbatch/lease/gather/lines"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/pipeline"
	"macbatch/lease/store"
)

// plane is a control plane and a worker that does what the test says.
type plane struct {
	lease.Control
	t       *testing.T
	request uint64
}

func start(t *testing.T) *plane {
	t.Helper()
	blobs, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(store.Options{Engine: memkv.Open(), Blobs: blobs, Planner: pipeline.Planner{}, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &plane{Control: s.As(leasetest.Admin), t: t}
}

func (p *plane) submit(kind lease.Kind, params string, items ...string) lease.Job {
	p.t.Helper()
	b := []byte(strings.Join(items, "\n") + "\n")
	in := lease.Input{Digest: sha256.Sum256(b), Bytes: int64(len(b))}
	if err := p.PutBlob(p.t.Context(), lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: lease.DefaultProject}, bytes.NewReader(b)); err != nil {
		p.t.Fatal(err)
	}
	id, err := p.Submit(p.t.Context(), lease.Submission{Kind: kind, Params: json.RawMessage(params), Input: in})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.job(id)
}

func (p *plane) job(id lease.JobID) lease.Job {
	p.t.Helper()
	j, err := p.Job(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return j
}

// do claims up to n shards and ends each as end says: a result, or nil to fail it.
func (p *plane) do(n int, kind lease.Kind, end func(l *lease.Lines) *pipeline.ListResult) {
	p.t.Helper()
	p.request++
	x := lease.Exchange{
		Hello:   lease.Hello{Worker: "w", Incarnation: 1, Offer: lease.Offer{Kinds: []lease.Kind{kind}, Models: []string{"m"}}},
		Request: p.request, Max: n, PerKind: map[lease.Kind]int{kind: n},
	}
	got, err := p.Exchange(p.t.Context(), x)
	if err != nil || len(got.Grants) != n {
		p.t.Fatalf("%d grants, %v, want %d", len(got.Grants), err, n)
	}
	x = lease.Exchange{Hello: x.Hello}
	for _, g := range got.Grants {
		r := lease.Report{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeFailed, Class: lease.Permanent, Reason: "broken"}
		r.Digest = lease.FailureDigest(r.Class, r.Reason)
		if res := end(g.Lines); res != nil {
			b, err := json.Marshal(res)
			if err != nil {
				p.t.Fatal(err)
			}
			r = lease.Report{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeDone, Digest: lease.DigestOf(b), Bytes: int64(len(b)), Result: b}
			if len(b) > lease.InlineResult {
				r.Result, r.Blobs = nil, []lease.Digest{r.Digest}
				if err := p.PutBlob(p.t.Context(), lease.Upload{Digest: r.Digest, Size: r.Bytes, Shard: g.Shard, Fence: g.Fence, Token: g.Token}, bytes.NewReader(b)); err != nil {
					p.t.Fatal(err)
				}
			}
		}
		x.Reports = append(x.Reports, r)
	}
	out, err := p.Exchange(p.t.Context(), x)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, v := range out.Verdicts {
		if v.Verdict != lease.Accepted {
			p.t.Fatalf("shard %v: %s %s", v.Shard, v.Verdict, v.Reason)
		}
	}
}

// vectors gives each item a vector of its own number and mark; every tenth fails.
func vectors(width int, mark float32) func(l *lease.Lines) *pipeline.ListResult {
	return func(l *lease.Lines) *pipeline.ListResult {
		res := &pipeline.ListResult{By: pipeline.Maker{Engine: "e", Model: "m"}}
		for i := range l.Items {
			n := l.First + i
			v := make([]float32, width)
			v[0], v[1] = float32(n), mark
			o := pipeline.Outcome{Value: pipeline.VectorValue(v)}
			if n%10 == 3 {
				o = pipeline.Outcome{Error: &pipeline.ItemError{Code: "refused", Message: "<3>"}}
			}
			res.Outcomes = append(res.Outcomes, o)
		}
		return res
	}
}

func items(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`{"custom_id":"id %d","input":"x"}`, i)
	}
	return out
}

// line is what the tests look at in a line of either file.
type line struct {
	ID     string `json:"custom_id"`
	Output *struct{ Embedding []float32 }
	Error  *pipeline.ItemError
}

func read(t *testing.T, name string) (out []line) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if s == "" {
			continue
		}
		var l line
		if err := json.Unmarshal([]byte(s), &l); err != nil {
			t.Fatalf("%s: %q: %v", name, s, err)
		}
		out = append(out, l)
	}
	return out
}

func gathered(t *testing.T, p *plane, id lease.JobID, dir string, want lines.Report, o lines.Options) {
	t.Helper()
	got, err := lines.Gather(t.Context(), p, p.job(id), dir, o)
	if err != nil || got != want {
		t.Fatalf("Gather = %+v, %v, want %+v", got, err, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".macbatch*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	n := 0
	for _, l := range append(read(t, filepath.Join(dir, "output.jsonl")), read(t, filepath.Join(dir, "errors.jsonl"))...) {
		if (l.Output == nil) == (l.Error == nil) || l.ID == "" {
			t.Fatalf("a line says %+v", l)
		}
		n++
	}
	if n != want.Output+want.Errors {
		t.Errorf("%d lines, want %d", n, want.Output+want.Errors)
	}
}

// TestInOrder gathers a job while it is worked on, when a shard of it failed, was
// done again, and was done again once more.
func TestInOrder(t *testing.T) {
	for _, width := range []int{2, 64} { // small results, and such as are blobs
		p, dir := start(t), t.TempDir()
		j := p.submit(pipeline.Embed, `{"model":"m"}`, items(600)...) // of 256, 256 and 88
		gathered(t, p, j.ID, dir, lines.Report{Pending: 600}, lines.Options{})
		p.do(1, pipeline.Embed, vectors(width, 1))
		gathered(t, p, j.ID, dir, lines.Report{Output: 230, Errors: 26, Pending: 344}, lines.Options{})
		p.do(1, pipeline.Embed, func(*lease.Lines) *pipeline.ListResult { return nil })
		p.do(1, pipeline.Embed, vectors(width, 1))
		gathered(t, p, j.ID, dir, lines.Report{Output: 309, Errors: 291}, lines.Options{})
		if l := read(t, filepath.Join(dir, "errors.jsonl"))[26]; l.ID != "id 256" || l.Error.Code != "permanent" || l.Error.Message != "broken" {
			t.Errorf("an item of a failed shard: %+v %+v", l, l.Error)
		}

		again := func(mark float32) {
			t.Helper()
			if _, err := p.Retry(t.Context(), j.ID, lease.Selection{Shards: []uint32{2}}, 0); err != nil {
				t.Fatal(err)
			}
			// What failed is being done; what was done counts until it is done anew.
			want := lines.Report{Output: 309, Errors: 35, Pending: 256}
			if mark > 1 {
				want = lines.Report{Output: 540, Errors: 60}
			}
			gathered(t, p, j.ID, dir, want, lines.Options{})
			p.do(1, pipeline.Embed, vectors(width, mark+1))
			gathered(t, p, j.ID, dir, lines.Report{Output: 540, Errors: 60}, lines.Options{})
		}
		again(1)
		again(2)
		at := 0
		for _, l := range read(t, filepath.Join(dir, "output.jsonl")) {
			if at%10 == 3 {
				at++
			}
			mark := float32(1)
			if at >= 256 && at < 512 {
				mark = 3
			}
			if v := l.Output.Embedding; l.ID != fmt.Sprintf("id %d", at) || v[0] != float32(at) || v[1] != mark {
				t.Fatalf("line of item %d: %s, %v, want mark %v", at, l.ID, v[:2], mark)
			}
			at++
		}
	}
}

func TestCanceled(t *testing.T) {
	p, dir := start(t), t.TempDir()
	j := p.submit(pipeline.Embed, `{"model":"m"}`, items(300)...)
	p.do(1, pipeline.Embed, vectors(2, 1))
	if err := p.Cancel(t.Context(), j.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	gathered(t, p, j.ID, dir, lines.Report{Output: 230, Errors: 70}, lines.Options{})
	if l := read(t, filepath.Join(dir, "errors.jsonl"))[69]; l.Error.Code != "canceled" || l.Error.Message != "enough" {
		t.Errorf("a canceled item: %+v", l.Error)
	}
}

func TestMatrix(t *testing.T) {
	p, dir := start(t), t.TempDir()
	j := p.submit(pipeline.Embed, `{"model":"m"}`, items(300)...)
	p.do(2, pipeline.Embed, vectors(3, 7))
	gathered(t, p, j.ID, dir, lines.Report{Output: 270, Errors: 30}, lines.Options{NPY: true})
	b, err := os.ReadFile(filepath.Join(dir, "vectors.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if string(b[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("magic %q", b[:8])
	}
	head := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if head%64 != 0 || !strings.HasPrefix(string(b[10:]), "{'descr': '<f4', 'fortran_order': False, 'shape': (270, 3), }") || b[head-1] != '\n' {
		t.Fatalf("header of %d bytes: %q", head, b[10:head])
	}
	if len(b) != head+270*3*4 {
		t.Fatalf("%d bytes", len(b))
	}
	ids, err := os.ReadFile(filepath.Join(dir, "ids.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range read(t, filepath.Join(dir, "output.jsonl")) {
		row := b[head+i*12:]
		if x := math.Float32frombits(binary.LittleEndian.Uint32(row)); l.Output.Embedding[0] != x {
			t.Fatalf("row %d begins with %v, line with %v", i, x, l.Output.Embedding[0])
		}
		if id := strings.Split(string(ids), "\n")[i]; id != fmt.Sprintf("%q", l.ID) {
			t.Fatalf("row %d is called %s, line %s", i, id, l.ID)
		}
	}
	if _, err := lines.Gather(t.Context(), p, p.submit(pipeline.Generate, `{"model":"m"}`, items(1)...), dir, lines.Options{NPY: true}); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("a matrix of texts = %v", err)
	}
}

func TestBatchLines(t *testing.T) {
	p, dir := start(t), t.TempDir()
	l := `{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"x"}]}}`
	j := p.submit(pipeline.Generate, `{"model":"m","batch":true}`, fmt.Sprintf(l, "a<&>"), fmt.Sprintf(l, "b"))
	p.do(1, pipeline.Generate, func(*lease.Lines) *pipeline.ListResult {
		return &pipeline.ListResult{Outcomes: []pipeline.Outcome{{Value: json.RawMessage(`{"choices":[1]}`)}, {Error: &pipeline.ItemError{Code: "refused", Message: "no"}}}}
	})
	r, err := lines.Gather(t.Context(), p, p.job(j.ID), dir, lines.Options{})
	if err != nil || r != (lines.Report{Output: 1, Errors: 1}) {
		t.Fatalf("Gather = %+v, %v", r, err)
	}
	for name, want := range map[string]string{
		"output.jsonl": fmt.Sprintf(`{"id":"batch_req_%v_0","custom_id":"a<&>","response":{"status_code":200,"request_id":"%v/1","body":{"choices":[1]}},"error":null}`, j.ID, j.ID),
		"errors.jsonl": fmt.Sprintf(`{"id":"batch_req_%v_1","custom_id":"b","response":null,"error":{"code":"refused","message":"no"}}`, j.ID),
	} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want+"\n" {
			t.Errorf("%s: %s, %v, want %s", name, b, err, want)
		}
	}
}

func TestVerify(t *testing.T) {
	p := start(t)
	j := p.submit(pipeline.Embed, `{"model":"m"}`, items(3)...)
	p.do(1, pipeline.Embed, vectors(2, 1))
	dir := t.TempDir()
	if _, err := lines.Verify(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Verify of an empty folder = %v", err)
	}
	gathered(t, p, j.ID, dir, lines.Report{Output: 3}, lines.Options{})
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, "[]"},
		{func() error { return os.Remove(filepath.Join(dir, "errors.jsonl")) }, "[{output_missing errors.jsonl}]"},
		{func() error { return os.WriteFile(filepath.Join(dir, "output.jsonl"), []byte("edited"), 0o600) }, "[{output_changed output.jsonl} {output_missing errors.jsonl}]"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		problems, err := lines.Verify(dir)
		type short struct{ kind, subject string }
		got := []short{}
		for _, p := range problems {
			got = append(got, short{p.Kind, p.Subject})
		}
		if err != nil || fmt.Sprint(got) != step.want {
			t.Errorf("Verify = %v, %v, want %s", got, err, step.want)
		}
	}
}

func TestStrangersAreLeftAlone(t *testing.T) {
	p := start(t)
	j := p.submit(pipeline.Embed, `{"model":"m"}`, items(3)...)
	p.do(1, pipeline.Embed, vectors(2, 1))
	for name, make := range map[string]func(dir string) error{
		"a file":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "errors.jsonl"), []byte("mine"), 0o600) },
		"a folder": func(dir string) error { return os.Mkdir(filepath.Join(dir, "output.jsonl"), 0o700) },
		"a link":   func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "output.jsonl")) },
		"another's manifest": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("mine"), 0o600)
		},
		"a manifest of other things": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"name": "mine"}`), 0o600)
		},
	} {
		dir := t.TempDir()
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := lines.Gather(t.Context(), p, p.job(j.ID), dir, lines.Options{}); !errors.Is(err, lines.ErrStranger) {
			t.Errorf("%s in the way = %v", name, err)
		}
		if err := lines.Check(dir, lines.Options{}); !errors.Is(err, lines.ErrStranger) {
			t.Errorf("Check, %s in the way = %v", name, err)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("%s in the way: the folder holds %v, %v", name, all, err)
		}
	}
	dir := t.TempDir()
	gathered(t, p, j.ID, dir, lines.Report{Output: 3}, lines.Options{})
	gone := filepath.Join(dir, "gone")
	if err := errors.Join(lines.Check(dir, lines.Options{}), lines.Check(gone, lines.Options{})); err != nil {
		t.Errorf("Check of what Gather wrote, and of no folder = %v", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
		t.Errorf("Check left %v, %v", all, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "output.jsonl"), []byte("edited"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lines.Gather(t.Context(), p, p.job(j.ID), dir, lines.Options{}); !errors.Is(err, lines.ErrStranger) {
		t.Errorf("an edited file = %v", err)
	}
}

// TestKilledBetweenNames: files that got their names, though the manifest does not
// tell so yet, are known by the next gathering.
func TestKilledBetweenNames(t *testing.T) {
	p, dir := start(t), t.TempDir()
	j := p.submit(pipeline.Embed, `{"model":"m"}`, items(3)...)
	p.do(1, pipeline.Embed, vectors(2, 1))
	gathered(t, p, j.ID, dir, lines.Report{Output: 3}, lines.Options{})
	name := filepath.Join(dir, "manifest.json")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"files"`), []byte(`"files":[],"next"`), 1)
	if err := errors.Join(os.WriteFile(name, b, 0o600), os.WriteFile(filepath.Join(dir, ".macbatch-errors.jsonl"), []byte("half"), 0o600), os.Remove(filepath.Join(dir, "errors.jsonl"))); err != nil {
		t.Fatal(err)
	}
	gathered(t, p, j.ID, dir, lines.Report{Output: 3}, lines.Options{})
}

// breaking is a control plane whose connection breaks every few bytes.
type breaking struct {
	lease.Control
	broke int
}

func (b *breaking) Input(ctx context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	r, err := b.Control.Input(ctx, of, from, to)
	if err != nil {
		return nil, err
	}
	b.broke++
	cut := fmt.Errorf("broke: %w", lease.ErrUnreachable)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 100), iotest.ErrReader(cut)), r}, nil
}

func TestReadsOnAfterABreak(t *testing.T) {
	p, dir := start(t), t.TempDir()
	j := p.submit(pipeline.Embed, `{"model":"m"}`, items(9)...)
	p.do(1, pipeline.Embed, vectors(2, 1))
	b := &breaking{Control: p}
	if r, err := lines.Gather(t.Context(), b, p.job(j.ID), dir, lines.Options{}); err != nil || r != (lines.Report{Output: 8, Errors: 1}) || b.broke < 2 {
		t.Errorf("Gather = %+v, %v after %d breaks", r, err, b.broke)
	}
}
