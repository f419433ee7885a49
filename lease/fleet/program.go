package fleet

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Programs finds the program for each kind of machine.
type Programs struct {
	Own    string // this program, and what it is for: "linux/amd64"
	OwnFor string
	Folder string // where those for others are: macbatch-darwin-arm64 and so on; "" for none

	mu    sync.Mutex
	known map[string]found
}

// found is a program that was looked for.
type found struct {
	file, digest string
	err          error
}

// platforms are Go's names for what uname -sm prints.
var platforms = map[string]string{
	"Darwin arm64": "darwin/arm64", "Darwin x86_64": "darwin/amd64",
	"Linux x86_64": "linux/amd64", "Linux aarch64": "linux/arm64", "Linux arm64": "linux/arm64",
}

// For returns the program for a machine that calls itself system, as uname -sm does,
// and its SHA-256.
func (p *Programs) For(system string) (file, digest string, err error) {
	platform, ok := platforms[system]
	if !ok {
		return "", "", fmt.Errorf("there is no macbatch for %q", system)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.known[platform]
	if !ok {
		if p.known == nil {
			p.known = map[string]found{}
		}
		f.file, f.err = p.find(platform)
		if f.err == nil {
			f.digest, f.err = digestOf(f.file)
		}
		p.known[platform] = f
	}
	return f.file, f.digest, f.err
}

func (p *Programs) find(platform string) (string, error) {
	if platform == p.OwnFor {
		return p.Own, nil
	}
	system, arch, _ := strings.Cut(platform, "/")
	name := "macbatch-" + system + "-" + arch
	build := fmt.Sprintf("CGO_ENABLED=0 GOOS=%s GOARCH=%s go build -trimpath -o %s ./cmd/macbatch", system, arch, name)
	if p.Folder == "" {
		return "", fmt.Errorf("a program for %s is needed: %s, and name its folder with --programs", platform, build)
	}
	file := filepath.Join(p.Folder, name)
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("program for %s: %w; make it: %s", platform, err, build)
	}
	for _, s := range info.Settings {
		if s.Key == "GOOS" && s.Value != system || s.Key == "GOARCH" && s.Value != arch {
			return "", fmt.Errorf("program %q is for %s %s, not for %s", file, s.Key, s.Value, platform)
		}
	}
	if info.Path != "macbatch/cmd/macbatch" {
		return "", fmt.Errorf("program %q is %s, not macbatch", file, info.Path)
	}
	return file, nil
}

func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %q: %w", file, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
