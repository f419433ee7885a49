package gather

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"macbatch/transcode"
	"macbatch/transcode/inventory"
)

// suffixes of a film's outputs. None is the end of another: two outputs have one
// path only if their films have one name.
const (
	suffixSRT      = ".srt"
	suffixVTT      = ".vtt"
	suffixText     = ".txt"
	suffixJSON     = ".json"
	suffixTSV      = ".tsv"
	suffixMarkdown = ".text.md"
	suffixSummary  = ".summary.md"
	suffixProxy    = ".proxy.mp4"
	suffixSheet    = ".sheet.jpg"
)

var suffixes = []string{suffixProxy, suffixSheet, suffixSRT, suffixVTT, suffixText, suffixJSON, suffixTSV, suffixMarkdown, suffixSummary}

// names gives each film a name of its own below the output folder.
type names struct {
	owner map[string]sourceKey // folded name → whose it is
	dirs  map[string]bool      // folded folders that names lie in
	of    map[sourceKey]string
}

// fold is what two paths have in common that are one on a file system that folds
// case and composes accents.
func fold(path string) string {
	if !utf8.ValidString(path) { // folding would make all that is not UTF-8 one
		if b, err := inventory.Path(path).MarshalText(); err == nil {
			path = string(b)
		}
	}
	return norm.NFD.String(cases.Fold().String(norm.NFD.String(path)))
}

// above calls fn for each folder that a path lies in.
func above(path string, fn func(dir string)) {
	for i := range len(path) {
		if path[i] == '/' {
			fn(path[:i])
		}
	}
}

// free reports whether no output under name would meet another film's, the
// manifest, or a folder.
func (n *names) free(k sourceKey, name string) bool {
	f := fold(name)
	if o, taken := n.owner[f]; taken && o != k {
		return false
	}
	for _, s := range suffixes {
		if n.dirs[f+s] {
			return false
		}
	}
	free := true
	above(f, func(dir string) { free = free && !n.isFile(dir) })
	return free
}

// isFile reports whether a folded path is, or may become, a file of ours.
func (n *names) isFile(path string) bool {
	if path == manifestName || path == workDir {
		return true
	}
	for _, s := range suffixes {
		if stem, ok := strings.CutSuffix(path, s); ok {
			if _, taken := n.owner[stem]; taken {
				return true
			}
		}
	}
	return false
}

// claim takes a name for a film if it is free.
func (n *names) claim(k sourceKey, name string) bool {
	if !n.free(k, name) {
		return false
	}
	f := fold(name)
	n.owner[f] = k
	n.of[k] = name
	above(f, func(dir string) { n.dirs[dir] = true })
	return true
}

func newNames() *names {
	return &names{owner: map[string]sourceKey{}, dirs: map[string]bool{}, of: map[sourceKey]string{}}
}

// assign names the films of a root: those the manifest knows as before, the others
// as if it knew none of them where that is free. So it decides nothing how far a
// gathering came that was killed. What is made of a film has one name; where it has
// several, that of the preset counts.
func assign(root string, paths []inventory.Path, known map[sourceKey]*Line, preset transcode.Preset) *names {
	n, fresh := newNames(), newNames()
	for _, p := range []transcode.Preset{transcode.Proxy, transcode.Sheet, "", preset} {
		for key, l := range known {
			if k := key.film(); l.Name != "" && key.preset == p {
				f := fold(string(l.Name))
				n.owner[f], n.of[k] = k, string(l.Name)
				above(f, func(dir string) { n.dirs[dir] = true })
			}
		}
	}
	fresh.assign(root, paths)
	n.reserve(paths)
	for _, p := range paths {
		k := sourceKey{root: root, path: p}
		if n.of[k] == "" && !n.claim(k, fresh.of[k]) {
			n.of[k] = n.next(k, nil, n.inFile(p))
		}
	}
	return n
}

// reserve keeps the folders of films from becoming files.
func (n *names) reserve(paths []inventory.Path) {
	for _, p := range paths {
		above(fold(string(p)), func(dir string) {
			if !n.isFile(dir) {
				n.dirs[dir] = true
			}
		})
	}
}

// assign names the films of a root. A name that several would take is given to
// none of them, so that the order of finishing decides nothing.
func (n *names) assign(root string, paths []inventory.Path) {
	n.reserve(paths)
	for form, left := formStem, paths; len(left) > 0; form++ {
		wanted := map[string]int{}
		for _, p := range left {
			wanted[fold(candidate(p, form, false))]++
		}
		var next []inventory.Path
		for _, p := range left {
			k, c := sourceKey{root: root, path: p}, candidate(p, form, false)
			switch {
			case n.inFile(p):
				n.of[k] = n.next(k, nil, true)
			case form < formMarked && wanted[fold(c)] > 1 || !n.claim(k, c):
				next = append(next, p)
			}
		}
		left = next
	}
}

// inFile reports whether a film's folder can't be made because a file of ours has its name.
func (n *names) inFile(p inventory.Path) bool {
	in := false
	above(fold(string(p)), func(dir string) { in = in || n.isFile(dir) })
	return in
}

// next takes the first name for a film that was not tried: in its own folder, or
// flat at the top of the output folder. It returns "" when there is none.
func (n *names) next(k sourceKey, tried map[string]bool, flat bool) string {
	form := formStem
	if flat {
		form = formMarked
	}
	for ; form < maxForms; form++ {
		if c := candidate(k.path, form, flat); !tried[c] && n.claim(k, c) {
			return c
		}
	}
	return ""
}

// The forms of a film's name, in the order in which they are tried. Those after
// formMarked are numbered too.
const (
	formStem   = iota // its name without the extension
	formWhole         // its whole name
	formMarked        // and the beginning of its path's digest
	maxForms   = 100
)

// candidate is a name that a film may have.
func candidate(p inventory.Path, form int, flat bool) string {
	dir, file := "", string(p)
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		dir, file = file[:i+1], file[i+1:]
	}
	if flat {
		// The name may be the reason, where a file system takes UTF-8 only.
		dir, file = "", strings.ToValidUTF8(file, "_")
	}
	if form == formStem {
		if dot := strings.LastIndexByte(file, '.'); dot > 0 {
			file = file[:dot]
		}
	}
	mark := ""
	if form >= formMarked {
		mark = digestMark(p)
	}
	if form > formMarked {
		mark += "-" + strconv.Itoa(form-formMarked+1)
	}
	if limit := maxName - len(suffixSummary) - len(mark); len(file) > limit {
		if mark == "" {
			mark = digestMark(p)
			limit -= len(mark)
		}
		file = cut(file, limit)
	}
	return dir + file + mark
}

// maxName is the bytes of a name that every file system takes.
const maxName = 255

func digestMark(p inventory.Path) string {
	sum := sha256.Sum256([]byte(p))
	return "~" + hex.EncodeToString(sum[:4])
}

// cut shortens a name to at most n bytes, between two runes.
func cut(name string, n int) string {
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(name[i]) {
			return name[:i]
		}
	}
	return name[:n] // not UTF-8 anyway
}
