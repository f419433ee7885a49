package boltkv

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// local refuses folders whose file system is a network's.
func local(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("folder %q: %w", dir, err)
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return ErrNetwork
	}
	return nil
}
