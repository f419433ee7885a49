package transcode

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"macbatch/transcode/child"
)

// encode writes the sound of c to a FLAC file in dir and completes c. The last
// chunk has the remainder of a millisecond too.
func encode(ctx context.Context, ffmpeg, dir string, s *sound, c *Chunk) error {
	c.File = filepath.Join(dir, fmt.Sprintf("chunk-%04d.flac", c.Index))
	start, size := c.StartMS*bytesPerMS, c.DurationMS*bytesPerMS
	if c.StartMS+c.DurationMS == s.durationMS() {
		size = s.bytes - start
	}
	stderr, err := child.Run(ctx, child.Command{Path: ffmpeg, Args: encodeArgs(c.File),
		Stdin: io.NewSectionReader(s.pcm, start, size), Stall: stallLimit})
	if err == nil {
		err = c.measure(size / sampleBytes)
	}
	// ffmpeg doesn't always end with an error when the disk is full.
	if err != nil && strings.Contains(stderr, "No space left") {
		err = syscall.ENOSPC
	}
	if err != nil {
		return fmt.Errorf("write chunk %d: %w", c.Index, err)
	}
	return nil
}

// measure reads the chunk's file back, which must hold the given samples.
func (c *Chunk) measure(samples int64) error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	// "fLaC", a block header of 4 bytes, 10 bytes, then 64 bits that end in the
	// 36 of the number of samples.
	var head [26]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return fmt.Errorf("header of %q: %w", filepath.Base(c.File), err)
	}
	if got := int64(binary.BigEndian.Uint64(head[18:]) & (1<<36 - 1)); string(head[:4]) != "fLaC" || got != samples {
		return fmt.Errorf("%q has %d samples, not %d", filepath.Base(c.File), got, samples)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	digest := sha256.New()
	if c.Bytes, err = io.Copy(digest, f); err != nil {
		return err
	}
	c.Digest = hex.EncodeToString(digest.Sum(nil))
	return nil
}
