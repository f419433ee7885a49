package store_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"macbatch/lease"
)

// The operations of a history.
const (
	opClaim    = "claim"
	opComplete = "complete"
	opRelease  = "release"
	opCancel   = "cancel"
	opLapse    = "lapse"   // a term goes by: what is leased may be taken over
	opRestart  = "restart" // of the control plane: every lease gets a full term
)

// asked is what a client asks.
type asked struct {
	op      string
	worker  int
	request uint64 // of the claim
	again   bool   // it had no answer: it means the same claim
	fence   lease.Fence
	digest  lease.Digest
}

// told is what it was answered.
type told struct {
	unknown bool
	fence   lease.Fence // of the grant; 0: none
	verdict lease.Verdict
}

// modelShard is the life of a shard, written apart from lease.Step: from the
// table of its documentation.
type modelShard struct {
	state   string // "ready", "leased", "done", "canceled"
	lapsed  bool   // leased, and its term is over
	fence   lease.Fence
	unknown bool // the newest grant's fence was told to nobody
	worker  int  // of the newest grant
	request uint64
	settled lease.Fence
	digest  lease.Digest
}

var shardModel = porcupine.Model{
	Init: func() any { return modelShard{state: "ready"} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(modelShard), input.(asked), output.(told)
		ok := s.step(in, out)
		return ok, s
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(asked), output.(told)
		return fmt.Sprintf("%s %d/%d under %v %.8v → %+v", in.op, in.worker, in.request, in.fence, in.digest, out)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// step reports whether an answer is right, and moves on.
func (s *modelShard) step(in asked, out told) bool {
	switch in.op {
	case opLapse:
		s.lapsed = s.state == "leased"
	case opRestart:
		s.lapsed = false
	case opCancel:
		if s.state != "done" {
			s.state = "canceled"
		}
	case opRelease:
		if s.open(in.fence) {
			s.state, s.lapsed = "ready", false
		}
	case opComplete:
		return s.complete(in, out)
	case opClaim:
		return s.claim(in, out)
	}
	return true
}

func (s *modelShard) open(f lease.Fence) bool {
	return s.state == "leased" && s.fence == f && !s.unknown
}

func (s *modelShard) complete(in asked, out told) bool {
	want := lease.Stale
	switch {
	case s.open(in.fence):
		want = lease.Accepted
		s.state, s.lapsed, s.settled, s.digest = "done", false, in.fence, in.digest
	case s.fence != in.fence || s.unknown || s.settled != in.fence:
	case s.digest == in.digest:
		want = lease.Duplicate
	default:
		want = lease.Conflict
	}
	return out.unknown || out.verdict == want
}

func (s *modelShard) claim(in asked, out told) bool {
	mine := s.worker == in.worker && s.request == in.request
	switch {
	case s.state == "leased" && !s.lapsed && mine: // asked again
		if out.unknown {
			return true
		}
		if s.unknown && out.fence > s.fence {
			s.fence, s.unknown = out.fence, false
		}
		return !s.unknown && out.fence == s.fence
	case s.state == "ready" || s.state == "leased" && s.lapsed:
		if !out.unknown && out.fence <= s.fence {
			return false
		}
		s.state, s.lapsed, s.worker, s.request, s.unknown = "leased", false, in.worker, in.request, out.unknown
		if !out.unknown {
			s.fence = out.fence
		}
		return true
	}
	return out.unknown || out.fence == 0
}
