package lease

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

var testNow = time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)

// shardIn returns a shard in a named state; "lapsed" is leased past its deadline,
// "settled" done by the report with digest {1} under fence 7.
func shardIn(state string) Shard {
	s := Shard{ID: ShardID{Job: 1<<32 | 1, Seq: 1}}
	switch state {
	case "new":
		return s
	case "waiting":
		s.After = []uint32{2}
		return s
	case "blocked":
		s.State, s.After = Blocked, []uint32{2}
	case "ready":
		s.State = Ready
	case "leased", "lapsed":
		s.State, s.Fence, s.Holder, s.Deadline = Leased, 7, Holder{Worker: "w"}, testNow.Add(time.Second)
		if state == "lapsed" {
			s.Deadline = testNow
		}
	case "done", "failed", "canceled":
		s.State = map[string]State{"done": Done, "failed": Failed, "canceled": Canceled}[state]
		s.Fence, s.Settled = 7, Settled{7, Digest{1}}
	case "requeued": // ready again after a failure under fence 7
		s.State, s.Fence, s.Failures, s.Settled = Ready, 7, 1, Settled{7, Digest{1}}
	default:
		panic(state)
	}
	return s
}

// TestStepTable is every state × command: the state that follows and the events,
// or the error. It is written from the package documentation, not from the code.
func TestStepTable(t *testing.T) {
	commands := []struct {
		name string
		cmd  Command
	}{
		{"Queue", Queue{Actor: "a"}},
		{"Unblock", Unblock{}},
		{"Claim", Claim{Fence: 8, Holder: Holder{Worker: "v"}, Term: time.Minute, Count: true}},
		{"Claim under an old fence", Claim{Fence: 7, Holder: Holder{Worker: "v"}, Term: time.Minute}},
		{"Expire", Expire{Fence: 7, Count: true}},
		{"Release", Release{Fence: 7}},
		{"Complete", Complete{Fence: 7, Digest: Digest{1}}},
		{"Complete otherwise", Complete{Fence: 7, Digest: Digest{2}}},
		{"Complete under an old fence", Complete{Fence: 6, Digest: Digest{1}}},
		{"Fail retryable", Fail{Fence: 7, Digest: Digest{1}, Class: Retryable}},
		{"Fail permanent", Fail{Fence: 7, Digest: Digest{2}, Class: Permanent}},
		{"Depend", Depend{}},
		{"Reuse", Reuse{}},
		{"Cancel", Cancel{}},
		{"Intend", Intend{Fence: 7, Reserve: 5}},
	}
	const no, fenced, dup, conflict = "not allowed", "fenced", "duplicate", "conflict"
	table := map[string][]string{
		//          Queue            Unblock        Claim                              Claim old  Expire                  Release           Complete     otherwise    old fence  retryable          permanent        Depend           Reuse          Cancel  Intend
		"new":      {"ready queued", no, no, no, no, fenced, fenced, fenced, fenced, fenced, fenced, no, no, no, fenced},
		"waiting":  {"blocked queued", no, no, no, no, fenced, fenced, fenced, fenced, fenced, fenced, no, no, no, fenced},
		"blocked":  {no, "ready ready", no, no, no, fenced, fenced, fenced, fenced, fenced, fenced, "failed failed", no, "canceled canceled", fenced},
		"ready":    {no, no, "leased leased", "leased leased", no, fenced, fenced, fenced, fenced, fenced, fenced, no, "done reused", "canceled canceled", fenced},
		"requeued": {no, no, "leased leased", fenced, no, dup, dup, conflict, fenced, dup, conflict, no, "done reused", "canceled canceled", conflict},
		"leased":   {no, no, no, fenced, "ready lease_expired", "ready released", "done done", "done done", fenced, "ready requeued", "failed failed", no, no, "canceled canceled", "leased intended"},
		"lapsed":   {no, no, "leased lease_expired leased", fenced, "ready lease_expired", "ready released", "done done", "done done", fenced, "ready requeued", "failed failed", no, no, "canceled canceled", fenced},
		"done":     {no, no, no, fenced, no, dup, dup, conflict, fenced, dup, conflict, no, no, no, conflict},
		"failed":   {no, no, no, fenced, no, dup, dup, conflict, fenced, dup, conflict, no, no, no, conflict},
		"canceled": {no, no, no, fenced, no, dup, dup, conflict, fenced, dup, conflict, no, no, no, conflict},
	}
	// A release carries no digest: under a settled fence it is a conflict.
	for _, s := range []string{"requeued", "done", "failed", "canceled"} {
		table[s][5] = conflict
	}
	for state, cells := range table {
		if len(cells) != len(commands) {
			t.Fatalf("row %q has %d cells, want %d", state, len(cells), len(commands))
		}
		for i, c := range commands {
			before := shardIn(state)
			after, events, err := Step(before, c.cmd, testNow)
			got := after.State.String()
			for _, ev := range events {
				got += " " + string(ev.Kind)
			}
			switch {
			case errors.Is(err, ErrNotAllowed):
				got = no
			case errors.Is(err, ErrFenced):
				got = fenced
			case errors.Is(err, ErrDuplicate):
				got = dup
			case errors.Is(err, ErrConflict):
				got = conflict
			}
			if got != cells[i] {
				t.Errorf("%s of a %s shard: %s, want %s", c.name, state, got, cells[i])
			}
			if err != nil && (fmt.Sprint(after) != fmt.Sprint(before) || events != nil) {
				t.Errorf("%s of a %s shard: refused, and yet changed it", c.name, state)
			}
		}
	}
}

func TestStepCounts(t *testing.T) {
	s := shardIn("leased")
	for i := 1; i < MaxFailures; i++ {
		var err error
		if s, _, err = Step(s, Fail{Fence: s.Fence, Digest: Digest{byte(i)}, Class: Retryable, Delay: time.Second}, testNow); err != nil {
			t.Fatal(err)
		}
		if s.State != Ready || s.Delay != time.Second || int(s.Failures) != i {
			t.Fatalf("after failure %d: %s, resting %v, %d counted", i, s.State, s.Delay, s.Failures)
		}
		if s, _, err = Step(s, Claim{Fence: s.Fence + 1, Term: time.Minute}, testNow); err != nil || s.Delay != 0 {
			t.Fatalf("claim after failure %d: %v, resting %v", i, err, s.Delay)
		}
	}
	s, events, err := Step(s, Fail{Fence: s.Fence, Class: Retryable}, testNow)
	if err != nil || s.State != Failed || events[0].Kind != EventFailed {
		t.Fatalf("last failure: %s, %v, %v, want failed", s.State, events, err)
	}

	s = shardIn("leased")
	for i := 1; ; i++ {
		if s, events, err = Step(s, Expire{Fence: s.Fence, Count: true}, testNow); err != nil {
			t.Fatal(err)
		}
		if want := i >= SuspectLapses && i < PoisonLapses; s.Suspect() != want {
			t.Fatalf("suspect after %d lapses: %v, want %v", i, s.Suspect(), want)
		}
		if s.State == Failed {
			if i != PoisonLapses || s.Class != Poison || len(events) != 2 {
				t.Fatalf("failed as %s after %d lapses with %v, want poison after %d", s.Class, i, events, PoisonLapses)
			}
			break
		}
		if s, _, err = Step(s, Claim{Fence: s.Fence + 1, Term: time.Minute}, testNow); err != nil {
			t.Fatal(err)
		}
	}
	s, _, err = Step(shardIn("lapsed"), Claim{Fence: 8, Term: time.Minute, Count: false}, testNow)
	if err != nil || s.Lapses != 0 {
		t.Fatalf("a lapse that does not count: %d lapses, %v", s.Lapses, err)
	}
}

func TestIDs(t *testing.T) {
	id := ShardID{Job: 29_900_000<<32 | 17, Seq: 3}
	got, err := ParseShardID(id.String())
	if err != nil || got != id {
		t.Fatalf("ParseShardID(%q) = %v, %v, want %v", id.String(), got, err, id)
	}
	for _, bad := range []string{"", "-", "a", "a-", "a-1/", "a-1/0", "a-01/1", "A-1/1", "a-1/1/1", "a-1 /1", "-1/1", "a-4294967296/1", "a-1/4294967296", "a-1/+1"} {
		if got, err := ParseShardID(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("ParseShardID(%q) = %v, %v, want %v", bad, got, err, ErrMalformed)
		}
	}
	d := DigestOf([]byte("x"))
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("ParseDigest(%v) = %v, %v", d, got, err)
	}
	for _, bad := range []string{"", "00", d.String() + "00", "G" + d.String()[1:], "A" + d.String()[1:]} {
		if _, err := ParseDigest(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("ParseDigest(%q): %v, want %v", bad, err, ErrMalformed)
		}
	}
}

// TestStepMoney: an intent ends with its lease: by a word of its holder at what was
// spent, without one in full. Nothing else books anything.
func TestStepMoney(t *testing.T) {
	intended, _, err := Step(shardIn("leased"), Intend{Fence: 7, Reserve: 5}, testNow)
	if err != nil || intended.Intent != (Intent{7, 5}) {
		t.Fatalf("intent %+v, %v", intended.Intent, err)
	}
	if _, _, err := Step(intended, Intend{Fence: 7, Reserve: 5}, testNow); !errors.Is(err, ErrDuplicate) {
		t.Errorf("the same again: %v, want %v", err, ErrDuplicate)
	}
	if more, evs, err := Step(intended, Intend{Fence: 7, Reserve: 9}, testNow); err != nil || more.Intent.Reserved != 9 || evs[0].Cost != 9 {
		t.Errorf("more: %+v, %v, %v", more.Intent, evs, err)
	}
	for name, c := range map[string]struct {
		cmd  Command
		want Cost
	}{
		"done":     {Complete{Fence: 7, Cost: 3}, 3},
		"failed":   {Fail{Fence: 7, Class: Unknown, Cost: 4}, 4},
		"released": {Release{Fence: 7, Cost: 0}, 0},
		"expired":  {Expire{Fence: 7}, 5},
		"canceled": {Cancel{}, 5},
	} {
		after, evs, err := Step(intended, c.cmd, testNow)
		if err != nil || after.Spent != c.want || after.Intent != (Intent{}) || evs[0].Cost != c.want {
			t.Errorf("%s: spent %v, intent %+v, events %v, %v; want %v", name, after.Spent, after.Intent, evs, err, c.want)
		}
		without, _, err := Step(shardIn("leased"), c.cmd, testNow)
		if err != nil || without.Spent != 0 {
			t.Errorf("%s without an intent: spent %v, %v, want nothing", name, without.Spent, err)
		}
	}
	if s, _, err := Step(intended, Fail{Fence: 7, Class: Unknown}, testNow); err != nil || s.State != Failed {
		t.Errorf("an unknown outcome leaves it %v, %v, want failed", s.State, err)
	}
	silent := intended
	silent.Deadline = testNow
	if s, _, err := Step(silent, Claim{Fence: 8, Term: time.Minute}, testNow); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("claim of a parked shard: %v, %v, want %v", s.State, err, ErrNotAllowed)
	}
}

func TestCost(t *testing.T) {
	for usd, want := range map[float64]string{0: "$0.00", 1.5: "$1.50", 0.0000000001: "$0.000000001", 1e30: Cost(1<<63 - 1).String()} {
		if got := Dollars(usd).String(); got != want {
			t.Errorf("Dollars(%v) = %s, want %s", usd, got, want)
		}
	}
	for _, s := range []string{"", "NaN", "-1", "1e400", "x"} {
		if c, err := ParseCost(s); err == nil {
			t.Errorf("ParseCost(%q) = %v, want an error", s, c)
		}
	}
	if c := Cost(1<<63 - 2).Plus(9); c != 1<<63-1 {
		t.Errorf("sum = %v", c)
	}
}
