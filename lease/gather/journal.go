package gather

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"macbatch/transcode/inventory"
)

// intent is a line of the journal: a file that is about to get this content. The
// manifest tells of it only later; a gathering that was killed in between would
// take its own file for a stranger's.
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
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, len(b)+1)
	for in.Scan() {
		var i intent
		if json.Unmarshal(in.Bytes(), &i) == nil { // a torn line's file was not written
			f.ours(string(i.Path), i.SHA256)
			f.inherited = append(f.inherited, i)
		}
	}
	return in.Err()
}

// ours notes that a file of ours may have a digest.
func (f *folder) ours(name, digest string) {
	if f.known[name] == nil {
		f.known[name] = map[string]bool{}
	}
	f.known[name][digest] = true
}

// intend writes down what is about to be written, before it is.
func (f *folder) intend(files []file) (err error) {
	if f.journal == nil {
		if err := f.mkdir(tmpDir); err != nil {
			return err
		}
		if err := f.before("create", journalName); err != nil {
			return err
		}
		if f.journal, err = f.root.OpenFile(journalName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
		if err := f.sync(workDir); err != nil {
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
	}
	if err := f.before("write", journalName); err != nil {
		return err
	}
	if _, err := f.journal.Write(b.Bytes()); err != nil {
		return err
	}
	if err := f.before("sync", journalName); err != nil {
		return err
	}
	if err := f.journal.Sync(); err != nil {
		return err
	}
	for _, x := range files {
		f.ours(x.path, x.digest)
	}
	return nil
}

// endJournal forgets the journal when the manifest, which has digests of paths,
// says it all. What a killed gathering wrote for films that this one has not come
// to must not be forgotten.
func (f *folder) endJournal(has func(intent) bool) error {
	if f.journal != nil {
		err := f.journal.Close()
		if f.journal = nil; err != nil {
			return fmt.Errorf("end journal: %w", err)
		}
	}
	var open []intent
	for _, i := range f.inherited {
		if has(i) {
			continue
		}
		digest, err := digestOf(f.root, string(i.Path))
		if err != nil && !errors.Is(err, errNoFile) {
			return fmt.Errorf("end journal: %w", err)
		}
		if err == nil && digest == i.SHA256 {
			open = append(open, i)
		}
	}
	if f.inherited = open; len(open) > 0 {
		return nil
	}
	if _, err := f.root.Lstat(journalName); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := f.remove(journalName); err != nil {
		return fmt.Errorf("end journal: %w", err)
	}
	return nil
}
