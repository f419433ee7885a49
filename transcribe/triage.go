package transcribe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of doubt.
const (
	Repeats = "repeats" // the same words again and again
	Fast    = "fast"    // more words than anybody says in that time
	Stock   = "stock"   // what models say when they hear nothing: credits, thanks for watching
	Unsure  = "unsure"  // the engine itself was not sure
	Gap     = "gap"     // speech without words
)

// Suspicious is the flag of a transcript with a doubt.
const Suspicious = "suspicious"

// Doubt is a reason to look at a stretch of a transcript again.
type Doubt struct {
	Kind     string `json:"kind"`
	FromMS   int64  `json:"from_ms"`
	ToMS     int64  `json:"to_ms"`
	Evidence string `json:"evidence"`
}

const (
	maxDoubts   = 50
	maxEvidence = 200 // bytes
	maxKind     = 20

	loopTimes   = 4    // a phrase of two words or more, in a row
	loopShort   = 8    // of one
	loopWords   = 12   // in the phrase, at most
	fastWords   = 6.0  // a second
	fastRunes   = 30.0 // a second, for scripts without spaces
	fastLeast   = 8    // words, or four times as many characters, that are counted at all
	unsureBelow = 0.3  // mean confidence
	unsureLeast = 10   // words
	stockTimes  = 3    // a phrase that people do say too
)

// Triage looks for what the words alone give away, notes it, and flags t. Doubts
// that are there stay; calling it twice changes nothing.
func (t *Transcript) Triage() {
	var found []Doubt
	found = append(found, t.loops()...)
	found = append(found, t.hasty()...)
	found = append(found, t.stock()...)
	found = append(found, t.unsure()...)
	t.Doubt(found...)
}

// Doubt notes doubts in order, each once.
func (t *Transcript) Doubt(found ...Doubt) {
	for _, d := range found {
		d.Evidence = clipped(clean(d.Evidence))
		d.FromMS = min(max(d.FromMS, 0), t.DurationMS)
		d.ToMS = min(max(d.ToMS, d.FromMS), t.DurationMS)
		if ok := d.Kind != "" && len(d.Kind) <= maxKind && utf8.ValidString(d.Kind); ok && !slices.Contains(t.Doubts, d) {
			t.Doubts = append(t.Doubts, d)
		}
	}
	slices.SortStableFunc(t.Doubts, func(a, b Doubt) int {
		return cmp.Or(cmp.Compare(a.FromMS, b.FromMS), cmp.Compare(a.Kind, b.Kind))
	})
	t.Doubts = t.Doubts[:min(len(t.Doubts), maxDoubts)]
	if len(t.Doubts) > 0 {
		t.Flag(Suspicious)
	}
}

func clipped(s string) string {
	if len(s) > maxEvidence {
		s = strings.ToValidUTF8(s[:maxEvidence-len("…")], "") + "…"
	}
	return s
}

// Score is the share of the time with words, or that should have some, that is
// not in doubt: 1 means that nothing is.
func (t Transcript) Score() float64 {
	type span struct{ from, to int64 }
	var all []span
	for _, s := range t.Segments {
		all = append(all, span{s.StartMS, s.EndMS})
	}
	for _, d := range t.Doubts {
		all = append(all, span{d.FromMS, d.ToMS})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var total, doubtful, at int64
	for _, s := range all {
		if s.from = max(s.from, at); s.to > s.from {
			total, at = total+s.to-s.from, s.to
		}
	}
	at = 0
	for _, d := range t.Doubts { // in order
		if from := max(d.FromMS, at); d.ToMS > from {
			doubtful, at = doubtful+d.ToMS-from, d.ToMS
		}
	}
	if total == 0 {
		return 1
	}
	return 1 - float64(doubtful)/float64(total)
}

// loops finds phrases that are said again and again without a pause for others.
func (t *Transcript) loops() (found []Doubt) {
	var words []Word
	var keys []string
	for _, s := range t.Segments {
		for _, w := range s.Spoken() {
			words, keys = append(words, w), append(keys, keyOf(w.Text))
		}
	}
	for i := 0; i < len(keys); {
		step := 1
		for n := 1; n <= loopWords && i+2*n <= len(keys); n++ {
			times := 1
			for end := i + n; end+n <= len(keys) && slices.Equal(keys[end:end+n], keys[i:i+n]); end += n {
				times++
			}
			if times < loopTimes || n == 1 && times < loopShort {
				continue
			}
			last := i + n*times - 1
			found = append(found, Doubt{Kind: Repeats, FromMS: words[i].StartMS, ToMS: words[last].EndMS,
				Evidence: fmt.Sprintf("%d times %q", times, strings.Join(keys[i:i+n], " "))})
			step = n * times
			break
		}
		i += step
	}
	return found
}

// hasty finds segments in which nobody could have said so much.
func (t *Transcript) hasty() (found []Doubt) {
	for _, s := range t.Segments {
		words, runes := len(strings.Fields(s.Text)), utf8.RuneCountInString(s.Text)
		seconds := max(float64(s.EndMS-s.StartMS)/1000, 0.1)
		evidence := ""
		switch {
		case words >= fastLeast && float64(words)/seconds > fastWords:
			evidence = fmt.Sprintf("%d words in %.1f s", words, seconds)
		case runes >= 4*fastLeast && float64(runes)/seconds > fastRunes:
			evidence = fmt.Sprintf("%d characters in %.1f s", runes, seconds)
		default:
			continue
		}
		found = append(found, Doubt{Kind: Fast, FromMS: s.StartMS, ToMS: s.EndMS, Evidence: evidence})
	}
	return found
}

// unsure finds runs of segments of which the engine itself thinks little.
func (t *Transcript) unsure() (found []Doubt) {
	for i := 0; i < len(t.Segments); {
		n, sum, j := 0, 0.0, i
		for ; j < len(t.Segments) && t.Segments[j].Confidence > 0 && t.Segments[j].Confidence < unsureBelow; j++ {
			k := len(strings.Fields(t.Segments[j].Text))
			n, sum = n+k, sum+float64(k)*t.Segments[j].Confidence
		}
		if n >= unsureLeast {
			found = append(found, Doubt{Kind: Unsure, FromMS: t.Segments[i].StartMS, ToMS: t.Segments[j-1].EndMS,
				Evidence: fmt.Sprintf("%d words of a mean confidence of %.2f", n, sum/float64(n))})
		}
		i = max(j, i+1)
	}
	return found
}

// never are phrases, letters and digits only, that no film says: credits of the
// subtitles that models were trained on.
var never = []string{
	"amara org", "subtitles by the amara", "untertitel im auftrag des zdf", "untertitelung des zdf", "untertitel der amara", "swr 2020", "swr 2021",
	"sous titres réalisés par", "sous titrage st", "sous titrage société radio canada", "sottotitoli creati dalla comunità", "sottotitoli e revisione a cura di",
	"subtítulos realizados por la comunidad", "subtítulos por la comunidad de", "legendas pela comunidade", "ondertitels ingediend door", "ondertiteld door",
	"редактор субтитров", "субтитры сделал", "субтитры создавал", "субтитры подогнал", "корректор а егорова", "napisy stworzone przez społeczność",
	"tłumaczenie i napisy stworzone", "altyazı m k", "字幕由amara", "字幕由 amara", "字幕志愿者", "请不吝点赞", "字幕by", "mbc 뉴스", "한글자막",
	"transcribed by https", "transcription by castingwords", "subtitle by", "captions by",
}

// rarely are phrases that people do say at the end of what they publish, and
// models whenever it is quiet.
var rarely = []string{
	"thank you for watching", "thanks for watching", "thank you so much for watching", "please subscribe", "like and subscribe", "see you in the next video",
	"see you next time", "vielen dank fürs zuschauen", "merci d avoir regardé cette vidéo", "gracias por ver el video", "gracias por ver", "obrigado por assistir",
	"grazie per aver guardato il video", "bedankt voor het kijken", "спасибо за просмотр", "продолжение следует", "подписывайтесь на канал", "dziękuję za oglądanie",
	"izlediğiniz için teşekkür ederim", "ご視聴ありがとうございました", "最後までご視聴", "チャンネル登録", "시청해주셔서 감사합니다", "다음 영상에서 만나요", "谢谢观看", "謝謝觀看", "感谢观看",
}

// stock finds what models say when they hear nothing: credits anywhere, thanks
// that are all there is, or that come again and again.
func (t *Transcript) stock() (found []Doubt) {
	var thanks []Doubt
	for _, s := range t.Segments {
		text := " " + letters(s.Text) + " "
		d := Doubt{Kind: Stock, FromMS: s.StartMS, ToMS: s.EndMS, Evidence: s.Text}
		switch {
		case holds(text, never):
			found = append(found, d)
		case holds(text, rarely):
			thanks = append(thanks, d)
		}
	}
	if len(thanks) >= stockTimes || len(thanks) > 0 && len(thanks)+len(found) == len(t.Segments) {
		found = append(found, thanks...)
	}
	return found
}

// holds reports whether text, in letters and spaces around it, holds one of phrases.
func holds(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool {
		if r, _ := utf8.DecodeRuneInString(p); r > 0x2e7f { // scripts without spaces
			return strings.Contains(text, p)
		}
		return strings.Contains(text, " "+p+" ")
	})
}

// letters is text in lower case, with one space for all that is no letter or digit.
func letters(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), " ")
}
