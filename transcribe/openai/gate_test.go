package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/transcribe"
)

// tripper stands for the network where only time matters.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return f(r)
}

func reply(code int, retryAfter, body string) *http.Response {
	h := http.Header{}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// bubble is an engine over a tripper, and a body to be asked with.
func bubble(t *testing.T, o Options, f tripper) (*engine, *form) {
	t.Helper()
	o.URL, o.HTTP = "http://127.0.0.1:1", &http.Client{Transport: f}
	o.Rand = func(int64) int64 { return 0 }
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e := tr.(*engine)
	body := e.blank("en")
	body.from = strings.NewReader("")
	return e, body
}

// TestRetryAfter: a server that asks for three seconds gets them from all calls,
// and no call fails.
func TestRetryAfter(t *testing.T) {
	for _, code := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var mu sync.Mutex
			var at []time.Duration
			e, body := bubble(t, Options{Parallel: 4}, func(*http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(began))
				if len(at) == 1 {
					return reply(code, "3", `{"error":{"message":"busy"}}`), nil
				}
				return reply(200, "", `{"text":"a"}`), nil
			})
			if _, err := e.ask(t.Context(), body, 1000, nil, false); err != nil {
				t.Fatal(err)
			}
			var calls sync.WaitGroup
			e.gate.rest(3*time.Second, errors.New("busy"))
			resting := time.Since(began)
			for range 4 {
				calls.Go(func() {
					if _, err := e.ask(t.Context(), body, 1000, nil, false); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			if at[0] != 0 || at[1] != 3*time.Second {
				t.Errorf("%d: calls at %v, want the second after 3 s", code, at)
			}
			for _, d := range at[2:] {
				if d != resting+3*time.Second {
					t.Errorf("%d: calls at %v, want all after the rest", code, at)
				}
			}
		})
	}
}

// TestParallel: a server gets as many requests at a time as it is said to take.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e, body := bubble(t, Options{Parallel: 2}, func(*http.Request) (*http.Response, error) {
			<-time.After(10 * time.Second)
			return reply(200, "", `{"text":"a"}`), nil
		})
		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() {
				if _, err := e.ask(t.Context(), body, 1000, nil, false); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("six requests took %v, want two at a time", took)
		}
	})
}

// TestLongRest: a rest too long to be waited out is told, with its length, and
// the calls after it do not disturb the server.
func TestLongRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		e, body := bubble(t, Options{}, func(*http.Request) (*http.Response, error) {
			n++
			return reply(429, "120", ""), nil
		})
		var busy *transcribe.BusyError
		for _, want := range []time.Duration{120 * time.Second, 90 * time.Second} {
			_, err := e.ask(t.Context(), body, 1000, nil, false)
			if !errors.As(err, &busy) || busy.After != want || n != 1 {
				t.Fatalf("ask = %v (%v) after %d calls, want %v and one call", err, busy.After, n, want)
			}
			<-time.After(30 * time.Second)
		}
	})
}

// TestBackOff: without a Retry-After the rests double, and a good answer ends that.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		e, body := bubble(t, Options{}, func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(began))
			return nil, fmt.Errorf("connection refused")
		})
		// The body was read to its end, so for one that is free this is a failure.
		if _, err := e.ask(t.Context(), body, 1000, nil, false); err == nil {
			t.Fatal("no error")
		}
		e.http.Transport = tripper(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(began))
			return reply(503, "", ""), nil
		})
		_, err := e.ask(t.Context(), body, 1000, nil, false)
		var busy *transcribe.BusyError
		if !errors.As(err, &busy) || busy.After != 32*time.Second {
			t.Fatalf("ask = %v, want a rest of 32 s", err)
		}
		if got, want := fmt.Sprint(at), "[0s 0s 2s 6s 14s 30s]"; got != want {
			t.Fatalf("calls at %s, want %s", got, want)
		}
		e.gate.good()
		<-time.After(time.Minute)
		e.gate.rest(0, err)
		if left, _ := e.gate.left(); left != restLeast {
			t.Fatalf("the rest after a good answer is %v", left)
		}
	})
}

// TestWaitsOnceItPaid: giving the sound back would mean to pay for its first
// piece again.
func TestWaitsOnceItPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		e, body := bubble(t, Options{Paid: true}, func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return reply(429, "600", ""), nil
			}
			return reply(200, "", `{"text":"a"}`), nil
		})
		began := time.Now()
		if _, err := e.ask(t.Context(), body, 1000, nil, true); err != nil || time.Since(began) != 10*time.Minute {
			t.Fatalf("ask = %v after %v", err, time.Since(began))
		}
	})
}

// TestHangs: the time allowed grows with the sound.
func TestHangs(t *testing.T) {
	for ms, want := range map[int64]time.Duration{0: 2 * time.Minute, 60_000: 12 * time.Minute, 3600_000: 30 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			for _, paid := range []bool{false, true} {
				e, body := bubble(t, Options{Paid: paid}, func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				began := time.Now()
				_, err := e.ask(t.Context(), body, ms, nil, false)
				var unknown *transcribe.UnknownOutcomeError
				if !errors.Is(err, errNoAnswer) || errors.As(err, &unknown) != paid || time.Since(began) != want {
					t.Errorf("%d ms, paid %t: %v after %v, want %v", ms, paid, err, time.Since(began), want)
				}
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := bubble(t, Options{}, nil)
		e.gate.rest(10*time.Second, errors.New("busy"))
		stop := errors.New("shutting down")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stop)
		defer cancel()
		if err := e.gate.wait(ctx, e.Rand, waitHere); !errors.Is(err, stop) {
			t.Fatalf("wait = %v", err)
		}
	})
}

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"3": 3 * time.Second, " 0.5 ": 500 * time.Millisecond, "": 0, "0": 0, "-4": 0, "NaN": 0, "soon": 0, "1e300": time.Hour, "Inf": time.Hour, "86400": time.Hour,
		"Wed, 02 Jan 2030 03:04:35 GMT": 30 * time.Second, "Wed, 02 Jan 2030 03:00:00 GMT": 0,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", in, got, want)
		}
	}
}
