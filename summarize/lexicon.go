package summarize

import (
	"strings"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/french"
	"github.com/kljensen/snowball/hungarian"
	"github.com/kljensen/snowball/norwegian"
	"github.com/kljensen/snowball/russian"
	"github.com/kljensen/snowball/spanish"
	"github.com/kljensen/snowball/swedish"
)

// lexicon is what is known of the words of one language. A language without an
// entry has neither stems nor stop words: there the IDF alone tells common words.
type lexicon struct {
	stem   func(word string, stopWordsToo bool) string
	stop   func(word string) bool
	more   map[string]bool // stop words beside those of stop
	elides bool            // an apostrophe parts words, as in "l'homme"
	clips  bool            // an apostrophe begins an ending, as in "John's"
	seen   map[string]word
}

// lexiconFor returns a lexicon for one text; it is not safe for concurrent use.
func lexiconFor(lang string) *lexicon {
	l := &lexicon{seen: map[string]word{}, more: set(extraStops[lang])}
	switch lang {
	case "en":
		l.stem, l.stop, l.clips = english.Stem, english.IsStopWord, true
	case "es":
		l.stem, l.stop = spanish.Stem, spanish.IsStopWord
	case "fr":
		l.stem, l.stop, l.elides = french.Stem, french.IsStopWord, true
	case "hu":
		l.stem, l.stop = hungarian.Stem, hungarian.IsStopWord
	case "no":
		l.stem, l.stop = norwegian.Stem, norwegian.IsStopWord
	case "ru":
		l.stem, l.stop = russian.Stem, russian.IsStopWord
	case "sv":
		l.stem, l.stop = swedish.Stem, swedish.IsStopWord
	case "it", "ca":
		l.elides = true
	}
	return l
}

func (l *lexicon) stops(w string) bool {
	return l.more[w] || l.stop != nil && l.stop(w)
}

// bare is w without a clipped ending: "John's" is John, "don't" is do.
func (l *lexicon) bare(w string) string {
	if !l.clips {
		return w
	}
	at := strings.LastIndexAny(w, "'’")
	if at <= 0 {
		return w
	}
	switch strings.ToLower(strings.TrimLeft(w[at:], "'’")) {
	case "t":
		if cut := strings.TrimRight(w[:at], "nN"); cut != "" {
			return cut
		}
	case "s", "d", "m", "ll", "re", "ve":
		return w[:at]
	}
	return w
}

// extraStops are words that tell little of what a text is about: what people say
// while they think, and for some languages the grammar's own words.
var extraStops = map[string]string{
	"en": `ah also another ca can could even ever get gets getting go goes going gonna gotta got hey hm hmm just know let like look made
		make many may maybe mean might much must never oh ok okay one quite really right said say says see sha shall so still take
		than thing things think though thought till two uh um unto upon us wanna want well went will wo would yeah yes yet`,
	"de": `ab aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei beim bin bis
		bist da dabei dadurch damit danach dann daran darauf daraus darin das dass davon dazu daß dein deine deinem deinen deiner dem den
		denn der deren des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch eigentlich ein eine einem einen
		einer eines einfach einige einigen einmal er es etwas euch euer eure für ganz gar geht gibt gegen genau gesagt gewesen ging habe
		haben habt hast hat hatte hatten hier hin hinter hm ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in indem ins ist ja jede
		jedem jeden jeder jedes jene jetzt kann kannst kein keine keinem keinen keiner kommt können könnte machen macht mal man manche mein
		meine meinem meinen meiner mehr mich mir mit muss musste muß müssen na nach naja nein nicht nichts noch nun nur ob oder ohne schon
		sehr sein seine seinem seinen seiner seit selbst sich sie sind so sogar solche soll sollen sollte sondern sonst um und uns unser
		unsere unter vielleicht vom von vor war waren warum was weg weil weiter welche welchem welchen welcher welches wenn wer werde
		werden wie wieder will wir wird wirklich wo wollen wollte wurde wurden während würde würden zu zum zur zwar zwischen äh ähm über`,
	"es": `así aquí ahí allí aunque bien bueno cada claro creo cosa cosas decir dice dijo entonces era eran eres es ese fue fueron había
		hace hacer iba ir mejor mira pues puede pueden puedo quiero sea según ser si siempre sido sólo son soy su tal también tan tener
		tengo tiene tienen toda todas va vamos van vez ver voy vosotros`,
	"fr": `aller alors après aussi autre autres avant avoir bah ben bien bon bonne ça car cela celle celles celui ceux cet cette chaque chez
		chose comme comment dire dis dit donc dont elles encore entre être eh euh fait faire fois hein ici ils jamais juste là les leurs
		moins ni non nôtre oh où oui parce peu peut peux plus pourquoi puis quand quel quelle quelque quelques quoi rien sans si soi sont
		sous tous tout toute toutes très va vais voilà voir vraiment`,
	"it": `a abbia abbiamo ad adesso agli ai al alla alle allo allora anche ancora avere aveva avevano avevo avete bene beh c che chi ci ciò
		col come con cosa cose così cui d da dagli dai dal dalla dalle dallo dei degli del dell della delle dello di dire dopo dove due e
		ecco ed era erano essere fa fare fatto fino già gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mai me mi mia mie miei
		mio molto ne negli nei nel nella nelle nello no noi non nostra nostro o ogni oh ora per perché però più po poi prima proprio può
		qua qual quale quando quanto quasi quei quel quella quelle quelli quello questa queste questi questo qui quindi se sei sempre senza
		si sia siamo siete sono sta stata stato sto su sua sue sugli sui sul sulla sulle suo suoi t te ti tra tu tua tue tuo tutta tutte
		tutti tutto un una uno va vi voi vostra vostro è`,
	"nl": `aan al alle als andere ben bent bij daar dan dat de deze die dit doch doen door dus een eens eh en er ge geen geweest haar had
		heb hebben heeft heel hem het hier hij hoe hun iemand iets ik in is ja je jij jou jouw jullie kan kon kunnen maar me meer men met
		mij mijn moet moeten na naar nee niet niets nog nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit uw van veel
		voor want waren was wat we weer wel werd wezen wie wij wil worden wordt ze zei zelf zich zij zijn zo zonder zou`,
	"no": `at av bare ble blei bli blir både da dem den dere det di dit dykk ei eg eit eller ha han har hun hva ikkje ja jeg jo kom korleis
		kva man mi min mitt mot nei ned noe noen noko seg selv si sin sine sitt skal sånn var vart vet vi være vært`,
	"pt": `a ao aos aquela aquelas aquele aqueles aqui aquilo as assim até bem coisa com como da das de dela delas dele deles depois disse
		do dos e ela elas ele eles em então entre era eram essa essas esse esses esta estamos estava estavam este estes estou está estão eu
		fazer foi for foram fosse fui gente há isso isto já lhe lhes lá mais mas me mesmo meu meus minha minhas muito na nas nem no nos
		nossa nossas nosso nossos não né nós num numa o onde os ou para pela pelas pelo pelos pode por porque pra qual quando que quem se
		seja sem sempre ser será seu seus sim sobre sou sua suas são só também te tem temos tenho ter teu tinha tinham toda todo todos tu
		tua tudo tá têm um uma umas uns vai vamos você vocês vos vou à às é`,
	"ru": `вообще все всё где говорит говорю дело ему ещё её знаешь знаю значит как когда которая которого которой которые который кто мне
		мои моё мол наш очень просто пусть сказал сказала сказать своей своего свои так также такое тоже туда ты уж ха эм это этих эээ я`,
	"sv": `alltså bara bra det eh få får ganska gör göra ja jag jo kom kommer liksom lite man nej nog också sig ska skall säger`,
}
