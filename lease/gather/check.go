package gather

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"

	"macbatch/lease"
)

// ManifestChanged is the problem of a manifest that is not as it was written.
const ManifestChanged = "manifest_changed"

// seal adds a field of a digest at the end of a JSON object.
func seal(b []byte, name, digest string) []byte {
	return fmt.Appendf(b[:len(b)-1:len(b)-1], `,%q:%q}`, name, digest)
}

// unseal takes that field off again; ok: it was there.
func unseal(b []byte, name string) (rest []byte, digest string, ok bool) {
	const hexBytes = 2 * sha256.Size
	tail := len(name) + len(`,"":""}`) + hexBytes
	if len(b) < tail+2 {
		return b, "", false
	}
	digest = string(b[len(b)-2-hexBytes : len(b)-2])
	rest = append(b[:len(b)-tail:len(b)-tail], '}')
	return rest, digest, bytes.Equal(seal(rest, name, digest), b)
}

func hexSum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sealed is a line of the manifest with what proves it: the digest of its own bytes,
// and in the last one that of all that stands before.
func sealed(before, line []byte, last bool) []byte {
	if last {
		line = seal(line, "all", hexSum(before, line))
	}
	return append(seal(line, "sum", hexSum(line)), '\n')
}

// checkManifest compares the lines with their digests. A manifest from before there
// were any has none.
func checkManifest(b []byte) (problems []lease.Problem) {
	changed := func(format string, args ...any) {
		problems = append(problems, lease.Problem{Kind: ManifestChanged, Subject: manifestName, Detail: fmt.Sprintf(format, args...)})
	}
	n, bare, at := 0, 0, 0
	var last []byte
	var before []byte
	for line := range bytes.Lines(b) {
		n++
		before, at = b[:at], at+len(line)
		whole := bytes.HasSuffix(line, []byte("\n"))
		body, sum, ok := unseal(bytes.TrimSuffix(line, []byte("\n")), "sum")
		if last = body; !ok {
			bare++
			last = nil
			continue
		}
		if !whole || hexSum(body) != sum {
			changed("line %d is not as it was written", n)
		}
	}
	switch {
	case bare == n: // of an earlier version
		return nil
	case bare > 0:
		changed("%d of its %d lines have no digest", bare, n)
	}
	if body, all, ok := unseal(last, "all"); last == nil || !ok || all != hexSum(before, body) {
		if len(problems) == 0 {
			changed("lines are missing, or not in their order")
		}
	}
	return problems
}

// Outputs are the files that the manifest of a folder knows of, itself included.
func Outputs(out string) ([]string, error) {
	root, err := os.OpenRoot(out)
	if err != nil {
		return nil, err
	}
	lines, manifest, err := readManifest(root)
	if manifest == nil || err != nil {
		return nil, closing(root, err)
	}
	names := []string{manifestName}
	for _, l := range lines {
		for _, o := range l.Outputs {
			names = append(names, string(o.Path))
		}
	}
	return names, root.Close()
}

func closing(root *os.Root, err error) error {
	if e := root.Close(); err == nil {
		err = e
	}
	return err
}

// Strangers counts the files of a folder that are none of those named, and not
// macbatch's own work either. Nothing is wrong with them.
func Strangers(out string, known []string) (n int, err error) {
	ours := map[string]bool{}
	for _, name := range known {
		ours[name] = true
	}
	err = fs.WalkDir(os.DirFS(out), ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("look through %q: %w", out, err)
		case e.IsDir() && path == workDir:
			return fs.SkipDir
		case !e.IsDir() && !ours[path]:
			n++
		}
		return nil
	})
	return n, err
}
