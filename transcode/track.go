package transcode

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"macbatch/transcode/inventory"
)

// Track is the audio track that was taken, and why.
type Track struct {
	inventory.AudioTrack
	Why string `json:"why"`
}

// choose takes the track that the first fulfillable wish names: a language by any
// of its ISO 639 codes, a track's index, or "default". When none is, the default
// track is taken. There is at least one track.
func choose(tracks []inventory.AudioTrack, wishes []string) Track {
	if len(wishes) == 0 {
		return usual(tracks)
	}
	for _, w := range wishes {
		w = strings.ToLower(strings.TrimSpace(w))
		if w == "default" {
			return usual(tracks)
		}
		if n, err := strconv.Atoi(w); err == nil {
			if 0 <= n && n < len(tracks) {
				return Track{tracks[n], fmt.Sprintf("track %d was asked for", n)}
			}
			continue
		}
		spoken := slices.DeleteFunc(slices.Clone(tracks), func(t inventory.AudioTrack) bool {
			return t.Language == "" || language(t.Language) != language(w)
		})
		if len(spoken) > 0 {
			return Track{best(spoken), fmt.Sprintf("language %q was asked for", w)}
		}
	}
	t := usual(tracks)
	t.Why = fmt.Sprintf("no track fits %q; %s", strings.Join(wishes, ","), t.Why)
	return t
}

func usual(tracks []inventory.AudioTrack) Track {
	t := best(tracks)
	switch {
	case len(tracks) == 1:
		return Track{t, "the only track"}
	case t.Default:
		return Track{t, "marked as default"}
	}
	return Track{t, "the first track"}
}

// best prefers tracks that ffmpeg can decode, then the film's own sound to
// commentary, then the one marked as default, then the first.
func best(tracks []inventory.AudioTrack) inventory.AudioTrack {
	rank := func(t inventory.AudioTrack) (r int) {
		if t.Codec != "" {
			r += 4
		}
		if !t.Comment {
			r += 2
		}
		if t.Default {
			r++
		}
		return r
	}
	b := tracks[0]
	for _, t := range tracks[1:] {
		if rank(t) > rank(b) {
			b = t
		}
	}
	return b
}

// sameLanguage lists the codes of ISO 639-1, 639-2/B and 639-2/T that mean one
// language; containers and people use any of them.
const sameLanguage = "ar ara,be bel,bg bul,bn ben,bs bos,ca cat,cs cze ces,cy wel cym,da dan,de ger deu,el gre ell,en eng," +
	"es spa,et est,eu baq eus,fa per fas,fi fin,fr fre fra,ga gle,gl glg,he heb iw,hi hin,hr hrv,hu hun,hy arm hye," +
	"id ind in,is ice isl,it ita,ja jpn,ka geo kat,kk kaz,ko kor,lt lit,lv lav,mk mac mkd,mr mar,ms may msa,nb nob no nor," +
	"nl dut nld,pl pol,pt por,ro rum ron,ru rus,sk slo slk,sl slv,sq alb sqi,sr srp,sv swe,sw swa,ta tam,te tel,th tha," +
	"tl tgl,tr tur,uk ukr,ur urd,uz uzb,vi vie,yi yid,zh chi zho"

var languages = func() map[string]string {
	m := map[string]string{}
	for group := range strings.SplitSeq(sameLanguage, ",") {
		codes := strings.Fields(group)
		for _, c := range codes {
			m[c] = codes[0]
		}
	}
	return m
}()

// language maps "ger", "deu", "de" and "de-AT" to one code.
func language(code string) string {
	code, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(code)), "-")
	code, _, _ = strings.Cut(code, "_")
	if c, ok := languages[code]; ok {
		return c
	}
	return code
}
