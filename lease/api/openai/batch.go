package openai

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/item"
	"macbatch/lease/pipeline"
)

const batchPrefix = "batch_"

// window is the only one there is.
const (
	window     = "24h"
	windowTime = 24 * time.Hour
)

// batch is a job as clients see it.
type batch struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Endpoint     string            `json:"endpoint"`
	Model        string            `json:"model"`
	Errors       *struct{}         `json:"errors"` // never any: the file was checked before
	InputFileID  string            `json:"input_file_id"`
	Window       string            `json:"completion_window"`
	Status       string            `json:"status"`
	OutputFileID *string           `json:"output_file_id"`
	ErrorFileID  *string           `json:"error_file_id"`
	CreatedAt    int64             `json:"created_at"`
	InProgressAt int64             `json:"in_progress_at"`
	CompletedAt  *int64            `json:"completed_at"`
	CancelledAt  *int64            `json:"cancelled_at"`
	ExpiresAt    int64             `json:"expires_at"` // the end of the window, at which nothing ends
	Counts       counts            `json:"request_counts"`
	Metadata     map[string]string `json:"metadata"`
}

type counts struct {
	Total     uint64 `json:"total"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
}

// requestOf returns what a job remembers of the batch it is, and its model; nil for
// one that is none.
func requestOf(j *lease.Job) (*pipeline.BatchRequest, string) {
	var m pipeline.ModelParams
	if j.Kind != pipeline.Embed && j.Kind != pipeline.Generate || json.Unmarshal(j.Params, &m) != nil {
		return nil, ""
	}
	return m.Request, m.Model
}

// status says where a batch stands in the words of the API.
func status(j *lease.Job) string {
	open := j.Shards.Open() > 0 || j.Plans > 0
	switch {
	case j.Canceled && open:
		return "cancelling"
	case j.Canceled:
		return "cancelled"
	case open:
		return "in_progress"
	}
	return "completed" // also if all of it failed: "failed" is a file that can't be read
}

// results says which files of results a batch has.
func results(j *lease.Job) (output, failed bool) {
	if s := status(j); s != "completed" && s != "cancelled" {
		return false, false
	}
	return j.Items.Done > 0, j.Items.Done < j.Items.Total
}

func describe(j *lease.Job, q *pipeline.BatchRequest, model string) batch {
	b := batch{
		ID: batchPrefix + j.ID.String(), Object: "batch", Endpoint: q.Endpoint, Model: model,
		InputFileID: inputID(j.Input.Digest), Window: window, Status: status(j),
		CreatedAt: j.Submitted.Unix(), InProgressAt: j.Submitted.Unix(),
		ExpiresAt: j.Submitted.Add(windowTime).Unix(), Metadata: q.Metadata,
		Counts: counts{j.Items.Total, j.Items.Done, j.Items.Failed},
	}
	if at := j.Ended.Unix(); !j.Ended.IsZero() {
		switch b.Status {
		case "completed":
			b.CompletedAt = &at
		case "cancelled":
			b.CancelledAt = &at
		}
	}
	output, failed := results(j)
	if id := resultID(j.ID, false); output {
		b.OutputFileID = &id
	}
	if id := resultID(j.ID, true); failed {
		b.ErrorFileID = &id
	}
	return b
}

// job returns the job that is a batch.
func (c *call) job(id lease.JobID) (*lease.Job, *pipeline.BatchRequest, string, error) {
	j, err := c.control.Job(c.ctx, id)
	if err != nil {
		return nil, nil, "", err
	}
	q, model := requestOf(&j)
	if q == nil || c.project != "" && j.Project != c.project {
		return nil, nil, "", fmt.Errorf("batch %v: %w", id, lease.ErrNotFound)
	}
	return &j, q, model, nil
}

func (c *call) told(id lease.JobID) (any, error) {
	j, q, model, err := c.job(id)
	if err != nil {
		return nil, err
	}
	return describe(j, q, model), nil
}

func parseBatch(s string) (lease.JobID, error) {
	job, ok := strings.CutPrefix(s, batchPrefix)
	id, err := lease.ParseJobID(job)
	if !ok || err != nil {
		return 0, fmt.Errorf("batch %.100q: %w", s, lease.ErrNotFound)
	}
	return id, nil
}

func (c *call) batch(r *http.Request) (any, error) {
	id, err := parseBatch(r.PathValue("batch"))
	if err != nil {
		return nil, err
	}
	return c.told(id)
}

func (c *call) cancel(r *http.Request) (any, error) {
	id, err := parseBatch(r.PathValue("batch"))
	if err != nil {
		return nil, err
	}
	if _, _, _, err := c.job(id); err != nil {
		return nil, err
	}
	if err := c.control.Cancel(c.ctx, id, "cancelled by its client"); err != nil {
		return nil, err
	}
	return c.told(id)
}

func (c *call) batches(r *http.Request) (any, error) {
	n, err := limit(r, 20, 100)
	var before lease.JobID
	if after := r.URL.Query().Get("after"); after != "" && err == nil {
		before, err = parseBatch(after)
	}
	if err != nil {
		return nil, err
	}
	all := []batch{}
	err = c.walk(before, func(j *lease.Job, q *pipeline.BatchRequest, model string) bool {
		all = append(all, describe(j, q, model))
		return len(all) <= n
	})
	return page(all, n, func(b *batch) string { return b.ID }), err
}

// walk goes through the batches below before, newest first, until fn returns false.
func (c *call) walk(before lease.JobID, fn func(*lease.Job, *pipeline.BatchRequest, string) bool) error {
	for {
		jobs, err := c.control.Jobs(c.ctx, before, lease.MaxPage)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for i := range jobs {
			j := &jobs[i]
			before = j.ID
			q, model := requestOf(j)
			if q != nil && (c.project == "" || j.Project == c.project) && !fn(j, q, model) {
				return nil
			}
		}
	}
}

func (c *call) create(r *http.Request) (any, error) {
	var ask struct {
		File     string          `json:"input_file_id"`
		Endpoint string          `json:"endpoint"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := decode(r, &ask); err != nil {
		return nil, err
	}
	q := pipeline.BatchRequest{Endpoint: ask.Endpoint}
	kind, ok := pipeline.BatchKind(ask.Endpoint)
	if !ok {
		return nil, invalid("endpoint", "%.100q has no batches here", ask.Endpoint)
	}
	if ask.Metadata != nil && json.Unmarshal(ask.Metadata, &q.Metadata) != nil {
		return nil, invalid("metadata", "must be an object of strings")
	}
	f, err := parseFile(ask.File)
	if err == nil && f.job != 0 {
		err = invalid("input_file_id", "%q holds results", ask.File)
	}
	if err != nil {
		return nil, err
	}
	u, project, in, err := c.open(f.digest)
	if err != nil {
		return nil, err
	}
	if l, ok := c.labels.of(project, f.digest); ok {
		q.File = l.name
	}
	m := pipeline.ModelParams{Batch: true, Request: &q}
	m.Model, err = modelOf(in, ask.Endpoint)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if err := c.pin(&m); err != nil {
		return nil, err
	}
	params, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	id, err := c.control.Submit(c.ctx, lease.Submission{
		Project: project, Kind: kind, Params: params, Input: lease.Input{Digest: u.Digest, Bytes: u.Bytes},
	})
	if errors.Is(err, lease.ErrNeedBlob) { // it went meanwhile
		err = fmt.Errorf("file %.100q: %w", ask.File, lease.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return c.told(id)
}

// modelOf reads the first line of an input: the others ask for the same.
func modelOf(in io.Reader, endpoint string) (string, error) {
	line, err := bufio.NewReaderSize(io.LimitReader(in, item.MaxLine), 64<<10).ReadBytes('\n')
	if err != nil {
		return "", invalid("input_file_id", "its first line has no end")
	}
	it, err := item.Parse(line[:len(line)-1])
	if err != nil || !it.Batch() {
		return "", invalid("input_file_id", "its lines are not those of a batch")
	}
	if it.URL != endpoint {
		return "", invalid("endpoint", "%s, but the lines of the file ask for %.100q", endpoint, it.URL)
	}
	var body struct {
		Model string `json:"model"`
	}
	if err := json.Unmarshal(it.Body, &body); err != nil || body.Model == "" {
		return "", invalid("input_file_id", "its first line names no model")
	}
	return body.Model, nil
}

// pin fixes which model of its name does a batch, where workers tell: results of two
// digests never mix.
func (c *call) pin(m *pipeline.ModelParams) error {
	workers, err := c.control.Workers(c.ctx)
	if err != nil {
		return err
	}
	var offers []string
	for i := range workers {
		offers = append(offers, workers[i].Offer.Models...)
	}
	digests := pipeline.Digests(offers, m.Model, "")
	if len(digests) > 1 {
		return invalid("input_file_id", "workers have %d models called %q: %s", len(digests), m.Model, strings.Join(digests, ", "))
	}
	if len(digests) == 1 {
		m.Digest = digests[0]
	}
	return nil
}
