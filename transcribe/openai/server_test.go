package openai

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

// call is a request as a server saw it.
type call struct {
	at     time.Time
	length int64
	fields map[string][]string
	name   string
	sound  []byte
	auth   string
}

// server answers by the protocol's documentation, and with the faults that are
// told it.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	answer func(n int, w http.ResponseWriter, c call) // n from 0
}

func serve(t *testing.T, answer func(n int, w http.ResponseWriter, c call)) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	return s
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	c := call{at: time.Now(), length: r.ContentLength, auth: r.Header.Get("Authorization")}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/audio/transcriptions" {
		http.Error(w, "no such route "+r.Method+" "+r.URL.Path, http.StatusTeapot)
		return
	}
	if err := r.ParseMultipartForm(64 << 20); err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	c.fields = r.MultipartForm.Value
	f, h, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	c.name = h.Filename
	if c.sound, err = io.ReadAll(f); err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	s.answer(n, w, c)
}

func (s *server) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (c call) ms() int64 { return int64(len(c.sound)-wavHeader) / bytesPerMS }

// say writes an answer; who asked may be gone.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// hello answers with two words.
func hello(_ int, w http.ResponseWriter, c call) {
	duration := float64(c.ms()) / 1000
	if c.name == "sound.flac" {
		duration = 5
	}
	say(w, `{"task":"transcribe","language":"english","duration":%v,"text":"Hello there.","segments":[{"id":0,"seek":0,"start":1.5,"end":2.5,`+
		`"text":" Hello there.","tokens":[1],"temperature":0,"avg_logprob":-0.5,"compression_ratio":1,"no_speech_prob":0.01}],`+
		`"words":[{"word":"Hello","start":1.5,"end":1.9},{"word":"there","start":1.9,"end":2.4}]}`, duration)
}

// drop breaks the connection off without an answer.
func drop(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		panic(err)
	}
}

func ffmpeg(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("ffmpeg")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return p
}

func open(t *testing.T, o Options) *engine {
	t.Helper()
	o.FFmpeg = ffmpeg(t)
	if o.HTTP == nil {
		tr := &http.Transport{}
		t.Cleanup(tr.CloseIdleConnections)
		o.HTTP = &http.Client{Transport: tr}
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e.(*engine)
}

// spoken is ten seconds of which the second to the seventh sound as if somebody spoke.
var spoken = func() []byte {
	pcm := make([]byte, 10_000*bytesPerMS)
	for i := sound.Rate; i < 7*sound.Rate; i++ {
		at := float64(i) / sound.Rate
		f, level := 150.0, 7000.0
		if math.Mod(at, .2) > .12 {
			f, level = 3100, 900
		}
		binary.LittleEndian.PutUint16(pcm[2*i:], uint16(int16(level*math.Sin(2*math.Pi*f*at))))
	}
	return pcm
}()

// voice is a WAV file of ms, spoken again and again, or silent.
func voice(t *testing.T, ms int64, silent bool) string {
	t.Helper()
	pcm := bytes.Repeat(spoken, int(ms/10_000)+1)[:ms*bytesPerMS]
	if silent {
		clear(pcm)
	}
	name := filepath.Join(t.TempDir(), "in.wav")
	if err := os.WriteFile(name, append(header(ms*bytesPerMS), pcm...), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func request(t *testing.T, ms int64) transcribe.Request {
	t.Helper()
	return transcribe.Request{Sound: voice(t, ms, false), DurationMS: ms, Language: "auto", Dir: t.TempDir()}
}
