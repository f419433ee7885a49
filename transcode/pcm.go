package transcode

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"math"
)

// The shape of the sound: what every recogniser takes.
const (
	sampleRate = 16000
	bytesPerMS = sampleRate / 1000 * 2

	frameMS    = 10 // energy is measured so often
	frameBytes = frameMS * bytesPerMS
)

// silenceFloor is the energy, in decibels below full scale, under which there is
// nothing to hear.
const silenceFloor = -60

// pcm takes decoded sound as it comes: it keeps the bytes in a file, their
// digest, and the energy of each frame in decibels.
type pcm struct {
	out      *bufio.Writer
	sum      hash.Hash
	bytes    int64
	rest     []byte // of an unfinished frame
	levels   []int8
	progress func(ms int64)
	told     int64
}

func newPCM(w io.Writer, progress func(ms int64)) *pcm {
	return &pcm{out: bufio.NewWriterSize(w, 256<<10), sum: sha256.New(), progress: progress}
}

// Write implements io.Writer.
func (p *pcm) Write(b []byte) (int, error) {
	p.sum.Write(b)
	p.bytes += int64(len(b))
	for left := b; len(left) > 0; {
		n := min(frameBytes-len(p.rest), len(left))
		if len(p.rest) == 0 && n == frameBytes {
			p.levels = append(p.levels, level(left[:n]))
		} else if p.rest = append(p.rest, left[:n]...); len(p.rest) == frameBytes {
			p.levels = append(p.levels, level(p.rest))
			p.rest = p.rest[:0]
		}
		left = left[n:]
	}
	if ms := p.ms(); p.progress != nil && ms-p.told >= 1000 {
		p.told = ms
		p.progress(ms)
	}
	return p.out.Write(b)
}

// ms is how much sound came so far.
func (p *pcm) ms() int64 { return p.bytes / bytesPerMS }

func (p *pcm) digest() string { return hex.EncodeToString(p.sum.Sum(nil)) }

// silent reports whether there is nothing to hear at all.
func (p *pcm) silent() bool {
	for _, l := range p.levels {
		if l > silenceFloor {
			return false
		}
	}
	return true
}

// level is the energy of a frame in decibels below full scale, at least -100.
func level(frame []byte) int8 {
	var sum int64
	for i := 0; i+1 < len(frame); i += 2 {
		v := int64(int16(uint16(frame[i]) | uint16(frame[i+1])<<8))
		sum += v * v
	}
	if sum == 0 {
		return -100
	}
	mean := float64(sum) / float64(len(frame)/2)
	return int8(max(-100, 10*math.Log10(mean/(32768*32768))))
}
