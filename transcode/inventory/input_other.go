//go:build !linux

package inventory

import "os"

// Input says how ffmpeg and ffprobe are given the open file f: the name to put
// after -i, and the files to hand over as descriptors 3, 4, ….
//
// Elsewhere /dev/fd/3 is a duplicate that shares one offset among all who open
// it, so the file goes by its absolute path; callers compare the identity of
// path and descriptor before and after.
func Input(f *os.File) (name string, files []*os.File) {
	return "file:" + f.Name(), nil
}
