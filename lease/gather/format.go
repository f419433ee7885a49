package gather

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"macbatch/transcribe"
	"macbatch/transcribe/subtitle"
)

// Format is a form of a film's transcript.
type Format string

// formats are all there are. The Markdown one's suffix must not end that of the
// summary.
var formats = []struct {
	name   Format
	suffix string
	write  func(w io.Writer, doc *document, t transcribe.Transcript) error
}{
	{"srt", suffixSRT, func(w io.Writer, _ *document, t transcribe.Transcript) error { return subtitle.WriteSRT(w, t) }},
	{"vtt", suffixVTT, func(w io.Writer, _ *document, t transcribe.Transcript) error { return subtitle.WriteVTT(w, t) }},
	{"txt", suffixText, func(w io.Writer, _ *document, t transcribe.Transcript) error { return subtitle.WriteText(w, t) }},
	{"json", suffixJSON, func(w io.Writer, doc *document, _ transcribe.Transcript) error { return doc.write(w) }},
	{"tsv", suffixTSV, func(w io.Writer, _ *document, t transcribe.Transcript) error { return subtitle.WriteTSV(w, t) }},
	{"md", suffixMarkdown, func(w io.Writer, doc *document, t transcribe.Transcript) error {
		return subtitle.WriteMarkdown(w, doc.title(), t)
	}},
}

// DefaultFormats are what is written unless something else is asked for.
const DefaultFormats = "srt,vtt,txt,json"

// AllFormats names all formats.
func AllFormats() string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f.name)
	}
	return strings.Join(names, ",")
}

// ParseFormats reads a list of formats, parted by commas.
func ParseFormats(list string) ([]Format, error) {
	var out []Format
	for _, name := range strings.Split(list, ",") {
		f := Format(strings.TrimSpace(name))
		if !slices.Contains(strings.Split(AllFormats(), ","), string(f)) {
			return nil, fmt.Errorf("format %q is not known; there are %s", string(f), AllFormats())
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// wanted reports whether a film's outputs are to have a format: one that was asked
// for, or that it has from before: it must not fall behind the others.
func (g *Gatherer) wanted(f Format, suffix string, k sourceKey) bool {
	l := g.lines[k]
	return slices.Contains(g.formats, f) || l != nil && l.Name != "" && l.output(string(l.Name)+suffix) != nil
}

// lacks reports whether a line has no output of a format that is wanted.
func (g *Gatherer) lacks(l *Line) bool {
	for _, f := range formats {
		if g.wanted(f.name, f.suffix, l.key()) && l.output(string(l.Name)+f.suffix) == nil {
			return true
		}
	}
	return false
}

func (d *document) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// title is the film's name without folders and extension.
func (d *document) title() string {
	name := candidate(d.Path, formStem, false)
	return strings.ToValidUTF8(name[strings.LastIndexByte(name, '/')+1:], "\uFFFD")
}
