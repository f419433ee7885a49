package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

func TestEndpoint(t *testing.T) {
	const all = "https://api.example.com/v1/audio/transcriptions"
	for in, want := range map[string]string{
		"https://api.example.com":                           all,
		"https://api.example.com/":                          all,
		"https://API.example.com:443//":                     all,
		"https://api.example.com/v1":                        all,
		"https://api.example.com/v1/":                       all,
		"https://api.example.com/v1/audio/transcriptions":   all,
		"https://api.example.com/v1/audio/transcriptions/":  all,
		" https://api.example.com/v1//audio/transcriptions": all,
		"https://api.example.com/openai/v1":                 "https://api.example.com/openai/v1/audio/transcriptions",
		"https://api.example.com/openai":                    "https://api.example.com/openai/v1/audio/transcriptions",
		"http://127.0.0.1:8080":                             "http://127.0.0.1:8080/v1/audio/transcriptions",
		"http://localhost:8080/inference":                   "http://localhost:8080/inference",
		"http://[::1]:8080/v1":                              "http://[::1]:8080/v1/audio/transcriptions",
	} {
		if got, err := Endpoint(in); err != nil || got.String() != want {
			t.Errorf("Endpoint(%q) = %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "api.example.com", "ftp://x", "http://api.example.com/v1", "http://10.0.0.7:8080", "http://127.0.0.1.example.com",
		"https://me:secret@api.example.com", "https://api.example.com/v1?key=secret", "https://x/#secret", "https://", "http://[::ffff:8.8.8.8]/", "https:x", "https://x:secret/"} {
		got, err := Endpoint(in)
		if err == nil {
			t.Errorf("Endpoint(%q) = %v, want an error", in, got)
		} else if strings.Contains(err.Error(), "secret") && in != "https://x:secret/" {
			t.Errorf("Endpoint(%q): %v tells a secret", in, err)
		}
	}
}

func TestTranscribe(t *testing.T) {
	s := serve(t, hello)
	e := open(t, Options{URL: s.URL, Model: "base", Key: "k3y"})
	r := request(t, 5000)
	var progress []int64
	r.Progress = func(ms int64) { progress = append(progress, ms) }
	got, err := e.Transcribe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(5000); err != nil {
		t.Fatal(err)
	}
	if len(got.Segments) != 1 || got.Segments[0].Text != "Hello there." || got.Segments[0].StartMS != 1500 || got.Segments[0].Confidence < .6 || got.Segments[0].Confidence > .61 {
		t.Fatalf("segments = %+v", got.Segments)
	}
	if w := got.Segments[0].Words; len(w) != 2 || w[1] != (transcribe.Word{StartMS: 1900, EndMS: 2400, Text: "there."}) {
		t.Fatalf("words = %+v", w)
	}
	if got.Language != "en" || got.DurationMS != 5000 || got.Model != "base" || got.Engine != "openai" || len(got.Flags) != 0 {
		t.Fatalf("transcript = %+v", got)
	}
	if !slices.Equal(progress, []int64{5000}) {
		t.Fatalf("progress = %d", progress)
	}
	c := s.seen()[0]
	if c.auth != "Bearer k3y" || c.name != "sound.wav" || c.ms() != 5000 || c.length < int64(len(c.sound)) {
		t.Fatalf("call: auth %q, name %q, %d ms, %d bytes", c.auth, c.name, c.ms(), c.length)
	}
	want := map[string]string{"model": "base", "response_format": "verbose_json", "temperature": "0", "timestamp_granularities[]": "segment word"}
	for k, v := range want {
		if g := strings.Join(c.fields[k], " "); g != v {
			t.Errorf("field %s = %q, want %q", k, g, v)
		}
	}
	if len(c.fields) != len(want) {
		t.Errorf("fields = %q", c.fields)
	}
	r.Language = "de"
	if _, err := e.Transcribe(t.Context(), r); err != nil || s.seen()[1].fields["language"][0] != "de" {
		t.Fatalf("language: %v, %q", err, s.seen()[1].fields)
	}
	var bad *transcribe.PermanentError
	r.Language = "de\nx"
	if _, err := e.Transcribe(t.Context(), r); !errors.As(err, &bad) {
		t.Fatalf("language with a line end: %v", err)
	}
}

// TestFLAC is how a sound goes to another machine.
func TestFLAC(t *testing.T) {
	s := serve(t, hello)
	e := open(t, Options{URL: s.URL})
	e.flac = true
	r := request(t, 5000)
	if _, err := e.Transcribe(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c := s.seen()[0]
	wav, err := os.ReadFile(r.Sound)
	if err != nil {
		t.Fatal(err)
	}
	if c.name != "sound.flac" || string(c.sound[:4]) != "fLaC" || len(c.sound) > len(wav)/2 {
		t.Fatalf("sent %q of %d bytes for a WAV of %d", c.name, len(c.sound), len(wav))
	}
	name := t.TempDir() + "/back.flac"
	if err := os.WriteFile(name, c.sound, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := sound.Decode(t.Context(), e.FFmpeg, name, t.TempDir()+"/back.wav", 5000); err != nil || p.DurationMS != 5000 {
		t.Fatalf("the FLAC decodes to %d ms, %v", p.DurationMS, err)
	}
}

func TestSilenceIsNotSent(t *testing.T) {
	s := serve(t, hello)
	e := open(t, Options{URL: s.URL})
	got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: voice(t, 40_000, true), DurationMS: 40_000, Dir: t.TempDir()})
	if err != nil || !got.Has(transcribe.NoSpeech) || got.DurationMS != 40_000 || len(s.seen()) != 0 {
		t.Fatalf("Transcribe(silence) = %+v, %v, %d calls", got, err, len(s.seen()))
	}
}

// TestNoSuccess: a status of 200 alone is none.
func TestNoSuccess(t *testing.T) {
	for name, body := range map[string]string{
		"no body":           "",
		"no JSON":           "<html>ok</html>",
		"half a body":       `{"text":"Hel`,
		"no text":           `{}`,
		"empty text":        `{"text":""}`,
		"blank":             `{"text":" \n","segments":[{"start":0,"end":5,"text":" "}]}`,
		"no segments":       `{"text":"","segments":[]}`,
		"a remark":          `{"text":" [BLANK_AUDIO]","segments":[{"start":0,"end":5,"text":" [BLANK_AUDIO]"}]}`,
		"beyond the sound":  `{"text":"Thanks.","segments":[{"start":70,"end":75,"text":"Thanks."}]}`,
		"half of the sound": `{"duration":2.5,"text":"Hello","segments":[{"start":0,"end":1,"text":"Hello"}]}`,
	} {
		s := serve(t, func(_ int, w http.ResponseWriter, _ call) { say(w, "%s", body) })
		got, err := open(t, Options{URL: s.URL}).Transcribe(t.Context(), request(t, 5000))
		if err == nil {
			t.Errorf("%s: Transcribe = %+v, want an error", name, got)
		}
		var permanent *transcribe.PermanentError
		if errors.As(err, &permanent) {
			t.Errorf("%s: %v is permanent", name, err)
		}
	}
}

// TestSick: empty answers are failures of each attempt, and three give the server a rest.
func TestSick(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, _ call) { say(w, "%s", `{"text":""}`) })
	e := open(t, Options{URL: s.URL})
	r := request(t, 5000)
	var busy *transcribe.BusyError
	for range sickAfter {
		if _, err := e.Transcribe(t.Context(), r); err == nil || errors.As(err, &busy) {
			t.Fatalf("Transcribe = %v, want a failure", err)
		}
	}
	if _, err := e.Transcribe(t.Context(), r); !errors.As(err, &busy) || busy.After < 50*time.Second || len(s.seen()) != sickAfter {
		t.Fatalf("Transcribe = %v after %d calls, want a rest", err, len(s.seen()))
	}
}

func TestForms(t *testing.T) {
	for name, c := range map[string]struct {
		body, want string
		flag       string
	}{
		"strings for numbers": {`{"duration":"20","text":"a b","segments":[{"start":"1.5","end":"2","text":"a b","avg_logprob":"-1.0"}]}`, "1500-2000 a b", ""},
		"nanoseconds":         {`{"text":"a b","segments":[{"id":0,"start":1500000000,"end":2000000000,"text":"a b","tokens":[1]}]}`, "1500-2000 a b", ""},
		"nulls":               {`{"language":null,"duration":null,"text":null,"segments":[{"start":1,"end":2,"text":"a b","words":null,"avg_logprob":null}]}`, "1000-2000 a b", ""},
		"words for segments": {`{"text":"Ah, be.","segments":[],"words":[{"word":"ah","start":1,"end":1.2},{"word":"be","start":1.3,"end":1.5}]}`,
			"1000-1500 Ah, be. [1000-1200 Ah,] [1300-1500 be.]", ""},
		"tokens": {`{"text":" Hello","segments":[{"start":1,"end":2,"text":" Hello, you","words":[{"word":" Hel","start":1,"end":1.2,"probability":0.5},` +
			`{"word":"lo","start":1.2,"end":1.4,"probability":1},{"word":",","start":1.4,"end":1.4,"probability":0.75},{"word":" you","start":1.5,"end":2,"probability":1}]}]}`,
			"1000-2000 Hello, you [1000-1400 Hello,] [1500-2000 you]", ""},
		"other words than the text's": {`{"segments":[{"start":1,"end":2,"text":"a b c"}],"words":[{"word":"a","start":1,"end":2}]}`, "1000-2000 a b c", ""},
		"text alone":                  {`{"text":"one two three four"}`, "850-7150 one two; 10850-17150 three four", transcribe.Untimed},
		"no times":                    {`{"segments":[{"start":0,"end":0,"text":"one two"},{"start":0,"end":0,"text":"three four"}]}`, "850-7150 one two; 10850-17150 three four", transcribe.Untimed},
		"backwards and disordered":    {`{"segments":[{"start":12,"end":11,"text":"b"},{"start":1,"end":2,"text":"a"}]}`, "1000-2000 a; 12000-12000 b", transcribe.Repaired},
		"absurd times":                {`{"segments":[{"start":1,"end":2,"text":"a"},{"start":1e300,"end":-1e300,"text":"b"}]}`, "1000-2000 a", transcribe.BeyondEnd},
	} {
		s := serve(t, func(_ int, w http.ResponseWriter, _ call) { say(w, "%s", c.body) })
		got, err := open(t, Options{URL: s.URL}).Transcribe(t.Context(), request(t, 20_000))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var segs []string
		for _, s := range got.Segments {
			line := fmt.Sprintf("%d-%d %s", s.StartMS, s.EndMS, s.Text)
			for _, w := range s.Words {
				line += fmt.Sprintf(" [%d-%d %s]", w.StartMS, w.EndMS, w.Text)
			}
			segs = append(segs, line)
		}
		if all := strings.Join(segs, "; "); all != c.want || c.flag != "" && !got.Has(c.flag) {
			t.Errorf("%s: %s %q, want %s %s", name, all, got.Flags, c.want, c.flag)
		}
	}
}

func TestLanguages(t *testing.T) {
	for in, want := range map[string]string{"english": "en", "German": "de", "en": "en", "pt-BR": "pt", "zh_CN": "zh", "haitian creole": "ht", "": "", "klingon tongue": ""} {
		if got := language(in); got != want {
			t.Errorf("language(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	type kind string
	const permanent, unavailable, unknown, other = kind("permanent"), kind("unavailable"), kind("unknown"), kind("other")
	of := func(err error) kind {
		var p *transcribe.PermanentError
		var u *transcribe.UnavailableError
		var x *transcribe.UnknownOutcomeError
		switch {
		case errors.As(err, &p):
			return permanent
		case errors.As(err, &u):
			return unavailable
		case errors.As(err, &x):
			return unknown
		}
		return other
	}
	for _, c := range []struct {
		code       int
		body       string
		free, paid kind
	}{
		{400, `{"error":{"message":"Audio file might be corrupted or unsupported"}}`, permanent, permanent},
		{400, "Invalid request", permanent, permanent},
		{400, `{"error":{"message":"no model","param":"model"}}`, unavailable, unavailable},
		{401, `{"error":{"message":"Incorrect API key provided: k3y."}}`, unavailable, unavailable},
		{404, `{"error":"model 'base' not found"}`, unavailable, unavailable},
		{413, "", permanent, permanent},
		{429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, unavailable, unavailable},
		{302, "", unavailable, unavailable},
		{500, "oops", other, other},
		{502, "", kind("busy"), unknown},
		{504, "", kind("busy"), unknown},
	} {
		for _, paid := range []bool{false, true} {
			s := serve(t, func(_ int, w http.ResponseWriter, _ call) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(c.code)
				say(w, "%s", c.body)
			})
			e := open(t, Options{URL: s.URL, Key: "k3y", Paid: paid})
			body := e.blank("en")
			body.from = strings.NewReader("")
			_, err := e.ask(t.Context(), body, 5000, nil, false)
			want := c.free
			if paid {
				want = c.paid
			}
			got := of(err)
			if busy, is := errors.AsType[*transcribe.BusyError](err); is && busy.After > 59*time.Minute {
				got = "busy"
			}
			if got != want || len(s.seen()) != 1 {
				t.Errorf("%d %s, paid %t: %v (%s) after %d calls, want %s", c.code, c.body, paid, err, got, len(s.seen()), want)
			}
			if err == nil || strings.Contains(err.Error(), "k3y") {
				t.Errorf("%d %s: error %v", c.code, c.body, err)
			}
		}
	}
}

// TestLostAnswers: once a paid request is sent whole, only its answer tells.
func TestLostAnswers(t *testing.T) {
	for name, answer := range map[string]func(int, http.ResponseWriter, call){
		"dropped": func(_ int, w http.ResponseWriter, _ call) { drop(w) },
		"broken off": func(_ int, w http.ResponseWriter, _ call) {
			w.Header().Set("Content-Length", "1000")
			say(w, "%s", `{"text":"Hello`)
			panic(http.ErrAbortHandler)
		},
	} {
		for _, paid := range []bool{false, true} {
			s := serve(t, answer)
			_, err := open(t, Options{URL: s.URL, Paid: paid}).Transcribe(t.Context(), request(t, 5000))
			var unknown *transcribe.UnknownOutcomeError
			var busy *transcribe.BusyError
			if err == nil || errors.As(err, &unknown) != paid || errors.As(err, &busy) || len(s.seen()) != 1 {
				t.Errorf("%s, paid %t: %v after %d calls", name, paid, err, len(s.seen()))
			}
		}
	}
}

// TestEndlessAnswer: an answer has a limit, whatever its status.
func TestEndlessAnswer(t *testing.T) {
	for _, code := range []int{200, 500} {
		var sent atomic.Int64
		s := serve(t, func(_ int, w http.ResponseWriter, _ call) {
			w.WriteHeader(code)
			for b := bytes.Repeat([]byte("["), 1<<20); ; {
				n, err := w.Write(b)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		})
		e := open(t, Options{URL: s.URL})
		body := e.blank("en")
		body.from = strings.NewReader("")
		if b, err := e.ask(t.Context(), body, 1000, nil, false); err == nil || len(err.Error()) > 1000 || b != nil {
			t.Errorf("%d: ask = %.100q, %.200v", code, b, err)
		}
		s.Close() // waits for the handler: the connection was closed
		if n := sent.Load(); n > answerMax+64<<20 {
			t.Errorf("%d: %d bytes were taken", code, n)
		}
	}
}

// TestToldToStop: a call that is told to stop after it paid does not say that
// nothing happened.
func TestToldToStop(t *testing.T) {
	stop := errors.New("shutting down")
	for _, paid := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		release := make(chan struct{})
		s := serve(t, func(int, http.ResponseWriter, call) { cancel(stop); <-release })
		_, err := open(t, Options{URL: s.URL, Paid: paid}).Transcribe(ctx, request(t, 5000))
		close(release)
		var unknown *transcribe.UnknownOutcomeError
		if errors.As(err, &unknown) != paid || !paid && !errors.Is(err, stop) {
			t.Errorf("paid %t: %v", paid, err)
		}
	}
}

// TestAway: a server that is not there did nothing.
func TestAway(t *testing.T) {
	s := serve(t, hello)
	s.Close()
	e := open(t, Options{URL: s.URL, Paid: true, Rand: func(int64) int64 { return 0 }})
	e.gate.rests = 5 // the rests that are waited out have a test of their own
	_, err := e.Transcribe(t.Context(), request(t, 5000))
	var busy *transcribe.BusyError
	if !errors.As(err, &busy) || busy.After < 30*time.Second {
		t.Fatalf("Transcribe = %v, want a rest", err)
	}
}

// TestSure: a lease in doubt pays for nothing.
func TestSure(t *testing.T) {
	s := serve(t, hello)
	lost := errors.New("lease lost")
	for _, paid := range []bool{false, true} {
		r := request(t, 5000)
		r.Sure = func(context.Context) error { return lost }
		_, err := open(t, Options{URL: s.URL, Paid: paid}).Transcribe(t.Context(), r)
		if errors.Is(err, lost) != paid || (err != nil) != paid {
			t.Errorf("paid %t: %v", paid, err)
		}
	}
	if n := len(s.seen()); n != 1 {
		t.Fatalf("%d calls", n)
	}
}

// TestCaps has sounds around the caps of bytes and seconds sent, each piece with
// a marker at a time of the whole sound, and looks for the markers.
func TestCaps(t *testing.T) {
	marks := func(_ int, w http.ResponseWriter, c call) {
		// Where it is loud after silence somebody begins to speak.
		var segs []string
		quiet := false
		for at := int64(0); at+50 <= c.ms(); at += 50 {
			loud := !bytes.Equal(c.sound[wavHeader+at*bytesPerMS:][:50*bytesPerMS], make([]byte, 50*bytesPerMS))
			if loud && quiet {
				segs = append(segs, fmt.Sprintf(`{"start":%.3f,"end":%.3f,"text":"mark"}`, float64(at)/1000, float64(at)/1000+2))
			}
			quiet = !loud
		}
		say(w, `{"text":"x","segments":[%s]}`, strings.Join(segs, ","))
	}
	const mib25 = 25 << 20
	for _, c := range []struct {
		ms, maxBytes, maxMS int64
		calls               int
	}{
		{1_399_900, 1 << 30, 1_400_000, 1},
		{1_400_000, 1 << 30, 1_400_000, 2},
		{1_500_000, 1 << 30, 1_400_000, 2},
		{(mib25 - 8192) / bytesPerMS, mib25, 1_400_000, 1},
		{(mib25 + 8192) / bytesPerMS, mib25, 1_400_000, 2},
		{600_000, 4 << 20, 60_000, 16},
	} {
		s := serve(t, marks)
		e := open(t, Options{URL: s.URL, MaxBytes: c.maxBytes, MaxMS: c.maxMS})
		got, err := e.Transcribe(t.Context(), request(t, c.ms))
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		calls := s.seen()
		if len(calls) != c.calls {
			t.Errorf("%+v: %d calls", c, len(calls))
		}
		for _, k := range calls {
			if k.length >= c.maxBytes || k.ms() >= c.maxMS {
				t.Errorf("%+v: a call of %d bytes, %d ms", c, k.length, k.ms())
			}
		}
		var want, have []int64
		for at := int64(1000); at+7000 < c.ms; at += 10_000 {
			want = append(want, at)
		}
		for _, s := range got.Segments {
			if s.StartMS+7000 < c.ms {
				have = append(have, (s.StartMS+25)/50*50)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%+v: marks at %d, want each ten seconds", c, have)
		}
		if got.DurationMS != c.ms {
			t.Errorf("%+v: %d ms", c, got.DurationMS)
		}
	}
}

func TestSplit(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		total := 1 + r.Int64N(4*3600_000)
		limit := MinMS - 1 + r.Int64N(1_400_000)
		var us []sound.Span
		for at := r.Int64N(20_000); at < total; {
			to := min(total, at+500+r.Int64N(25_000))
			us = append(us, sound.Span{FromMS: at, ToMS: to})
			if at = to; r.IntN(3) > 0 {
				at += r.Int64N(4000)
			}
		}
		parts := split(us, total, limit)
		at := int64(0)
		for i, p := range parts {
			if p.FromMS != at || p.ToMS <= p.FromMS || p.StartMS > p.FromMS || p.endMS < p.ToMS || p.endMS-p.StartMS > limit || p.endMS > total {
				t.Fatalf("seed %d, limit %d: part %d = %+v after %d", seed, limit, i, p, at)
			}
			at = p.ToMS
		}
		if least := (total + limit - 1) / limit; at != total || int64(len(parts)) > 2*least+1 {
			t.Fatalf("seed %d: %d parts of %d ms with limit %d, up to %d", seed, len(parts), total, limit, at)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	rec := httptest.NewRecorder()
	hello(0, rec, call{sound: make([]byte, wavHeader+5000*bytesPerMS)})
	f.Add(rec.Body.Bytes())
	f.Add([]byte(`{"text":"a","segments":[{"start":"x","end":1e99,"text":"\u0000 b","words":[{"word":" "},{"word":"b","start":-1}]}],"words":[{}]}`))
	utterances := []sound.Span{{FromMS: 100, ToMS: 2000}, {FromMS: 3000, ToMS: 5000}}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := read(b, utterances, 5000)
		if err != nil || len(got.Segments) == 0 {
			return
		}
		if err := got.Validate(5000); err != nil {
			t.Fatalf("answer %q: %v", b, err)
		}
	})
}
