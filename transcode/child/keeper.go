package child

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Keeper remembers in a folder which children this process has, so that its
// successor finds and ends those that outlived a kill.
//
// A child is told by two things. All that are started carry the keeper's mark in
// their environment, which their own children inherit; it is on disk before the
// first of them starts. And each has a record, a file named by its process id, with
// the instant it started and its program: for those whose environment can't be read.
type Keeper struct {
	dir  string
	mark string
}

const (
	markName = "mark"
	markEnv  = "MACBATCH_CHILD"

	// endTime is how long killed processes may take to be gone.
	endTime = 5 * time.Second
)

// record is what is kept of a child. A process is meant by it when all agrees.
type record struct {
	PID     int    `json:"pid"`     // also of its group
	Start   string `json:"start"`   // as the system tells it, with what tells one boot from another
	Program string `json:"program"` // as the system tells it
}

// mark is the file of that name.
type markFile struct {
	Mark   string `json:"mark"`
	Folder string `json:"folder"` // device and inode of the folder: a copy of it is nobody's
}

// Keep takes over a folder, ends what the process before left running, and returns
// how many processes that were. The caller sees to it that the folder is its alone.
// With a keeper comes an error only of processes that did not end.
func Keep(dir string) (k *Keeper, ended int, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("keep children: %w", err)
	}
	here, err := folderID(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("keep children: %w", err)
	}
	k = &Keeper{dir: dir, mark: rand.Text()}
	var stay error
	switch before, err := readMark(dir); {
	case err == nil && before.Folder == here:
		ended, stay = k.endAll(before.Mark)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, 0, fmt.Errorf("keep children: %w", err)
	}
	if err := k.forgetAll(); err != nil {
		return nil, ended, fmt.Errorf("keep children: %w", err)
	}
	b, err := json.Marshal(markFile{k.mark, here})
	if err == nil {
		err = replace(filepath.Join(dir, markName), append(b, '\n'))
	}
	if err != nil {
		return nil, ended, fmt.Errorf("keep children: %w", err)
	}
	return k, ended, stay
}

func folderID(dir string) (string, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("folder %q has no inode", dir)
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

// readMark reads the mark of the process before. A torn one counts as none: its
// writer started nothing yet.
func readMark(dir string) (m markFile, err error) {
	b, err := os.ReadFile(filepath.Join(dir, markName))
	if err != nil {
		return m, err
	}
	if json.Unmarshal(b, &m) != nil || m.Mark == "" {
		return markFile{}, nil
	}
	return m, nil
}

// endAll kills what carries a mark or has a record, until nothing is left of it.
func (k *Keeper) endAll(mark string) (ended int, err error) {
	seen := map[int]bool{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		left, err := k.leftovers(mark)
		if err != nil {
			return len(seen), fmt.Errorf("look for children: %w", err)
		}
		if len(left) == 0 {
			return len(seen), nil
		}
		for _, pid := range left {
			seen[pid] = true
		}
		if time.Since(began) > endTime {
			return len(seen) - len(left), fmt.Errorf("%d processes of a former run do not end, such as %d", len(left), left[0])
		}
	}
}

// leftovers kills all there are, and lists them.
func (k *Keeper) leftovers(mark string) (pids []int, err error) {
	records, err := k.records()
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.runs() {
			killGroup(r.PID)
			pids = append(pids, r.PID)
		}
	}
	marked, err := markedProcesses(markEnv + "=" + mark)
	if err != nil {
		return nil, err
	}
	for _, pid := range marked {
		// A handle, so that nobody else is killed who got the number meanwhile.
		p, err := os.FindProcess(pid)
		if err != nil || !hasMark(pid, markEnv+"="+mark) {
			continue
		}
		_ = p.Kill() // gone is as good
		pids = append(pids, pid)
	}
	return pids, nil
}

// runs tells whether the process of a record is there: itself, not another one
// that got its number.
func (r record) runs() bool {
	now, err := look(r.PID)
	return err == nil && now == r
}

func (k *Keeper) records() (list []record, err error) {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		pid, err := strconv.Atoi(f.Name())
		if err != nil || pid <= 1 {
			continue
		}
		b, err := os.ReadFile(filepath.Join(k.dir, f.Name()))
		if err != nil {
			return nil, err
		}
		var r record
		if json.Unmarshal(b, &r) == nil && r.PID == pid { // else torn: the mark tells
			list = append(list, r)
		}
	}
	return list, nil
}

// forgetAll removes the records, and the mark.
func (k *Keeper) forgetAll() error {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := strconv.Atoi(f.Name()); err == nil || strings.HasPrefix(f.Name(), markName) {
			if err := os.Remove(filepath.Join(k.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// note records a child that has started; gone forgets it. A record that can't be
// kept, on a full disk for one, is not worth an attempt: there is the mark.
func (k *Keeper) note(pid int) (gone func()) {
	path := filepath.Join(k.dir, strconv.Itoa(pid))
	if r, err := look(pid); err == nil {
		if b, err := json.Marshal(r); err == nil {
			_ = os.WriteFile(path, b, 0o600)
		}
	}
	return func() { _ = os.Remove(path) }
}

func (k *Keeper) env() string { return markEnv + "=" + k.mark }

// replace puts b in a file's place at once.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

type keeperKey struct{}

// With returns a context whose children k keeps.
func With(ctx context.Context, k *Keeper) context.Context {
	return context.WithValue(ctx, keeperKey{}, k)
}

func keeperOf(ctx context.Context) *Keeper {
	k, _ := ctx.Value(keeperKey{}).(*Keeper)
	return k
}
