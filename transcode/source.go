package transcode

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"macbatch/transcode/inventory"
)

var (
	// ErrSourceChanged is returned when the film is not, or no longer, the one
	// that was wanted.
	ErrSourceChanged = errors.New("source changed")
	// ErrSourceBusy comes with ErrSourceChanged when the film is being written, or was
	// a moment ago: another look may find it quiet.
	ErrSourceBusy = errors.New("it is being written")
	// ErrSourceMissing is returned when the root is there and the film is not.
	ErrSourceMissing = errors.New("source missing")
)

// MediaError says what is wrong with a film. It is permanent.
type MediaError = inventory.MediaError

// source is the film, held open from the first look to the last.
type source struct {
	root string
	path inventory.Path
	file *os.File
	id   inventory.Identity
}

func openSource(root string, p inventory.Path, want inventory.Identity) (*source, error) {
	r, err := inventory.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, id, err := inventory.Open(r, p)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		if err := notEmpty(r); err != nil {
			return nil, fmt.Errorf("root %q: %w", root, err)
		}
		return nil, ErrSourceMissing
	case errors.Is(err, inventory.ErrNotRegular):
		return nil, fmt.Errorf("%w: %w", ErrSourceChanged, err)
	case errors.Is(err, inventory.ErrPath):
		return nil, err
	default:
		return nil, fmt.Errorf("%w: %w", inventory.ErrUnreadable, err)
	}
	if want != (inventory.Identity{}) && !id.Alike(want) {
		err := fmt.Errorf("%w: %d bytes, was %d when scanned", ErrSourceChanged, id.Size, want.Size)
		if fi, serr := f.Stat(); serr == nil && young(time.Since(fi.ModTime())) {
			err = fmt.Errorf("%w, and %w", err, ErrSourceBusy)
		}
		return nil, errors.Join(err, f.Close())
	}
	return &source{root: root, path: p, file: f, id: id}, nil
}

// quietFor is how long nothing must have been written to a film that changed; skew is
// how far the clock of whoever wrote it may be ahead of ours.
const (
	quietFor = 15 * time.Second
	skew     = time.Minute
)

func young(age time.Duration) bool { return age > -skew && age < quietFor }

// notEmpty refuses a root without any entry: what an unmounted disk leaves.
func notEmpty(r *os.Root) error {
	d, err := r.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.ReadDir(1); errors.Is(err, io.EOF) {
		return inventory.ErrEmptyRoot
	}
	return nil
}

// unchanged returns an error unless the open file is as it was and its path still
// leads to it: where ffmpeg had to be given the path, it read the same file.
func (s *source) unchanged() error {
	fi, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", inventory.ErrUnreadable, err)
	}
	if !inventory.IdentityOf(fi).Same(s.id) {
		return fmt.Errorf("%w while it was read: %w", ErrSourceChanged, ErrSourceBusy)
	}
	again, err := openSource(s.root, s.path, s.id)
	if errors.Is(err, ErrSourceChanged) {
		return fmt.Errorf("%w while it was read: %w", err, ErrSourceBusy)
	}
	if err != nil {
		return err
	}
	defer again.file.Close()
	now, err := again.file.Stat()
	if err != nil {
		return fmt.Errorf("%w: %w", inventory.ErrUnreadable, err)
	}
	if !os.SameFile(fi, now) {
		return fmt.Errorf("%w: replaced while it was read: %w", ErrSourceChanged, ErrSourceBusy)
	}
	return nil
}
