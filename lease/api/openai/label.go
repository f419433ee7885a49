package openai

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"macbatch/lease"
)

// label is what a client said of a file that it uploaded.
type label struct {
	name    string
	created time.Time
	expires time.Time // zero: never
}

// labels are those of the files that were uploaded since the control plane started.
// A batch keeps its file's name with its parameters.
type labels struct {
	now func() time.Time

	mu  sync.Mutex
	all map[labelKey]label
}

type labelKey struct {
	project lease.Project
	digest  lease.Digest
}

// maxLabels bounds how many are kept: of the rest the names are forgotten.
const maxLabels = 10_000

func newLabels(now func() time.Time) *labels {
	return &labels{now: now, all: map[labelKey]label{}}
}

func (l *labels) put(p lease.Project, d lease.Digest, x label) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := labelKey{p, d}
	if _, known := l.all[key]; !known && len(l.all) >= maxLabels {
		oldest := key
		for k, o := range l.all {
			if was, ok := l.all[oldest]; !ok || o.created.Before(was.created) {
				oldest = k
			}
		}
		delete(l.all, oldest)
	}
	l.all[key] = x
}

func (l *labels) of(p lease.Project, d lease.Digest) (label, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.all[labelKey{p, d}]
	return x, ok
}

func (l *labels) drop(p lease.Project, d lease.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, labelKey{p, d})
}

// expired reports whether a file of a project is no longer there by its owner's wish.
// Batches that work on it keep what they need.
func (c *call) expired(p lease.Project, d lease.Digest) bool {
	x, ok := c.labels.of(p, d)
	return ok && !x.expires.IsZero() && !c.labels.now().Before(x.expires)
}

// maxFileName is how many bytes of a file's name are kept.
const maxFileName = 200

// fileName is a name as it is told again; it never becomes a path.
func fileName(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > maxFileName {
		cut := maxFileName
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	if s == "" {
		return "input.jsonl"
	}
	return s
}
