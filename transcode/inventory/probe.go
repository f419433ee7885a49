package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"macbatch/transcode/child"
)

// Media is what ffprobe says of one file.
type Media struct {
	Container  string       `json:"container"`        // ffprobe's name of the format, "matroska,webm"
	DurationMS int64        `json:"duration_ms"`      // as declared, else the longest track's; 0: not known
	Video      bool         `json:"video"`            // has a moving picture; cover art is none
	Picture    Picture      `json:"picture,omitzero"` // the first moving one
	Tracks     []AudioTrack `json:"tracks"`           // in file order
}

// Picture is one video stream, as it is stored: a player may turn it.
type Picture struct {
	Codec  string `json:"codec"` // "" when ffmpeg doesn't know it
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

// AudioTrack is one audio stream.
type AudioTrack struct {
	Index      int    `json:"index"` // the n-th audio stream, from 0
	Codec      string `json:"codec"` // "" when ffmpeg doesn't know it
	Language   string `json:"language,omitempty"`
	Title      string `json:"title,omitempty"`
	Default    bool   `json:"default,omitempty"`
	Comment    bool   `json:"comment,omitempty"` // commentary, or for the hard of seeing or hearing
	Channels   int    `json:"channels"`
	SampleRate int    `json:"sample_rate"`
	StartMS    int64  `json:"start_ms"`              // on the film's time line
	DurationMS int64  `json:"duration_ms,omitempty"` // as the container declares it; 0: it doesn't
}

// A MediaError says why a file is not usable as media. It is permanent: the same
// bytes give the same answer.
type MediaError struct{ Reason string }

func (e *MediaError) Error() string { return e.Reason }

// ErrUnreadable is returned when reading failed for a reason outside the file:
// the disk, the network, permissions. Another attempt may fare better.
var ErrUnreadable = errors.New("can't be read")

// Whitelist are the arguments that keep ffmpeg and ffprobe to real containers in
// local files: no playlist, no image sequence, nothing that names other files.
// They belong before -i.
func Whitelist() []string {
	return []string{"-protocol_whitelist", "file,pipe", "-format_whitelist", demuxers}
}

const demuxers = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,asf,flv,mpeg,mpegvideo,mpegts,mxf,gxf,dv,nut,rm,wtv,ogg," +
	"wav,w64,aiff,caf,au,flac,mp3,aac,ac3,eac3,dts,dtshd,amr,ape,wv,tta,tak,mpc,mpc8,dsf"

// Analysis are the arguments by which both programs look far enough into a
// recording to find every stream, so that both number them alike.
func Analysis() []string { return []string{"-analyzeduration", "20M", "-probesize", "20M"} }

const (
	probeDeadline = 30 * time.Second
	maxAnswer     = 4 << 20
)

var errNoAnswer = fmt.Errorf("%w: ffprobe gave no answer within %v", ErrUnreadable, probeDeadline)

// Probe checks the first bytes of f and then asks the program ffprobe, an
// absolute path, about the rest.
//
// Errors: *MediaError for the file's faults, ErrUnreadable for those around it.
func Probe(ctx context.Context, ffprobe string, f *os.File) (Media, error) {
	if err := sniff(f); err != nil {
		return Media{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeDeadline, errNoAnswer)
	defer cancel()
	name, files := Input(f)
	out := &capped{max: maxAnswer}
	stderr, err := child.Run(ctx, child.Command{Path: ffprobe, Args: probeArgs(name), Files: files, Out: out})
	if err != nil {
		return Media{}, Verdict(stderr, err)
	}
	if out.over {
		return Media{}, &MediaError{Reason: "describes itself at absurd length"}
	}
	return parseProbe(out.Bytes())
}

func probeArgs(name string) []string {
	args := append([]string{"-v", "error", "-hide_banner"}, Whitelist()...)
	args = append(args, Analysis()...)
	return append(args, "-of", "json", "-show_entries",
		"format=format_name,duration,start_time"+
			":stream=codec_type,codec_name,duration,start_time,channels,sample_rate,width,height"+
			":stream_tags:stream_disposition", "-i", name)
}

// Verdict turns the end of ffmpeg or ffprobe on one file into a *MediaError, if
// the program itself refused the file, else leaves err or calls it unreadable.
func Verdict(stderr string, err error) error {
	var exit *child.ExitError
	if !errors.As(err, &exit) || died(err) {
		return err
	}
	for _, s := range []string{"Unrecognized option", "Option not found", "Failed to set value"} {
		if strings.Contains(stderr, s) {
			return err // the program is too old or another one, whatever the file
		}
	}
	for _, s := range []string{"Input/output error", "Permission denied", "Stale file handle", "Operation not permitted",
		"No such file", "No space left", "Cannot allocate memory", "Too many open files", "timed out", "not connected"} {
		if strings.Contains(stderr, s) {
			return fmt.Errorf("%w: %s", ErrUnreadable, s)
		}
	}
	return &MediaError{Reason: complaint(stderr, exit.Status)}
}

var speaker = regexp.MustCompile(`^(\[[^\]]* @ 0x[0-9a-f]+\] *)+|^file:[^ ]*: `)

// Complaints returns the lines of stderr that say something, without the
// addresses and names that differ from run to run, each once, at most n.
func Complaints(stderr string, n int) []string {
	var lines []string
	seen := map[string]bool{}
	for l := range strings.FieldsFuncSeq(stderr, func(r rune) bool { return r == '\n' || r == '\r' }) {
		l = strings.TrimSpace(speaker.ReplaceAllString(strings.TrimSpace(l), ""))
		if l == "" || seen[l] || strings.HasPrefix(l, "Last message repeated") {
			continue
		}
		if len(lines) == n {
			break
		}
		seen[l] = true
		lines = append(lines, clip(l, 200))
	}
	return lines
}

// complaint picks the line that tells most: the last but for the general verdict.
func complaint(stderr, otherwise string) string {
	general := ""
	lines := Complaints(stderr, 50)
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.HasPrefix(lines[i], "Invalid data found") {
			return lines[i]
		}
		general = lines[i]
	}
	if general == "" {
		return otherwise
	}
	return general
}

// clip makes s valid UTF-8 of at most n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

type answer struct {
	Format struct {
		Name     string `json:"format_name"`
		Duration string `json:"duration"`
		Start    string `json:"start_time"`
	} `json:"format"`
	Streams []struct {
		Type        string            `json:"codec_type"`
		Codec       string            `json:"codec_name"`
		Duration    string            `json:"duration"`
		Start       string            `json:"start_time"`
		Channels    int               `json:"channels"`
		SampleRate  string            `json:"sample_rate"`
		Width       int               `json:"width"`
		Height      int               `json:"height"`
		Tags        map[string]string `json:"tags"`
		Disposition map[string]int    `json:"disposition"`
	} `json:"streams"`
}

func parseProbe(b []byte) (Media, error) {
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		return Media{}, fmt.Errorf("%w: ffprobe's answer: %w", ErrUnreadable, err)
	}
	m := Media{Container: clip(a.Format.Name, 100), Tracks: []AudioTrack{}}
	if m.Container == "" || len(a.Streams) == 0 {
		return Media{}, &MediaError{Reason: "holds no stream"}
	}
	start, _ := seconds(a.Format.Start)
	longest := int64(0)
	for _, s := range a.Streams {
		if s.Type == "video" && s.Disposition["attached_pic"] == 0 {
			if !m.Video {
				m.Picture = Picture{Codec: known(s.Codec), Width: max(s.Width, 0), Height: max(s.Height, 0)}
			}
			m.Video = true
		}
		if s.Type != "audio" {
			continue
		}
		rate, _ := strconv.Atoi(s.SampleRate)
		t := AudioTrack{Index: len(m.Tracks), Codec: known(s.Codec), Channels: max(s.Channels, 0), SampleRate: max(rate, 0),
			Default: s.Disposition["default"] == 1}
		for _, d := range []string{"comment", "visual_impaired", "hearing_impaired", "descriptions"} {
			t.Comment = t.Comment || s.Disposition[d] == 1
		}
		if at, ok := seconds(s.Start); ok {
			t.StartMS = max(at-start, 0)
		}
		if d, ok := seconds(s.Duration); ok {
			t.DurationMS = max(d, 0)
		}
		for k, v := range s.Tags {
			switch strings.ToLower(k) {
			case "language":
				t.Language = clip(v, 35)
			case "title":
				t.Title = clip(v, 200)
			case "duration":
				// Matroska's tag is the track's end for some writers and its
				// length for others: the smaller of the two can't be wrong.
				if end, ok := clock(v); ok && t.DurationMS == 0 {
					t.DurationMS = max(end-t.StartMS, 0)
				}
			}
		}
		longest = max(longest, t.StartMS+t.DurationMS)
		m.Tracks = append(m.Tracks, t)
	}
	if d, ok := seconds(a.Format.Duration); ok && d > 0 {
		m.DurationMS = d
	} else {
		m.DurationMS = longest
	}
	m.DurationMS = max(m.DurationMS, 0)
	return m, nil
}

// known is the name of a codec, or "" for one that ffmpeg doesn't know.
func known(codec string) string {
	if codec == "unknown" || codec == "none" {
		return ""
	}
	return clip(codec, 50)
}

// maxSeconds is ten years: beyond it a header lies.
const maxSeconds = 10 * 366 * 86400

// seconds reads ffprobe's decimal seconds as milliseconds.
func seconds(s string) (int64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > maxSeconds {
		return 0, false
	}
	return int64(math.Round(v * 1000)), true
}

// clock reads "01:02:03.004000000" as milliseconds.
func clock(s string) (int64, bool) {
	hms := strings.Split(s, ":")
	if len(hms) != 3 {
		return 0, false
	}
	h, err1 := strconv.ParseUint(hms[0], 10, 16)
	m, err2 := strconv.ParseUint(hms[1], 10, 8)
	sec, ok := seconds(hms[2])
	if err1 != nil || err2 != nil || !ok || sec < 0 {
		return 0, false
	}
	return int64(h)*3600_000 + int64(m)*60_000 + sec, true
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// capped keeps the first max bytes written to it and notes whether there were more.
type capped struct {
	bytes.Buffer
	max  int
	over bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.max - c.Len()
	if len(p) > room {
		c.over = true
		c.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return c.Buffer.Write(p)
}
