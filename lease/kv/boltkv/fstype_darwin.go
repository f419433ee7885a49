package boltkv

import (
	"fmt"
	"strings"
	"syscall"
)

// mntLocal is MNT_LOCAL of sys/mount.h: stored on this machine.
const mntLocal = 0x1000

// fsType returns the name of the file system of a folder and whether it is fit
// for a store.
func fsType(path string) (name string, local bool, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return "", false, fmt.Errorf("statfs %q: %w", path, err)
	}
	var b strings.Builder
	for _, c := range s.Fstypename {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	name = b.String()
	// Some file systems in user space call themselves local.
	return name, s.Flags&mntLocal != 0 && !strings.Contains(name, "fuse"), nil
}
