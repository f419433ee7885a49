package gather

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"macbatch/lease"
	"macbatch/transcode/inventory"
)

// OutputExtra is the problem of a file that no manifest tells of.
const OutputExtra = "output_extra"

// extra finds files below an output folder that its manifest does not tell of. Where
// the films themselves lie in it everything else may too, and nothing is said.
func extra(root *os.Root, lines map[sourceKey]*Line) (problems []lease.Problem, err error) {
	ours := map[string]bool{manifestName: true}
	for _, l := range lines {
		if fi, err := root.Lstat(string(l.Source.Path)); err == nil && fi.Mode().IsRegular() && l.output(string(l.Source.Path)) == nil {
			return nil, nil
		}
		for _, o := range l.Outputs {
			ours[string(o.Path)] = true
		}
	}
	lists := false // the results of a list are in the same folder, with a manifest of their own
	if fi, err := root.Lstat("manifest.json"); err == nil && fi.Mode().IsRegular() {
		lists = true
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == workDir:
			return fs.SkipDir
		case e.IsDir() || ours[name] || path.Base(name) == ".DS_Store" || strings.HasPrefix(path.Base(name), "._"):
		case lists && !strings.Contains(name, "/"):
		default:
			problems = append(problems, lease.Problem{Kind: OutputExtra, Subject: text(inventory.Path(name)), Detail: "no line of the manifest tells of it"})
		}
		return nil
	})
	return problems, err
}
