package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/api/openai"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/pipeline"
	"macbatch/lease/store"
)

// classes are who may ask, in the order of the matrix: of the project, of another
// one, and nobody's.
var classes = []string{"admin", "submitter", "reader", "worker", "other submitter", "other reader", "other worker", "revoked", "no token"}

// stage is a control plane with a token for each class, and in the project "ours"
// a batch that has ended, one that waits, and a file that none uses.
type stage struct {
	t      *testing.T
	s      *store.Store
	h      http.Handler
	engine kv.Engine
	blobs  *leasetest.Blobs
	stop   func()
	tokens map[string]string
	names  map[string]string // of what there is: INPUT, OUTPUT, ERRORS, UNUSED, BATCH, OPEN
	worker *leasetest.Worker
	ahead  time.Duration // of the system's clock
}

// later lets time pass for files.
func (st *stage) later(d time.Duration) { st.ahead += d }

func newStage(t *testing.T) *stage {
	st := &stage{t: t, engine: memkv.Open(), blobs: leasetest.NewBlobs(), tokens: map[string]string{"no token": "none"}, names: map[string]string{}}
	st.start()
	t.Cleanup(func() {
		st.stop()
		problems, err := store.Check(st.engine, st.blobs)
		if err != nil || len(problems) > 0 {
			t.Errorf("verify: %v %v", problems, err)
		}
	})
	ctl := st.s.As(leasetest.Admin)
	for _, p := range []lease.Project{"ours", "theirs"} {
		st.check(ctl.CreateProject(t.Context(), p))
	}
	for _, class := range classes[:8] {
		role, other := strings.CutPrefix(class, "other ")
		a := lease.Actor{ID: lease.ActorID(strings.ReplaceAll(class, " ", "-")), Role: lease.Role(role), Projects: []lease.Project{"ours"}}
		if other {
			a.Projects = []lease.Project{"theirs"}
		}
		if class == "revoked" {
			a.Role = lease.Admin
		}
		token, hash := store.NewToken(a.ID)
		st.check(ctl.AddActor(t.Context(), a, hash))
		st.tokens[class] = token
	}
	st.check(ctl.RevokeActor(t.Context(), "revoked"))

	st.names["INPUT"] = st.upload("submitter", lines("m", "a", "b"))
	st.names["BATCH"] = st.create(st.names["INPUT"])
	actor, _ := st.s.Actor("worker")
	st.worker = leasetest.NewWorker(t, st.s.As(actor), "mac")
	st.worker.Offer = lease.Offer{Kinds: []lease.Kind{pipeline.Generate}, Models: []string{"m"}}
	st.work()
	st.names["UNUSED"] = st.upload("submitter", lines("m", "c"))
	st.names["OPEN"] = st.create(st.upload("submitter", lines("other", "d")))
	job := strings.TrimPrefix(st.names["BATCH"], "batch_")
	st.names["OUTPUT"], st.names["ERRORS"] = "file-"+job+"-output", "file-"+job+"-errors"
	return st
}

// start runs a store over what there is.
func (st *stage) start() {
	st.t.Helper()
	s, err := store.Open(store.Options{Engine: st.engine, Blobs: st.blobs, Planner: pipeline.Planner{}, Rand: rand.New(rand.NewPCG(1, 2))})
	st.check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	st.stop = func() {
		stop()
		if err := <-ended; err != nil {
			st.t.Error(err)
		}
	}
	st.s = s
	st.h = api.NewHandler(api.Options{Authenticate: s.Authenticate, Control: s.As, Beside: openai.Beside(s, func() time.Time { return time.Now().Add(st.ahead) }), MaxBlob: 1 << 20})
}

func (st *stage) check(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatal(err)
	}
}

// work answers the first item of the batch and fails the second.
func (st *stage) work() {
	st.t.Helper()
	st.worker.Request++
	for _, g := range st.worker.Exchange(lease.Exchange{Max: 1, PerKind: map[lease.Kind]int{pipeline.Generate: 1}}).Grants {
		outcomes := []pipeline.Outcome{
			{Value: json.RawMessage(`{"object":"chat.completion"}`)}, {Error: &pipeline.ItemError{Code: "context", Message: "too long"}},
		}
		b, err := json.Marshal(pipeline.ListResult{Outcomes: outcomes[:g.Lines.Items]})
		st.check(err)
		r := leasetest.Done(lease.Grant{Shard: g.Shard, Fence: g.Fence, Token: g.Token}, "")
		r.Digest, r.Bytes, r.Result = lease.DigestOf(b), int64(len(b)), b
		if v := st.worker.Report(r); v.Verdict != lease.Accepted {
			st.t.Fatalf("report: %+v", v)
		}
	}
}

// lines is a file of chat lines, one for each id.
func lines(model string, ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, `{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"x"}]}}`+"\n", id, model)
	}
	return b.String()
}

// form is a body of fields, in pairs of name and value; those called file, or
// file=NAME, are files.
func form(pairs ...string) (contentType, body string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		var part io.Writer // onto a buffer, which takes all
		if what, name, named := strings.Cut(pairs[i], "="); what == "file" {
			if !named {
				name = "in.jsonl"
			}
			part, _ = w.CreateFormFile("file", name)
		} else {
			part, _ = w.CreateFormField(pairs[i])
		}
		_, _ = part.Write([]byte(pairs[i+1]))
	}
	_ = w.Close()
	return w.FormDataContentType(), b.String()
}

// ask sends a request; further arguments are headers, in pairs.
func (st *stage) ask(class, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+st.tokens[class])
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	st.h.ServeHTTP(w, r)
	return w
}

// answer asks for what must be answered with 200, and reads it.
func (st *stage) answer(into any, class, method, path, body string, headers ...string) {
	st.t.Helper()
	w := st.ask(class, method, path, body, headers...)
	if w.Code != http.StatusOK {
		st.t.Fatalf("%s %s = %d %s", method, path, w.Code, w.Body)
	}
	st.check(json.Unmarshal(w.Body.Bytes(), into))
}

type thing struct {
	ID, Status, Filename string
	Purpose              string
	Bytes                int64
	CreatedAt            int64             `json:"created_at"`
	ExpiresAt            *int64            `json:"expires_at"`
	Metadata             map[string]string `json:"metadata"`
	Deleted, HasMore     bool
	Data                 []thing
	OutputFileID         string          `json:"output_file_id"`
	ErrorFileID          string          `json:"error_file_id"`
	Counts               json.RawMessage `json:"request_counts"`
}

func (st *stage) upload(class, text string) string {
	st.t.Helper()
	var f thing
	contentType, body := form("purpose", "batch", "file", text)
	st.answer(&f, class, "POST", "/v1/files", body, "Content-Type", contentType)
	return f.ID
}

func creation(file string) string {
	return `{"input_file_id":"` + file + `","endpoint":"/v1/chat/completions","completion_window":"24h","unknown":1}`
}

func (st *stage) create(file string) string {
	st.t.Helper()
	var b thing
	st.answer(&b, "submitter", "POST", "/v1/batches", creation(file))
	return b.ID
}

func idOf(b []byte) string { return "file-" + lease.DigestOf(b).String() }

// put uploads bytes the protocol's own way.
func put(st *stage, p lease.Project, b []byte) {
	st.t.Helper()
	st.check(st.s.As(leasetest.Admin).PutBlob(st.t.Context(), lease.Upload{Digest: lease.DigestOf(b), Size: int64(len(b)), Project: p}, bytes.NewReader(b)))
}

func long(n int) string { return strings.Repeat("x", n) }

func number(s string) int {
	n, _ := strconv.Atoi(s) // of the test's own text
	return n
}

func counting(n *int) func(lease.Digest, int64, time.Time) bool {
	return func(lease.Digest, int64, time.Time) bool {
		*n++
		return true
	}
}
