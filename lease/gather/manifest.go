package gather

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"macbatch/transcode/inventory"
)

// Outcome is how a file of the root ended.
type Outcome string

// The outcomes.
const (
	Done     Outcome = "done"
	NoAudio  Outcome = "no_audio"
	NoSpeech Outcome = "no_speech"
	Partial  Outcome = "partial" // a transcript, but no summary
	Failed   Outcome = "failed"
	Canceled Outcome = "canceled"
	Skipped  Outcome = "skipped"
)

// Source is a file of a root.
type Source struct {
	Root    string         `json:"root"`
	Path    inventory.Path `json:"path"`
	Size    int64          `json:"size,omitempty"`
	MtimeNS int64          `json:"mtime_ns,omitempty"`
	Inode   uint64         `json:"inode,omitempty"`
}

type sourceKey struct {
	root string
	path inventory.Path
}

func (s *Source) key() sourceKey { return sourceKey{s.Root, s.Path} }

// Output is a file that was written.
type Output struct {
	Path   inventory.Path `json:"path"`
	SHA256 string         `json:"sha256"`
	Bytes  int64          `json:"bytes"`
}

// Line is a line of the manifest.
type Line struct {
	Source     Source         `json:"source"`
	Outcome    Outcome        `json:"outcome"`
	Reason     string         `json:"reason,omitempty"`
	DurationMS int64          `json:"duration_ms,omitempty"`
	Name       inventory.Path `json:"name,omitempty"`
	Outputs    []Output       `json:"outputs,omitempty"`
	Of         string         `json:"of,omitempty"`
}

const manifestName = "manifest.jsonl"

// readManifest reads all lines; none when there is no manifest.
func readManifest(root *os.Root) (map[sourceKey]*Line, error) {
	lines := map[sourceKey]*Line{}
	b, err := root.ReadFile(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return lines, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, len(b)+1)
	for n := 1; in.Scan(); n++ {
		l := &Line{}
		if err := json.Unmarshal(in.Bytes(), l); err != nil {
			return nil, fmt.Errorf("read manifest: line %d: %w", n, err)
		}
		lines[l.Source.key()] = l
	}
	return lines, in.Err()
}

// encodeManifest writes the lines in order.
func encodeManifest(lines map[sourceKey]*Line) ([]byte, error) {
	all := make([]*Line, 0, len(lines))
	for _, l := range lines {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *Line) int {
		if c := strings.Compare(a.Source.Root, b.Source.Root); c != 0 {
			return c
		}
		return strings.Compare(string(a.Source.Path), string(b.Source.Path))
	})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, l := range all {
		if err := e.Encode(l); err != nil {
			return nil, fmt.Errorf("write manifest: %w", err)
		}
	}
	return b.Bytes(), nil
}
