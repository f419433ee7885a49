package gather

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"macbatch/lease"
)

// The names inside an output folder while it is written to.
const (
	workDir     = ".macbatch"
	tmpDir      = workDir + "/tmp"
	lockName    = workDir + "/lock"
	journalName = workDir + "/journal"
)

var (
	// errStranger is returned for a file that is there and not known to be ours.
	errStranger = errors.New("a file that is not macbatch's is in the way")
	// errBlocked is returned where a folder can't be: a file, or a link that leads
	// out, has its name.
	errBlocked = errors.New("something that is no folder is in the way")
)

// isBlocked reports whether no name of that kind can be made there.
func isBlocked(err error) bool {
	return errors.Is(err, errBlocked) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EILSEQ)
}

// folder is an output folder that this process writes to.
type folder struct {
	root      *os.Root
	lock      *os.File // nil where the file system has no locks
	journal   *os.File
	inherited []intent                               // of a gathering that was killed
	known     map[string]map[string]bool             // path → digests that a file of ours may have
	step      func(f *folder, op, name string) error // for tests: before each change
}

// openFolder makes and locks an output folder.
func openFolder(dir string, step func(f *folder, op, name string) error) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make output folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open output folder: %w", err)
	}
	f := &folder{root: root, known: map[string]map[string]bool{}, step: step}
	if err = f.take(); err == nil {
		err = f.sweep()
	}
	if err == nil {
		err = f.readJournal()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("output folder %q: %w", dir, err), f.close())
	}
	return f, nil
}

// take locks the folder.
func (f *folder) take() error {
	for range 10 {
		if err := f.mkdir(tmpDir); err != nil {
			return err
		}
		if err := f.before("lock", lockName); err != nil {
			return err
		}
		lock, err := f.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its holder is leaving
		}
		if err != nil {
			return err
		}
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) {
			return lock.Close() // a file system without locks: two gatherings would only take each other's names
		}
		if err != nil {
			return errors.Join(errors.New("another process is writing into it"), lock.Close())
		}
		// A holder that left took its lock's name away, perhaps after we opened it.
		held, err1 := lock.Stat()
		now, err2 := f.root.Stat(lockName)
		if err1 == nil && err2 == nil && os.SameFile(held, now) {
			f.lock = lock
			return nil
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	return errors.New("its lock changes hands all the time")
}

// sweep removes the unfinished files of a gathering that was killed.
func (f *folder) sweep() error {
	left, err := fs.ReadDir(f.root.FS(), tmpDir)
	if err != nil {
		return err
	}
	for _, e := range left {
		if len(e.Name()) != 2*sha256.Size || !e.Type().IsRegular() {
			continue
		}
		if err := f.remove(tmpDir + "/" + e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// close gives the folder back, without the work folder unless a gathering that
// failed left something to repair.
func (f *folder) close() error {
	var err error
	if f.journal != nil {
		err = f.journal.Close()
	}
	if f.lock != nil {
		err = errors.Join(err, f.tidy(), f.lock.Close())
	}
	return errors.Join(err, f.root.Close())
}

// tidy removes the work folder, unless the journal, or somebody's file, is in it.
func (f *folder) tidy() error {
	if _, err := f.root.Lstat(journalName); err == nil {
		return nil
	}
	for _, n := range []string{tmpDir, lockName, workDir} {
		err := f.remove(n)
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("tidy output folder: %w", err)
		}
	}
	return nil
}

// file is a whole file to be written.
type file struct {
	path   string
	body   []byte
	open   func() (io.ReadCloser, error) // of one that is too large for a body; nil: it has one
	size   int64
	digest string
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{path: name, body: body, size: int64(len(body)), digest: hex.EncodeToString(sum[:])}
}

// copy writes the file's bytes, which must be those of its digest.
func (x *file) copy(out io.Writer) error {
	if x.open == nil {
		_, err := out.Write(x.body)
		return err
	}
	in, err := x.open()
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(in, x.size+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if n != x.size || hex.EncodeToString(h.Sum(nil)) != x.digest {
		return lease.ErrDigest
	}
	return nil
}

// state says how a file stands to what is in the folder.
type state int

const (
	absent state = iota
	same         // it is there, with these bytes
	ours         // it is there, with other bytes of ours
)

// look compares a file with what is there; errStranger when that is not ours,
// errBlocked when it could not even be made.
func (f *folder) look(x *file) (state, error) {
	there, err := f.reach(path.Dir(x.path))
	if err != nil || !there {
		return absent, err
	}
	_, err = f.root.Lstat(x.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case err != nil:
		return absent, err
	}
	digest, err := digestOf(f.root, x.path)
	switch {
	case errors.Is(err, errNoFile):
		return absent, errStranger
	case err != nil:
		return absent, err
	case digest == x.digest:
		return same, nil
	case f.known[x.path][digest]:
		return ours, nil
	}
	return absent, errStranger
}

// reach reports whether a folder is there; errBlocked when it can't be.
func (f *folder) reach(dir string) (bool, error) {
	if strings.HasPrefix(fold(dir)+"/", workDir+"/") {
		return false, errBlocked
	}
	there, err := true, error(nil)
	above(dir+"/", func(d string) {
		if !there || err != nil {
			return
		}
		_, lerr := f.root.Lstat(d)
		if errors.Is(lerr, fs.ErrNotExist) {
			there = false
			return
		}
		// A link is followed, but not out of the root: that is an error of Stat.
		if fi, serr := f.root.Stat(d); serr != nil || !fi.IsDir() {
			err = fmt.Errorf("%w: %q", errBlocked, d)
		}
	})
	return there, err
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
	err = x.copy(out)
	if err == nil {
		err = f.before("sync", tmp)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := f.mkdir(path.Dir(x.path)); err != nil {
		return err
	}
	if st == ours {
		return f.rename(tmp, x.path)
	}
	if err = f.before("link", x.path); err == nil {
		err = f.root.Link(tmp, x.path) // does not replace what came in between
	}
	if errors.Is(err, fs.ErrExist) {
		return errStranger
	}
	if err != nil { // a file system without links
		if _, lerr := f.root.Lstat(x.path); lerr == nil {
			return errStranger
		}
		return f.rename(tmp, x.path)
	}
	return f.remove(tmp)
}

// mkdir makes a folder and those above it, durably.
func (f *folder) mkdir(dir string) (err error) {
	above(dir+"/", func(d string) {
		if err != nil {
			return
		}
		if fi, serr := f.root.Stat(d); serr == nil && fi.IsDir() {
			return
		}
		if err = f.before("mkdir", d); err != nil {
			return
		}
		if err = f.root.Mkdir(d, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil
			return
		}
		if err == nil {
			err = f.sync(path.Dir(d))
		}
	})
	return err
}

func (f *folder) rename(from, to string) error {
	if err := f.before("rename", to); err != nil {
		return err
	}
	return f.root.Rename(from, to)
}

// remove removes what may be gone already.
func (f *folder) remove(name string) error {
	if err := f.before("remove", name); err != nil {
		return err
	}
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync makes the names in a folder durable.
func (f *folder) sync(dir string) error {
	if err := f.before("sync folder", dir); err != nil {
		return err
	}
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // network mounts that know no such thing
	}
	return errors.Join(err, d.Close())
}

func (f *folder) before(op, name string) error {
	if f.step == nil {
		return nil
	}
	return f.step(f, op, name)
}
