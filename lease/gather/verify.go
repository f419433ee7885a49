package gather

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"macbatch/lease"
	"macbatch/transcode/inventory"
)

// The problems that VerifyOutputs finds.
const (
	OutputMissing = "output_missing" // it is not there, or is no regular file
	OutputChanged = "output_changed" // its bytes are not those that were written
	Unfinished    = "gathering_unfinished"
)

// VerifyOutputs checks an output folder against its manifest, without a control
// plane. An empty list means that each output, and the manifest, is there as it was
// written. Other files in the folder are nobody's business: see Strangers.
func VerifyOutputs(out string) (problems []lease.Problem, err error) {
	root, err := os.OpenRoot(out)
	if err != nil {
		return nil, fmt.Errorf("verify outputs: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	lines, manifest, err := readManifest(root)
	if err == nil && manifest == nil {
		err = fmt.Errorf("no %s", manifestName)
	}
	if err != nil {
		return nil, fmt.Errorf("verify outputs in %q: %w", out, err)
	}
	problems = checkManifest(manifest)
	for _, l := range lines {
		for _, o := range l.Outputs {
			digest, err := digestOf(root, string(o.Path))
			switch {
			case errors.Is(err, errNoFile):
				problems = append(problems, lease.Problem{Kind: OutputMissing, Subject: text(o.Path), Detail: "of " + text(l.Source.Path)})
			case err != nil:
				return nil, fmt.Errorf("verify outputs in %q: %w", out, err)
			case digest != o.SHA256:
				problems = append(problems, lease.Problem{
					Kind: OutputChanged, Subject: text(o.Path), Detail: fmt.Sprintf("its digest is %s, not %s", digest, o.SHA256),
				})
			}
		}
	}
	slices.SortFunc(problems, func(a, b lease.Problem) int { return strings.Compare(a.Subject, b.Subject) })
	if j, err := root.ReadFile(journalName); err == nil && len(bytes.TrimSpace(j)) > 0 {
		problems = append(problems, lease.Problem{Kind: Unfinished, Subject: manifestName, Detail: "a gathering was interrupted; gather again"})
	}
	return problems, nil
}

// errNoFile is returned for a path that is no regular file.
var errNoFile = errors.New("no regular file")

// digestOf reads the digest of a regular file.
func digestOf(root *os.Root, name string) (string, error) {
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || isBlocked(err) || err == nil && !fi.Mode().IsRegular() {
		return "", errNoFile
	}
	if err != nil {
		return "", err
	}
	in, err := root.Open(name)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, in)
	if err = errors.Join(err, in.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// text is a path for people and JSON.
func text(p inventory.Path) string {
	b, err := p.MarshalText()
	if err != nil {
		return fmt.Sprintf("%q", string(p))
	}
	return string(b)
}
