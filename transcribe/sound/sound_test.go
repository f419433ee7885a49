package sound

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"macbatch/transcribe"
)

func samples(seconds float64, f func(t float64) float64) []int16 {
	out := make([]int16, int(seconds*Rate))
	for i := range out {
		out[i] = int16(f(float64(i) / Rate))
	}
	return out
}

func write(t *testing.T, parts ...[]int16) string {
	t.Helper()
	var pcm bytes.Buffer
	for _, p := range parts {
		if err := binary.Write(&pcm, binary.LittleEndian, p); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	b.WriteString("RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	for _, v := range []any{uint32(Rate), uint32(2 * Rate), uint16(2), uint16(16)} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("junk\x03\x00\x00\x00abc\x00data")
	if err := binary.Write(&b, binary.LittleEndian, uint32(pcm.Len())); err != nil {
		t.Fatal(err)
	}
	b.Write(pcm.Bytes())
	name := filepath.Join(t.TempDir(), "a.wav")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t *testing.T, parts ...[]int16) Profile {
	t.Helper()
	p, err := Open(write(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// babble is no speech, but changes as speech does: 120 ms of a buzz, 80 ms of a hiss.
func babble(seconds float64) []int16 {
	r := rand.New(rand.NewPCG(1, 2))
	return samples(seconds, func(t float64) float64 {
		if math.Mod(t, .2) < .12 {
			return 6000 * math.Sin(2*math.Pi*150*t)
		}
		return 700 * r.NormFloat64()
	})
}

func hum(seconds, level float64) []int16 {
	r := rand.New(rand.NewPCG(3, 4))
	return samples(seconds, func(float64) float64 { return level * r.NormFloat64() })
}

func melody(seconds float64) []int16 {
	return samples(seconds, func(t float64) float64 {
		f := []float64{220, 262, 330, 392, 294, 247}[int(t/.4)%6]
		return 8000 * math.Exp(-math.Mod(t, .4)*4) * (math.Sin(2*math.Pi*f*t) + .5*math.Sin(4*math.Pi*f*t))
	})
}

func TestNobodySpeaks(t *testing.T) {
	for name, s := range map[string][]int16{
		"nothing": nil, "half a frame": make([]int16, 80), "zeros": make([]int16, 40*Rate),
		"hiss": hum(40, 300), "loud hiss": hum(40, 6000), "melody": melody(40),
		"tone": samples(40, func(t float64) float64 { return 9000 * math.Sin(2*math.Pi*440*t) }),
	} {
		p := open(t, s)
		if u := p.Utterances(); len(u) != 0 || p.Speech() {
			t.Fatalf("%s: Utterances = %v, Speech = %v, want none", name, u, p.Speech())
		}
		if want := int64(len(s)) * 1000 / Rate; p.DurationMS != want {
			t.Fatalf("%s: DurationMS = %d, want %d", name, p.DurationMS, want)
		}
	}
}

func TestUtterancesKeepTimes(t *testing.T) {
	for _, level := range []float64{0, 5, 120} {
		p := open(t, hum(2, level), babble(4), hum(1, level), babble(3), hum(5, level))
		if !p.Speech() {
			t.Fatalf("level %v: Speech = false", level)
		}
		got := p.Utterances()
		want := []Span{{2000, 6000}, {7000, 10000}}
		if len(got) != len(want) {
			t.Fatalf("level %v: Utterances = %v, want about %v", level, got, want)
		}
		for i, g := range got {
			w := want[i]
			if g.FromMS > w.FromMS || g.FromMS < w.FromMS-200 || g.ToMS < w.ToMS-20 || g.ToMS > w.ToMS+200 {
				t.Fatalf("level %v: Utterances = %v, want about %v", level, got, want)
			}
		}
	}
}

func TestUtterancesWithoutPause(t *testing.T) {
	p := open(t, babble(100))
	us := p.Utterances()
	at := us[0].FromMS
	for _, u := range us {
		if u.FromMS != at || u.ToMS-u.FromMS > 25400 || u.ToMS-u.FromMS < 5000 {
			t.Fatalf("Utterances = %v, want at most 25 s each, one after the other", us)
		}
		at = u.ToMS
	}
	if us[0].FromMS > 100 || at < 99900 {
		t.Fatalf("Utterances = %v, want all 100 s", us)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"empty": "", "text": "hello, this is no sound at all", "no data": "RIFF....WAVEfmt \x10\x00\x00\x00",
		"no format": "RIFF....WAVEdata\x00\x00\x00\x00",
		"8 kHz":     "RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00",
	} {
		f := filepath.Join(t.TempDir(), "a.wav")
		if err := os.WriteFile(f, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(f)
		if _, ok := errors.AsType[*transcribe.PermanentError](err); !ok {
			t.Fatalf("Open(%s) = %v, want a permanent error", name, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		n, err := header(r)
		if err == nil && n != r.Size()-int64(r.Len()) {
			t.Fatalf("header = %d, but read %d", n, r.Size()-int64(r.Len()))
		}
	})
}

func ffmpeg(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

func TestDecode(t *testing.T) {
	bin := ffmpeg(t)
	wav := write(t, hum(1, 5), babble(4))
	dir := t.TempDir()
	flac := filepath.Join(dir, "-odd: %d.flac")
	if out, err := exec.Command(bin, "-v", "error", "-i", wav, "file:"+flac).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg: %v\n%s", err, out)
	}
	p, err := Decode(t.Context(), bin, flac, filepath.Join(dir, "out.wav"), 5000)
	if err != nil || p.DurationMS != 5000 || p.Offset < 44 || !p.Speech() {
		t.Fatalf("Decode = %d ms at %d, speech %v, %v", p.DurationMS, p.Offset, p.Speech(), err)
	}

	whole, err := os.ReadFile(flac)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]string{"half.flac": string(whole[:len(whole)/2]), "text.flac": "no sound", "empty.flac": "",
		"list.flac": "#EXTM3U\n#EXTINF:5,\nfile:" + wav + "\n", "concat.flac": "ffconcat version 1.0\nfile a.wav\n"} {
		f := filepath.Join(filepath.Dir(wav), name)
		if err := os.WriteFile(f, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Decode(t.Context(), bin, f, filepath.Join(dir, "out.wav"), 5000)
		if _, ok := errors.AsType[*transcribe.PermanentError](err); !ok {
			t.Fatalf("Decode(%s) = %v, want a permanent error", name, err)
		}
	}
	if _, err := Decode(t.Context(), bin, wav+"x", filepath.Join(dir, "out.wav"), 0); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Decode(missing) = %v, want it to be missing", err)
	}
}
