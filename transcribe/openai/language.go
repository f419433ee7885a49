package openai

import "strings"

// names are the languages that Whisper knows, as servers call them in words.
const names = "af afrikaans,am amharic,ar arabic,as assamese,az azerbaijani,ba bashkir,be belarusian,bg bulgarian,bn bengali," +
	"bo tibetan,br breton,bs bosnian,ca catalan,ca valencian,cs czech,cy welsh,da danish,de german,el greek,en english," +
	"es spanish,es castilian,et estonian,eu basque,fa persian,fi finnish,fo faroese,fr french,gl galician,gu gujarati,ha hausa," +
	"haw hawaiian,he hebrew,hi hindi,hr croatian,ht haitian creole,hu hungarian,hy armenian,id indonesian,is icelandic,it italian," +
	"ja japanese,jw javanese,ka georgian,kk kazakh,km khmer,kn kannada,ko korean,la latin,lb luxembourgish,ln lingala,lo lao," +
	"lt lithuanian,lv latvian,mg malagasy,mi maori,mk macedonian,ml malayalam,mn mongolian,mr marathi,ms malay,mt maltese," +
	"my myanmar,my burmese,ne nepali,nl dutch,nl flemish,nn nynorsk,no norwegian,oc occitan,pa punjabi,pl polish,ps pashto," +
	"pt portuguese,ro romanian,ro moldovan,ru russian,sa sanskrit,sd sindhi,si sinhala,sk slovak,sl slovenian,sn shona," +
	"so somali,sq albanian,sr serbian,su sundanese,sv swedish,sw swahili,ta tamil,te telugu,tg tajik,th thai,tk turkmen," +
	"tl tagalog,tr turkish,tt tatar,uk ukrainian,ur urdu,uz uzbek,vi vietnamese,yi yiddish,yo yoruba,yue cantonese," +
	"zh chinese,zh mandarin"

var codes = func() map[string]string {
	m := map[string]string{}
	for pair := range strings.SplitSeq(names, ",") {
		code, name, _ := strings.Cut(pair, " ")
		m[name] = code
	}
	return m
}()

// language is a code for what a server calls a language; empty when it is none.
func language(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if c, ok := codes[s]; ok {
		return c
	}
	s, _, _ = strings.Cut(strings.ReplaceAll(s, "_", "-"), "-")
	if languageCode.MatchString(s) {
		return s
	}
	return ""
}
