package gather

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"macbatch/transcode/inventory"
)

// The names inside an output folder while it is written to.
const (
	workDir     = ".macbatch"
	tmpDir      = workDir + "/tmp"
	lockName    = workDir + "/lock"
	journalName = workDir + "/journal"
)

// errStranger is returned for a file that is there and not known to be ours.
var errStranger = errors.New("a file that is not macbatch's is in the way")

// folder is an output folder that this process writes to.
type folder struct {
	root    *os.Root
	lock    *os.File
	journal *os.File
	known   map[string]map[string]bool  // path → digests that a file of ours may have
	step    func(op, name string) error // for tests: before each change
}

// openFolder makes and locks an output folder.
func openFolder(dir string) (f *folder, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make output folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open output folder: %w", err)
	}
	f = &folder{root: root, known: map[string]map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("output folder %q: %w", dir, err), f.close())
			f = nil
		}
	}()
	if err := root.MkdirAll(tmpDir, 0o755); err != nil {
		return nil, err
	}
	if f.lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.New("another process is writing into it")
	}
	left, err := fs.ReadDir(root.FS(), tmpDir)
	if err != nil {
		return nil, err
	}
	for _, e := range left {
		if err := root.Remove(tmpDir + "/" + e.Name()); err != nil {
			return nil, err
		}
	}
	return f, f.readJournal()
}

// close gives the folder back, without the work folder unless a killed or failed
// gathering left something to repair.
func (f *folder) close() error {
	var err error
	repair := f.journal != nil
	if repair {
		err = f.journal.Close()
	}
	if f.lock != nil {
		if !repair {
			err = errors.Join(err, f.tidy())
		}
		err = errors.Join(err, f.lock.Close())
	}
	return errors.Join(err, f.root.Close())
}

// tidy removes the work folder.
func (f *folder) tidy() error {
	if _, err := f.root.Lstat(journalName); err == nil {
		return nil
	}
	for _, n := range []string{tmpDir, lockName, workDir} {
		if err := f.root.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("tidy output folder: %w", err)
		}
	}
	return nil
}

// endJournal forgets the journal: the manifest says it all.
func (f *folder) endJournal() error {
	if f.journal != nil {
		if err := f.journal.Close(); err != nil {
			return err
		}
		f.journal = nil
	}
	if err := f.before("end journal", journalName); err != nil {
		return err
	}
	if err := f.root.Remove(journalName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("end journal: %w", err)
	}
	return nil
}

// intent is a line of the journal: a file that is about to get this content.
type intent struct {
	Path   inventory.Path `json:"path"`
	SHA256 string         `json:"sha256"`
}

func (f *folder) readJournal() error {
	b, err := f.root.ReadFile(journalName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for in := bufio.NewScanner(bytes.NewReader(b)); in.Scan(); {
		var i intent
		if json.Unmarshal(in.Bytes(), &i) == nil { // the last line may be torn: its file was not written
			f.ours(string(i.Path), i.SHA256)
		}
	}
	return nil
}

// ours notes that a file of ours may have a digest.
func (f *folder) ours(name, digest string) {
	if f.known[name] == nil {
		f.known[name] = map[string]bool{}
	}
	f.known[name][digest] = true
}

// intend writes down what is about to be written, before it is.
func (f *folder) intend(files []file) error {
	if f.journal == nil {
		var err error
		if err = f.before("mkdir", tmpDir); err != nil {
			return err
		}
		if err = f.root.MkdirAll(tmpDir, 0o755); err != nil {
			return err
		}
		if f.journal, err = f.root.OpenFile(journalName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	b.WriteByte('\n') // ends a line that was torn
	for _, x := range files {
		line, err := json.Marshal(intent{inventory.Path(x.path), x.digest})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
		f.ours(x.path, x.digest)
	}
	if err := f.before("journal", journalName); err != nil {
		return err
	}
	if _, err := f.journal.Write(b.Bytes()); err != nil {
		return err
	}
	return f.journal.Sync()
}

// file is a whole file to be written.
type file struct {
	path   string
	body   []byte
	digest string
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{name, body, hex.EncodeToString(sum[:])}
}

// state says how a file stands to what is in the folder.
type state int

const (
	absent state = iota
	same         // it is there, with these bytes
	ours         // it is there, with other bytes of ours
)

// look compares a file with what is there; errStranger when that is not ours.
func (f *folder) look(x *file) (state, error) {
	fi, err := f.root.Lstat(x.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return absent, nil
	case err != nil:
		return absent, err
	case !fi.Mode().IsRegular():
		return absent, errStranger
	}
	in, err := f.root.Open(x.path)
	if err != nil {
		return absent, err
	}
	h := sha256.New()
	_, err = io.Copy(h, in)
	if err = errors.Join(err, in.Close()); err != nil {
		return absent, err
	}
	digest := hex.EncodeToString(h.Sum(nil))
	switch {
	case digest == x.digest:
		return same, nil
	case f.known[x.path][digest]:
		return ours, nil
	}
	return absent, errStranger
}

// write puts a file in its place, whole. What is there must be absent, or ours.
func (f *folder) write(x *file, st state) error {
	tmp := tmpDir + "/" + x.digest
	if err := f.before("create", tmp); err != nil {
		return err
	}
	out, err := f.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(x.body)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if dir := path.Dir(x.path); dir != "." {
		if err := f.before("mkdir", dir); err != nil {
			return err
		}
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := f.before("publish", x.path); err != nil {
		return err
	}
	if st == ours {
		return f.root.Rename(tmp, x.path)
	}
	err = f.root.Link(tmp, x.path) // does not replace what came in between
	if errors.Is(err, fs.ErrExist) {
		return errStranger
	}
	if err != nil { // a file system without links
		if _, serr := f.root.Lstat(x.path); serr == nil {
			return errStranger
		}
		return f.root.Rename(tmp, x.path)
	}
	return f.root.Remove(tmp)
}

// sync makes the names in a folder durable.
func (f *folder) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *folder) before(op, name string) error {
	if f.step == nil {
		return nil
	}
	return f.step(op, name)
}

// clean makes a path from outside safe to be used below the folder: it is ours
// to write to, and never the work folder.
func clean(name string) error {
	if err := inventory.Path(name).Check(); err != nil {
		return err
	}
	if strings.HasPrefix(fold(name)+"/", workDir+"/") {
		return fmt.Errorf("path %q is macbatch's own", name)
	}
	return nil
}
