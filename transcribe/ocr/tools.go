package ocr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"macbatch/transcode/child"
)

// ErrNotFound is returned when a program isn't installed.
var ErrNotFound = errors.New("not found (install it: apt install tesseract-ocr poppler-utils, or brew install tesseract poppler)")

// ErrLanguage is returned for a language whose data isn't installed here.
var ErrLanguage = errors.New("language not installed")

// Tools are the programs. PDF files need all three.
type Tools struct {
	Tesseract string // absolute paths; "" for what is not there
	PDFToPPM  string
	PDFInfo   string
	Version   string   // tesseract's, as it calls itself
	Languages []string // that tesseract has data for
}

// Find looks for the programs. Without any there is an error.
func Find(ctx context.Context) (*Tools, error) {
	t := &Tools{Tesseract: find("tesseract"), PDFToPPM: find("pdftoppm"), PDFInfo: find("pdfinfo")}
	if t.PDFInfo == "" {
		t.PDFToPPM = "" // of no use without the other
	}
	if t.Tesseract == "" && t.PDFToPPM == "" {
		return nil, fmt.Errorf("tesseract: %w", ErrNotFound)
	}
	if t.Tesseract == "" {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var version, langs bytes.Buffer
	if _, err := child.Run(ctx, child.Command{Path: t.Tesseract, Args: []string{"--version"}, Out: &version, Err: &version}); err != nil {
		return nil, fmt.Errorf("try %q: %w", t.Tesseract, err)
	}
	t.Version, _, _ = strings.Cut(version.String(), "\n")
	if _, err := child.Run(ctx, child.Command{Path: t.Tesseract, Args: []string{"--list-langs"}, Out: &langs, Err: &langs}); err != nil {
		return nil, fmt.Errorf("try %q: %w", t.Tesseract, err)
	}
	for _, l := range strings.Split(langs.String(), "\n")[1:] { // the first line is a heading
		if l = strings.TrimSpace(l); l != "" && l != "osd" {
			t.Languages = append(t.Languages, l)
		}
	}
	return t, nil
}

func find(name string) string {
	p, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	if p, err = filepath.Abs(p); err != nil {
		return ""
	}
	return p
}

// language checks what was asked for ("": English, or else the first there is):
// names as tesseract lists them, joined by "+".
func (t *Tools) language(asked string) (string, error) {
	if asked == "" {
		if slices.Contains(t.Languages, "eng") || len(t.Languages) == 0 {
			return "eng", nil
		}
		return t.Languages[0], nil
	}
	for _, l := range strings.Split(asked, "+") {
		if !slices.Contains(t.Languages, l) {
			return "", fmt.Errorf("%w: %.100q", ErrLanguage, l)
		}
	}
	return asked, nil
}
