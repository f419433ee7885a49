package lines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"macbatch/lease"
	"macbatch/lease/gather"
)

// Verify checks the results of a list in a folder against their manifest, without
// a control plane. Without a manifest there it returns fs.ErrNotExist.
func Verify(dir string) (problems []lease.Problem, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("verify outputs: %w", err)
	}
	f := &files{root: root}
	defer func() { err = errors.Join(err, root.Close()) }()
	if _, err := root.Lstat(manifestName); err != nil {
		return nil, fmt.Errorf("verify outputs in %q: %w", dir, err)
	}
	if err := f.readManifest(); err != nil {
		return nil, fmt.Errorf("verify outputs in %q: %w", dir, err)
	}
	for _, e := range f.had.Files {
		digest, err := f.digest(e.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errIrregular):
			problems = append(problems, lease.Problem{Kind: gather.OutputMissing, Subject: e.Name, Detail: fmt.Sprintf("of job %v", f.had.Job)})
		case err != nil:
			return nil, fmt.Errorf("verify outputs in %q: %w", dir, err)
		case digest != e.SHA256:
			problems = append(problems, lease.Problem{Kind: gather.OutputChanged, Subject: e.Name, Detail: fmt.Sprintf("its digest is %s, not %s", digest, e.SHA256)})
		}
	}
	if len(f.had.Next) > 0 {
		problems = append(problems, lease.Problem{Kind: gather.Unfinished, Subject: manifestName, Detail: "a gathering was interrupted; gather again"})
	}
	return problems, nil
}

// Outputs are the files that the manifest of a folder knows of, itself included; none
// where there is no manifest.
func Outputs(dir string) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if _, err := root.Lstat(manifestName); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	f := &files{root: root}
	if err := f.readManifest(); err != nil {
		return nil, err
	}
	names = []string{manifestName}
	for _, e := range f.had.Files {
		names = append(names, e.Name)
	}
	return names, nil
}

// errIrregular is returned for a folder, a link or a device in a file's place.
var errIrregular = errors.New("no regular file")

// digest reads the digest of a regular file in the folder.
func (f *files) digest(name string) (string, error) {
	fi, err := f.root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", errIrregular
	}
	in, err := f.root.Open(name)
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
