package openai

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"macbatch/transcribe"
)

// whisper starts the real whisper.cpp engine behind OpenAI's protocol, with a
// model that recites. scripts/setup puts the engine into the cache.
func whisper(t *testing.T, segments ...string) (url string) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the engine's module is for Linux on amd64")
	}
	cache, err := os.UserCacheDir()
	module := filepath.Join(cache, "macbatch/node/node_modules/@fugood/node-whisper-linux-x64")
	if err == nil {
		_, err = os.Stat(module)
	}
	node, lerr := exec.LookPath("node")
	if err = errors.Join(err, lerr); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	model := filepath.Join(t.TempDir(), "tiny.bin")
	if err := os.WriteFile(model, recite(t, segments...), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "testdata/server.cjs", module, model)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it may take the signal badly
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the engine does not start: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

func TestRealServer(t *testing.T) {
	url := whisper(t, "A lease says who works", "until when and nothing more")
	for name, c := range map[string]struct {
		ms    int64
		flac  bool
		least int // times that it recites; where pieces meet the joining makes one of two
	}{
		"WAV":       {8_000, false, 1},
		"FLAC":      {8_000, true, 1},
		"in pieces": {70_000, false, 2},
	} {
		e := open(t, Options{URL: url + "/v1", MaxMS: MinMS, Model: "tiny"})
		e.flac = c.flac
		r := request(t, c.ms)
		r.Language = "en"
		got, err := e.Transcribe(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := got.Validate(c.ms); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var texts []string
		for _, s := range got.Segments {
			texts = append(texts, s.Text)
		}
		all := strings.Join(texts, " ")
		if n := strings.Count(all, "A lease says who works"); n < c.least || got.Language != "en" || got.DurationMS != c.ms {
			t.Errorf("%s: %q, %d times, want %d; language %q, %d ms", name, all, n, c.least, got.Language, got.DurationMS)
		}
	}
}

// TestRealRefusal: what the engine can't read is permanent, and it lives on.
func TestRealRefusal(t *testing.T) {
	url := whisper(t, "Nothing")
	e := open(t, Options{URL: url})
	body := e.blank("en")
	body.from, body.size = strings.NewReader("this is no sound"), 16
	var bad *transcribe.PermanentError
	if _, err := e.ask(t.Context(), body, 1000, nil, false); !errors.As(err, &bad) {
		t.Fatalf("ask = %v, want a permanent error", err)
	}
	if got, err := e.Transcribe(t.Context(), request(t, 8000)); err != nil || len(got.Segments) != 1 {
		t.Fatalf("Transcribe = %+v, %v", got, err)
	}
}
