package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestParseSpeech(t *testing.T) {
	s, err := parseSpeech("groq=openai:https://api.groq.com/openai/v1,model=whisper-large-v3,key-file=/k,paid,max-bytes=26214400,max-time=20m,parallel=3")
	if err != nil || s.name != "groq" || s.URL != "https://api.groq.com/openai/v1" || s.Model != "whisper-large-v3" || s.keyFile != "/k" || !s.Paid ||
		s.MaxBytes != 26214400 || s.MaxMS != 1200_000 || s.Parallel != 3 {
		t.Fatalf("parseSpeech = %+v, %v", s, err)
	}
	for in, want := range map[string]string{
		"": "must be NAME", "x": "must be NAME", "x=https://h": "must be NAME", "=openai:https://h": "must be NAME", "a b=openai:https://h": "must be NAME",
		"auto=openai:https://h": "taken", "pocketsphinx=openai:https://h": "taken", "x=openai:https://h,free": `"free": not known`,
		"x=openai:https://h,paid=yes": "not known", "x=openai:https://h,model=": "not known", "x=openai:https://h,max-bytes=many": "invalid syntax",
		"x=openai:https://h,parallel=0": "must be 1 to 256", "x=openai:https://h,max-time=9": "missing unit",
	} {
		if _, err := parseSpeech(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseSpeech(%q) = %v, want %q", in, err, want)
		}
	}
}

// speechServer is "speechserver MODE FILE": a server of OpenAI's protocol at
// $SPEECH. It writes a line to FILE for each request, and
//
//	busy   sends the first away, and then answers
//	drop   breaks every connection off
//	doubt  hears what models hear in noise
func speechServer(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: speechserver MODE FILE")
	}
	name := filepath.Join(ts.Getenv("WORK"), args[1])
	ts.Check(os.WriteFile(name, nil, 0o600))
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		err := r.ParseMultipartForm(64 << 20)
		line := fmt.Sprintf("%s %s %q %v\n", r.Method, r.URL.Path, r.Form["model"], err)
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(line)
		}
		if err != nil || args[0] == "drop" {
			panic(http.ErrAbortHandler)
		}
		_ = f.Close()
		if args[0] == "doubt" {
			fmt.Fprint(w, `{"language":"english","text":" Thank you for watching!","segments":[{"start":1,"end":3,"text":" Thank you for watching!"}]}`)
			return
		}
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{"language":"english","text":" Hello from afar.","segments":[{"start":1.5,"end":4,"text":" Hello from afar."}]}`)
	}))
	ts.Defer(s.Close)
	ts.Setenv("SPEECH", s.URL)
}
