package inventory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// ownSuffix ends the names of the outputs that look like films themselves. An output
// folder may lie among its films; who made a film's proxy must not make one of that.
const ownSuffix = ".proxy.mp4"

// The files that tell of an output folder's outputs, with the folder itself before
// them: what was written, and what is about to be.
const (
	ownManifest = "manifest.jsonl"
	ownJournal  = ".macbatch/journal"
)

const (
	maxLists = 1000    // manifests of one walk that are read
	maxLine  = 4 << 20 // bytes of a line of one
)

// own moves the candidates that manifests in the tree call their outputs to the skipped.
func (w *walk) own() {
	like := func(c candidate) bool { return strings.HasSuffix(string(c.path), ownSuffix) }
	if !slices.ContainsFunc(w.candidates, like) {
		return
	}
	made := map[Path]int64{} // bytes; -1: not told
	for _, p := range w.lists[:min(len(w.lists), maxLists)] {
		w.readList(p, made)
	}
	w.candidates = slices.DeleteFunc(w.candidates, func(c candidate) bool {
		n, ours := made[c.path]
		if ours = ours && (n < 0 || n == c.id.Size); ours {
			w.skipped = append(w.skipped, Skipped{Path: c.path, Reason: OwnOutput})
		}
		return ours
	})
}

// readList notes the outputs that a manifest or journal names. A file that is neither
// tells of none.
func (w *walk) readList(p Path, made map[Path]int64) {
	f, _, err := Open(w.root, p)
	if err != nil {
		return
	}
	defer f.Close()
	dir := Path(strings.TrimSuffix(strings.TrimSuffix(string(p), ownManifest), ownJournal))
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		if !bytes.Contains(in.Bytes(), []byte(ownSuffix)) {
			continue
		}
		var l struct {
			Path    Path `json:"path"` // of a journal
			Outputs []struct {
				Path  Path  `json:"path"`
				Bytes int64 `json:"bytes"`
			} `json:"outputs"`
		}
		if json.Unmarshal(in.Bytes(), &l) != nil {
			continue
		}
		if l.Path != "" {
			made[dir+l.Path] = -1
		}
		for _, o := range l.Outputs {
			if _, told := made[dir+o.Path]; !told {
				made[dir+o.Path] = o.Bytes
			}
		}
	}
}
