package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"macbatch/lease"
	"macbatch/lease/item"
	"macbatch/transcribe/ocr"
)

// input is the canonical input of a list job, in a file of its own that goes when
// it is closed.
type input struct {
	lease.Input
	items int
	file  *os.File
}

func (in *input) close() error {
	return errors.Join(in.file.Close(), os.Remove(in.file.Name()))
}

// maxFile is the largest text, image or document that becomes an item: in base64
// it must fit a line.
const maxFile = item.MaxLine / 4 * 3

// readInput makes a list job's input of files. Problems are printed, all of them;
// with any, unless bad ones are to be skipped, there is no input.
func (c *command) readInput(paths []string, nul, skipBad bool, check func(*item.Item) error) (_ *input, err error) {
	if nul {
		if len(paths) > 0 {
			return nil, usagef("with -0 the files come from standard input: there must be none beside")
		}
		if paths, err = nulPaths(c.stdin); err != nil {
			return nil, err
		}
	} else if paths, err = globbed(paths); err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, usagef("no input: name files, or - for standard input")
	}
	file, err := os.CreateTemp("", "macbatch-input-*")
	if err != nil {
		return nil, fmt.Errorf("keep input: %w", err)
	}
	in := &input{file: file}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	sum := &summed{to: file, h: sha256.New()}
	w := item.NewWriter(sum, check)
	for _, p := range paths {
		if err := c.addFile(w, p); err != nil {
			return nil, err
		}
	}
	for _, p := range w.Problems {
		fmt.Fprintln(c.stderr, printable(p.String()))
	}
	if more := w.Bad - len(w.Problems); more > 0 {
		fmt.Fprintf(c.stderr, "and %s\n", plural(uint64(more), "further problem"))
	}
	switch {
	case w.Bad > 0 && !skipBad:
		err := error(&exitError{exitUsage, plural(uint64(w.Bad), "problem") + " in the input; nothing was queued"})
		if w.Items > 0 {
			err = hint(err, "--skip-bad takes the good lines")
		}
		return nil, err
	case w.Items == 0:
		return nil, &exitError{exitUsage, "there are no items in the input"}
	case w.Bad > 0:
		fmt.Fprintf(c.stderr, "%s skipped\n", plural(uint64(w.Bad), "bad line"))
	}
	if err := sum.flush(); err != nil {
		return nil, fmt.Errorf("keep input: %w", err)
	}
	in.items = w.Items
	in.Input = lease.Input{Digest: lease.Digest(sum.h.Sum(nil)), Bytes: w.Bytes}
	return in, nil
}

// nulPaths reads file names that NUL ends.
func nulPaths(r io.Reader) ([]string, error) {
	b, err := io.ReadAll(io.LimitReader(r, 256<<20))
	if err != nil {
		return nil, fmt.Errorf("read file names: %w", err)
	}
	var paths []string
	for _, p := range strings.Split(string(b), "\x00") {
		if p != "" {
			paths = append(paths, p)
		}
	}
	return paths, nil
}

// globbed expands patterns that the shell left alone. A file of that very name
// comes first.
func globbed(args []string) (paths []string, err error) {
	for _, a := range args {
		if _, err := os.Lstat(a); err == nil || a == "-" || !strings.ContainsAny(a, "*?[") {
			paths = append(paths, a)
			continue
		}
		found, err := filepath.Glob(a)
		if err != nil {
			return nil, usagef("pattern %q: %v", a, err)
		}
		if len(found) == 0 {
			return nil, usagef("pattern %q matches nothing", a)
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

// beginsItem tells a file of items, though called .json, from a document that is one
// item: also an array of them, which is refused as such.
var beginsItem = regexp.MustCompile(`^(\x{feff})?\s*\[?\s*\{\s*"custom_id"\s*:`)

// addFile adds what is in a file: its lines, or itself.
func (c *command) addFile(w *item.Writer, path string) error {
	if path == "-" {
		return copyLines(w, "standard input", ".", c.stdin)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		w.Fault(path, reasonOf(err))
		return nil
	case fi.IsDir():
		w.Fault(path, "it is a folder: name its files, such as "+filepath.Join(path, "*"))
		return nil
	case !fi.Mode().IsRegular():
		w.Fault(path, "it is no file")
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		w.Fault(path, reasonOf(err))
		return nil
	}
	defer f.Close()
	if slices.Contains([]string{".jsonl", ".ndjson"}, strings.ToLower(filepath.Ext(path))) {
		return copyLines(w, path, filepath.Dir(path), f)
	}
	if fi.Size() > maxFile {
		w.Fault(path, fmt.Sprintf("%d bytes are too large an item; at most %d", fi.Size(), maxFile))
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read %q: %w", path, err)
	}
	if strings.EqualFold(filepath.Ext(path), ".json") && beginsItem.Match(b) {
		return copyLines(w, path, filepath.Dir(path), bytes.NewReader(b))
	}
	line, fault := lineOf(path, b)
	if fault != "" {
		w.Fault(path, fault)
		return nil
	}
	return w.Add(path, line)
}

// copyLines adds the lines of a file. Images and documents that they name by path
// are put into them: such as lie in the file's own folder, or below.
func copyLines(w *item.Writer, name, dir string, r io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("folder of %q: %w", name, err)
	}
	defer root.Close()
	w.Inline = func(it *item.Item) ([]byte, error) {
		for _, field := range []string{"image", "document"} {
			if path := it.File(field); path != "" && !it.Batch() {
				return inline(root, it, field, path)
			}
		}
		return nil, nil
	}
	defer func() { w.Inline = nil }()
	return w.Copy(name, r)
}

func inline(root *os.Root, it *item.Item, field, path string) ([]byte, error) {
	if strings.Contains(path, "://") {
		return nil, fmt.Errorf("%s must be a data URL or a file here, and is an address", field)
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %s", field, path, reasonOf(err))
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil, fmt.Errorf("%s %q: no file, or one over %d bytes", field, path, maxFile)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s %q: %s", field, path, reasonOf(err))
	}
	kind := mediaType(b)
	if kind == "" {
		return nil, fmt.Errorf("%s %q: neither an image nor a PDF file", field, path)
	}
	return it.With(field, kind, b)
}

// mediaType is what an image or a document is; "" for something else.
func mediaType(b []byte) string {
	kind := ocr.Sniff(b)
	if kind == "" {
		return ""
	}
	if kind == ocr.TIFF { // which the library does not know
		return "image/tiff"
	}
	return http.DetectContentType(b)
}

// lineOf makes an item of a text, an image or a document. Its custom_id is the
// path as it was given.
func lineOf(path string, b []byte) (line []byte, fault string) {
	id := path
	if !utf8.ValidString(id) {
		id = "percent:" + url.PathEscape(id)
	}
	var err error
	switch kind := mediaType(b); {
	case kind != "":
		line, err = item.OfData(id, kind, b)
	default:
		b = bytes.TrimPrefix(b, []byte("\ufeff"))
		if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
			if format := item.Format(b); format != "" {
				return nil, item.Unusable(format)
			}
			return nil, "neither a text in UTF-8, nor an image, nor a PDF file"
		}
		if len(bytes.TrimSpace(b)) == 0 {
			return nil, "it is empty"
		}
		line, err = item.OfText(id, string(b))
	}
	if err != nil {
		return nil, err.Error()
	}
	return line, ""
}

// reasonOf is what went wrong, without the path that is told anyway.
func reasonOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// summed is a buffered file and its digest.
type summed struct {
	to  *os.File
	h   hash.Hash
	buf []byte
}

func (s *summed) Write(p []byte) (int, error) {
	s.h.Write(p)
	if len(s.buf)+len(p) > 1<<20 {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > 1<<20 {
		return s.to.Write(p)
	}
	s.buf = append(s.buf, p...)
	return len(p), nil
}

func (s *summed) flush() error {
	_, err := s.to.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// submitList queues a list job: the control plane is asked first, and given the
// input when it does not have it.
func submitList(ctx context.Context, ctl lease.Control, s lease.Submission, in *input) (lease.JobID, error) {
	if s.Input = in.Input; s.Project == "" {
		s.Project = lease.DefaultProject
	}
	for tries := 0; ; tries++ {
		id, err := ctl.Submit(ctx, s)
		if !errors.Is(err, lease.ErrNeedBlob) || tries == 3 {
			return id, err
		}
		if _, err := in.file.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		if err := ctl.PutBlob(ctx, lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: s.Project}, io.NopCloser(in.file)); err != nil {
			return 0, fmt.Errorf("upload input: %w", err)
		}
	}
}
