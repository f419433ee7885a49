package lease

import "strings"

// Facts is what a worker tells of its machine and of itself, for people to read.
// Nothing is decided by it.
type Facts struct {
	System string   `json:"system,omitempty"` // "darwin/arm64"
	CPUs   int      `json:"cpus,omitempty"`
	Memory uint64   `json:"memory,omitempty"` // bytes installed
	Tools  []string `json:"tools,omitempty"`  // programs and engines with their versions
	Rests  string   `json:"rests,omitempty"`  // why it claims nothing now; empty: it does
	Lacks  []string `json:"lacks,omitempty"`  // what it does not offer for a time, and why
}

// Limits of what is kept of a worker's facts.
const (
	maxFacts = 64  // entries of a list
	maxFact  = 300 // bytes of a text
)

// Clipped bounds facts that came from afar.
func (f Facts) Clipped() Facts {
	text := func(s string) string {
		return strings.ToValidUTF8(s[:min(len(s), maxFact)], "")
	}
	texts := func(list []string) (out []string) {
		for _, s := range list[:min(len(list), maxFacts)] {
			out = append(out, text(s))
		}
		return out
	}
	f.System, f.Rests = text(f.System), text(f.Rests)
	f.Tools, f.Lacks = texts(f.Tools), texts(f.Lacks)
	return f
}
