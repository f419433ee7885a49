package item

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"macbatch/lease"
)

// Problem is what is wrong with a line of an input.
type Problem struct {
	Name string // of the file
	Line int    // from 1; 0: the file as a whole
	Text string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.Name, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.Name, p.Line, p.Text)
}

// maxProblems is how many problems are kept; further ones are counted.
const maxProblems = 1000

// Writer writes the canonical input of files, one after another, and notes what is
// wrong with them. Items must differ in their custom_id and be of one form.
type Writer struct {
	Check func(*Item) error // what the kind asks of an item; nil: nothing

	// Inline returns the line that takes an item's place, where it names files that
	// are to be in it; nil: it stays as it is. May be nil itself.
	Inline func(*Item) ([]byte, error)

	Items    int   // written
	Bad      int   // lines that are none
	Bytes    int64 // written
	Problems []Problem

	to    io.Writer
	names []string
	seen  map[[16]byte]place // of a custom_id: its digest, for there may be millions
	batch *bool              // the form of the first item
	first place
}

// place is a line of a file.
type place struct{ file, line uint32 }

// NewWriter returns a Writer onto w.
func NewWriter(w io.Writer, check func(*Item) error) *Writer {
	return &Writer{Check: check, to: w, seen: map[[16]byte]place{}}
}

// Copy takes over the lines of r, a file called name in problems. The error is that
// of reading or writing: what is wrong with the lines is in w.Problems.
func (w *Writer) Copy(name string, r io.Reader) error {
	w.names = append(w.names, name)
	lines := newLines(r)
	if what := lines.encoding(); what != "" {
		w.bad(0, Unusable(what))
		return lines.err()
	}
	any := false
	for n := 1; ; n++ {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLong) {
			w.bad(n, fmt.Sprintf("line over the limit of %d bytes", MaxLine))
			any = true
			continue
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", name, err)
		}
		line = bytes.TrimPrefix(line, []byte(mark)) // at the beginning, or where files were joined
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		any = true
		if err := w.line(n, line); err != nil {
			return err
		}
	}
	if !any {
		w.bad(0, "there are no items in it")
	}
	return nil
}

// Unusable says what to do about a file of another format.
func Unusable(format string) string { return "the file is " + format + "; make it lines in UTF-8" }

// Add takes over one item as a line of its own: what the file called name became.
func (w *Writer) Add(name string, line []byte) error {
	w.names = append(w.names, name)
	return w.line(0, line)
}

// Fault notes a file that can't be used at all.
func (w *Writer) Fault(name, text string) {
	w.names = append(w.names, name)
	w.bad(0, text)
}

func (w *Writer) line(n int, line []byte) error {
	it, err := Parse(line)
	if err != nil {
		w.bad(n, explain(n, line, err))
		return nil
	}
	if w.Inline != nil {
		other, err := w.Inline(it)
		if err == nil && other != nil {
			line = other
			it, err = Parse(line)
		}
		if err != nil {
			w.bad(n, err.Error())
			return nil
		}
	}
	if text := w.refuse(n, it); text != "" {
		w.bad(n, text)
		return nil
	}
	w.Items++
	w.Bytes += int64(len(line)) + 1
	if _, err = w.to.Write(line); err == nil {
		_, err = w.to.Write([]byte{'\n'})
	}
	return err
}

// refuse says what is wrong with an item that is one, "" for nothing.
func (w *Writer) refuse(n int, it *Item) string {
	at := place{uint32(len(w.names) - 1), uint32(n)}
	sum := sha256.Sum256([]byte(it.ID))
	key := [16]byte(sum[:16])
	if first, ok := w.seen[key]; ok {
		return fmt.Sprintf("custom_id %.100q is that of %s too", it.ID, w.where(first))
	}
	w.seen[key] = at
	if batch := it.Batch(); w.batch == nil {
		w.batch, w.first = &batch, at
	} else if *w.batch != batch {
		forms := map[bool]string{true: "a batch line", false: "a plain item"}
		return fmt.Sprintf("is %s, and %s is %s: they can't be mixed", forms[batch], w.where(w.first), forms[!batch])
	}
	if w.Check != nil {
		if err := w.Check(it); err != nil {
			return err.Error()
		}
	}
	return ""
}

func (w *Writer) where(p place) string {
	name := w.names[p.file]
	switch {
	case p.line == 0:
		return name
	case int(p.file) == len(w.names)-1:
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s:%d", name, p.line)
}

func (w *Writer) bad(n int, text string) {
	w.Bad++
	if len(w.Problems) < maxProblems {
		w.Problems = append(w.Problems, Problem{w.names[len(w.names)-1], n, text})
	}
}

// explain says what is wrong with a line that is no item, and recognises the files
// that people take for JSON Lines.
func explain(n int, line []byte, err error) string {
	text := err.Error()
	if errors.Is(err, lease.ErrMalformed) {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "read JSON: "), ": "+lease.ErrMalformed.Error())
	}
	trimmed := bytes.TrimSpace(line)
	switch {
	case bytes.IndexByte(trimmed, '\r') >= 0:
		return "lines end in CR alone; end them in LF"
	case bytes.IndexByte(trimmed, 0) >= 0:
		return "there are NUL bytes in it; is it text in UTF-8?"
	case n == 1 && trimmed[0] == '[':
		return "the file is one JSON array; an item must be a line of its own, without brackets and commas around it"
	case len(trimmed) == 1 && trimmed[0] == '{':
		return "an item must be on one line; the file seems to be indented for people"
	}
	return text
}

// lines splits a stream into lines.
type lines struct {
	r    *bufio.Reader
	long []byte
}

var errLong = errors.New("line too long")

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 256<<10)} }

// mark is the byte order mark in UTF-8.
const mark = "\ufeff"

// encoding names an encoding or a format that is another.
func (l *lines) encoding() string {
	head, _ := l.r.Peek(sniffed) // its error comes again
	return Format(head)
}

// sniffed is how many bytes Format needs at most.
const sniffed = 16

// Format names what a file that begins with head is, when that can be no lines of
// UTF-8; "" for what may be.
func Format(head []byte) string {
	for _, f := range formats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.name
		}
	}
	if len(head) >= 2 && (head[0] == 0) != (head[1] == 0) {
		return "UTF-16"
	}
	return ""
}

// formats are told by their first bytes, the longer ones first.
var formats = []struct{ magic, name string }{
	{"\xff\xfe\x00\x00", "UTF-32"}, {"\x00\x00\xfe\xff", "UTF-32"}, {"\x00\x00\x00", "UTF-32"},
	{"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
	{"\x1f\x8b", "compressed by gzip"}, {"\x28\xb5\x2f\xfd", "compressed by zstd"}, {"BZh", "compressed by bzip2"}, {"\xfd7zXZ\x00", "compressed by xz"},
	{"PK\x03\x04", "a ZIP archive"}, {"PAR1", "a Parquet table"}, {"SQLite format 3\x00", "a SQLite database"},
}

// err drops the rest and returns the error of reading it.
func (l *lines) err() error {
	_, err := io.Copy(io.Discard, l.r)
	return err
}

// next returns the next line without its end, valid until the call after; io.EOF
// after the last; errLong for one that is over MaxLine and was skipped.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == nil || errors.Is(err, io.EOF) && len(line) > 0 {
		return clip(line), nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	l.long = append(l.long[:0], line...)
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.r.ReadSlice('\n')
		if tooLong = tooLong || len(l.long)+len(line) > MaxLine; !tooLong {
			l.long = append(l.long, line...)
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case tooLong:
		return nil, errLong
	}
	return clip(l.long), nil
}

// clip takes the line's end away.
func clip(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}
