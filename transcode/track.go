package transcode

import (
	"strconv"
	"strings"

	"golang.org/x/text/language"

	"macbatch/transcode/inventory"
)

// Choice is the audio track taken, and why.
type Choice struct {
	inventory.AudioTrack
	Why string `json:"why"`
}

// defaultTrack in a list of languages asks for the track marked as default.
const defaultTrack = "default"

// choose picks a track: the first entry of wanted that fits one, by language or
// number; else the default one; else the first that is no comment.
func choose(tracks []inventory.AudioTrack, wanted []string) Choice {
	for _, w := range wanted {
		if w == defaultTrack {
			break
		}
		if n, err := strconv.Atoi(w); err == nil {
			if n >= 0 && n < len(tracks) {
				return Choice{tracks[n], "track " + w + " was asked for"}
			}
			continue
		}
		for _, t := range tracks {
			if sameLanguage(t.Language, w) {
				return Choice{t, "language " + w + " was asked for"}
			}
		}
	}
	if len(tracks) == 1 {
		return Choice{tracks[0], "the only track"}
	}
	for _, t := range tracks {
		if t.Default {
			return Choice{t, "the default track"}
		}
	}
	for _, t := range tracks {
		if !t.Comment {
			return Choice{t, "the first track"}
		}
	}
	return Choice{tracks[0], "the first track"}
}

// bibliographic are the codes of ISO 639-2 that films carry beside the
// terminological ones that are understood.
var bibliographic = map[string]string{
	"alb": "sqi", "arm": "hye", "baq": "eus", "bur": "mya", "chi": "zho", "cze": "ces", "dut": "nld", "fre": "fra", "geo": "kat", "ger": "deu",
	"gre": "ell", "ice": "isl", "mac": "mkd", "mao": "mri", "may": "msa", "per": "fas", "rum": "ron", "slo": "slk", "tib": "bod", "wel": "cym",
}

func sameLanguage(a, b string) bool {
	x, ok1 := base(a)
	y, ok2 := base(b)
	if ok1 && ok2 {
		return x == y
	}
	return a != "" && strings.EqualFold(a, b)
}

// base reduces a language code of any kind to one spelling: "ger", "deu" and "de-AT" are one.
func base(code string) (string, bool) {
	code = strings.ToLower(code)
	if t, ok := bibliographic[code]; ok {
		code = t
	}
	tag, err := language.Parse(code)
	if err != nil {
		return "", false
	}
	b, sure := tag.Base()
	return b.ISO3(), sure != language.No && code != "und"
}
