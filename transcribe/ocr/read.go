package ocr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"macbatch/transcode/child"
)

// stall is how long a program may be silent over one page.
const stall = 5 * time.Minute

// Page is a page and its text.
type Page struct {
	Number int    `json:"page"` // from 1
	Text   string `json:"text"` // "" for a blank one
}

// Request asks for the text of a document.
type Request struct {
	Document []byte
	Language string                                                  // as tesseract names it; "": the default
	Dir      string                                                  // scratch folder
	Progress func(pages int)                                         // may be nil
	Reader   func(ctx context.Context, image []byte) (string, error) // reads a page instead of tesseract; nil: tesseract
}

// Read returns a document's pages in order.
//
// Errors: ErrDocument, ErrLanguage, ErrNotFound, those of child.Run and of Reader.
func (t *Tools) Read(ctx context.Context, r Request) ([]Page, error) {
	read := r.Reader
	if read == nil {
		if t.Tesseract == "" {
			return nil, fmt.Errorf("tesseract: %w", ErrNotFound)
		}
		language, err := t.language(r.Language)
		if err != nil {
			return nil, err
		}
		read = func(ctx context.Context, img []byte) (string, error) { return t.tesseract(ctx, r.Dir, language, img) }
	}
	switch Sniff(r.Document) {
	case PDF:
		return t.pdf(ctx, r, read)
	case PNG, JPEG, GIF, TIFF, BMP, WebP:
		if err := CheckImage(r.Document); err != nil {
			return nil, err
		}
		text, err := read(ctx, r.Document)
		if err != nil {
			return nil, err
		}
		return []Page{{1, text}}, nil
	}
	return nil, fmt.Errorf("%w: neither an image nor a PDF file", ErrDocument)
}

// tesseract reads one image.
func (t *Tools) tesseract(ctx context.Context, dir, language string, img []byte) (string, error) {
	file := filepath.Join(dir, "page."+string(Sniff(img)))
	if err := os.WriteFile(file, img, 0o600); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file) }() // the folder goes too
	out := &bounded{max: 16 << 20}
	_, err := child.Run(ctx, child.Command{
		Path: t.Tesseract, Args: []string{file, "stdout", "-l", language, "--psm", "3"}, Dir: dir,
		Env: []string{"OMP_THREAD_LIMIT=1"}, Out: out, Stall: stall, Low: true,
	})
	var exit *child.ExitError
	if errors.As(err, &exit) && strings.HasPrefix(exit.Status, "exit status") {
		return "", fmt.Errorf("%w: %w", ErrDocument, err) // a signal is no word on the page
	}
	if err != nil {
		return "", err
	}
	return clean(out.String()), nil
}

var (
	pageCount = regexp.MustCompile(`(?m)^Pages:\s+(\d+)$`)
	pageSize  = regexp.MustCompile(`(?m)^Page\s+\d+ size:\s+([0-9.]+) x ([0-9.]+) pts`)
)

// pdf reads a PDF file page by page.
func (t *Tools) pdf(ctx context.Context, r Request, read func(context.Context, []byte) (string, error)) ([]Page, error) {
	if t.PDFToPPM == "" {
		return nil, fmt.Errorf("pdftoppm: %w", ErrNotFound)
	}
	file := filepath.Join(r.Dir, "document.pdf")
	if err := os.WriteFile(file, r.Document, 0o600); err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file) }()
	info, err := t.info(ctx, r.Dir, file)
	if err != nil {
		return nil, err
	}
	m := pageCount.FindStringSubmatch(info)
	if m == nil {
		return nil, fmt.Errorf("%w: a PDF file that does not say how many pages it has", ErrDocument)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n < 1 || n > MaxPages {
		return nil, fmt.Errorf("%w: a PDF file of %s pages, must be 1 to %d", ErrDocument, m[1], MaxPages)
	}
	var pages []Page
	for i := 1; i <= n; i++ {
		img, err := t.render(ctx, r.Dir, file, i)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", i, err)
		}
		text, err := read(ctx, img)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", i, err)
		}
		if pages = append(pages, Page{i, text}); r.Progress != nil {
			r.Progress(i)
		}
	}
	return pages, nil
}

func (t *Tools) info(ctx context.Context, dir, file string, args ...string) (string, error) {
	out := &bounded{max: 1 << 20}
	_, err := child.Run(ctx, child.Command{Path: t.PDFInfo, Args: append(args, file), Dir: dir, Out: out, Stall: stall, Low: true})
	return out.String(), broken(err)
}

// The resolution pages are rendered at, in dots per inch; a large page gets less.
const (
	sharp, blurred = 200.0, 40.0
	renderPixels   = 40 << 20
)

// render makes an image of one page.
func (t *Tools) render(ctx context.Context, dir, file string, page int) ([]byte, error) {
	n := strconv.Itoa(page)
	info, err := t.info(ctx, dir, file, "-f", n, "-l", n)
	if err != nil {
		return nil, err
	}
	m := pageSize.FindStringSubmatch(info)
	if m == nil {
		return nil, fmt.Errorf("%w: it has no size", ErrDocument)
	}
	w, err1 := strconv.ParseFloat(m[1], 64)
	h, err2 := strconv.ParseFloat(m[2], 64)
	if err := errors.Join(err1, err2); err != nil || w < 1 || h < 1 {
		return nil, fmt.Errorf("%w: a size of %s by %s points", ErrDocument, m[1], m[2])
	}
	dpi := math.Min(sharp, 72*math.Sqrt(renderPixels/(w*h)))
	if dpi < blurred {
		return nil, fmt.Errorf("%w: %s by %s points are too large a page", ErrDocument, m[1], m[2])
	}
	out := &bytes.Buffer{}
	_, err = child.Run(ctx, child.Command{
		Path: t.PDFToPPM, Args: []string{"-r", strconv.Itoa(int(dpi)), "-f", n, "-l", n, "-png", "-gray", "-singlefile", file},
		Dir: dir, Out: &bounded{buf: out, max: 256 << 20}, Stall: stall, Low: true,
	})
	if err := broken(err); err != nil {
		return nil, err
	}
	if Sniff(out.Bytes()) != PNG {
		return nil, fmt.Errorf("%w: no image came of it", ErrDocument)
	}
	return out.Bytes(), CheckImage(out.Bytes())
}

// broken tells a program that gave up on a document from one that was ended.
func broken(err error) error {
	var exit *child.ExitError
	if errors.As(err, &exit) && strings.HasPrefix(exit.Status, "exit status") {
		return fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return err
}

// bounded keeps what fits and fails on the rest.
type bounded struct {
	buf *bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf == nil {
		b.buf = &bytes.Buffer{}
	}
	if b.buf.Len()+len(p) > b.max {
		return 0, fmt.Errorf("output over %d bytes", b.max)
	}
	return b.buf.Write(p)
}

func (b *bounded) String() string {
	if b.buf == nil {
		return ""
	}
	return b.buf.String()
}

// clean makes a program's text a text: valid UTF-8 and without the form feeds
// that end its pages.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\f':
			return '\n'
		case r < ' ' && r != '\n' && r != '\t', r == 0x7f:
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}
