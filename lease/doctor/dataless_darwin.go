package doctor

import (
	"io/fs"
	"syscall"
)

// dataless reports whether a file's bytes are in iCloud only (SF_DATALESS of sys/stat.h).
func dataless(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Flags&0x40000000 != 0
}
