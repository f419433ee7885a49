package lease

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Project is a scope: jobs live in one, actors are assigned to some.
type Project string

// DefaultProject is where a job goes when none is named.
const DefaultProject Project = "default"

// ActorID names an identity with a token and a role.
type ActorID string

// WorkerID names a worker: it stays the same across its restarts.
type WorkerID string

// Kind names work that is compiled into every worker, or a pipeline of it.
type Kind string

// Fence is the number of a grant: store epoch << 32 | counter. It rises at every
// grant of a shard, for ever. Its text is decimal.
type Fence uint64

func (f Fence) String() string { return strconv.FormatUint(uint64(f), 10) }

// MarshalText writes the fence as a decimal number, safe beyond 2^53.
func (f Fence) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (f *Fence) UnmarshalText(b []byte) error {
	n, err := parseDecimal(string(b), 64)
	if err != nil {
		return fmt.Errorf("fence %q: %w", b, ErrMalformed)
	}
	*f = Fence(n)
	return nil
}

// JobID is the number of a job: store epoch << 32 | counter. Its text is the
// epoch in base 36, a dash, and the counter: "htb2k-1".
type JobID uint64

func (j JobID) String() string {
	return strconv.FormatUint(uint64(j>>32), 36) + "-" + strconv.FormatUint(uint64(j&0xffffffff), 10)
}

// ParseJobID reads a job id in exactly the form String writes.
func ParseJobID(s string) (JobID, error) {
	epoch, counter, ok := strings.Cut(s, "-")
	if ok {
		e, err1 := strconv.ParseUint(epoch, 36, 32)
		c, err2 := strconv.ParseUint(counter, 10, 32)
		if id := JobID(e<<32 | c); err1 == nil && err2 == nil && id.String() == s {
			return id, nil
		}
	}
	return 0, fmt.Errorf("job id %q: %w", s, ErrMalformed)
}

// MarshalText writes what String does.
func (j JobID) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (j *JobID) UnmarshalText(b []byte) (err error) {
	*j, err = ParseJobID(string(b))
	return err
}

// ShardID names a shard: its job and its number within it, from 1. Its text is
// "htb2k-1/3".
type ShardID struct {
	Job JobID
	Seq uint32
}

func (s ShardID) String() string { return s.Job.String() + "/" + strconv.FormatUint(uint64(s.Seq), 10) }

// IsZero reports whether s names no shard.
func (s ShardID) IsZero() bool { return s == ShardID{} }

// Compare orders shards by job and then by number.
func (s ShardID) Compare(o ShardID) int {
	switch {
	case s.Job < o.Job || s.Job == o.Job && s.Seq < o.Seq:
		return -1
	case s == o:
		return 0
	}
	return 1
}

// ParseShardID reads a shard id in exactly the form String writes.
func ParseShardID(s string) (ShardID, error) {
	job, seq, ok := strings.Cut(s, "/")
	if ok {
		j, err1 := ParseJobID(job)
		n, err2 := parseDecimal(seq, 32)
		if err1 == nil && err2 == nil && n > 0 {
			return ShardID{j, uint32(n)}, nil
		}
	}
	return ShardID{}, fmt.Errorf("shard id %q: %w", s, ErrMalformed)
}

// MarshalText writes what String does.
func (s ShardID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *ShardID) UnmarshalText(b []byte) (err error) {
	*s, err = ParseShardID(string(b))
	return err
}

// Digest is a SHA-256. Its text is 64 lower-case hexadecimal digits.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is no digest at all.
func (d Digest) IsZero() bool { return d == Digest{} }

// ParseDigest reads a digest in exactly the form String writes.
func ParseDigest(s string) (d Digest, err error) {
	n, err := hex.Decode(d[:], []byte(s[:min(len(s), 64)]))
	if err != nil || n != len(d) || d.String() != s {
		return Digest{}, fmt.Errorf("digest %q: %w", s, ErrMalformed)
	}
	return d, nil
}

// MarshalText writes what String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}

// parseDecimal reads digits without sign or leading zeros.
func parseDecimal(s string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = strconv.ErrSyntax
	}
	return n, err
}
