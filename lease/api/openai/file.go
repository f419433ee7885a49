package openai

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"macbatch/lease"
	"macbatch/lease/gather/lines"
	"macbatch/lease/pipeline"
)

// The purposes of files.
const (
	purposeBatch  = "batch"
	purposeOutput = "batch_output"
)

const (
	filePrefix   = "file-"
	outputSuffix = "-output"
	errorsSuffix = "-errors"
)

// file is an input or the results of a batch, as clients see it.
type file struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

// name is what a file's id says.
type name struct {
	digest lease.Digest // of an input, or
	job    lease.JobID  // of results
	failed bool
}

func inputID(d lease.Digest) string { return filePrefix + d.String() }

func resultID(id lease.JobID, failed bool) string {
	if failed {
		return filePrefix + id.String() + errorsSuffix
	}
	return filePrefix + id.String() + outputSuffix
}

func parseFile(s string) (n name, err error) {
	rest, ok := strings.CutPrefix(s, filePrefix)
	if job, found := strings.CutSuffix(rest, outputSuffix); found {
		n.job, err = lease.ParseJobID(job)
	} else if job, found := strings.CutSuffix(rest, errorsSuffix); found {
		n.failed = true
		n.job, err = lease.ParseJobID(job)
	} else {
		n.digest, err = lease.ParseDigest(rest)
	}
	if !ok || err != nil {
		return name{}, fmt.Errorf("file %.100q: %w", s, lease.ErrNotFound)
	}
	return n, nil
}

// describeInput tells of an input of a project; named is whether it was labelled.
func (c *call) describeInput(p lease.Project, u *lease.Uploaded) (f file, named bool) {
	f = file{ID: inputID(u.Digest), Object: "file", Bytes: u.Bytes, Filename: u.Digest.String()[:12] + ".jsonl", Purpose: purposeBatch, Status: "processed"}
	if !u.At.IsZero() {
		f.CreatedAt = u.At.Unix()
	}
	l, named := c.labels.of(p, u.Digest)
	if named {
		f.Filename, f.CreatedAt = l.name, l.created.Unix()
		if !l.expires.IsZero() {
			at := l.expires.Unix()
			f.ExpiresAt = &at
		}
	}
	return f, named
}

// recall is describeInput of an input that may be older than the control plane's
// start: then a batch knows its name.
func (c *call) recall(p lease.Project, u *lease.Uploaded) (file, error) {
	f, named := c.describeInput(p, u)
	if named {
		return f, nil
	}
	err := c.walk(0, func(j *lease.Job, q *pipeline.BatchRequest, _ string) bool {
		if j.Project != p || j.Input.Digest != u.Digest {
			return true
		}
		if q.File != "" {
			f.Filename = q.File
		}
		if f.CreatedAt == 0 {
			f.CreatedAt = j.Submitted.Unix()
		}
		return false
	})
	return f, err
}

func describeResult(j *lease.Job, failed bool) file {
	id := resultID(j.ID, failed)
	return file{ID: id, Object: "file", CreatedAt: j.Submitted.Unix(), Filename: strings.TrimPrefix(id, filePrefix) + ".jsonl", Purpose: purposeOutput, Status: "processed"}
}

// open opens an input, and says which project has it.
func (c *call) open(d lease.Digest) (lease.Uploaded, lease.Project, io.ReadCloser, error) {
	for _, p := range c.projects() {
		if c.expired(p, d) {
			continue
		}
		u, r, err := c.uploads.OpenUpload(c.actor, p, d)
		if !errors.Is(err, lease.ErrNotFound) {
			return u, p, r, err
		}
	}
	return lease.Uploaded{}, "", nil, fmt.Errorf("file %v: %w", d, lease.ErrNotFound)
}

// result returns the batch whose results a file holds.
func (c *call) result(n name) (*lease.Job, error) {
	j, _, _, err := c.job(n.job)
	if err != nil {
		return nil, err
	}
	output, failed := results(j)
	if n.failed && !failed || !n.failed && !output {
		return nil, fmt.Errorf("results of batch %v: %w", n.job, lease.ErrNotFound)
	}
	return j, nil
}

// counter counts what is written.
type counter int64

func (n *counter) Write(b []byte) (int, error) {
	*n += counter(len(b))
	return len(b), nil
}

func (c *call) file(r *http.Request) (any, error) {
	n, err := parseFile(r.PathValue("file"))
	if err != nil {
		return nil, err
	}
	if n.job == 0 {
		u, project, in, err := c.open(n.digest)
		if err != nil {
			return nil, err
		}
		f, err := c.recall(project, &u)
		return f, errors.Join(err, in.Close())
	}
	j, err := c.result(n)
	if err != nil {
		return nil, err
	}
	var size counter
	if err := lines.Copy(c.ctx, c.control, *j, n.failed, &size); err != nil {
		return nil, err
	}
	f := describeResult(j, n.failed)
	f.Bytes = int64(size)
	return f, nil
}

// content streams: what goes wrong behind its first bytes cuts the answer off.
func (c *call) content(r *http.Request) (any, error) {
	n, err := parseFile(r.PathValue("file"))
	if err != nil {
		return nil, err
	}
	if n.job == 0 {
		u, _, in, err := c.open(n.digest)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		c.w.Header().Set("Content-Type", "application/octet-stream")
		c.w.Header().Set("Content-Length", strconv.FormatInt(u.Bytes, 10))
		_, err = io.Copy(c.w, in)
		return nil, err
	}
	j, err := c.result(n)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	return nil, lines.Copy(c.ctx, c.control, *j, n.failed, c.w)
}

type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// drop deletes an input that no batch works on; all else stays as long as its batch.
func (c *call) drop(r *http.Request) (any, error) {
	answer := deleted{ID: r.PathValue("file"), Object: "file"}
	n, err := parseFile(answer.ID)
	if err != nil {
		return nil, err
	}
	if n.job != 0 {
		_, err := c.result(n)
		return answer, err
	}
	_, project, in, err := c.open(n.digest)
	if err != nil {
		return nil, err
	}
	if err := in.Close(); err != nil {
		return nil, err
	}
	used, err := c.used(project, n.digest)
	if err == nil && !used {
		answer.Deleted, err = true, c.uploads.DropUpload(c.actor, project, n.digest)
		c.labels.drop(project, n.digest)
	}
	return answer, err
}

// used reports whether a job of a project works on an input.
func (c *call) used(p lease.Project, d lease.Digest) (bool, error) {
	for before := lease.JobID(0); ; {
		jobs, err := c.control.Jobs(c.ctx, before, lease.MaxPage)
		if err != nil || len(jobs) == 0 {
			return false, err
		}
		for i := range jobs {
			if before = jobs[i].ID; jobs[i].Project == p && jobs[i].Input.Digest == d {
				return true, nil
			}
		}
	}
}

func (c *call) files(r *http.Request) (any, error) {
	query := r.URL.Query()
	n, err := limit(r, 1000, 10_000)
	var after name
	if s := query.Get("after"); s != "" && err == nil {
		after, err = parseFile(s)
	}
	if err != nil {
		return nil, err
	}
	purpose := query.Get("purpose")
	all := []file{}
	if (purpose == "" || purpose == purposeBatch) && after.job == 0 {
		if all, err = c.inputs(after.digest); err != nil {
			return nil, err
		}
	}
	if purpose == "" || purpose == purposeOutput {
		before := after.job
		if before != 0 && !after.failed { // its errors follow its output
			before++
		}
		err = c.walk(before, func(j *lease.Job, _ *pipeline.BatchRequest, _ string) bool {
			output, failed := results(j)
			if output && j.ID != after.job {
				all = append(all, describeResult(j, false))
			}
			if failed {
				all = append(all, describeResult(j, true))
			}
			return len(all) <= n
		})
	}
	return page(all, n, func(f *file) string { return f.ID }), err
}

// inputs lists the uploaded inputs behind one, or all.
func (c *call) inputs(after lease.Digest) ([]file, error) {
	all := []file{}
	for _, p := range c.projects() {
		list, err := c.uploads.Uploads(c.actor, p)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if c.expired(p, list[i].Digest) {
				continue
			}
			f, _ := c.describeInput(p, &list[i])
			if !slices.ContainsFunc(all, func(g file) bool { return g.ID == f.ID }) { // it may be in two
				all = append(all, f)
			}
		}
	}
	if i := slices.IndexFunc(all, func(f file) bool { return f.ID == inputID(after) }); i >= 0 {
		all = all[i+1:]
	}
	return all, nil
}
