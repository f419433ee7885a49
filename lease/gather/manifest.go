package gather

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// Outcome is how a file of the root ended.
type Outcome string

// The outcomes.
const (
	Done     Outcome = "done"
	NoAudio  Outcome = "no_audio"
	NoSpeech Outcome = "no_speech"
	NoImage  Outcome = "no_picture"
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

// sourceKey is what a line is of: a film, and what was made of it.
type sourceKey struct {
	root   string
	path   inventory.Path
	preset transcode.Preset
}

// film is the key without what was made of it.
func (k sourceKey) film() sourceKey { return sourceKey{root: k.root, path: k.path} }

func (l *Line) key() sourceKey { return sourceKey{l.Source.Root, l.Source.Path, l.Preset} }

// key is that of the line which this job's work on a film has.
func (g *Gatherer) key(s *Source) sourceKey { return sourceKey{s.Root, s.Path, g.preset} }

// Output is a file that was written.
type Output struct {
	Path   inventory.Path `json:"path"`
	SHA256 string         `json:"sha256"`
	Bytes  int64          `json:"bytes"`
}

// Line is a line of the manifest.
type Line struct {
	Source     Source             `json:"source"`
	Preset     transcode.Preset   `json:"preset,omitempty"` // what was made of its picture; "": the line is of its words
	Outcome    Outcome            `json:"outcome"`
	Reason     string             `json:"reason,omitempty"`
	DurationMS int64              `json:"duration_ms,omitempty"`
	Flags      []string           `json:"flags,omitempty"`
	Score      *float64           `json:"score,omitempty"`
	Doubts     []transcribe.Doubt `json:"doubts,omitempty"`
	Sound      string             `json:"sound,omitempty"`         // digest of its samples
	SameSound  inventory.Path     `json:"same_sound_as,omitempty"` // another film's, first by path, whose sound it has
	Name       inventory.Path     `json:"name,omitempty"`
	Outputs    []Output           `json:"outputs,omitempty"`
	Made       *Made              `json:"made,omitempty"` // how the output came to be, where that is a rendition
	Of         string             `json:"of,omitempty"`
}

// output is the line's output of that path, or nil.
func (l *Line) output(path string) *Output {
	if l == nil {
		return nil
	}
	for i := range l.Outputs {
		if string(l.Outputs[i].Path) == path {
			return &l.Outputs[i]
		}
	}
	return nil
}

// maxDoubts is how many of a film's doubts its line tells; its JSON has them all.
const maxDoubts = 10

const manifestName = "manifest.jsonl"

// readManifest reads all lines, and the bytes they were; nil bytes when there is
// no manifest. One that is not ours is refused: it would be written over.
func readManifest(root *os.Root) (map[sourceKey]*Line, []byte, error) {
	lines := map[sourceKey]*Line{}
	fi, err := root.Lstat(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return lines, nil, nil
	}
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read manifest: %w", err)
	}
	b, err := root.ReadFile(manifestName)
	if err != nil {
		return nil, nil, fmt.Errorf("read manifest: %w", err)
	}
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, len(b)+1)
	for n := 1; in.Scan(); n++ {
		l := &Line{}
		if err := json.Unmarshal(in.Bytes(), l); err != nil {
			return nil, nil, fmt.Errorf("read manifest: line %d: %w", n, err)
		}
		if l.Source.Path == "" || l.Outcome == "" {
			return nil, nil, fmt.Errorf("read manifest: line %d names no source or outcome: it is not macbatch's", n)
		}
		lines[l.key()] = l
	}
	if err := in.Err(); err != nil {
		return nil, nil, fmt.Errorf("read manifest: %w", err)
	}
	return lines, append([]byte{}, b...), nil
}

// encodeManifest writes the lines in order.
func encodeManifest(all []*Line) ([]byte, error) {
	slices.SortFunc(all, func(a, b *Line) int {
		return cmp.Or(strings.Compare(a.Source.Root, b.Source.Root), strings.Compare(string(a.Source.Path), string(b.Source.Path)),
			strings.Compare(string(a.Preset), string(b.Preset)))
	})
	b := bytes.NewBuffer([]byte{})
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for _, l := range all {
		if err := e.Encode(l); err != nil {
			return nil, fmt.Errorf("write manifest: %w", err)
		}
	}
	return b.Bytes(), nil
}

// compareSounds tells of films with one sound that they have: its words were looked
// for once.
func compareSounds(all []*Line) {
	first := map[string]*Line{}
	key := func(l *Line) string { return l.Source.Root + "\x00" + l.Sound }
	for _, l := range all {
		if f := first[key(l)]; l.Sound != "" && (f == nil || l.Source.Path < f.Source.Path) {
			first[key(l)] = l
		}
	}
	for _, l := range all {
		if l.SameSound = ""; l.Sound != "" && first[key(l)] != l {
			l.SameSound = first[key(l)].Source.Path
		}
	}
}

// writeManifest replaces the manifest when its bytes change, and ends the journal
// when whole: no film's outputs were left half written.
func (g *Gatherer) writeManifest(whole bool) error {
	all := g.skippedLines()
	for _, l := range g.lines {
		all = append(all, l)
	}
	compareSounds(all)
	b, err := encodeManifest(all)
	if err != nil {
		return err
	}
	if g.had == nil || !bytes.Equal(b, g.had) {
		if err := g.replaceManifest(b); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
	}
	if !whole {
		return nil
	}
	written := map[intent]bool{}
	for _, l := range all {
		for _, o := range l.Outputs {
			written[intent{o.Path, o.SHA256}] = true
		}
	}
	return g.folder.endJournal(func(i intent) bool { return written[i] })
}

func (g *Gatherer) replaceManifest(b []byte) error {
	if err := g.folder.mkdir(tmpDir); err != nil {
		return err
	}
	x := newFile(manifestName, b)
	g.folder.ours(manifestName, x.digest)
	st, err := g.folder.look(&x)
	if err == nil && st != same {
		err = g.folder.write(&x, st)
	}
	if err != nil {
		return err
	}
	g.had = b
	return g.folder.sync(".")
}
