package inventory

import (
	"os"
	"path/filepath"
	"testing"
)

// Proxies in an output folder among the films are no films; what only looks like one
// is, and so is what another file took the place of.
func TestOwnOutputs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.mp4": "film", "a.proxy.mp4": "mine", "out/sub/a.proxy.mp4": "small", "out/sub/b.proxy.mp4": "replaced by a film", "out/c.proxy.mp4": "coming",
		"out/manifest.jsonl":    `{"source":{"root":"r","path":"sub/a.mp4"},"outputs":[{"path":"sub/a.proxy.mp4","bytes":5},{"path":"sub/b.proxy.mp4","bytes":5}]}` + "\n" + `{"outputs":[{"path":"../a.proxy.mp4","bytes":4}]}` + "\nno JSON .proxy.mp4\n",
		"out/.macbatch/journal": "\n" + `{"path":"c.proxy.mp4","sha256":"x"}` + "\n", "xmanifest.jsonl": `{"outputs":[{"path":"a.proxy.mp4","bytes":4}]}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := walk{ctx: t.Context(), root: r}
	if err := w.from(""); err != nil {
		t.Fatal(err)
	}
	var left, own []Path
	for _, c := range w.candidates {
		left = append(left, c.path)
	}
	for _, s := range w.skipped {
		if s.Reason == OwnOutput {
			own = append(own, s.Path)
		}
	}
	want := []Path{"a.mp4", "a.proxy.mp4", "out/sub/b.proxy.mp4"}
	if len(left) != 3 || left[0] != want[0] || left[1] != want[1] || left[2] != want[2] || len(own) != 2 {
		t.Errorf("candidates %q, own outputs %q, want candidates %q", left, own, want)
	}
}
