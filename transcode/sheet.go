package transcode

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"

	"macbatch/transcode/child"
	"macbatch/transcode/inventory"
)

// The shape of a contact sheet.
const (
	sheetColumns = 5
	sheetRows    = 4
	stillWidth   = 320
	stillHeight  = 180
	stillGap     = 4
	stillBytes   = stillWidth * stillHeight * 3
)

// stillArgs are the arguments behind the film's name for one still, as samples of
// red, green and blue on standard output.
func stillArgs() []string {
	return []string{"-map", "0:V:0", "-frames:v", "1", "-an", "-sn", "-dn",
		"-vf", fmt.Sprintf("scale='trunc(iw*if(sar,sar,1)/2)*2':'trunc(ih/2)*2',setsar=1,scale=%d:%d:force_original_aspect_ratio=decrease,"+
			"pad=%d:%d:(ow-iw)/2:(oh-ih)/2,format=rgb24", stillWidth, stillHeight, stillWidth, stillHeight),
		"-f", "rawvideo", "pipe:1"}
}

// sheetSize is the pixels of a sheet.
func sheetSize() (width, height int) {
	return sheetColumns*(stillWidth+stillGap) + stillGap, sheetRows*(stillHeight+stillGap) + stillGap
}

// sheet sets stills from all over the film, at equal distances, in rows. It asks
// for each by its time: nothing else of the film is decoded.
func (j *job) sheet(ctx context.Context) error {
	const n = sheetColumns * sheetRows
	width, height := sheetSize()
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = 0x20
		if i%4 == 3 {
			img.Pix[i] = 0xff
		}
	}
	missing := 0
	for i := range n {
		at := j.media.DurationMS * int64(2*i+1) / (2 * n)
		b, err := j.still(ctx, at)
		if err != nil {
			return err
		}
		if b == nil {
			missing++
			at = -1
		} else {
			draw(img, stillGap+i%sheetColumns*(stillWidth+stillGap), stillGap+i/sheetColumns*(stillHeight+stillGap), b)
		}
		j.res.StillsMS = append(j.res.StillsMS, at)
		if j.Progress != nil {
			j.Progress(j.media.DurationMS * int64(i+1) / n)
		}
	}
	switch {
	case missing == n:
		return &MediaError{Reason: "no picture could be decoded"}
	case j.res.StillsMS[n-1] < 0 && missing > n/4:
		return &MediaError{Reason: fmt.Sprintf("cut off: %d of %d stills are missing, %s declared", missing, n, seconds(j.media.DurationMS))}
	case missing > 0:
		j.res.Warnings = []string{fmt.Sprintf("%d of %d stills are missing", missing, n)}
	}
	j.res.DurationMS, j.res.Width, j.res.Height = j.media.DurationMS, img.Rect.Dx(), img.Rect.Dy()
	j.res.File = filepath.Join(j.Dir, "sheet.jpg")
	if err := save(j.res.File, img); err != nil {
		return fmt.Errorf("write sheet: %w", err)
	}
	return j.measure()
}

// still is the picture at a time, or nil where there is none.
func (j *job) still(ctx context.Context, atMS int64) ([]byte, error) {
	args, files := j.input("error", "-ss", fmt.Sprintf("%d.%03d", atMS/1000, atMS%1000))
	out := &exactly{max: stillBytes}
	stderr, err := child.Run(ctx, child.Command{Path: j.FFmpeg, Args: append(args, stillArgs()...), Files: files, Out: out, Stall: stallLimit})
	if err != nil {
		err = inventory.Verdict(stderr, err)
		if _, bad := errors.AsType[*MediaError](err); bad {
			return nil, nil // this one; what is wrong with all shows in their number
		}
		return nil, err
	}
	if len(out.b) < stillBytes {
		return nil, nil
	}
	return out.b, nil
}

// exactly keeps the first max bytes.
type exactly struct {
	b   []byte
	max int
}

func (e *exactly) Write(p []byte) (int, error) {
	e.b = append(e.b, p[:min(len(p), e.max-len(e.b))]...)
	return len(p), nil
}

func draw(img *image.RGBA, x, y int, b []byte) {
	for i := 0; i < stillBytes; i += 3 {
		img.SetRGBA(x+i/3%stillWidth, y+i/3/stillWidth, color.RGBA{b[i], b[i+1], b[i+2], 0xff})
	}
}

// save writes a file, whole or not at all.
func save(name string, img image.Image) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = jpeg.Encode(f, img, &jpeg.Options{Quality: 82})
	return errors.Join(err, f.Close())
}
