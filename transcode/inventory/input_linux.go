package inventory

import "os"

// Input says how ffmpeg and ffprobe are given the open file f: the name to put
// after -i, and the files to hand over as descriptors 3, 4, ….
//
// Linux opens /dev/fd/3 anew on the inode that we hold, so that nothing can be
// put in its place between our checks and the reading, and it is seekable.
func Input(f *os.File) (name string, files []*os.File) {
	return "file:/dev/fd/3", []*os.File{f}
}
