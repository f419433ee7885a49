package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Identity is what tells one content of a path from another without reading it.
type Identity struct {
	Size    int64  `json:"size"`     // bytes
	MtimeNS int64  `json:"mtime_ns"` // nanoseconds since 1970
	Inode   uint64 `json:"inode"`    // 0: not known
}

// Same reports whether i and o are the same content as far as one machine can tell.
func (i Identity) Same(o Identity) bool { return i == o }

// Alike reports whether i and o are the same content as far as two machines can
// agree: size and modification time, to the microsecond. SMB carries 100 ns, and
// a server may hide inode numbers from one client and not from another.
func (i Identity) Alike(o Identity) bool {
	return i.Size == o.Size && i.MtimeNS/1000 == o.MtimeNS/1000
}

// IdentityOf reads the identity out of the answer of a stat.
func IdentityOf(fi fs.FileInfo) Identity {
	id := Identity{Size: fi.Size(), MtimeNS: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id.Inode = st.Ino
	}
	return id
}

// ErrNotRegular is returned for a path that is a folder, link, pipe or device.
var ErrNotRegular = errors.New("not a regular file")

// Open opens the regular file at p and returns it with its identity. A symbolic
// link as the last element is refused, also one that is put there meanwhile.
func Open(root *os.Root, p Path) (*os.File, Identity, error) {
	if err := p.Check(); err != nil {
		return nil, Identity{}, err
	}
	before, err := root.Lstat(string(p))
	if err != nil {
		return nil, Identity{}, fmt.Errorf("open %q: %w", string(p), bare(err))
	}
	if !before.Mode().IsRegular() {
		return nil, Identity{}, fmt.Errorf("open %q: %w", string(p), ErrNotRegular)
	}
	// Without O_NONBLOCK a pipe that took the file's place would hold us for ever.
	f, err := root.OpenFile(string(p), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, Identity{}, fmt.Errorf("open %q: %w", string(p), bare(err))
	}
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() || !os.SameFile(before, fi)) {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, Identity{}, errors.Join(fmt.Errorf("open %q: %w", string(p), bare(err)), f.Close())
	}
	return f, IdentityOf(fi), nil
}

// bare takes the operation and the name off err, for a message that has them already.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
