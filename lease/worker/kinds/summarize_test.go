package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
	"macbatch/transcribe"
)

// summed runs the summary of a film of twenty minutes, and has the control plane judge it.
func summed(t *testing.T, tools *Tools, by pipeline.SummaryParams) (sum pipeline.FilmSummary, err error) {
	t.Helper()
	tr := transcribe.Transcript{Engine: "e", DurationMS: 1_200_000}
	for at := int64(0); at < tr.DurationMS-5000; at += 10_000 {
		tr.Segments = append(tr.Segments, transcribe.Segment{StartMS: at, EndMS: at + 8000, Text: fmt.Sprintf("The keeper of the lighthouse said number %d aloud.", at/1000)})
	}
	b, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(pipeline.SummarizePayload{Title: "film", By: by, Parts: []pipeline.Part{{ToMS: tr.DurationMS}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tools.Executors()[pipeline.Summarize].Execute(t.Context(), worker.Task{
		Grant: lease.Grant{Kind: pipeline.Summarize, Payload: payload, Needs: []lease.Result{{Digest: lease.DigestOf(b)}}}, Dir: t.TempDir(),
		Need: func(context.Context, int) ([]byte, error) { return b, nil }, Progress: func(uint64) {},
		Sure: func(context.Context) error { return nil }, Intend: func(context.Context, lease.Cost, bool) error { return nil }, Spent: func(lease.Cost) {},
	})
	if err != nil {
		return sum, err
	}
	params, err := json.Marshal(pipeline.LibraryParams{Root: "films", Summary: by})
	if err != nil {
		t.Fatal(err)
	}
	s := lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: pipeline.Summarize}, Payload: payload}}
	if _, err := (pipeline.Planner{}).Accept(&lease.Job{Kind: pipeline.Library, Params: params}, &s, out.Result, nil); err != nil {
		t.Errorf("the result is not accepted: %v", err)
	}
	return sum, json.Unmarshal(out.Result, &sum)
}

// What a model answers becomes a summary with chapters, or the sentences stand in for
// it and say why; what says nothing of the film costs an attempt, or none.
func TestFilmSummary(t *testing.T) {
	by := pipeline.SummaryParams{Model: "m"}
	good := func(q model.GenerateRequest) (string, error) {
		if strings.HasSuffix(q.Messages[0].Text, "Keywords:") {
			return "lighthouse, keeper", nil
		}
		return "The keeper counts.", nil
	}
	sum, err := summed(t, scripted(&script{generate: good, digest: "abc"}), by)
	if err != nil || sum.Model != "m" || sum.By.Digest != "abc" || sum.Title != "The keeper counts." || len(sum.Chapters) != 4 || len(sum.Keywords) != 2 || len(sum.Sentences) > 0 {
		t.Errorf("by a model: %+v, %v", sum, err)
	}
	if sum, err = summed(t, &Tools{}, pipeline.SummaryParams{}); err != nil || sum.Model != "" || len(sum.Sentences) == 0 || sum.Fallback != "" {
		t.Errorf("without a model: %+v, %v", sum, err)
	}
	if _, err = summed(t, &Tools{}, by); err == nil {
		t.Error("a worker without the model: no error")
	} else if released, ok := errors.AsType[*worker.Released](err); !ok || released.Withdraw.Model != "m" {
		t.Errorf("a worker without the model: %v", err)
	}
	for _, kind := range []error{model.ErrRefused, model.ErrOverflow, model.ErrTruncated, model.ErrBadAnswer} {
		bad := func(model.GenerateRequest) (string, error) { return "", model.Errorf(kind, "no") }
		sum, err = summed(t, scripted(&script{generate: bad}), by)
		if err != nil || sum.Model != "" || len(sum.Sentences) == 0 || !errors.Is(kind, model.ErrTruncated) && !strings.Contains(sum.Fallback, kind.Error()) || sum.Fallback == "" {
			t.Errorf("%v: %+v, %v", kind, sum, err)
		}
	}
	echo := func(q model.GenerateRequest) (string, error) { return strings.Repeat(q.Messages[0].Text, 3), nil }
	if sum, err = summed(t, scripted(&script{generate: echo}), by); err != nil || sum.Fallback == "" {
		t.Errorf("answers that grow: %+v, %v", sum, err)
	}
	gone := func(model.GenerateRequest) (string, error) { return "", model.Errorf(model.ErrNoModel, "no") }
	_, err = summed(t, scripted(&script{generate: gone}), by)
	if released, ok := errors.AsType[*worker.Released](err); !ok || released.Withdraw.Model != "m" {
		t.Errorf("a model that went: %v", err)
	}
}
