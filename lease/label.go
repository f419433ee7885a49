package lease

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of labels.
const (
	MaxLabels = 32  // of a worker, or asked for by a job
	MaxLabel  = 100 // bytes of one
)

// Tags are labels that a worker must carry, in the one form that is stored and
// compared: sorted, each once, joined by commas. Empty: it need carry none.
type Tags string

// ParseLabels checks labels, each NAME=VALUE of letters, digits and . _ - / :, no
// name twice, and sorts them. ErrInvalid names the first that is wrong.
func ParseLabels(list []string) ([]string, error) {
	if len(list) > MaxLabels {
		return nil, fmt.Errorf("%d labels, over %d: %w", len(list), MaxLabels, ErrInvalid)
	}
	sorted := slices.Sorted(slices.Values(list))
	last := ""
	for _, l := range sorted {
		name, value, ok := strings.Cut(l, "=")
		if !ok || !plain(name) || !plain(value) || len(l) > MaxLabel {
			return nil, fmt.Errorf("label %q: must be NAME=VALUE of letters, digits and . _ - / :, in up to %d bytes: %w", l, MaxLabel, ErrInvalid)
		}
		if name == last {
			return nil, fmt.Errorf("label %q: %s is named twice: %w", l, name, ErrInvalid)
		}
		last = name
	}
	return sorted, nil
}

func plain(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-/:", r) {
			return false
		}
	}
	return s != ""
}

// TagsOf joins labels that ParseLabels returned.
func TagsOf(labels []string) Tags { return Tags(strings.Join(labels, ",")) }

// Labels are those of the tags.
func (t Tags) Labels() []string {
	if t == "" {
		return nil
	}
	return strings.Split(string(t), ",")
}

// Missing is the first of the tags that is not among labels; "": none.
func (t Tags) Missing(labels []string) string {
	if t == "" {
		return ""
	}
	for want := range strings.SplitSeq(string(t), ",") {
		if !slices.Contains(labels, want) {
			return want
		}
	}
	return ""
}
