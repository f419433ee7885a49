package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// Explain is what to do about an error of the system; "" where that says it all.
// system is "darwin" or "linux".
func Explain(system, path string, err error) string {
	mac := system == "darwin"
	switch {
	case mac && errors.Is(err, syscall.EHOSTUNREACH):
		return "System Settings > Privacy & Security > Local Network: switch macbatch on; it is asked for separately as a service"
	case mac && errors.Is(err, syscall.EPERM):
		return "System Settings > Privacy & Security > Full Disk Access: add macbatch; macOS guards " + guarded(path)
	case errors.Is(err, fs.ErrPermission):
		return "let the account that runs macbatch read it"
	case errors.Is(err, fs.ErrNotExist):
		return "mount the disk, or name another folder"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "this machine has no way to that address: see its network or VPN"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start it, or name another address"
	case errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENOTCONN):
		return "the disk or its server went away: mount it anew"
	}
	return ""
}

// guarded is what of a Mac a path is in.
func guarded(path string) string {
	for _, p := range []struct{ in, name string }{
		{"/Volumes/", "other disks and shares"}, {"/Library/Mobile Documents/", "iCloud Drive"}, {"/Documents", "Documents"}, {"/Desktop", "the Desktop"}, {"/Downloads", "Downloads"},
	} {
		if strings.Contains(path+"/", p.in) {
			return p.name
		}
	}
	return "this folder"
}
