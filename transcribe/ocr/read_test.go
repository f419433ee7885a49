package ocr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"slices"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/tiff"

	"macbatch/transcribe/ocr"
)

func tools(t *testing.T) *ocr.Tools {
	t.Helper()
	found, err := ocr.Find(t.Context())
	if err != nil || found.Tesseract == "" || found.PDFToPPM == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("tesseract and pdftoppm are needed: %+v, %v", found, err)
		}
		t.Skipf("tesseract and pdftoppm are needed: %+v, %v", found, err)
	}
	return found
}

// page draws text as a scanner would see it.
func page(t *testing.T, text string) *image.Gray {
	t.Helper()
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: 48, DPI: 72})
	if err != nil {
		t.Fatal(err)
	}
	img := image.NewGray(image.Rect(0, 0, 900, 160))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: img, Src: image.NewUniform(color.Black), Face: face, Dot: fixed.P(40, 90)}
	d.DrawString(text)
	return img
}

func encoded(t *testing.T, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pdf makes a file with one picture a page.
func pdf(t *testing.T, w, h int, pages ...*image.Gray) []byte {
	t.Helper()
	var b bytes.Buffer
	var at []int
	object := func(body string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), body)
	}
	b.WriteString("%PDF-1.4\n")
	object("<</Type/Catalog/Pages 2 0 R>>")
	kids := ""
	for i := range pages {
		kids += fmt.Sprintf(" %d 0 R", 3+3*i)
	}
	object(fmt.Sprintf("<</Type/Pages/Count %d/Kids[%s]>>", len(pages), kids))
	for i, p := range pages {
		object(fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 %d %d]/Resources<</XObject<</I %d 0 R>>>>/Contents %d 0 R>>", w, h, 4+3*i, 5+3*i))
		pic := encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, p, nil) })
		object(fmt.Sprintf("<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/DCTDecode/Length %d>>stream\n%s\nendstream",
			p.Bounds().Dx(), p.Bounds().Dy(), len(pic), pic))
		show := fmt.Sprintf("%d 0 0 %d 0 0 cm /I Do", w, h)
		object(fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(show), show))
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, a := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", a)
	}
	fmt.Fprintf(&b, "trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

func TestRead(t *testing.T) {
	tools := tools(t)
	const words = "The lighthouse keeper"
	p := page(t, words)
	blank := image.NewGray(image.Rect(0, 0, 300, 300))
	draw.Draw(blank, blank.Bounds(), image.White, image.Point{}, draw.Src)
	for name, c := range map[string]struct {
		document []byte
		want     []string
	}{
		"PNG":   {encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, p) }), []string{words}},
		"JPEG":  {encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, p, nil) }), []string{words}},
		"GIF":   {encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, p, nil) }), []string{words}},
		"TIFF":  {encoded(t, func(b *bytes.Buffer) error { return tiff.Encode(b, p, nil) }), []string{words}},
		"BMP":   {encoded(t, func(b *bytes.Buffer) error { return bmp.Encode(b, p) }), []string{words}},
		"blank": {encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, blank) }), []string{""}},
		"PDF":   {pdf(t, 450, 80, p, blank, page(t, "Second page")), []string{words, "", "Second page"}},
	} {
		dir := t.TempDir()
		pages, err := tools.Read(t.Context(), ocr.Request{Document: c.document, Dir: dir})
		var got []string
		for i, p := range pages {
			got = append(got, p.Text)
			if p.Number != i+1 {
				t.Errorf("%s: page %d is called %d", name, i+1, p.Number)
			}
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s = %q, %v, want %q", name, got, err, c.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s leaves %v, %v", name, left, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	tools := tools(t)
	secret := t.TempDir() + "/secret.png"
	good := encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, page(t, "Secret words")) })
	if err := os.WriteFile(secret, good, 0o600); err != nil {
		t.Fatal(err)
	}
	bomb := bytes.Clone(good)
	copy(bomb[16:], "\x00\x00\xff\xff\x00\x00\xff\xff") // 65535 pixels each way
	for name, document := range map[string][]byte{
		"a list of files":    []byte(secret + "\n"), // tesseract would read what it names
		"nothing":            nil,
		"text":               []byte("hello"),
		"a bomb":             bomb,
		"half a PNG header":  good[:20],
		"a PDF in name only": []byte("%PDF-1.4\nhello"),
		"a page of a mile":   pdf(t, 200000, 200000, page(t, "x")),
		"an empty PDF":       pdf(t, 10, 10),
	} {
		pages, err := tools.Read(t.Context(), ocr.Request{Document: document, Dir: t.TempDir()})
		if !errors.Is(err, ocr.ErrDocument) || len(pages) > 0 {
			t.Errorf("%s = %v, %v, want ErrDocument", name, pages, err)
		}
	}
	for _, l := range []string{"klingon", "eng+../../etc/passwd", "-c", "osd"} {
		if _, err := tools.Read(t.Context(), ocr.Request{Document: good, Language: l, Dir: t.TempDir()}); !errors.Is(err, ocr.ErrLanguage) {
			t.Errorf("language %q = %v, want ErrLanguage", l, err)
		}
	}
}

func TestAnotherReader(t *testing.T) {
	tools := tools(t)
	seen := 0
	pages, err := tools.Read(t.Context(), ocr.Request{
		Document: pdf(t, 450, 80, page(t, "a"), page(t, "b")), Dir: t.TempDir(),
		Reader: func(_ context.Context, img []byte) (string, error) {
			seen++
			return fmt.Sprint(ocr.Sniff(img), " ", seen), nil
		},
	})
	if err != nil || len(pages) != 2 || pages[1].Text != "png 2" {
		t.Errorf("Read = %v, %v", pages, err)
	}
	broken := errors.New("broken")
	if _, err := tools.Read(t.Context(), ocr.Request{
		Document: pdf(t, 450, 80, page(t, "a")), Dir: t.TempDir(), Reader: func(context.Context, []byte) (string, error) { return "", broken },
	}); !errors.Is(err, broken) {
		t.Errorf("Read by a broken reader = %v", err)
	}
}
