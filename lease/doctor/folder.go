package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// How much of a root is looked at.
const (
	lookFiles = 200
	lookBytes = 4 << 10
)

// Root looks whether the files of a root can be read here.
func Root(name, dir string) Check {
	return Check{"root", name, func(ctx context.Context) []Finding {
		files, away := 0, 0
		var last string
		found := errors.New("enough")
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || !d.Type().IsRegular() {
				last = path
				return err
			}
			fi, err := d.Info()
			if err != nil {
				return err
			}
			files++
			last = path
			if dataless(fi) {
				away++ // to read it would fetch it
			} else if files-away == 1 {
				err = readSome(path)
			}
			if err == nil && files == lookFiles {
				return found
			}
			return err
		})
		if err != nil && !errors.Is(err, found) {
			return []Finding{bad(Fail, "root", name, Explain(runtime.GOOS, last, err), "%v", err)}
		}
		switch {
		case files == 0:
			return []Finding{bad(Warn, "root", name, "mount it, or take it from --root", "%s has no files, as when nothing is mounted there", dir)}
		case away > 0:
			return []Finding{bad(Warn, "root", name, "in Finder choose Keep Downloaded for the folder", "%d of the first %d files at %s are in iCloud only", away, files, dir)}
		}
		return []Finding{ok("root", name, "%s can be read", dir)}
	}}
}

func readSome(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, make([]byte, lookBytes))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// How long syncs are counted, and how few a second are too few: a Mac's own disk
// does some 25.
const (
	syncFor  = time.Second
	fewSyncs = 5
)

// Disk looks at the disk of a data folder: whether least bytes are free, and how often
// a second it makes a small write durable.
func Disk(of, dir string, least uint64) Check {
	return Check{"disk", of, func(ctx context.Context) []Finding {
		at := dir
		for {
			if _, err := os.Stat(at); err == nil || filepath.Dir(at) == at {
				break
			}
			at = filepath.Dir(at) // it is not made yet
		}
		var st syscall.Statfs_t
		if err := syscall.Statfs(at, &st); err != nil {
			return []Finding{bad(Fail, "disk", of, Explain(runtime.GOOS, at, err), "disk of %s: %v", at, err)}
		}
		free := st.Bavail * uint64(st.Bsize)
		rate, err := syncRate(ctx, at)
		switch {
		case err != nil:
			return []Finding{bad(Fail, "disk", of, Explain(runtime.GOOS, at, err), "cannot write at %s: %v", at, err)}
		case free < least:
			return []Finding{bad(Fail, "disk", of, "make room, or name a lower --min-free or another folder with --data", "only %s are free at %s; %s are needed", size(free), at, size(least))}
		case free < 2*least:
			return []Finding{bad(Warn, "disk", of, "make room before work stops at "+size(least), "%s are free at %s", size(free), at)}
		case rate < fewSyncs:
			f := bad(Warn, "disk", of, "name a folder on an inner disk with --data", "%s does only %.1f durable writes a second", at, rate)
			f.Rate = rate
			return []Finding{f}
		}
		f := ok("disk", of, "%s are free at %s, with %.0f durable writes a second", size(free), at, rate)
		f.Rate = rate
		return []Finding{f}
	}}
}

// syncRate counts durable writes a second.
func syncRate(ctx context.Context, dir string) (rate float64, err error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := bytes.Repeat([]byte("macbatch"), 512)
	n := 0
	return best(ctx, syncFor, func() error {
		n++
		if _, err := f.WriteAt(block, int64(n%16)*int64(len(block))); err != nil {
			return err
		}
		return f.Sync()
	})
}

// slots is into how many parts a measurement is cut: the best of them counts, since
// other work may disturb the rest.
const slots = 5

// best is how often a second something can be done, measured for a while.
func best(ctx context.Context, d time.Duration, do func() error) (rate float64, err error) {
	for range slots {
		n, began := 0, time.Now()
		for n == 0 || time.Since(began) < d/slots {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := do(); err != nil {
				return 0, err
			}
			n++
		}
		rate = max(rate, float64(n)/time.Since(began).Seconds())
	}
	return rate, nil
}

func size(n uint64) string {
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// Modes looks whether others could read what only the account should: files that
// hold secrets, and their folders. What is not there is not looked for.
func Modes(paths ...string) Check {
	return Check{"modes", "", func(context.Context) (list []Finding) {
		n := 0
		for _, p := range paths {
			fi, err := os.Stat(p)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				list = append(list, bad(Fail, "modes", p, Explain(runtime.GOOS, p, err), "%v", err))
				continue
			}
			n++
			mode, fix := fi.Mode().Perm(), "600"
			forbidden := fs.FileMode(0o077)
			if fi.IsDir() {
				forbidden, fix = 0o022, "700"
			}
			st, known := fi.Sys().(*syscall.Stat_t)
			switch {
			case known && int(st.Uid) != os.Geteuid():
				list = append(list, bad(Warn, "modes", p, fmt.Sprintf("chown it, or run macbatch as its owner (uid %d)", st.Uid), "it belongs to another account"))
			case mode&forbidden != 0:
				list = append(list, bad(Fail, "modes", p, fmt.Sprintf("chmod %s %q", fix, p), "others can get at it (mode %04o)", mode))
			}
		}
		if len(list) == 0 && n > 0 {
			list = append(list, ok("modes", "", "%d files and folders are closed to others", n))
		}
		return list
	}}
}
