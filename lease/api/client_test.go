package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"macbatch/lease"
	"macbatch/lease/api"
)

func TestDial(t *testing.T) {
	for base, ok := range map[string]bool{
		"http://localhost:7333": true, "http://localhost:7333/": true, "http://127.0.0.1": true, "http://[::1]:7333///": true,
		"http://127.8.8.8:1/x": true, "https://control.example/macbatch/": true, "HTTPS://control.example": true, "http://LOCALHOST": true,
		"": false, "localhost:7333": false, "//localhost": false, "http://": false, "http:///x": false, "https://:7333": false,
		"ftp://localhost": false, "file:///etc": false, "unix:/x": false, "http://control.example": false, "http://10.0.0.1": false,
		"http://localhost.evil.example": false, "http://127.0.0.1.evil.example": false, "http://[::ffff:10.0.0.1]": false, "http://0.0.0.0": false,
		"http://a@localhost": false, "https://a:geheim@control.example": false, "https://a:geheim@%zz": false, "http://localhost?x": false,
		"http://localhost/?": false, "http://localhost/#x": false, "http://local host": false,
	} {
		_, err := api.Dial(base, func() string { return "t" }, http.DefaultClient)
		if ok != (err == nil) || !ok && !errors.Is(err, lease.ErrInvalid) {
			t.Fatalf("Dial(%q) = %v, want allowed %v", base, err, ok)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") {
			t.Fatalf("Dial(%q) = %v, which tells the password", base, err)
		}
	}
}

func TestBasePath(t *testing.T) {
	for _, base := range []string{"", "/", "/x", "/x//", "/x/y/"} {
		url := serve(t, http.StripPrefix(strings.TrimRight(base, "/"), newHandler(&fake{})))
		if _, err := dial(t, url+base, "reader").Job(t.Context(), jobID); err != nil {
			t.Fatalf("Job over base %q = %v", base, err)
		}
	}
}

// TestStrangers: what isn't a control plane's answer is none.
func TestStrangers(t *testing.T) {
	header := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.Header().Set(api.Header, "1"); h(w, r) }
	}
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); io.WriteString(w, body) } //nolint:errcheck // a test's
	}
	for name, h := range map[string]http.HandlerFunc{
		"portal":           answer(200, `<html>log in</html>`),
		"portal with JSON": answer(200, `{"id":"hv05c-1"}`),
		"redirect":         http.RedirectHandler("http://localhost:1/", http.StatusFound).ServeHTTP,
		"proxy":            answer(502, `bad gateway`),
		"stranger's 401":   answer(401, `{"error":{"code":"unauthorized","message":"x"}}`),
		"other protocol":   func(w http.ResponseWriter, r *http.Request) { w.Header().Set(api.Header, "2"); answer(200, `{}`)(w, r) },
		"empty":            header(answer(200, ``)),
		"cut JSON":         header(answer(200, `{"id":`)),
		"unknown field":    header(answer(200, `{"id":"hv05c-1","x":1}`)),
		"duplicate field":  header(answer(200, `{"id":"hv05c-1","id":"hv05c-1"}`)),
		"no content":       header(answer(204, ``)),
		"teapot":           header(answer(418, `{"error":{"code":"teapot","message":"x"}}`)),
		"error in words":   header(answer(404, `not found`)),
		"cut connection": header(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":"hv05c-1"`) //nolint:errcheck // a test's
			panic(http.ErrAbortHandler)
		}),
		"closed connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, serve(t, h), "submitter").Submit(t.Context(), submission)
			if !errors.Is(err, lease.ErrUnreachable) || errors.Is(err, lease.ErrMalformed) || errors.Is(err, lease.ErrUnauthorized) {
				t.Fatalf("Submit = %v, want only ErrUnreachable", err)
			}
			if !strings.Contains(err.Error(), "127.0.0.1:") || strings.Contains(err.Error(), "/v1/") {
				t.Fatalf("Submit = %v, want the host named and no URL", err)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	srv := httptest.NewServer(nil)
	srv.Close()
	c := dial(t, srv.URL, "admin")
	if _, err := c.Workers(t.Context()); !errors.Is(err, lease.ErrUnreachable) {
		t.Fatalf("Workers = %v, want ErrUnreachable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Workers(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, lease.ErrUnreachable) {
		t.Fatalf("Workers with a canceled context = %v, want its error alone", err)
	}
	mine := errors.New("lease lost")
	ctx, cancel2 := context.WithCancelCause(t.Context())
	cancel2(mine)
	if _, err := c.Workers(ctx); !errors.Is(err, mine) || errors.Is(err, lease.ErrUnreachable) {
		t.Fatalf("Workers with a cause = %v, want it", err)
	}
}

func TestBadToken(t *testing.T) {
	url := serve(t, newHandler(&fake{}))
	for _, token := range []string{"", "nope", "a\nb", "a b", "ü"} {
		if _, err := dial(t, url, token).Workers(t.Context()); !errors.Is(err, lease.ErrUnauthorized) {
			t.Fatalf("Workers with token %q = %v, want ErrUnauthorized", token, err)
		}
	}
}

// TestExchangeSplits: more than one request may hold goes in several, the claim
// and the releases with the last, and each report gets its own verdict.
func TestExchangeSplits(t *testing.T) {
	f := &fake{exchanged: func(x lease.Exchange) (out lease.Exchanged) {
		for _, r := range x.Reports {
			out.Verdicts = append(out.Verdicts, lease.Judgement{Shard: r.Shard, Fence: r.Fence, Verdict: lease.Accepted})
		}
		if x.Max > 0 {
			out.Grants = []lease.Grant{{Shard: shardID, Fence: 9, Token: "t", Kind: "ocr", Payload: json.RawMessage(`{}`)}}
		}
		return out
	}}
	x := exchange
	x.Reports = nil
	for i := range 200 {
		result := json.RawMessage(`"` + strings.Repeat("a", lease.InlineResult-2) + `"`)
		x.Reports = append(x.Reports, lease.Report{Shard: lease.ShardID{Job: jobID, Seq: uint32(i + 1)}, Fence: lease.Fence(i), Outcome: lease.OutcomeDone, Result: result})
	}
	out, err := dial(t, serve(t, newHandler(f)), "worker").Exchange(t.Context(), x)
	if err != nil || len(out.Verdicts) != len(x.Reports) || len(out.Grants) != 1 {
		t.Fatalf("Exchange = %d verdicts, %d grants, %v", len(out.Verdicts), len(out.Grants), err)
	}
	for i, v := range out.Verdicts {
		if v.Shard != x.Reports[i].Shard {
			t.Fatalf("verdict %d is on %v, want %v", i, v.Shard, x.Reports[i].Shard)
		}
	}
	if len(f.asked) < 4 {
		t.Fatalf("%d requests, want at least 4", len(f.asked))
	}
	for i, asked := range f.asked {
		got, last := asked.(lease.Exchange), i == len(f.asked)-1
		if got.Worker != x.Worker || last != (got.Max == x.Max) || last != (len(got.Releases) == 1) || last != (got.Request == x.Request) || got.Wait != 0 {
			t.Fatalf("request %d of %d: max %d, releases %d, request %d, wait %v", i, len(f.asked), got.Max, len(got.Releases), got.Request, got.Wait)
		}
	}
	x.Reports = make([]lease.Report, lease.MaxReports+1)
	if _, err := dial(t, "http://localhost:1", "worker").Exchange(t.Context(), x); !errors.Is(err, lease.ErrTooLarge) {
		t.Fatalf("Exchange of %d reports = %v, want ErrTooLarge", len(x.Reports), err)
	}
}

func TestExchangeChecks(t *testing.T) {
	x := lease.Exchange{Reports: []lease.Report{{Shard: shardID, Result: json.RawMessage(`{"a": 1}`)}}}
	if _, err := dial(t, "http://localhost:1", "worker").Exchange(t.Context(), x); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("Exchange of a result that would change = %v, want ErrInvalid", err)
	}
	f := &fake{exchanged: func(lease.Exchange) lease.Exchanged { return lease.Exchanged{} }}
	if _, err := dial(t, serve(t, newHandler(f)), "worker").Exchange(t.Context(), exchange); !errors.Is(err, lease.ErrUnreachable) {
		t.Fatalf("Exchange with verdicts missing = %v, want an error", err)
	}
}

// TestBlobArrivesWholeOrNot: every way in which the bytes can be wrong.
func TestBlobArrivesWholeOrNot(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	sum := lease.DigestOf(data)
	for name, tt := range map[string]struct {
		send []byte
		size int
		end  error
		want error
	}{
		"whole":      {data, len(data), io.EOF, nil},
		"half":       {data[:len(data)/2], len(data), errors.New("disk"), lease.ErrUnreachable},
		"short":      {data[:len(data)-1], len(data), io.EOF, lease.ErrUnreachable},
		"none":       {nil, len(data), errors.New("disk"), lease.ErrUnreachable},
		"other size": {data[1:], len(data) - 1, io.EOF, lease.ErrDigest},
		"empty":      {nil, 0, io.EOF, lease.ErrDigest},
		"one bit":    {append(bytes.Clone(data[:len(data)-1]), '8'), len(data), io.EOF, lease.ErrDigest},
	} {
		f := &fake{blobs: func() (io.ReadCloser, int64, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(tt.send), iotest.ErrReader(tt.end))), int64(tt.size), nil
		}}
		c := dial(t, serve(t, newHandler(f)), "worker")
		for way, read := range map[string]func(r io.Reader, n int64) error{
			"to the end": func(r io.Reader, _ int64) error { _, err := io.Copy(io.Discard, r); return err },
			"by count":   func(r io.Reader, n int64) error { _, err := io.ReadFull(r, make([]byte, n)); return err },
			"by bytes":   func(r io.Reader, _ int64) error { return iotest.TestReader(r, data) },
		} {
			r, n, err := c.Blob(t.Context(), shardID, sum)
			if name == "none" && errors.Is(err, lease.ErrUnreachable) {
				continue // not even a header came
			}
			if err != nil || n != int64(tt.size) {
				t.Fatalf("%s: Blob = %d, %v", name, n, err)
			}
			err = read(r, n)
			if name == "empty" && way == "by count" {
				_, err = r.Read(make([]byte, 1)) // nobody counts to zero
			}
			if tt.want == nil && err != nil || tt.want != nil && !errors.Is(err, tt.want) && way != "by bytes" || tt.want != nil && err == nil {
				t.Fatalf("%s, read %s = %v, want %v", name, way, err, tt.want)
			}
			if err := r.Close(); err != nil {
				t.Fatalf("%s: Close = %v", name, err)
			}
		}
	}
}

func upload(d lease.Digest, size int64) lease.Upload {
	return lease.Upload{Digest: d, Size: size, Shard: shardID, Fence: 1, Token: "t"}
}

func TestPutBlob(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	disk := errors.New("disk")
	f := &fake{}
	c := dial(t, serve(t, newHandler(f)), "worker")
	for name, tt := range map[string]struct {
		r    io.Reader
		size int
		sum  lease.Digest
		want error
	}{
		"whole":    {bytes.NewReader(data), len(data), lease.DigestOf(data), nil},
		"empty":    {bytes.NewReader(nil), 0, lease.DigestOf(nil), nil},
		"bytewise": {iotest.OneByteReader(bytes.NewReader(data[:999])), 999, lease.DigestOf(data[:999]), nil},
		"short":    {bytes.NewReader(data[1:]), len(data), lease.DigestOf(data), lease.ErrDigest},
		"long":     {bytes.NewReader(data), len(data) - 1, lease.DigestOf(data[:len(data)-1]), lease.ErrDigest},
		"other":    {bytes.NewReader(data), len(data), abc, lease.ErrDigest},
		"broken":   {io.MultiReader(bytes.NewReader(data[:5000]), iotest.ErrReader(disk)), len(data), lease.DigestOf(data), disk},
		"negative": {bytes.NewReader(nil), -1, abc, lease.ErrInvalid},
	} {
		f.asked = nil
		err := c.PutBlob(t.Context(), upload(tt.sum, int64(tt.size)), tt.r)
		if tt.want == nil && err != nil || !errors.Is(err, tt.want) {
			t.Fatalf("%s: PutBlob = %v, want %v", name, err, tt.want)
		}
		if stored := len(f.asked) > 0; stored != (tt.want == nil) {
			t.Fatalf("%s: stored %v, want %v", name, stored, tt.want == nil)
		}
	}
	// A refusal costs none of the bytes.
	read := 0
	f.put = func(context.Context, io.Reader) error { return fmt.Errorf("put: %w", lease.ErrFull) }
	r := readerFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil })
	if err := c.PutBlob(t.Context(), upload(abc, 1<<30), r); !errors.Is(err, lease.ErrFull) || read != 0 {
		t.Fatalf("PutBlob on a full disk = %v after %d bytes, want ErrFull after none", err, read)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestPutBlobCut: what the client doesn't finish is an error to the control plane.
func TestPutBlobCut(t *testing.T) {
	got := make(chan error, 1)
	f := &fake{put: func(_ context.Context, r io.Reader) error { _, err := io.Copy(io.Discard, r); got <- err; return err }}
	c := dial(t, serve(t, newHandler(f)), "worker")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	r := readerFunc(func(p []byte) (int, error) {
		if n += len(p); n > 500_000 {
			cancel()
		}
		return len(p), ctx.Err()
	})
	if err := c.PutBlob(ctx, upload(abc, 1_000_000), r); !errors.Is(err, context.Canceled) {
		t.Fatalf("PutBlob canceled halfway = %v", err)
	}
	if err := <-got; err == nil {
		t.Fatal("the control plane saw the half as a whole")
	}
}

func TestRoutesIsACopy(t *testing.T) {
	api.Routes()[0].Roles[0] = lease.Reader
	if got := api.Routes()[0].Roles; !reflect.DeepEqual(got, []lease.Role{lease.Submitter}) {
		t.Fatalf("Routes()[0].Roles = %v after a caller changed its copy", got)
	}
}
