package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Folders that systems keep for themselves: what they hold is thrown away, or a
// copy of what is elsewhere.
var systemFolders = map[string]bool{
	".Trashes": true, ".Trash": true, ".Spotlight-V100": true, ".fseventsd": true, ".TemporaryItems": true,
	".DocumentRevisions-V100": true, ".AppleDouble": true, ".AppleDB": true, ".AppleDesktop": true,
	"$RECYCLE.BIN": true, "System Volume Information": true, "lost+found": true, ".Trash-1000": true,
	"@eaDir": true, "#recycle": true, "@Recycle": true, "#snapshot": true, ".snapshot": true, ".snapshots": true, ".zfs": true,
}

type inode struct{ dev, ino uint64 }

// walk collects the candidates below a root.
type walk struct {
	ctx        context.Context
	root       *os.Root
	files      int // met, of any sort
	candidates []Path
	skipped    []Skipped
	inodes     map[inode]Path // of candidates with several links
}

func (w *walk) skip(p Path, r Reason, err error) {
	w.skipped = append(w.skipped, Skipped{Path: p, Reason: r, Detail: detail(err)})
}

// from walks the folder sub, or all of the root when it is empty.
func (w *walk) from(sub Path) error {
	if sub != "" {
		if err := sub.Check(); err != nil {
			return err
		}
		fi, err := w.root.Stat(string(sub))
		if err == nil && !fi.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return fmt.Errorf("folder %q: %w", string(sub), bare(err))
		}
	}
	if err := w.folder(sub, nil); err != nil {
		return err
	}
	if w.files == 0 {
		if sub != "" {
			return fmt.Errorf("folder %q: %w", string(sub), ErrEmptyRoot)
		}
		return ErrEmptyRoot
	}
	return w.eachInodeOnce()
}

// folder walks p, "" being the root, below the folders above.
func (w *walk) folder(p Path, above []fs.FileInfo) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	entries, self, err := w.read(p)
	switch {
	case err == nil:
	case p != "" && errors.Is(err, fs.ErrNotExist):
		return nil // removed meanwhile
	case p != "" && errors.Is(err, fs.ErrPermission):
		w.files++ // it is there, whatever it holds
		w.skip(p, Unreadable, err)
		return nil
	default:
		// A disk or network that fails here hides an unknown number of films.
		return fmt.Errorf("read folder %q: %w", string(p), bare(err))
	}
	if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, self) }) {
		w.skip(p, FolderLoop, nil)
		return nil
	}
	above = append(above[:len(above):len(above)], self)
	for _, e := range entries {
		child := Path(path.Join(string(p), e.Name()))
		switch t := e.Type(); {
		case t.IsDir() && systemFolders[e.Name()]:
			w.skip(child, SystemFolder, nil)
		case t.IsDir():
			if err := w.folder(child, above); err != nil {
				return err
			}
		default:
			w.file(child, e.Name(), t)
		}
	}
	return nil
}

func (w *walk) file(p Path, name string, t fs.FileMode) {
	if name != ".DS_Store" {
		w.files++
	}
	switch {
	case t&fs.ModeSymlink != 0:
		w.skip(p, SymbolicLink, nil)
	case !t.IsRegular():
		w.skip(p, NotRegular, nil)
	case strings.HasPrefix(name, "._"):
		w.skip(p, AppleDouble, nil)
	case !mediaExt[ext(p)]:
		w.skip(p, NotMedia, nil)
	default:
		w.candidates = append(w.candidates, p)
	}
}

func (w *walk) read(p Path) (entries []fs.DirEntry, self fs.FileInfo, err error) {
	name := "."
	if p != "" {
		name = string(p)
	}
	// O_DIRECTORY: a pipe in the folder's place must not hold us.
	d, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	if self, err = d.Stat(); err != nil {
		return nil, nil, err
	}
	for {
		page, err := d.ReadDir(1024)
		entries = append(entries, page...)
		if err == io.EOF {
			return entries, self, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// eachInodeOnce sorts the candidates and moves all but the first path of one
// file to the skipped.
func (w *walk) eachInodeOnce() error {
	slices.Sort(w.candidates)
	kept := w.candidates[:0]
	for _, p := range w.candidates {
		if err := context.Cause(w.ctx); err != nil {
			return err
		}
		fi, err := w.root.Lstat(string(p))
		if err != nil {
			kept = append(kept, p) // opening it will tell
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			id := inode{uint64(st.Dev), st.Ino}
			if first, ok := w.inodes[id]; ok {
				w.skipped = append(w.skipped, Skipped{Path: p, Reason: SameFile, Of: first})
				continue
			}
			w.inodes[id] = p
		}
		kept = append(kept, p)
	}
	w.candidates = kept
	return nil
}
