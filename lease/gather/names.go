package gather

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"macbatch/transcode/inventory"
)

// suffixes of a film's outputs.
const (
	suffixSRT     = ".srt"
	suffixVTT     = ".vtt"
	suffixText    = ".txt"
	suffixJSON    = ".json"
	suffixSummary = ".summary.md"
)

var suffixes = []string{suffixSRT, suffixVTT, suffixText, suffixJSON, suffixSummary}

// names gives each film a name of its own below the output folder.
type names struct {
	owner map[string]sourceKey // folded output path → whose it is
	of    map[sourceKey]string
}

// fold is what two names have in common that are one on a file system that folds
// case and composes accents.
func fold(path string) string { return cases.Fold().String(norm.NFC.String(path)) }

// claim takes a name for a film if none of its outputs is another's.
func (n *names) claim(k sourceKey, name string) bool {
	for _, s := range suffixes {
		if o, taken := n.owner[fold(name+s)]; taken && o != k {
			return false
		}
	}
	if fold(name+suffixText) == fold(manifestName) {
		return false
	}
	for _, s := range suffixes {
		n.owner[fold(name+s)] = k
	}
	n.of[k] = name
	return true
}

// assign names the films of a root, those the manifest knows as before. Among
// the others a name that several would take is given to none of them, so that
// the order of finishing decides nothing.
func assign(root string, paths []inventory.Path, known map[sourceKey]*Line) *names {
	n := &names{owner: map[string]sourceKey{}, of: map[sourceKey]string{}}
	for k, l := range known {
		if l.Name != "" {
			n.claim(k, string(l.Name))
		}
	}
	var left []inventory.Path
	for _, p := range paths {
		if n.of[sourceKey{root, p}] == "" {
			left = append(left, p)
		}
	}
	for form := 0; len(left) > 0; form++ {
		wanted := map[string]int{}
		for _, p := range left {
			wanted[fold(candidate(p, form))]++
		}
		var next []inventory.Path
		for _, p := range left {
			c := candidate(p, form)
			if form < 2 && wanted[fold(c)] > 1 || !n.claim(sourceKey{root, p}, c) {
				next = append(next, p)
			}
		}
		left = next
	}
	return n
}

// move gives a film its next name, when the one it has is blocked by a stranger's file.
func (n *names) move(k sourceKey) string {
	form := 0
	for i := range 3 {
		if candidate(k.path, i) == n.of[k] {
			form = i + 1
		}
	}
	for ; ; form++ {
		if c := candidate(k.path, form); c != n.of[k] && n.claim(k, c) {
			return c
		}
	}
}

// candidate is the form-th name a film may have: its stem, its whole name, and
// from then on with a part of its path's digest.
func candidate(p inventory.Path, form int) string {
	dir, file := "", string(p)
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		dir, file = file[:i+1], file[i+1:]
	}
	if form == 0 {
		if dot := strings.LastIndexByte(file, '.'); dot > 0 {
			file = file[:dot]
		}
	}
	mark := ""
	if form >= 2 {
		sum := sha256.Sum256([]byte(p))
		mark = "~" + hex.EncodeToString(sum[:4])
		if form > 2 {
			mark += "-" + strconv.Itoa(form-1)
		}
	}
	return dir + shorten(file, p, 255-len(suffixSummary)-len(mark)) + mark
}

// shorten cuts a file's name to what a file system takes, and marks it.
func shorten(file string, p inventory.Path, limit int) string {
	if len(file) <= limit {
		return file
	}
	sum := sha256.Sum256([]byte(p))
	mark := "~" + hex.EncodeToString(sum[:4])
	n := limit - len(mark)
	for n > 0 && !utf8.RuneStart(file[n]) {
		n--
	}
	return file[:n] + mark
}
