package doctor

import "io/fs"

// dataless: only macOS has files without their bytes.
func dataless(fs.FileInfo) bool { return false }
