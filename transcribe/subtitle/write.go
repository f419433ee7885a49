package subtitle

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"macbatch/transcribe"
)

// WriteSRT writes t as SubRip.
func WriteSRT(w io.Writer, t transcribe.Transcript) error {
	var b strings.Builder
	for i, c := range Cues(t) {
		fmt.Fprintf(&b, "%d\n%s --> %s\n%s\n\n", i+1, stamp(c.StartMS, ','), stamp(c.EndMS, ','), escapeSRT(c.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteVTT writes t as WebVTT.
func WriteVTT(w io.Writer, t transcribe.Transcript) error {
	var b strings.Builder
	b.WriteString("WEBVTT\n")
	for _, c := range Cues(t) {
		fmt.Fprintf(&b, "\n%s --> %s\n%s\n", stamp(c.StartMS, '.'), stamp(c.EndMS, '.'), vttEscapes.Replace(c.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const paragraphMS = 2000 // a longer pause begins a paragraph

// paragraphs are what was said without a long pause.
func paragraphs(t transcribe.Transcript) []transcribe.Word {
	var out []transcribe.Word
	for _, s := range sane(t).Segments {
		for _, p := range phrases(s) {
			p.Text = strings.Join(strings.Fields(plain(p.Text)), " ")
			if k := len(out) - 1; k >= 0 && p.StartMS-out[k].EndMS <= paragraphMS {
				out[k].EndMS, out[k].Text = p.EndMS, out[k].Text+" "+p.Text
			} else {
				out = append(out, p)
			}
		}
	}
	return out
}

// WriteText writes what was said in paragraphs, one a line.
func WriteText(w io.Writer, t transcribe.Transcript) error {
	var b strings.Builder
	for i, p := range paragraphs(t) {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteTSV writes a line for each segment.
func WriteTSV(w io.Writer, t transcribe.Transcript) error {
	var b strings.Builder
	b.WriteString("start\tend\ttext\n")
	for _, s := range sane(t).Segments {
		if text := strings.Join(strings.Fields(plain(s.Text)), " "); text != "" {
			fmt.Fprintf(&b, "%d\t%d\t%s\n", s.StartMS, s.EndMS, text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes paragraphs with their times below a title.
func WriteMarkdown(w io.Writer, title string, t transcribe.Transcript) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", markdown(strings.Join(strings.Fields(plain(title)), " ")))
	all := paragraphs(t)
	for _, p := range all {
		at, _, _ := strings.Cut(stamp(p.StartMS, '.'), ".")
		fmt.Fprintf(&b, "\n**%s** %s\n", at, markdown(p.Text))
	}
	if len(all) == 0 {
		b.WriteString("\nNobody speaks in it.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown escapes what is markup within a line.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_[]<>&~|$#", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// phrases divides s at its long pauses; s itself where its text isn't simply its words.
func phrases(s transcribe.Segment) []transcribe.Word {
	whole := transcribe.Word{StartMS: s.StartMS, EndMS: s.EndMS, Text: s.Text}
	var out []transcribe.Word
	var all []string
	for _, w := range s.Words {
		all = append(all, w.Text)
		if k := len(out) - 1; k >= 0 && w.StartMS-out[k].EndMS <= paragraphMS {
			out[k].EndMS, out[k].Text = w.EndMS, out[k].Text+" "+w.Text
		} else {
			out = append(out, w)
		}
	}
	if len(out) < 2 || strings.Join(all, " ") != s.Text {
		return []transcribe.Word{whole}
	}
	return out
}

// stamp writes hours:minutes:seconds and ms; hours take the digits they need.
func stamp(ms int64, point byte) string {
	return fmt.Sprintf("%02d:%02d:%02d%c%03d", ms/3600000, ms/60000%60, ms/1000%60, point, ms%1000)
}

// joiner is invisible and keeps markup from being markup.
const joiner = "\u2060"

// plain makes any text valid UTF-8 without control characters and joiners.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u2060':
			return -1
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// The last is no markup here, but converters make it some.
var vttEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "{\\", "{"+joiner+"\\")

// escapeSRT breaks what players take for a tag (<i>, {\an8}) or for a line of times.
func escapeSRT(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		b.WriteRune(r)
		if i+1 == len(runes) {
			break
		}
		next := runes[i+1]
		if (r == '<' && (next == '/' || unicode.IsLetter(next))) || (r == '{' && next == '\\') || (r == '-' && next == '>') {
			b.WriteString(joiner)
		}
	}
	return b.String()
}
