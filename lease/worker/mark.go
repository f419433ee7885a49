package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"macbatch/lease"
)

// maxMarks bounds the stores that are remembered.
const maxMarks = 16

// marks remembers how far each store was seen to be, so that one that was rolled
// back learns of it. The last in the list is the store last heard of.
type marks struct {
	path string // empty: in memory only

	mu    sync.Mutex
	list  []lease.Mark
	saved []lease.Mark // what the file says
}

// openMarks reads the file. One that cannot be read costs nothing but its help.
func openMarks(path string) (*marks, error) {
	m := &marks{path: path}
	if path == "" {
		return m, nil
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &m.list)
	}
	if err != nil {
		m.list = nil
		if errors.Is(err, fs.ErrNotExist) {
			return m, nil
		}
		return m, fmt.Errorf("read marks: %w", err)
	}
	m.saved = slices.Clone(m.list)
	return m, nil
}

// shown is the mark for the next request: the highest of the store last heard of.
func (m *marks) shown() lease.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.list) == 0 {
		return lease.Mark{}
	}
	return m.list[len(m.list)-1]
}

// heard notes the mark of an answer.
func (m *marks) heard(k lease.Mark) {
	if k.Store == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.list, func(o lease.Mark) bool { return o.Store == k.Store })
	if i >= 0 {
		if !k.Beyond(m.list[i]) {
			k = m.list[i]
		}
		m.list = slices.Delete(m.list, i, i+1)
	}
	m.list = append(m.list, k)
	m.list = slices.Delete(m.list, 0, max(0, len(m.list)-maxMarks))
}

// save writes the file, if there is anything new.
func (m *marks) save() error {
	m.mu.Lock()
	list := slices.Clone(m.list)
	same := slices.Equal(list, m.saved)
	m.mu.Unlock()
	if m.path == "" || same {
		return nil
	}
	b, err := json.Marshal(list)
	if err == nil {
		err = replace(m.path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save marks: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = list
	return nil
}

// replace puts b in a file's place at once.
func replace(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error tells
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
