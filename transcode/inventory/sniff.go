package inventory

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

// Extensions that make a file a candidate, lower-case.
var mediaExt = set("3g2 3gp aac ac3 aif aiff amr ape asf au avi caf dff divx dsf dts dv dvr-ms eac3 f4v flac flv " +
	"gxf m1v m2p m2t m2ts m2v m4a m4b m4v mk3d mka mkv mod mov mp2 mp3 mp4 mpe mpeg mpg mpga mts mxf nut oga ogg ogm ogv opus " +
	"qt ra rm rmvb spx tak tod ts tta vob w64 wav weba webm wma wmv wtv wv")

// Extensions that other programs use as well: source code, modules, device files.
// With foreign content such a file is not a broken film but no film.
var sharedExt = set("au dv mod mts tod ts")

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

func ext(p Path) string {
	return strings.ToLower(strings.TrimPrefix(path.Ext(strings.TrimRight(string(p), " ")), "."))
}

// headBytes are read of a file to recognise it; enough for five packets of a
// transport stream and for a text to show itself.
const headBytes = 4096

// sniff looks at the first bytes of f and returns a *MediaError unless they are
// those of a container that the format whitelist allows.
func sniff(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, bare(err))
	}
	head := make([]byte, min(headBytes, fi.Size()))
	// The size may shrink between the two calls; what is missing stays zero and
	// is no container.
	if _, err := f.ReadAt(head, 0); err != nil && len(head) > 0 && !isEOF(err) {
		return fmt.Errorf("%w: %w", ErrUnreadable, bare(err))
	}
	if why := judgeHead(head); why != "" {
		return &MediaError{Reason: why}
	}
	return nil
}

// judgeHead returns why a file that begins with head is not media, or "".
func judgeHead(head []byte) string {
	switch {
	case len(head) == 0:
		return "empty file"
	case isContainer(head):
		return ""
	case len(head) < 16:
		return fmt.Sprintf("too short to be media: %d bytes", len(head))
	case isPlaylist(head):
		return "is a playlist, not a film"
	case isText(head):
		return "is text, not media"
	case len(bytes.Trim(head, "\x00")) == 0:
		return "begins with zeros only: not a media file, or not written yet"
	}
	return "not a media file: unknown first bytes"
}

var magic = []struct {
	at   int
	want string
}{
	{0, "\x1aE\xdf\xa3"},                                 // Matroska, WebM
	{0, "OggS"}, {0, "fLaC"}, {0, "ID3"}, {0, "FLV\x01"}, //
	{0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11"},          // ASF
	{0, "\x00\x00\x01\xba"}, {0, "\x00\x00\x01\xb3"}, // MPEG program, video
	{0, "#!AMR"}, {0, "caff"}, {0, ".snd"}, {0, "DSD "}, //
	{0, "MAC "}, {0, "wvpk"}, {0, "TTA1"}, {0, "tBaK"}, // lossless sound
	{0, ".RMF"}, {0, ".ra\xfd"}, {0, "nut/multimedia"}, //
	{0, "\x7f\xfe\x80\x01"}, {0, "\x0bw"}, // DTS, AC-3
	{0, "\x06\x0e+4\x02\x05\x01\x01"}, {0, "\x1f\x07\x00"}, // MXF, DV
	{0, "\xb7\xd8\x00\x20\x37\x49\xda\x11"},                  // WTV
	{0, "riff\x2e\x91\xcf\x11"}, {0, "\x00\x00\x00\x00\x01"}, // Wave64, GXF
}

func isContainer(head []byte) bool {
	for _, m := range magic {
		if len(head) >= 16 && bytes.HasPrefix(head[m.at:], []byte(m.want)) {
			return true
		}
	}
	return isBoxes(head) || isRIFF(head) || isTransport(head) || isFrames(head)
}

// isBoxes: ISO base media and QuickTime begin with a box of a known type.
func isBoxes(head []byte) bool {
	if len(head) < 8 {
		return false
	}
	switch string(head[4:8]) {
	case "ftyp", "moov", "mdat", "free", "skip", "wide", "pnot", "uuid", "styp", "moof", "sidx":
		return head[0] < 0x20 // a size; text in these four bytes would be letters
	}
	return false
}

func isRIFF(head []byte) bool {
	if len(head) < 12 {
		return false
	}
	switch string(head[:4]) + string(head[8:12]) {
	case "RIFFAVI ", "RIFFAVIX", "RIFFWAVE", "RF64WAVE", "BW64WAVE", "FORMAIFF", "FORMAIFC":
		return true
	}
	return false
}

// isTransport: MPEG transport packets have a sync byte every 188 bytes, or 192 on
// cameras and discs, or 204 from receivers; a recording may begin inside a packet.
func isTransport(head []byte) bool {
	for _, size := range []int{188, 192, 204} {
		for start := range size {
			n, at := 0, start
			for at < len(head) && head[at] == 0x47 {
				n, at = n+1, at+size
			}
			if at >= len(head) && n >= 3 {
				return true
			}
		}
	}
	return false
}

// isFrames: bare MPEG audio and AAC frames, which some recorders pad in front.
func isFrames(head []byte) bool {
	h := bytes.TrimLeft(head, "\x00")
	if len(h) < 4 || h[0] != 0xff || h[1]&0xe0 != 0xe0 {
		return false
	}
	if h[1]&0xf6 == 0xf0 { // ADTS
		return h[2]>>2&0xf < 13
	}
	version, layer := h[1]>>3&3, h[1]>>1&3
	// Layer I is extinct, and its frames look like the mark of UTF-16 text.
	return version != 1 && (layer == 1 || layer == 2) && h[2]>>4 != 15 && h[2]>>2&3 != 3
}

// isPlaylist: text that makes a player open other files.
func isPlaylist(head []byte) bool {
	s := strings.ToLower(strings.TrimLeft(strings.TrimPrefix(string(head), "\ufeff"), " \t\r\n"))
	for _, p := range []string{"#extm3u", "ffconcat", "file ", "<?xml", "<mpd", "<smil", "<asx", "<html", "<!doctype",
		"[playlist]", "[reference]", "v=0", "#ext", "http://", "https://", "rtsp://", "rtmp://"} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func isText(head []byte) bool {
	s := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	if len(s) == headBytes { // the cut may have split a character
		for i := 0; i < 3 && !utf8.Valid(s); i++ {
			s = s[:len(s)-1]
		}
	}
	for _, r := range string(s) {
		if r < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", r) {
			return false
		}
	}
	return utf8.Valid(s)
}
