package kinds

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/spool"
	"macbatch/summarize/model"
	"macbatch/transcode/child"
	"macbatch/transcribe"
)

const secret = "SECRET-OUTSIDE-THE-ROOTS"

// evil is a control plane that hands out what it likes, once, and keeps what comes.
type evil struct {
	lease.Control // what a worker never calls

	mu      sync.Mutex
	grants  []lease.Grant
	input   []byte
	ends    map[lease.ShardID]string // how each grant ended
	came    bytes.Buffer             // everything the worker sent
	all     chan struct{}            // closed when each grant has ended
	granted bool
}

func (e *evil) end(id lease.ShardID, how string) {
	e.ends[id] = how
	if len(e.ends) == len(e.grants) {
		close(e.all)
	}
}

func (e *evil) Exchange(ctx context.Context, x lease.Exchange) (out lease.Exchanged, err error) {
	e.mu.Lock()
	for _, r := range x.Reports {
		if e.ends[r.Shard] == "" {
			e.end(r.Shard, string(r.Outcome)+" "+r.Reason)
		}
		e.came.Write(r.Result)
		e.came.WriteString(r.Reason)
		// Blobs the report does not speak of are asked for, too.
		j := lease.Judgement{Shard: r.Shard, Fence: r.Fence, Verdict: lease.Accepted}
		out.Verdicts = append(out.Verdicts, j)
	}
	for _, g := range x.Releases {
		if e.ends[g.Shard] == "" {
			e.end(g.Shard, "released "+g.Reason)
		}
		e.came.WriteString(g.Reason)
	}
	if x.Max > 0 && !e.granted {
		e.granted = true
		out.Grants = e.grants
	}
	e.mu.Unlock()
	if len(out.Verdicts)+len(out.Grants)+len(x.Releases) == 0 {
		select { // nothing to say
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-time.After(x.Wait):
		}
	}
	return out, nil
}

func (e *evil) Heartbeat(context.Context, lease.Beat) (lease.Beaten, error) {
	return lease.Beaten{}, nil
}

func (e *evil) PutBlob(_ context.Context, _ lease.Upload, r io.Reader) error {
	b, err := io.ReadAll(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.came.Write(b)
	return err
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// Blob lies: about the bytes, about their number, about there being an end.
func (e *evil) Blob(_ context.Context, of lease.ShardID, _ lease.Digest) (io.ReadCloser, int64, error) {
	switch of.Seq % 4 {
	case 0:
		return io.NopCloser(endless{}), 1 << 50, nil
	case 1:
		return io.NopCloser(strings.NewReader("lie")), 3, nil
	case 2:
		return io.NopCloser(strings.NewReader("short")), 1 << 20, nil
	}
	return io.NopCloser(endless{}), -1, nil
}

func (e *evil) Input(_ context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	if of.Seq%5 == 0 {
		return io.NopCloser(endless{}), nil
	}
	from, to = min(max(from, 0), int64(len(e.input))), min(max(to, 0), int64(len(e.input)))
	return io.NopCloser(bytes.NewReader(e.input[from:max(from, to)])), nil
}

// hearing is a speech engine that looks only at what it was given.
type hearing struct {
	fake
	t *testing.T
}

func (h hearing) Transcribe(_ context.Context, r transcribe.Request) (transcribe.Transcript, error) {
	h.t.Errorf("the engine was given %q: no sound that was granted is real", r.Sound)
	return transcribe.Transcript{}, errors.New("no")
}

// grantsOf makes what is handed out. honest is the one that should be done.
func grantsOf(canary, outside string, lines *lease.Lines) (grants []lease.Grant, honest lease.ShardID) {
	add := func(kind lease.Kind, payload string, change ...func(*lease.Grant)) lease.ShardID {
		g := lease.Grant{
			Shard: lease.ShardID{Job: 1<<32 | 1, Seq: uint32(len(grants) + 1)}, Fence: lease.Fence(len(grants) + 1),
			Kind: kind, Payload: json.RawMessage(payload), Term: lease.Term,
		}
		for _, c := range change {
			c(&g)
		}
		grants = append(grants, g)
		return g.Shard
	}
	quote := func(s string) string {
		b, _ := json.Marshal(s) // text
		return string(b)
	}
	list := func(g *lease.Grant) { l := *lines; g.Lines = &l }
	honest = add(pipeline.Scan, `{"root":"films"}`)

	identity := `"identity":{"size":1,"mtime_ns":1,"inode":1}`
	for _, p := range []string{
		"../outside/secret.wav", outside + "/secret.wav", "a/../../outside/secret.wav", "link/secret.wav", "link.wav", "tone.wav/..",
		".", "..", "/", "-i", "-version", canary + "/x.wav", "file://" + outside + "/secret.wav", "concat:" + outside + "/secret.wav", "tone.wav\x00.mp4",
		"percent:%2e%2e/outside/secret.wav", "percent:..%2foutside", "percent:%", "pipe:0", "playlist.mp4", strings.Repeat("x/", 5000), "tone.wav\n-y\n/x",
		"//outside", "~/secret", "$(touch x)", "`touch x`",
	} {
		add(pipeline.Scan, `{"root":"films","sub":`+quote(p)+`}`)
		add(pipeline.Transcode, `{"root":"films","path":`+quote(p)+`,`+identity+`}`)
		add(pipeline.Render, `{"root":"films","path":`+quote(p)+`,`+identity+`,"duration_ms":9223372036854775807,"preset":"sheet"}`)
	}
	for _, preset := range []string{"", "speech", "-y /x", "../proxy", canary} {
		add(pipeline.Render, `{"root":"films","path":"tone.wav",`+identity+`,"duration_ms":-1,"preset":`+quote(preset)+`}`)
	}
	for _, r := range []string{"", "/", "..", "../films", outside, "films/..", "other", canary, "films\x00"} {
		add(pipeline.Scan, `{"root":`+quote(r)+`}`)
	}
	for _, p := range []string{
		`{"root":"films","cmd":"touch x"}`, `{"root":"films","root":"other"}`, `{"ROOT":"films"}`, `{"root":"films"} {}`, `null`, `[]`, `"films"`, `7`,
		strings.Repeat(`{"root":`, 20000) + `1` + strings.Repeat(`}`, 20000), `{"root":["films"]}`, `{"root":"films","sub":"\ud800"}`, `{`, ``,
	} {
		add(pipeline.Scan, p)
	}
	for _, ms := range []string{"-1", "1", "1e400", "NaN", "4611686018427387904", "99999999999999999999999"} {
		add(pipeline.Transcode, `{"root":"films","path":"tone.wav",`+identity+`,"chunk_ms":`+ms+`}`)
	}
	add(pipeline.Transcode, `{"root":"films","path":"tone.wav","identity":{"size":-1,"mtime_ns":-9223372036854775808,"inode":18446744073709551615},"audio_lang":["-map","0; touch x"]}`)

	speech := `{"path":"x","sound":"` + strings.Repeat("ab", 32) + `","duration_ms":%s,"part":{"start_ms":0,"from_ms":0,"to_ms":1}%s}`
	for _, more := range []string{"", `,"transcriber":"../../bin/sh"`, `,"transcriber":"` + canary + `"`, `,"language":"-f /etc/passwd"`, `,"language":"en; touch x"`, `,"url":"` + canary + `"`} {
		for _, ms := range []string{"1", "-1", "9223372036854775807"} {
			add(pipeline.Transcribe, fmt.Sprintf(speech, ms, more))
		}
	}
	add(pipeline.Summarize, `{"title":"x","parts":[{"start_ms":0,"from_ms":0,"to_ms":1}]}`)
	add(pipeline.Summarize, `{"title":"x","parts":[{"start_ms":0,"from_ms":0,"to_ms":1}]}`, func(g *lease.Grant) {
		g.Needs = []lease.Result{{Digest: lease.DigestOf([]byte("other")), Inline: []byte(`{"segments":[]}`)}}
	})
	add(pipeline.Summarize, `{"title":"x","parts":[{"start_ms":0,"from_ms":0,"to_ms":1}]}`, func(g *lease.Grant) {
		g.Needs = []lease.Result{{Digest: lease.DigestOf([]byte("far"))}}
	})

	for _, p := range []string{
		`{"model":"m","tier":"` + canary + `"}`, `{"model":"` + canary + `"}`, `{"model":"m","url":"` + canary + `"}`, `{"model":"m","tier":"other"}`,
		`{"model":"m","max_tokens":-1}`, `{"model":"m","context":9223372036854775807}`, `{"model":"m","temperature":1e999}`, `{"model":"m","prompt":"{{file:/etc/passwd"}`,
		`{"model":"../../m"}`, `{"model":"m","digest":"` + strings.Repeat("0", 64) + `"}`,
	} {
		add(pipeline.Generate, p, list)
	}
	add(pipeline.OCR, `{"language":"../../../x"}`, list)
	add(pipeline.OCR, `{"language":"-c tessedit_write_images=1"}`, list)
	for _, change := range []func(*lease.Lines){
		func(l *lease.Lines) { l.From = -1 }, func(l *lease.Lines) { l.To = 1 << 62 }, func(l *lease.Lines) { l.Items = 1 << 31 },
		func(l *lease.Lines) { l.Digest = lease.Digest{} }, func(l *lease.Lines) { l.From, l.To = l.To, l.From },
	} {
		add(pipeline.Generate, `{"model":"m"}`, list, func(g *lease.Grant) { change(g.Lines) })
	}
	add(pipeline.Generate, `{"model":"m"}`) // a list without lines

	for _, k := range []lease.Kind{"shell", "exec", "fetch", "", "Scan", "scan\x00", "../scan"} {
		add(k, `{"root":"films","cmd":["touch","x"]}`)
	}
	add(pipeline.Scan, `{"root":"nowhere"}`, func(g *lease.Grant) { g.Term = 1 })
	add(pipeline.Scan, `{"root":"nowhere"}`, func(g *lease.Grant) { g.Term = 1<<63 - 1 })
	return grants, honest
}

// tree is all there is below a folder, with times.
func tree(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path, fi.Mode(), fi.Size(), fi.ModTime().UnixNano()) //nolint:errcheck // a hash
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// watched is a program that runs another one, and writes down its arguments.
func watched(t *testing.T, dir, name string) (path, log string) {
	t.Helper()
	real, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	path, log = filepath.Join(dir, name), filepath.Join(dir, name+".log")
	script := "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '" + log + "'\nexec '" + real + "' \"$@\"\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, log
}

// TestEvilControl: whatever a control plane hands out, nothing outside the roots is
// read or changed, nobody else is called, and no program runs but the tools.
func TestEvilControl(t *testing.T) {
	var calls atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer canary.Close()

	base, bin, own := t.TempDir(), t.TempDir(), t.TempDir()
	outside, root := filepath.Join(base, "outside"), filepath.Join(base, "root")
	for path, text := range map[string]string{
		"outside/secret.wav": secret, "root/tone.wav": "RIFF", "root/sub/film.mkv": "no film",
		"root/playlist.mp4": "#EXTM3U\n#EXTINF:1,\n" + canary.URL + "/1.ts\n#EXTINF:1,\n" + outside + "/secret.wav\n",
	} {
		path = filepath.Join(base, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(outside, filepath.Join(root, "link")), os.Symlink(outside+"/secret.wav", filepath.Join(root, "link.wav"))); err != nil {
		t.Fatal(err)
	}
	ffmpeg, ffmpegLog := watched(t, bin, "ffmpeg")
	ffprobe, ffprobeLog := watched(t, bin, "ffprobe")

	asked := atomic.Int32{}
	scripted := &script{digest: strings.Repeat("d", 64), generate: func(model.GenerateRequest) (string, error) {
		asked.Add(1)
		return "", model.ErrRefused
	}}
	tools := &Tools{
		FFmpeg: ffmpeg, FFprobe: ffprobe, FFmpegVersion: "test", Roots: map[string]string{"films": root},
		Transcribers: []Transcriber{{Name: "hearing", Transcriber: hearing{t: t}}},
		Servers:      []*Server{{Tier: "local", Engine: "script", Runtime: scripted}},
	}
	if err := tools.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	input := []byte(`{"custom_id":"a","image":"` + canary.URL + `/x.png"}` + "\n" + `{"custom_id":"b","image":"file://` + outside + `/secret.wav"}` + "\n" +
		`{"custom_id":"../../c","method":"POST","url":"` + canary.URL + `","body":{}}` + "\n" + `{"custom_id":"d","input":"{{secret}}"}` + "\n")
	ctl := &evil{input: input, ends: map[lease.ShardID]string{}, all: make(chan struct{})}
	var honest lease.ShardID
	ctl.grants, honest = grantsOf(canary.URL, outside, &lease.Lines{Range: lease.Range{To: int64(len(input)), Digest: lease.DigestOf(input)}, Items: 4})

	sp, err := spool.Open(filepath.Join(own, "spool"))
	if err != nil {
		t.Fatal(err)
	}
	k, _, err := child.Keep(filepath.Join(own, "children"))
	if err != nil {
		t.Fatal(err)
	}
	n := len(ctl.grants)
	slots := map[lease.Kind]int{}
	for kind := range tools.Executors() {
		slots[kind] = n
	}
	agent, err := worker.New(worker.Config{
		ID: "w", Incarnation: 1, Control: ctl, Spool: sp, Dir: filepath.Join(own, "work"), Base: child.With(context.Background(), k),
		Executors: tools.Executors(), Offer: tools.Offer(), Parallel: n, Slots: slots,
	})
	if err != nil {
		t.Fatal(err)
	}
	before := tree(t, base)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- agent.Run(ctx) }()
	select {
	case <-ctl.all:
	case <-time.After(5 * time.Minute):
		t.Error("not all that was granted has ended")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	if got := tree(t, base); got != before {
		t.Error("something changed outside the worker's folder")
	}
	if calls.Load() > 0 {
		t.Errorf("%d requests to a server that nobody configured", calls.Load())
	}
	if bytes.Contains(ctl.came.Bytes(), []byte(secret)) {
		t.Error("bytes from outside the roots were sent")
	}
	refused := 0
	for _, g := range ctl.grants {
		how := ctl.ends[g.Shard]
		switch done := strings.HasPrefix(how, "done"); {
		case g.Shard == honest && !done:
			t.Errorf("the honest shard: %s", how)
		case g.Shard != honest && done && g.Kind != pipeline.Generate && !bytes.Contains(g.Payload, []byte("playlist.mp4")): // that one is within a root
			t.Errorf("%s %.200s: %s", g.Kind, g.Payload, how)
		case !done:
			refused++
		}
	}
	for _, log := range []string{ffmpegLog, ffprobeLog} {
		b, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, bad := range []string{canary.URL, outside, "touch", "concat:"} {
			if bytes.Contains(b, []byte(bad)) {
				t.Errorf("%s was told of %q", filepath.Base(log), bad)
			}
		}
	}
	if _, left, err := child.Keep(filepath.Join(own, "children")); err != nil || left > 0 {
		t.Errorf("%d processes were left, %v", left, err)
	}
	t.Logf("%d payloads, %d refused, model asked %d times", n, refused, asked.Load())
	if n < 60 {
		t.Errorf("%d payloads are too few", n)
	}
}
