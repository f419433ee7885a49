package openai

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"macbatch/lease"
	"macbatch/lease/item"
	"macbatch/lease/pipeline"
)

// upload takes a file. Its lines are checked before anything of it is kept.
func (c *call) upload(r *http.Request) (any, error) {
	projects := c.projects()
	if len(projects) == 0 {
		return nil, fmt.Errorf("project: %w", lease.ErrNotFound)
	}
	form, err := r.MultipartReader()
	if err != nil {
		return nil, fmt.Errorf("body: %w: %w", err, lease.ErrMalformed)
	}
	in := &input{}
	err = in.read(form)
	defer func() { _ = in.close() }() // it has no name
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w: %w", lease.ErrFull, err)
		}
		return nil, err
	}
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	up := lease.Upload{Digest: in.digest, Size: in.bytes, Project: projects[0]}
	if err := c.control.PutBlob(c.ctx, up, in.file); err != nil {
		return nil, err
	}
	c.labels.drop(projects[0], in.digest) // it may have expired before
	u, body, err := c.uploads.OpenUpload(c.actor, projects[0], in.digest)
	if err != nil {
		return nil, err
	}
	if err := body.Close(); err != nil {
		return nil, err
	}
	at := u.At
	if at.IsZero() {
		at = c.labels.now()
	}
	l := label{name: in.name, created: at}
	if in.expires > 0 {
		l.expires = at.Add(in.expires)
	}
	c.labels.put(projects[0], in.digest, l)
	f, _ := c.describeInput(projects[0], &u)
	return f, nil
}

// input is the canonical input that a form's file becomes, in a file without a name.
type input struct {
	file    *os.File
	name    string // as the client calls it
	digest  lease.Digest
	bytes   int64
	expires time.Duration // after its upload; 0: never
}

func (in *input) close() error {
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

// read reads the form to its end, so that a client that only writes gets the answer.
func (in *input) read(form *multipart.Reader) error {
	fields, w := map[string]string{}, (*item.Writer)(nil)
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return unread(err)
		}
		switch name := part.FormName(); name {
		case "purpose", expiresAnchor, expiresSeconds:
			b, err := io.ReadAll(io.LimitReader(part, 100))
			if err != nil {
				return unread(err)
			}
			fields[name] = string(b)
		case "file":
			if w != nil {
				return invalid("file", "there are two")
			}
			if w, err = in.take(part); err != nil {
				return err
			}
			in.name = fileName(part.FileName())
		}
	}
	switch {
	case fields["purpose"] != purposeBatch:
		return invalid("purpose", "%q: must be %q", fields["purpose"], purposeBatch)
	case w == nil:
		return invalid("file", "is missing")
	case w.Bad > 0:
		return invalid("file", "%s", problems(w))
	}
	return in.expire(fields[expiresAnchor], fields[expiresSeconds])
}

// The fields of a form that say when its file expires, and the least and the most.
const (
	expiresAnchor  = "expires_after[anchor]"
	expiresSeconds = "expires_after[seconds]"
	minExpires     = time.Hour
	maxExpires     = 30 * 24 * time.Hour
)

func (in *input) expire(anchor, after string) error {
	if anchor == "" && after == "" {
		return nil
	}
	if anchor != "created_at" {
		return invalid(expiresAnchor, `%q: must be "created_at"`, anchor)
	}
	n, err := strconv.Atoi(after)
	if d := time.Duration(n) * time.Second; err != nil || n < 0 || n > int(maxExpires/time.Second) || d < minExpires {
		return invalid(expiresSeconds, "%q: must be %d to %d", after, int(minExpires.Seconds()), int(maxExpires.Seconds()))
	}
	in.expires = time.Duration(n) * time.Second
	return nil
}

// unread says why a form could not be read: too large a body stays that.
func unread(err error) error {
	if errors.Is(err, lease.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("body: %w: %w", err, lease.ErrMalformed)
}

// take makes the input of a form's file.
func (in *input) take(part io.Reader) (_ *item.Writer, err error) {
	if in.file, err = os.CreateTemp("", "macbatch-upload-*"); err != nil {
		return nil, err
	}
	if err := os.Remove(in.file.Name()); err != nil {
		return nil, err
	}
	sum, to := sha256.New(), bufio.NewWriterSize(in.file, 256<<10)
	source := &source{Reader: part}
	w := item.NewWriter(io.MultiWriter(to, sum), checker())
	if err = w.Copy("", source); err == nil {
		err = to.Flush()
	}
	switch {
	case source.err != nil:
		return nil, unread(source.err)
	case err != nil:
		return nil, err
	}
	in.digest, in.bytes = lease.Digest(sum.Sum(nil)), w.Bytes
	return w, nil
}

// source remembers the error of reading, to tell it from that of writing.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// checker refuses lines that are not of one batch.
func checker() func(*item.Item) error {
	var all pipeline.LineCheck
	return func(it *item.Item) error {
		if !it.Batch() {
			return errors.New("is no batch line: method, url and body are missing")
		}
		if all.URL == "" {
			kind, ok := pipeline.BatchKind(it.URL)
			if !ok {
				return fmt.Errorf("url %.100q has no batches here", it.URL)
			}
			all.Kind = kind
		}
		if all.URL != "" && it.URL != all.URL {
			return fmt.Errorf("url %.100q, and the lines before it ask for %s: one file asks for one", it.URL, all.URL)
		}
		return all.Check(it)
	}
}

// shown is how many problems an answer names.
const shown = 8

// problems says what is wrong with a file.
func problems(w *item.Writer) string {
	var all []string
	for _, p := range w.Problems[:min(shown, len(w.Problems))] {
		if p.Line > 0 {
			p.Text = fmt.Sprintf("line %d: %s", p.Line, p.Text)
		}
		all = append(all, p.Text)
	}
	if more := w.Bad - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}
