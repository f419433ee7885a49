package lease

import "crypto/sha256"

// DigestOf returns the SHA-256 of b.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

// FailureDigest identifies a failure report.
func FailureDigest(class FailureClass, reason string) Digest {
	return DigestOf([]byte("failed\n" + string(class) + "\n" + reason))
}

// ReuseDigest identifies work by the parts that decide its result. Parts are
// kept apart by their lengths.
func ReuseDigest(parts ...string) Digest {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		for i, l := 0, len(p); i < len(n); i++ {
			n[i] = byte(l >> (8 * i))
		}
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return Digest(h.Sum(nil))
}
