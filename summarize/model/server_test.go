package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"macbatch/summarize/model"
)

// ask sends one request to a server that answers with h.
func ask(t *testing.T, h http.HandlerFunc, shape func(*model.Server)) ([]byte, error) {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	s := model.Server{URL: ts.URL, HTTP: ts.Client()}
	if shape != nil {
		shape(&s)
	}
	var got []byte
	err := s.Do(t.Context(), "/x", []byte(`{}`), func(r io.Reader) error {
		var err error
		got, err = io.ReadAll(r)
		return err
	}, nil)
	return got, err
}

func TestStatusMeansKind(t *testing.T) {
	for status, want := range map[int]error{
		400: model.ErrRefused, 404: model.ErrRefused, 413: model.ErrRefused, 422: model.ErrRefused,
		401: model.ErrDenied, 403: model.ErrDenied, 402: model.ErrDenied, 301: model.ErrDenied, 307: model.ErrDenied,
		429: model.ErrBusy, 503: model.ErrBusy, 529: model.ErrBusy,
		408: model.ErrUnavailable, 500: model.ErrUnavailable, 502: model.ErrUnavailable, 504: model.ErrUnavailable,
	} {
		_, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/y")
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(status)
			if r.URL.Path == "/y" {
				t.Error("a redirect was followed")
			}
			_, _ = fmt.Fprint(w, `{"error":{"message":"so it is\n\u202e","type":"x","code":null}}`)
		}, nil)
		var e *model.Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Status != status || e.Text != "so it is" {
			t.Errorf("status %d = %v, want %v", status, err, want)
		}
		if after := errors.Is(err, model.ErrBusy); after != (e.After == 3*time.Second) {
			t.Errorf("status %d: to be left alone for %v", status, e.After)
		}
	}
}

func TestComplaints(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"plain"}`:                             "plain",
		`{"error":{"message":"a","code":"bad_thing"}}`:  "bad_thing: a",
		`{"detail":"of some server"}`:                   "of some server",
		`{"detail":[{"loc":["body"],"msg":"missing"}]}`: `[{"loc":["body"],"msg":"missing"}]`,
		`{"object":"error","message":"flat"}`:           "flat",
		`<html>Bad gateway</html>`:                      "<html>Bad gateway</html>",
		``:                                              "",
		"a\x1b[31m\x00b\u2028c\u202ed\n\n e":            "a [31m b c d e",
	} {
		_, err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = fmt.Fprint(w, body)
		}, nil)
		var e *model.Error
		if !errors.As(err, &e) || e.Text != want {
			t.Errorf("complaint %q is told as %v, want %q", body, err, want)
		}
	}
	_, err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = fmt.Fprint(w, strings.Repeat("é", 1<<20))
	}, nil)
	if len(err.Error()) > 600 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestKeyIsSentAndNeverTold(t *testing.T) {
	_, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-secret" {
			t.Errorf("Authorization %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(401)
		_, _ = fmt.Fprint(w, `{"error":"key sk-secret is not valid"}`)
	}, func(s *model.Server) { s.Key = "sk-secret" })
	if !errors.Is(err, model.ErrDenied) || strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("refused key = %v", err)
	}
}

func TestSilenceIsAStall(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"before the answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"within the answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, `{"a":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		began := time.Now()
		_, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body) // its end lets the server see that we left
			h(w, r)
		}, func(s *model.Server) { s.Wait = 100 * time.Millisecond })
		if !errors.Is(err, model.ErrStalled) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %v, want ErrStalled", name, err, time.Since(began))
		}
	}
}

func TestSlowIsNoStall(t *testing.T) {
	got, err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		for range 10 {
			<-tick.C
			_, _ = fmt.Fprint(w, "x")
			_ = http.NewResponseController(w).Flush()
		}
	}, func(s *model.Server) { s.Wait = 300 * time.Millisecond })
	if err != nil || string(got) != "xxxxxxxxxx" {
		t.Errorf("a slow answer = %q, %v", got, err)
	}
}

func TestCutAnswerIsUnavailable(t *testing.T) {
	_, err := ask(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = fmt.Fprint(w, `{"a":1`)
	}, nil)
	if !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("a cut answer = %v, want ErrUnavailable", err)
	}
	ts := httptest.NewServer(http.NotFoundHandler())
	ts.Close()
	s := model.Server{URL: ts.URL, HTTP: http.DefaultClient}
	if err := s.Do(t.Context(), "/x", nil, nil, nil); !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("nobody there = %v, want ErrUnavailable", err)
	}
}

func TestContextsCauseComesBack(t *testing.T) {
	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		cancel(mine)
		<-r.Context().Done()
	}))
	defer ts.Close()
	s := model.Server{URL: ts.URL, HTTP: ts.Client()}
	if err := s.Do(ctx, "/x", []byte(`{}`), nil, nil); err != mine { //nolint:errorlint // it must come back bare
		t.Errorf("Do of an ended context = %v, want its cause", err)
	}
}

func TestCheckVectors(t *testing.T) {
	inf := float32(1)
	for range 200 {
		inf *= 10
	}
	for name, v := range map[string][][]float32{
		"too few": {{1, 2}}, "too many": {{1, 2}, {1, 2}, {1, 2}}, "empty": {{1, 2}, {}}, "none": {{1, 2}, nil},
		"of two lengths": {{1, 2}, {1, 2, 3}}, "infinite": {{1, 2}, {1, inf}}, "no number": {{1, 2}, {1, inf - inf}}, "zero": {{1, 2}, {0, 0}},
	} {
		if err := model.CheckVectors(v, 2, 0); !errors.Is(err, model.ErrBadAnswer) {
			t.Errorf("CheckVectors, %s = %v, want ErrBadAnswer", name, err)
		}
	}
	good := [][]float32{{1, 2}, {0, 3}}
	if err := model.CheckVectors(good, 2, 0); err != nil {
		t.Error(err)
	}
	if err := model.CheckVectors(good, 2, 3); !errors.Is(err, model.ErrBadAnswer) {
		t.Errorf("CheckVectors of another length = %v", err)
	}
}
