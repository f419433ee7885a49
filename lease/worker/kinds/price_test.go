package kinds

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
)

// account is a control plane that has so much to spend.
type account struct {
	mu       sync.Mutex
	limit    lease.Cost
	reserved lease.Cost
	spent    lease.Cost
	intents  int
	held     func(n int, idle bool) error // of the n-th intent; may be nil
}

func (a *account) task(kind lease.Kind, params string, lines ...string) worker.Task {
	var raw [][]byte
	for _, l := range lines {
		raw = append(raw, []byte(l))
	}
	return worker.Task{
		Grant:    lease.Grant{Kind: kind, Payload: []byte(params), Lines: &lease.Lines{Items: uint32(len(lines))}, Capped: true},
		Lines:    func(context.Context) ([][]byte, error) { return raw, nil },
		Progress: func(uint64) {},
		Sure:     func(context.Context) error { return nil },
		Intend: func(_ context.Context, c lease.Cost, idle bool) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.intents++
			if a.held != nil {
				if err := a.held(a.intents, idle); err != nil {
					return err
				}
			}
			if c > a.limit {
				return lease.ErrOverBudget
			}
			a.reserved = max(a.reserved, c)
			return nil
		},
		Spent: func(c lease.Cost) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.spent = c
		},
	}
}

// TestPaidWithinLimit: what a request costs at most is reserved before it is made,
// what it cost is told, and what there is no money for fails alone.
func TestPaidWithinLimit(t *testing.T) {
	s := &script{generate: func(q model.GenerateRequest) (string, error) {
		if q.MaxTokens == 0 {
			t.Error("a paid request without a bound of its answer")
		}
		return "yes", nil
	}}
	s.usage = model.Usage{InputTokens: 10, OutputTokens: 5}
	server := &Server{Tier: "cloud", Paid: true, Price: Price{In: 1000, Out: 1000}, Parallel: 3, Runtime: s}
	tools := &Tools{Servers: []*Server{server}}
	each := server.Price.Of(10, 5)
	a := &account{limit: each*3 + server.Price.Of(1+turnTokens, 7) - 1}
	out, err := tools.Executors()[pipeline.Generate].Execute(t.Context(),
		a.task(pipeline.Generate, `{"model":"m","tier":"cloud","max_tokens":7}`, texts(strings.Split("abcdefgh", "")...)...))
	if err != nil {
		t.Fatal(err)
	}
	if a.spent == 0 || a.spent > a.limit || a.reserved > a.limit || a.reserved < a.spent {
		t.Errorf("spent %v, reserved %v of %v", a.spent, a.reserved, a.limit)
	}
	if want := lease.Cost(s.calls) * each; a.spent != want || s.calls == 0 || s.calls == 8 {
		t.Errorf("spent %v by %d calls, want %v", a.spent, s.calls, want)
	}
	if !strings.Contains(string(out.Result), codeBudget) || !strings.Contains(string(out.Result), `"cost_nusd":`) {
		t.Errorf("result %s, want costs, and items over the budget", out.Result)
	}
}

// TestPaidHeld: a shard is given back for want of room before it spent anything, and
// never after; it waits while others hold the room, however long, and tells when it is idle.
func TestPaidHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for first := range 3 { // refused from then on, for an hour
			s := &script{generate: func(model.GenerateRequest) (string, error) {
				scripts.Unlock() // or time could not pass
				<-time.After(time.Minute)
				scripts.Lock()
				return "yes", nil
			}}
			s.usage = model.Usage{InputTokens: 10, OutputTokens: 5}
			tools := &Tools{Servers: []*Server{{Tier: "cloud", Paid: true, Price: Price{In: 1, Out: 1}, Parallel: 3, Runtime: s}}}
			began, idly := time.Now(), 0
			a := &account{limit: lease.Dollar, held: func(n int, idle bool) error {
				if n <= first || time.Since(began) > time.Hour {
					return nil
				}
				if idle {
					idly++
				}
				return lease.ErrBudgetHeld
			}}
			out, err := tools.Executors()[pipeline.Generate].Execute(t.Context(), a.task(pipeline.Generate, `{"model":"m","tier":"cloud"}`, texts("a", "b", "c", "d")...))
			released, given := errors.AsType[*worker.Released](err)
			switch {
			case first == 0 && (!given || released.Delay <= 0 || s.calls != 0 || time.Since(began) != budgetWait):
				t.Errorf("room held from the first intent on: %v after %d calls and %v, want it given back after %v", err, s.calls, time.Since(began), budgetWait)
			case first > 0 && (err != nil || s.calls != 4 || strings.Contains(string(out.Result), codeBudget)):
				t.Errorf("room held from intent %d on: %v, %d calls, %s, want four answers", first+1, err, s.calls, out.Result)
			case first == 1 && idly == 0:
				t.Errorf("room held from intent %d on: nobody was told that the shard is idle", first+1)
			}
		}
	})
}

// TestPaidUnknown: a paid request that is broken off, by whatever, is not made again.
func TestPaidUnknown(t *testing.T) {
	for name, broken := range map[string]error{
		"connection lost": &model.Error{Kind: model.ErrUnavailable}, "silence": &model.Error{Kind: model.ErrStalled}, "lease lost": worker.ErrLeaseLost,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &script{generate: func(model.GenerateRequest) (string, error) {
			if name == "lease lost" {
				cancel(broken)
			}
			return "", broken
		}}
		tools := &Tools{Servers: []*Server{{Tier: "cloud", Paid: true, Price: Price{In: 1, Out: 1}, Runtime: s}}}
		a := &account{limit: lease.Dollar}
		_, err := tools.Executors()[pipeline.Generate].Execute(ctx, a.task(pipeline.Generate, `{"model":"m","tier":"cloud"}`, texts("a", "b")...))
		if f, ok := errors.AsType[*worker.Failure](err); !ok || f.Class != lease.Unknown || !f.Final || s.calls != 1 || a.spent == 0 || a.spent > a.reserved {
			t.Errorf("%s: %v after %d calls, %v of %v spent; want one, booked in full", name, err, s.calls, a.spent, a.reserved)
		}
		cancel(nil)
	}
}

func TestMostOfBody(t *testing.T) {
	for body, want := range map[string]struct {
		out   int
		bound bool
	}{
		`{"max_tokens":7}`: {7, true}, `{"max_completion_tokens":9,"n":3}`: {27, true}, `{"max_output_tokens":1}`: {1, true}, `{}`: {passedTokens, false}, `x`: {passedTokens, false},
	} {
		if m, bound := mostOfBody([]byte(body)); m.out != want.out || bound != want.bound || m.in < len(body) {
			t.Errorf("mostOfBody(%s) = %+v, %v, want %+v", body, m, bound, want)
		}
	}
}

// TestLanes: the shard that began first goes first, and none of the lanes is lost.
func TestLanes(t *testing.T) {
	l := &lanes{}
	first, second := l.begin(), l.begin()
	if err := l.enter(t.Context(), second, 1); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []uint64
	var all sync.WaitGroup
	for i, shard := range []uint64{second, first, second, first} {
		all.Go(func() {
			if err := l.enter(t.Context(), shard, 1); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, shard)
			mu.Unlock()
			l.leave()
		})
		for n := 0; n <= i; {
			l.mu.Lock()
			n = len(l.waiting)
			l.mu.Unlock()
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.enter(gone, first, 1); err == nil {
		t.Error("who gave up has a lane")
	}
	l.leave()
	all.Wait()
	if want := []uint64{first, first, second, second}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if err := l.enter(t.Context(), first, 1); err != nil || l.busy != 1 {
		t.Errorf("the lane is lost: %v, %d busy", err, l.busy)
	}
}
