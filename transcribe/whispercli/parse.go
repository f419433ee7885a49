package whispercli

import (
	"encoding/json"
	"fmt"
	"strings"

	"macbatch/transcribe"
)

// output is the part of -ojf that is used; offsets are ms.
type output struct {
	Result struct {
		Language string `json:"language"`
	} `json:"result"`
	Transcription *[]segment `json:"transcription"`
}

type offsets struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

type segment struct {
	Offsets offsets `json:"offsets"`
	Text    string  `json:"text"`
	Tokens  []token `json:"tokens"`
}

type token struct {
	Text    string  `json:"text"`
	Offsets offsets `json:"offsets"`
	P       float64 `json:"p"`
}

// parse makes a transcript of an output file. Its times are as the program
// wrote them: they may need Repair.
func parse(b []byte) (t transcribe.Transcript, err error) {
	var o output
	if err := json.Unmarshal(b, &o); err != nil {
		return t, fmt.Errorf("read result: %w", err)
	}
	if o.Transcription == nil {
		return t, fmt.Errorf("read result: no transcription in it")
	}
	t.Language = o.Result.Language
	t.Segments = []transcribe.Segment{}
	for _, s := range *o.Transcription {
		text := strings.TrimSpace(s.Text)
		if text == "" || transcribe.Remark(text) {
			continue
		}
		seg := transcribe.Segment{StartMS: s.Offsets.From, EndMS: s.Offsets.To, Text: text, Words: words(s.Tokens, text)}
		for _, w := range seg.Words {
			seg.Confidence += w.Confidence / float64(len(seg.Words))
		}
		t.Segments = append(t.Segments, seg)
	}
	return t, nil
}

// words joins tokens: one that starts with a space starts a word. A token may
// end within a character, whose bytes the JSON decoder then replaces, so the
// spelling is taken from the segment's text; where the two don't fit together
// there are no word times.
func words(tokens []token, text string) []transcribe.Word {
	var out []transcribe.Word
	var n []float64
	for _, k := range tokens {
		if strings.HasPrefix(k.Text, "[_") || (strings.HasPrefix(k.Text, "<|") && strings.HasSuffix(k.Text, "|>")) {
			continue
		}
		if len(out) == 0 || strings.HasPrefix(k.Text, " ") {
			if strings.TrimSpace(k.Text) == "" && len(out) > 0 {
				continue
			}
			out = append(out, transcribe.Word{StartMS: k.Offsets.From})
			n = append(n, 0)
		}
		w := &out[len(out)-1]
		w.EndMS = k.Offsets.To
		w.Confidence += k.P
		n[len(n)-1]++
	}
	fields := strings.Fields(text)
	if len(fields) != len(out) {
		return nil
	}
	for i := range out {
		out[i].Text = fields[i]
		out[i].Confidence /= n[i]
	}
	return out
}
