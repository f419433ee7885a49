package transcode

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcode/inventory"
)

const (
	stallLimit = 2 * time.Minute
	maxSoundMS = 48 * 3600 * 1000 // a lying time stamp would have us write years of silence
)

// sound is the decoded track: its samples in a file, and what was learnt of them
// on the way there.
type sound struct {
	pcm      *os.File
	digest   hash.Hash
	levels   []level
	bytes    int64
	progress func(mediaMS int64)
	fail     func(error)
	err      error // the first failure of Write

	frame    [frameSamples * sampleBytes]byte
	filled   int   // bytes of frame
	reported int64 // milliseconds
}

// decode runs ffmpeg on src once. The returned complaints are of use beside an
// error too.
func decode(ctx context.Context, ffmpeg string, src *os.File, track inventory.AudioTrack, s *sound) (stderr string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.fail, s.digest = cancel, sha256.New()
	name, files := inventory.Input(src)
	stderr, err = child.Run(ctx, child.Command{Path: ffmpeg, Args: decodeArgs(name, track), Files: files, Out: s, Stall: stallLimit})
	if s.err != nil {
		return stderr, s.err
	}
	s.endFrame()
	return stderr, err
}

// Write takes the next samples. Its error also ends ffmpeg: a program that
// writes into a closed pipe may take its time to notice.
func (s *sound) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.err = s.take(p); s.err != nil {
		s.fail(s.err)
		return 0, s.err
	}
	if ms := s.durationMS(); s.progress != nil && ms-s.reported >= 1000 {
		s.reported = ms
		s.progress(ms)
	}
	return len(p), nil
}

func (s *sound) take(p []byte) error {
	if _, err := s.pcm.Write(p); err != nil {
		return fmt.Errorf("write sound: %w", err)
	}
	s.digest.Write(p)
	s.bytes += int64(len(p))
	if s.durationMS() > maxSoundMS {
		return &MediaError{Reason: fmt.Sprintf("more than %d hours of sound", maxSoundMS/3600_000)}
	}
	for len(p) > 0 {
		n := copy(s.frame[s.filled:], p)
		s.filled, p = s.filled+n, p[n:]
		if s.filled == len(s.frame) {
			s.endFrame()
		}
	}
	return nil
}

// endFrame turns what frame holds into a level.
func (s *sound) endFrame() {
	samples := s.filled / sampleBytes
	if samples == 0 {
		return
	}
	var sum uint64
	for i := range samples {
		v := int64(int16(binary.LittleEndian.Uint16(s.frame[i*sampleBytes:])))
		sum += uint64(v * v)
	}
	s.levels = append(s.levels, levelOf(sum/uint64(samples)))
	s.filled = 0
}

func (s *sound) durationMS() int64 { return s.bytes / bytesPerMS }

func (s *sound) soundDigest() string { return hex.EncodeToString(s.digest.Sum(nil)) }

// silent reports whether no frame is louder than what decoders make of nothing.
func (s *sound) silent() bool {
	for _, l := range s.levels {
		if l > silence {
			return false
		}
	}
	return true
}
