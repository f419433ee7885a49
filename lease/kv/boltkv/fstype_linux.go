package boltkv

import (
	"fmt"
	"syscall"
)

// remote holds the file systems whose locks, syncs or shared mappings another
// machine or process decides on (statfs(2), and linux/magic.h).
var remote = map[uint32]string{
	0x00006969: "nfs",
	0x0000517B: "smb",
	0xFE534D42: "smb2",
	0xFF534D42: "cifs",
	0x65735546: "fuse", // sshfs and its like; the kernel doesn't tell them apart
	0x01021997: "9p",
	0x5346414F: "afs",
	0x00C36400: "ceph",
	0x73757245: "coda",
	0x0000564C: "ncp",
	0x0BD00BD0: "lustre",
	0x01161970: "gfs2",
	0x7461636F: "ocfs2",
	0x19830326: "fhgfs",
}

// fsType returns the name of the file system of a folder and whether it is fit
// for a store.
func fsType(path string) (name string, local bool, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return "", false, fmt.Errorf("statfs %q: %w", path, err)
	}
	name, found := remote[uint32(s.Type)]
	return name, !found, nil
}
