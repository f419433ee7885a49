package ocr

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // the formats that Size knows
	_ "image/jpeg"
	_ "image/png"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

// The limits of a document.
const (
	MaxPixels = 120 << 20 // of a page: A0 at 300 dots per inch
	MaxPages  = 1000
)

// ErrDocument is returned for bytes that are no document that can be read, here
// or anywhere.
var ErrDocument = errors.New("not a readable page")

// Format is what a document is.
type Format string

// The formats. The texts are the file name extensions that programs know them by.
const (
	PNG  Format = "png"
	JPEG Format = "jpg"
	GIF  Format = "gif"
	TIFF Format = "tif"
	BMP  Format = "bmp"
	WebP Format = "webp"
	PDF  Format = "pdf"
)

// Sniff says what a document is by its first bytes; "" for something else.
func Sniff(b []byte) Format {
	for _, f := range []struct {
		magic  string
		format Format
	}{
		{"\x89PNG\r\n\x1a\n", PNG}, {"\xff\xd8\xff", JPEG}, {"GIF87a", GIF}, {"GIF89a", GIF},
		{"II*\x00", TIFF}, {"MM\x00*", TIFF}, {"BM", BMP}, {"%PDF-", PDF},
	} {
		if bytes.HasPrefix(b, []byte(f.magic)) {
			return f.format
		}
	}
	if len(b) > 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" {
		return WebP
	}
	return ""
}

// CheckImage refuses an image that can't be read or has too many pixels.
func CheckImage(b []byte) error {
	c, _, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDocument, err)
	}
	if c.Width <= 0 || c.Height <= 0 || int64(c.Width)*int64(c.Height) > MaxPixels {
		return fmt.Errorf("%w: %d by %d pixels, over the limit of %d", ErrDocument, c.Width, c.Height, MaxPixels)
	}
	return nil
}
