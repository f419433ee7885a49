package ollamatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Server is a running Ollama with the package's models.
type Server struct {
	URL string
	Dir string // its home
	cmd *exec.Cmd
}

// Find returns the program's path, or skips the test; in CI it fails it.
func Find(t testing.TB) string {
	t.Helper()
	if p, ok := os.LookupEnv("OLLAMA"); ok {
		return p
	}
	cache, err := os.UserCacheDir()
	if dir, ok := os.LookupEnv("XDG_CACHE_HOME"); ok {
		cache = dir
	} else if home, herr := os.UserHomeDir(); herr == nil {
		cache = filepath.Join(home, ".cache") // where scripts/setup builds it, on a Mac too
	}
	if err == nil {
		if p := filepath.Join(cache, "macbatch", "bin", "ollama"); executable(p) {
			return p
		}
	}
	p, err := exec.LookPath("ollama")
	if err != nil {
		if _, ci := os.LookupEnv("CI"); ci {
			t.Fatal("there is no ollama: scripts/setup test builds it")
		}
		t.Skip("there is no ollama: scripts/setup test builds it")
	}
	return p
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o100 != 0
}

// Start runs a server with the named models (none: all) until the test ends. Env
// is added to its environment.
func Start(t testing.TB, models []string, env ...string) *Server {
	t.Helper()
	program := Find(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + addr, Dir: t.TempDir()}
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program, "serve")
	path, _ := os.LookupEnv("PATH")
	s.cmd.Env = append([]string{
		"PATH=" + path, "HOME=" + s.Dir, "TMPDIR=" + s.Dir, "OLLAMA_HOST=" + addr, "OLLAMA_MODELS=" + filepath.Join(s.Dir, "models"),
		"OLLAMA_NO_CLOUD=1", "OLLAMA_CONTEXT_LENGTH=512", "GIN_MODE=release",
	}, env...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its runners go with it
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
		_ = log.Close()
		if b, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the server's log:\n%s", b[max(0, len(b)-8000):])
		}
	})
	s.await(t)
	for name, make := range Models() {
		if len(models) == 0 || contains(models, name) {
			s.Create(t, name, make())
		}
	}
	return s
}

// Models are the models by name, to be made.
func Models() map[string]func() []byte {
	return map[string]func() []byte{
		"tiny-chain":  func() []byte { return chain(false) },
		"tiny-loop":   func() []byte { return chain(true) },
		"tiny-bert":   func() []byte { return bert(1) },
		"tiny-other":  func() []byte { return bert(2) },
		"tiny-vision": vision,
	}
}

// Bert is the embedder with the weights of another seed.
func Bert(seed int64) []byte { return bert(seed) }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// await waits until the server answers.
func (s *Server) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if r, err := http.Get(s.URL + "/api/version"); err == nil {
			_ = r.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("ollama did not start")
		case <-tick.C:
		}
	}
}

// Create gives the server a model under a name, in place of an earlier one.
func (s *Server) Create(t testing.TB, name string, gguf []byte) {
	t.Helper()
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(gguf))
	s.post(t, "/api/blobs/"+digest, gguf)
	body, err := json.Marshal(map[string]any{
		"model": name, "files": map[string]string{name + ".gguf": digest}, "stream": false,
		"template":   "{{ if .System }}{{ .System }} {{ end }}{{ .Prompt }}",
		"parameters": map[string]any{"temperature": 0, "num_thread": 1, "num_ctx": 512},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, "/api/create", body)
}

func (s *Server) post(t testing.TB, path string, body []byte) {
	t.Helper()
	r, err := http.Post(s.URL+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if b, err := io.ReadAll(r.Body); err != nil || r.StatusCode/100 != 2 {
		t.Fatalf("POST %s: %d %s, %v", path, r.StatusCode, b, err)
	}
}

// Loads tells how often the server has loaded a model.
func (s *Server) Loads(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("llama runner started"))
}

// KillRunners kills the processes that run the server's models, and tells how many.
func (s *Server) KillRunners(t testing.TB) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(s.cmd.Process.Pid)).Output()
	if err != nil {
		return 0
	}
	n := 0
	for _, f := range bytes.Fields(out) {
		var pid int
		if _, err := fmt.Sscan(string(f), &pid); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}
