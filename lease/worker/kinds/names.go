package kinds

import "strings"

// Names lists the programs and engines, with their versions where they tell.
func (t *Tools) Names() (names []string) {
	if t.FFmpeg != "" {
		version := strings.TrimPrefix(strings.TrimSpace(t.FFmpegVersion), "ffmpeg ")
		names = append(names, strings.TrimSpace("ffmpeg "+version))
	}
	for _, tr := range t.Transcribers {
		name := tr.Name
		if tr.Paid {
			name += " (paid)"
		}
		names = append(names, name)
	}
	for _, s := range t.Servers {
		names = append(names, s.Tier+" ("+s.Engine+")")
	}
	if t.OCR != nil {
		names = append(names, strings.TrimSpace("tesseract "+strings.TrimPrefix(t.OCR.Version, "tesseract ")))
	}
	return names
}
