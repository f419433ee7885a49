package lines

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"macbatch/lease"
)

// The names in the folder.
const (
	outputName   = "output.jsonl"
	errorsName   = "errors.jsonl"
	npyName      = "vectors.npy"
	idsName      = "ids.jsonl"
	manifestName = "manifest.json"
	tempPrefix   = ".macbatch-"
)

// ErrStranger is returned for a file that is there and not of an earlier gathering.
var ErrStranger = errors.New("a file that is not macbatch's is in the way")

// manifest is what a folder of results holds.
type manifest struct {
	Job   lease.JobID `json:"job"`
	Files []entry     `json:"files"`
	Next  []entry     `json:"next,omitempty"` // about to get their names
}

type entry struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// files are the results while they are written, under names that nobody looks for.
type files struct {
	root           *os.Root
	lock           *os.File // the folder itself
	had            manifest
	job            lease.JobID
	output, errors *file
	npy, ids       *file // nil: not asked for
	width, rows    int   // of the matrix
}

// open makes the folder and takes what may stand in the way for its own, or not.
func open(dir string, job lease.JobID, npy bool) (f *files, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make output folder: %w", err)
	}
	f = &files{job: job}
	if f.root, err = os.OpenRoot(dir); err != nil {
		return nil, fmt.Errorf("open output folder: %w", err)
	}
	names := []string{outputName, errorsName}
	if npy {
		names = append(names, npyName, idsName)
	}
	if err = f.take(); err == nil {
		err = f.readManifest()
	}
	if err == nil {
		err = f.sweep()
	}
	for _, name := range names {
		if err == nil {
			err = f.mine(name)
		}
	}
	for name, to := range map[string]**file{outputName: &f.output, errorsName: &f.errors} {
		if err == nil {
			*to, err = create(f.root, name)
		}
	}
	if npy && err == nil {
		if f.npy, err = create(f.root, npyName); err == nil {
			f.ids, err = create(f.root, idsName)
		}
		if err == nil {
			err = f.npy.write(make([]byte, npyHeader)) // filled in when it is known
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("output folder %q: %w", dir, err), f.discard())
	}
	return f, nil
}

// Check returns the error that Gather into the folder out would begin with, so that it
// is known before the work is done. It makes no folder.
func Check(out string, o Options) error {
	if _, err := os.Stat(out); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := open(out, 0, o.NPY)
	if err != nil {
		return err
	}
	return f.discard()
}

// Writes reports whether a file is one that Gather into the folder out may replace.
func Writes(out, path string) bool {
	fi, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, name := range []string{outputName, errorsName, npyName, idsName, manifestName} {
		if other, err := os.Stat(filepath.Join(out, name)); err == nil && os.SameFile(fi, other) {
			return true
		}
	}
	return false
}

// take locks the folder against another gathering.
func (f *files) take() (err error) {
	if f.lock, err = f.root.Open("."); err != nil {
		return err
	}
	err = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return errors.New("another process is writing into it")
	case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS):
		return nil // a file system without locks
	}
	return err
}

func (f *files) readManifest() error {
	b, err := f.root.ReadFile(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &f.had)
	}
	if err == nil && f.had.Job == 0 {
		err = errors.New("it names no job")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", manifestName, ErrStranger, err)
	}
	return nil
}

// sweep removes what a gathering that was killed left unfinished.
func (f *files) sweep() error {
	all, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), tempPrefix) && e.Type().IsRegular() {
			if err := f.root.Remove(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// mine refuses a file that no gathering wrote.
func (f *files) mine(name string) error {
	digest, err := f.digest(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !errors.Is(err, errIrregular) {
		return err
	}
	for _, known := range append(f.had.Files, f.had.Next...) {
		if err == nil && known.Name == name && known.SHA256 == digest {
			return nil
		}
	}
	return fmt.Errorf("%q: %w", name, ErrStranger)
}

// keep gives the files their names.
func (f *files) keep() error {
	if f.npy != nil {
		if err := f.head(); err != nil {
			return err
		}
	}
	m := manifest{Job: f.job, Files: f.had.Files}
	var done []*file
	for _, x := range []*file{f.output, f.errors, f.npy, f.ids} {
		if x == nil {
			continue
		}
		e, err := x.finish()
		if err != nil {
			return fmt.Errorf("write %q: %w", x.name, err)
		}
		m.Next, done = append(m.Next, e), append(done, x)
	}
	if err := f.note(m); err != nil {
		return err
	}
	for _, x := range done {
		if err := f.mine(x.name); err != nil { // somebody may have come in between
			return err
		}
		if err := f.root.Rename(x.temp, x.name); err != nil {
			return err
		}
		x.temp = ""
	}
	if err := syncFolder(f.root); err != nil {
		return err
	}
	return f.note(manifest{Job: f.job, Files: m.Next})
}

// note replaces the manifest.
func (f *files) note(m manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	x, err := create(f.root, manifestName)
	if err != nil {
		return err
	}
	if err = x.write(append(b, '\n')); err == nil {
		_, err = x.finish()
	}
	if err == nil {
		err = f.root.Rename(x.temp, manifestName)
	}
	if err != nil {
		return errors.Join(err, x.discard(f.root))
	}
	return syncFolder(f.root)
}

// discard removes what has no name yet.
func (f *files) discard() error {
	var err error
	for _, x := range []*file{f.output, f.errors, f.npy, f.ids} {
		if x != nil {
			err = errors.Join(err, x.discard(f.root))
		}
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return errors.Join(err, f.root.Close())
}

func syncFolder(r *os.Root) error {
	d, err := r.Open(".")
	if err != nil {
		return err
	}
	_ = d.Sync() // network mounts know no such thing
	return d.Close()
}

// npyHeader is the length of the header of vectors.npy: long enough for any shape.
const npyHeader = 128

// row adds a vector to the matrix.
func (f *files) row(id string, v []float32) error {
	if f.rows == 0 {
		f.width = len(v)
	}
	if len(v) != f.width {
		return fmt.Errorf("a vector of %d numbers after those of %d: they make no matrix", len(v), f.width)
	}
	f.rows++
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return errors.Join(f.npy.write(b), f.ids.json(id))
}

// head writes the header of the matrix, whose height is known now. Its digest is
// of the whole file, so it is read once more.
func (f *files) head() error {
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", f.rows, f.width)
	h := append([]byte("\x93NUMPY\x01\x00"), byte(npyHeader-10), 0)
	h = append(h, dict...)
	for len(h) < npyHeader-1 {
		h = append(h, ' ')
	}
	h = append(h, '\n')
	if err := f.npy.b.Flush(); err != nil {
		return err
	}
	if _, err := f.npy.f.WriteAt(h, 0); err != nil {
		return err
	}
	in, err := f.root.Open(f.npy.temp)
	if err != nil {
		return err
	}
	f.npy.h.Reset()
	_, err = io.Copy(f.npy.h, in)
	return errors.Join(err, in.Close())
}

// file is a stream into a file without a name.
type file struct {
	name, temp string
	f          *os.File
	b          *bufio.Writer
	h          hash.Hash
	n          int64
}

func create(r *os.Root, name string) (*file, error) {
	x := &file{name: name, temp: tempPrefix + name, h: sha256.New()}
	var err error
	if x.f, err = r.OpenFile(x.temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
		return nil, err
	}
	x.b = bufio.NewWriterSize(x.f, 256<<10)
	return x, nil
}

// stream is a file that goes elsewhere.
func stream(w io.Writer) *file { return &file{b: bufio.NewWriterSize(w, 64<<10), h: sha256.New()} }

func (x *file) write(b []byte) error {
	x.h.Write(b)
	x.n += int64(len(b))
	_, err := x.b.Write(b)
	return err
}

func (x *file) json(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return x.write(b.Bytes())
}

// finish makes the file whole and durable.
func (x *file) finish() (entry, error) {
	err := x.b.Flush()
	if err == nil {
		err = x.f.Sync()
	}
	err = errors.Join(err, x.f.Close())
	x.f = nil
	return entry{x.name, hex.EncodeToString(x.h.Sum(nil)), x.n}, err
}

func (x *file) discard(r *os.Root) error {
	var err error
	if x.f != nil {
		err, x.f = x.f.Close(), nil
	}
	if x.temp != "" {
		if rerr := r.Remove(x.temp); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		x.temp = ""
	}
	return err
}
