package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
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

// candidate is a file that may be media, by its name.
type candidate struct {
	path Path
	id   Identity
	node inode
	many bool // it has other names
}

// walk collects the candidates below a root.
type walk struct {
	ctx        context.Context
	root       *os.Root
	candidates []candidate
	skipped    []Skipped
	lists      []Path // that may tell of macbatch's own outputs
	met        bool   // any file, of any sort
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
	if err := w.tree(sub); err != nil {
		return err
	}
	if !w.met {
		if sub != "" {
			return fmt.Errorf("folder %q: %w", string(sub), ErrEmptyRoot)
		}
		return ErrEmptyRoot
	}
	w.own()
	w.eachInodeOnce()
	return nil
}

// atOnce is how many folders are read at a time: a disk has its own queue, and a
// network answers late.
const atOnce = 4

// folder is one that is to be read, "" being the root, and those it lies in.
type folder struct {
	path  Path
	above []inode
}

// tree reads the folder top and all below it.
func (w *walk) tree(top Path) error {
	group, ctx := errgroup.WithContext(w.ctx)
	var (
		mu   sync.Mutex
		todo = []folder{{path: top}}
		busy int
		all  [][]candidate
		more = sync.NewCond(&mu)
	)
	for range atOnce {
		group.Go(func() error {
			mu.Lock()
			defer mu.Unlock()
			defer more.Broadcast()
			for {
				for len(todo) == 0 && busy > 0 {
					more.Wait()
				}
				if len(todo) == 0 {
					return nil
				}
				f := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				busy++
				mu.Unlock()
				var p part
				err := context.Cause(ctx)
				if err == nil {
					err = p.take(w.root, f)
				}
				mu.Lock()
				busy--
				if err != nil {
					todo, busy = nil, 0 // the others end after what they have begun
					return err
				}
				all, w.skipped, w.met = append(all, p.candidates), append(w.skipped, p.skipped...), w.met || p.met
				w.lists = append(w.lists, p.lists...)
				todo = append(todo, p.folders...)
				more.Broadcast()
			}
		})
	}
	err := group.Wait()
	w.candidates = slices.Concat(all...)
	return err
}

// part is what one folder holds.
type part struct {
	candidates []candidate
	skipped    []Skipped
	folders    []folder
	lists      []Path
	met        bool
}

func (w *part) skip(p Path, r Reason, err error) {
	w.skipped = append(w.skipped, Skipped{Path: p, Reason: r, Detail: detail(err)})
}

// take reads a folder, or notes why it can't be.
func (w *part) take(root *os.Root, f folder) error {
	err := w.read(root, f)
	switch {
	case err == nil:
	case errors.Is(err, errLoop):
		w.skip(f.path, FolderLoop, nil)
	case f.path != "" && errors.Is(err, fs.ErrNotExist): // removed meanwhile
	case f.path != "" && errors.Is(err, fs.ErrPermission):
		w.met = true // it is there, whatever it holds
		w.skip(f.path, Unreadable, err)
	default:
		// A disk or network that fails here hides an unknown number of films.
		return fmt.Errorf("read folder %q: %w", string(f.path), bare(err))
	}
	return nil
}

// errLoop is returned for a folder that lies inside itself.
var errLoop = errors.New("folder loop")

// read takes in the files and folders of a folder. It is closed before those in it
// are read: a tree may be deeper than there are descriptors.
func (w *part) read(root *os.Root, f folder) error {
	name, under := ".", ""
	if f.path != "" {
		name, under = string(f.path), string(f.path)+"/"
	}
	// O_DIRECTORY: a pipe in the folder's place must not hold us.
	d, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	dir := int(d.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	self := inode{uint64(st.Dev), st.Ino}
	if slices.Contains(f.above, self) {
		return errLoop
	}
	above := append(f.above[:len(f.above):len(f.above)], self)
	for {
		// Names only: what ReadDir tells besides costs a look at each of them, too.
		names, err := d.Readdirnames(1024)
		w.candidates = slices.Grow(w.candidates, len(names))
		for _, name := range names {
			child := Path(under + name)
			err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			switch isFolder := err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR; {
			case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			case err != nil && !errors.Is(err, fs.ErrPermission):
				return err
			case isFolder && systemFolders[name]:
				w.skip(child, SystemFolder, nil)
			case isFolder:
				w.folders = append(w.folders, folder{child, above})
			default:
				w.file(child, name, &st, err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// file takes in a file that could be looked at, or, with an error, could not.
func (w *part) file(p Path, name string, st *unix.Stat_t, err error) {
	w.met = w.met || name != ".DS_Store"
	switch t := st.Mode & unix.S_IFMT; {
	case err != nil:
		w.skip(p, Unreadable, err)
	case t == unix.S_IFLNK:
		w.skip(p, SymbolicLink, nil)
	case t != unix.S_IFREG:
		w.skip(p, NotRegular, nil)
	case strings.HasPrefix(name, "._"):
		w.skip(p, AppleDouble, nil)
	case !mediaExt[ext(Path(name))]:
		w.skip(p, NotMedia, nil)
		if whole := "/" + string(p); strings.HasSuffix(whole, "/"+ownManifest) || strings.HasSuffix(whole, "/"+ownJournal) {
			w.lists = append(w.lists, p)
		}
	default:
		w.candidates = append(w.candidates, candidate{
			path: p, id: Identity{Size: st.Size, MtimeNS: st.Mtim.Nano(), Inode: st.Ino},
			node: inode{uint64(st.Dev), st.Ino}, many: st.Nlink > 1,
		})
	}
}

// eachInodeOnce sorts the candidates and moves all but the first path of one
// file to the skipped.
func (w *walk) eachInodeOnce() {
	slices.SortFunc(w.candidates, func(a, b candidate) int { return strings.Compare(string(a.path), string(b.path)) })
	first := map[inode]Path{}
	w.candidates = slices.DeleteFunc(w.candidates, func(c candidate) bool {
		if !c.many {
			return false
		}
		of, twice := first[c.node]
		if twice {
			w.skipped = append(w.skipped, Skipped{Path: c.path, Reason: SameFile, Of: of})
		} else {
			first[c.node] = c.path
		}
		return twice
	})
}
