package kinds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/transcribe"
)

// fake is an engine that only fails.
type fake struct{ err error }

func (f fake) Info() transcribe.Info { return transcribe.Info{} }
func (f fake) Parallel() int         { return 1 }
func (f fake) Transcribe(context.Context, transcribe.Request) (transcribe.Transcript, error) {
	return transcribe.Transcript{}, fmt.Errorf("transcribe with fake: %w", f.err)
}

func try(t *testing.T, payload string, engines ...Transcriber) error {
	t.Helper()
	tools := &Tools{Transcribers: engines}
	_, err := tools.Executors()[pipeline.Transcribe].Execute(t.Context(), worker.Task{
		Grant: lease.Grant{Kind: pipeline.Transcribe, Payload: []byte(payload)},
		Blob:  func(context.Context, lease.Digest) (string, error) { return "sound", nil },

		Sure:   func(context.Context) error { return nil },
		Intend: func(context.Context, lease.Cost, bool) error { return nil },
		Spent:  func(lease.Cost) {},
	})
	return err
}

var (
	zero  = lease.Digest{}.String()
	named = `{"path":"a","sound":"` + zero + `","duration_ms":1,"part":{"start_ms":0,"from_ms":0,"to_ms":1},"transcriber":"x"}`
	any1  = `{"path":"a","sound":"` + zero + `","duration_ms":1,"part":{"start_ms":0,"from_ms":0,"to_ms":1}}`
)

func TestSpeechErrors(t *testing.T) {
	cause := errors.New("cause")
	need := lease.Need{Kind: pipeline.Transcribe, Model: "x"}
	for _, c := range []struct {
		err  error
		want any
	}{
		{&transcribe.PermanentError{Err: cause}, &worker.Failure{Class: lease.Permanent, Reason: "transcribe with fake: cause"}},
		{&transcribe.UnknownOutcomeError{Err: cause}, &worker.Failure{Class: lease.Unknown, Reason: "transcribe with fake: unknown outcome: cause", Final: true}},
		{&transcribe.BusyError{Err: cause, After: time.Minute}, &worker.Released{Reason: "transcribe with fake: cause", Delay: time.Minute, Withdraw: need, For: time.Minute}},
		{&transcribe.UnavailableError{Err: cause}, &worker.Released{Reason: "transcribe with fake: cause", Delay: unavailableDelay, Withdraw: need}},
		{cause, "transcribe with fake: cause"},
	} {
		got := try(t, named, Transcriber{Name: "x", Transcriber: fake{c.err}})
		failure, failed := errors.AsType[*worker.Failure](got)
		released, given := errors.AsType[*worker.Released](got)
		ok := false
		switch w := c.want.(type) {
		case *worker.Failure:
			ok = failed && *failure == *w
		case *worker.Released:
			ok = given && *released == *w
		case string:
			ok = !failed && !given && got.Error() == w
		}
		if !ok {
			t.Errorf("%T: %#v, want %#v", c.err, got, c.want)
		}
	}
}

// TestNothingIsPaidUnasked: an engine that costs money serves jobs that name it.
func TestNothingIsPaidUnasked(t *testing.T) {
	paid := Transcriber{Name: "x", Paid: true, Transcriber: fake{errors.New("paid")}}
	free := Transcriber{Name: "y", Transcriber: fake{errors.New("free")}}
	for _, c := range []struct {
		payload string
		engines []Transcriber
		want    string
	}{
		{named, []Transcriber{free, paid}, "transcribe with fake: paid"},
		{any1, []Transcriber{paid, free}, "transcribe with fake: free"},
		{any1, []Transcriber{paid}, "released: all transcribers of this worker cost money: the job must name one"},
		{named, []Transcriber{free}, `released: transcriber "x" is not installed on this worker`},
	} {
		if err := try(t, c.payload, c.engines...); err == nil || err.Error() != c.want {
			t.Errorf("Execute = %v, want %s", err, c.want)
		}
	}
}
