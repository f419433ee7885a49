package summarize

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the summary as a small Markdown page. What was said is
// escaped: it can't become a heading, a link, HTML or an item of its own.
func WriteMarkdown(w io.Writer, s Summary) error {
	var b strings.Builder
	title := escape(s.Title)
	if title == "" {
		title = "Summary"
	}
	fmt.Fprintf(&b, "# %s\n\n", title)
	switch {
	case s.NoSpeech:
		b.WriteString("No speech was found, so there is nothing to summarize.\n")
	case s.Model != "":
		writeText(&b, s)
	default:
		fmt.Fprintf(&b, "*Extractive summary: %d of %d sentences, chosen by LexRank as they were spoken; no language model was used.*\n\n",
			len(s.Sentences), max(s.Of, len(s.Sentences)))
		if s.Fallback != "" {
			fmt.Fprintf(&b, "*The model that was asked for wrote none: %s*\n\n", escape(s.Fallback))
		}
		for _, x := range s.Sentences {
			b.WriteString("- ")
			if x.EndMS > 0 {
				fmt.Fprintf(&b, "[%s] ", clock(x.StartMS))
			}
			b.WriteString(escape(x.Text))
			b.WriteByte('\n')
		}
	}
	if len(s.Keywords) > 0 {
		words := make([]string, len(s.Keywords))
		for i, k := range s.Keywords {
			words[i] = escape(k)
		}
		fmt.Fprintf(&b, "\n**Keywords:** %s\n", strings.Join(words, ", "))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// writeText writes what a model wrote, paragraph by paragraph, and its chapters.
func writeText(b *strings.Builder, s Summary) {
	fmt.Fprintf(b, "*Summary written by the model %s.*\n", escape(s.Model))
	for line := range strings.Lines(s.Text) {
		if line = escape(line); line != "" {
			fmt.Fprintf(b, "\n%s\n", line)
		}
	}
	if len(s.Chapters) > 1 {
		b.WriteString("\n## Chapters\n\n")
		for _, c := range s.Chapters {
			fmt.Fprintf(b, "- [%s] **%s**: %s\n", clock(c.StartMS), escape(c.Title), escape(c.Text))
		}
	}
}

// clock is H:MM:SS, rounded down: a player that jumps there misses no word.
func clock(ms int64) string {
	s := max(ms, 0) / 1000
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// escape makes text stand for itself within a line of Markdown.
func escape(text string) string {
	var b strings.Builder
	number := true // only digits so far: "1." would begin a list
	for i, r := range clean(text) {
		switch {
		case strings.ContainsRune("\\`*_[]<>&|~$", r),
			i == 0 && strings.ContainsRune("#+-=:", r),
			number && i > 0 && (r == '.' || r == ')'):
			b.WriteByte('\\')
		}
		number = number && '0' <= r && r <= '9'
		b.WriteRune(r)
	}
	return b.String()
}
