package sound

import (
	"fmt"
	"strings"

	"macbatch/transcribe"
)

// gapMS is how long somebody may surely speak without a word of it in the transcript.
const gapMS = 20_000

// Triage notes what in t is to be doubted: what the words give away, and what the
// sound does: speech without words.
func (p Profile) Triage(t *transcribe.Transcript, utterances []Span) {
	t.Triage()
	if len(t.Segments) == 0 {
		return // judged as a whole by whoever looks at it
	}
	at := int64(0)
	for i := 0; i <= len(t.Segments); i++ {
		from, to := at, p.DurationMS
		if i < len(t.Segments) {
			to, at = t.Segments[i].StartMS, max(at, t.Segments[i].EndMS)
		}
		var voiced int64
		for _, u := range utterances {
			voiced += max(0, min(u.ToMS, to)-max(u.FromMS, from))
		}
		if voiced < gapMS || !p.Part(from, to).Speech() {
			continue
		}
		t.Doubt(transcribe.Doubt{Kind: transcribe.Gap, FromMS: from, ToMS: to,
			Evidence: fmt.Sprintf("no words for %d s, in %d s of which somebody seems to speak", (to-from)/1000, voiced/1000)})
	}
	// A long segment with a few words is a gap of another shape.
	for _, s := range t.Segments {
		if n := len(strings.Fields(s.Text)); s.EndMS-s.StartMS >= 2*gapMS && n > 0 && int64(n)*5000 < s.EndMS-s.StartMS &&
			len(s.Text) < int(s.EndMS-s.StartMS)/1000 && p.Part(s.StartMS, s.EndMS).Speech() {
			t.Doubt(transcribe.Doubt{Kind: transcribe.Gap, FromMS: s.StartMS, ToMS: s.EndMS,
				Evidence: fmt.Sprintf("%d words in %d s in which somebody seems to speak", n, (s.EndMS-s.StartMS)/1000)})
		}
	}
}
