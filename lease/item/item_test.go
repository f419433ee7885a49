package item_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"macbatch/lease/item"
)

// copied runs files through one Writer.
func copied(t *testing.T, check func(*item.Item) error, files ...string) (string, *item.Writer) {
	t.Helper()
	var out bytes.Buffer
	w := item.NewWriter(&out, check)
	for i, f := range files {
		if err := w.Copy(fmt.Sprintf("f%d", i), strings.NewReader(f)); err != nil {
			t.Fatal(err)
		}
	}
	if int64(out.Len()) != w.Bytes || strings.Count(out.String(), "\n") != w.Items {
		t.Errorf("%d bytes of %d lines written, %d of %d counted", out.Len(), strings.Count(out.String(), "\n"), w.Bytes, w.Items)
	}
	return out.String(), w
}

const (
	a     = `{"custom_id":"a","input":"x"}`
	b     = `{"custom_id":"b","input":"y"}`
	batch = `{"custom_id":"c","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"z"}}`
)

func TestTolerated(t *testing.T) {
	want := a + "\n" + b + "\n"
	for name, in := range map[string]string{
		"as it should be":    want,
		"no final line end":  a + "\n" + b,
		"byte order mark":    "\ufeff" + want,
		"CRLF":               a + "\r\n" + b + "\r\n",
		"blank lines":        "\n\n" + a + "\n \t\n" + b + "\n\n\n",
		"blank CRLF lines":   "\r\n" + a + "\r\n\r\n" + b,
		"mark and nothing":   "\ufeff\n" + want,
		"one line of each":   a + "\n" + b + "\r\n",
		"two files' worth":   a + "\n" + b + "\n\n",
		"line ends at end":   want + "\r\n",
		"white space behind": a + "\n" + b + "\n   ",
	} {
		got, w := copied(t, nil, in)
		if got != want || w.Bad != 0 {
			t.Errorf("%s: %q, %v", name, got, w.Problems)
		}
	}
	odd := ` {"custom_id" : "a" , "n":12345678901234567890123, "f":1e400,"u":"\u00e9\ud83d\ude00","e":1.0E+2 }`
	if got, w := copied(t, nil, odd); got != odd+"\n" || w.Bad != 0 {
		t.Errorf("bytes were changed: %q, %v", got, w.Problems)
	}
}

func TestRefused(t *testing.T) {
	wide := func(order string, s string) string {
		var out []byte
		for _, u := range utf16.Encode([]rune(s)) {
			if order == "le" {
				out = append(out, byte(u), byte(u>>8))
			} else {
				out = append(out, byte(u>>8), byte(u))
			}
		}
		return string(out)
	}
	for name, c := range map[string]struct {
		in   string
		line int
		want string
	}{
		"empty file":            {"", 0, "no items"},
		"blank file":            {"\n \n\t\r\n", 0, "no items"},
		"mark only":             {"\ufeff", 0, "no items"},
		"UTF-16 with mark":      {"\xff\xfe" + wide("le", a), 0, "UTF-16"},
		"UTF-16, other order":   {"\xfe\xff" + wide("be", a), 0, "UTF-16"},
		"UTF-16 without mark":   {wide("le", a), 0, "UTF-16"},
		"UTF-16 BE without":     {wide("be", a), 0, "UTF-16"},
		"gzip":                  {"\x1f\x8b\x08\x00", 0, "gzip"},
		"CR only":               {a + "\r" + b + "\r", 1, "CR alone"},
		"array file":            {"[" + a + ",\n" + b + "]", 1, "JSON array"},
		"indented":              {"{\n  \"custom_id\": \"a\"\n}\n", 1, "on one line"},
		"trailing comma":        {a + "\n" + strings.Replace(b, "}", ",}", 1), 2, "column"},
		"comma behind":          {a + ",\n" + b, 1, "column"},
		"smart quotes":          {"{\u201ccustom_id\u201d:\u201ca\u201d}", 1, "column 2"},
		"two objects":           {a + b, 1, "column"},
		"two objects, spaced":   {a + " " + b, 1, "column"},
		"truncated tail":        {a + "\n" + b[:len(b)-5], 2, "column"},
		"NaN":                   {`{"custom_id":"a","x":NaN}`, 1, "column"},
		"invalid UTF-8":         {"{\"custom_id\":\"a\",\"x\":\"\xff\"}", 1, "UTF-8"},
		"lone surrogate":        {`{"custom_id":"a","x":"\ud800"}`, 1, "/x"},
		"duplicate key":         {`{"custom_id":"a","x":1,"x":2}`, 1, "duplicate"},
		"duplicate key, deep":   {`{"custom_id":"a","x":{"y":1,"y":2}}`, 1, "duplicate"},
		"two custom_ids":        {`{"custom_id":"a","custom_id":"b"}`, 1, "duplicate"},
		"20000 levels":          {`{"custom_id":"a","x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, 1, "nested deeper"},
		"no id":                 {`{"input":"x"}`, 1, "custom_id is missing"},
		"id in another case":    {`{"Custom_ID":"a"}`, 1, "custom_id is missing"},
		"id a number":           {`{"custom_id":7}`, 1, "custom_id must be a string"},
		"id null":               {`{"custom_id":null}`, 1, "custom_id must be a string"},
		"id empty":              {`{"custom_id":""}`, 1, "custom_id is empty"},
		"id too long":           {`{"custom_id":"` + strings.Repeat("x", item.MaxID+1) + `"}`, 1, "over the limit"},
		"null":                  {"null", 1, "null"},
		"text":                  {"hello world", 1, "column"},
		"string":                {`"x"`, 1, "column"},
		"NUL":                   {a + "\n\x00\x00\x00", 2, "NUL"},
		"batch with more":       {`{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{},"x":1}`, 1, `"x"`},
		"batch without method":  {`{"custom_id":"a","url":"/v1/embeddings","body":{}}`, 1, "method is missing"},
		"batch without body":    {`{"custom_id":"a","method":"POST","url":"/v1/embeddings"}`, 1, "body is missing"},
		"batch by GET":          {`{"custom_id":"a","method":"GET","url":"/v1/embeddings","body":{}}`, 1, "POST"},
		"batch with array body": {`{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":[]}`, 1, "object"},
		"duplicate custom_id":   {a + "\n\n" + a, 3, `custom_id "a" is that of line 1 too`},
		"same id, escaped":      {a + "\n" + `{"custom_id":"\u0061"}`, 2, "that of line 1 too"},
		"mixed":                 {a + "\n" + batch, 2, "can't be mixed"},
	} {
		_, w := copied(t, nil, c.in)
		found := false
		for _, p := range w.Problems {
			found = found || p.Line == c.line && strings.Contains(p.Text, c.want)
		}
		if !found {
			t.Errorf("%s: %v, want line %d: %q", name, w.Problems, c.line, c.want)
		}
	}
}

func TestAllProblemsAreTold(t *testing.T) {
	got, w := copied(t, func(it *item.Item) error {
		if it.ID == "b" {
			return errors.New("not b")
		}
		return nil
	}, "x\n"+a+"\n{\n"+b+"\n"+a+"\n", `{"custom_id":"a"}`+"\n"+`{"custom_id":"d"}`)
	if got != a+"\n"+`{"custom_id":"d"}`+"\n" || w.Items != 2 || w.Bad != 5 {
		t.Errorf("kept %q, %d items, %d bad", got, w.Items, w.Bad)
	}
	var told []string
	for _, p := range w.Problems {
		told = append(told, p.String())
	}
	for i, want := range []string{"f0:1: ", "f0:3: ", "f0:4: not b", `f0:5: custom_id "a" is that of line 2 too`, `f1:1: custom_id "a" is that of f0:2 too`} {
		if i >= len(told) || !strings.HasPrefix(told[i], want) {
			t.Errorf("problem %d is %q, want %q", i, told[min(i, len(told)-1)], want)
		}
	}
	_, w = copied(t, nil, strings.Repeat("x\n", 5000))
	if w.Bad != 5000 || len(w.Problems) != 1000 {
		t.Errorf("%d bad lines of 5000, %d problems kept", w.Bad, len(w.Problems))
	}
}

func TestLongLines(t *testing.T) {
	line := func(n int) string { // of n bytes with its end
		return `{"custom_id":"x","input":"` + strings.Repeat("y", n-len(`{"custom_id":"x","input":""}`)-1) + `"}`
	}
	for _, n := range []int{70 << 10, 16 << 20, item.MaxLine} {
		if got, w := copied(t, nil, a+"\n"+line(n)+"\n"+b+"\n"); w.Bad != 0 || w.Items != 3 || len(got) != n+len(a)+len(b)+2 {
			t.Errorf("a line of %d bytes: %v", n, w.Problems)
		}
	}
	for _, n := range []int{item.MaxLine + 1, item.MaxLine + 2, item.MaxLine + 1<<20} {
		_, w := copied(t, nil, a+"\n"+line(n)+"\n"+b+"\n")
		if w.Items != 2 || len(w.Problems) != 1 || w.Problems[0].Line != 2 || !strings.Contains(w.Problems[0].Text, "over the limit") {
			t.Errorf("a line of %d bytes: %d items, %v", n, w.Items, w.Problems)
		}
	}
}

func TestOddIDsAreKept(t *testing.T) {
	for _, id := range []string{"../../etc/passwd", "a/b", "/", ".", "\x00", strings.Repeat("é", 2500), "a\nb", `"\`, "\u202e", "-rf"} {
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		it, err := item.Parse([]byte(`{"custom_id":` + string(quoted) + `}`))
		if err != nil || it.ID != id {
			t.Errorf("custom_id %q = %v, %v", id, it, err)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`"input":"x"`: "x", `"text":"x"`: "x", `"prompt":"\u0078"`: "x", `"input":"\"\\"`: `"\`,
		`"input":""`: "! input is empty", `"input":5`: "! must be a string", `"input":["a"]`: "! must be a string", `"x":1`: "! no text",
		`"input":"a","text":"b"`: "! which is the text",
	} {
		it, err := item.Parse([]byte(`{"custom_id":"a",` + in + `}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := it.Text()
		if bad, ok := strings.CutPrefix(want, "! "); ok && (err == nil || !strings.Contains(err.Error(), bad)) || !ok && got != want {
			t.Errorf("text of {%s} = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	w := item.NewWriter(io.Discard, nil)
	if err := w.Copy("f", io.MultiReader(strings.NewReader(a+"\n"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("Copy of a broken stream = %v", err)
	}
	if err := item.NewWriter(failing{broken}, nil).Copy("f", strings.NewReader(a)); !errors.Is(err, broken) {
		t.Errorf("Copy onto a full disk = %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestMillion bounds time and memory of a large input. The bounds are loose: the
// race detector and a busy machine cost several times what a quiet one does.
func TestMillion(t *testing.T) {
	const n = 200_000
	r, w := io.Pipe()
	go func() {
		var err error
		for i := 0; i < n && err == nil; i++ {
			_, err = fmt.Fprintf(w, `{"custom_id":"item-%d","input":"text number %d of a rather large input"}`+"\n", i, i)
		}
		w.CloseWithError(err)
	}()
	began := time.Now()
	to := item.NewWriter(io.Discard, func(it *item.Item) error { _, err := it.Text(); return err })
	if err := to.Copy("big", r); err != nil || to.Items != n || to.Bad != 0 {
		t.Fatalf("%d items, %v, %v", to.Items, to.Problems, err)
	}
	took := time.Since(began)
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d lines in %v, %d MiB held", n, took, mem.HeapAlloc>>20)
	if took > 30*time.Second || mem.HeapAlloc > 100<<20 {
		t.Errorf("%d lines took %v and hold %d MiB", n, took, mem.HeapAlloc>>20)
	}
	runtime.KeepAlive(to)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{a, b, batch, `{"custom_id":"\ud83d\ude00","x":[1,{"y":null}]}`, "null", "[]", `{"custom_id":"a","method":"POST"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		it, err := item.Parse(line)
		if err != nil {
			return
		}
		var std struct {
			ID *string `json:"custom_id"`
		}
		if err := json.Unmarshal(line, &std); err != nil || std.ID == nil || *std.ID != it.ID {
			// The standard decoder also takes names in another case, the last one wins.
			var exact map[string]any
			if err := json.Unmarshal(line, &exact); err != nil || exact["custom_id"] != it.ID {
				t.Fatalf("Parse(%q) = id %q, encoding/json reads %v, %v", line, it.ID, exact["custom_id"], err)
			}
		}
		if it.Batch() != (it.Body != nil) {
			t.Fatalf("Parse(%q): batch %v, body %q", line, it.Batch(), it.Body)
		}
	})
}

// FuzzCopy holds the canonical input to its promise: it goes through again unchanged.
func FuzzCopy(f *testing.F) {
	for _, s := range []string{a + "\r\n" + b, "\ufeff" + batch, "\xff\xfe{\x00", "[\n", a + "\r" + b, "\n\n\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var once, twice bytes.Buffer
		w := item.NewWriter(&once, nil)
		if err := w.Copy("f", bytes.NewReader(in)); err != nil {
			t.Fatal(err)
		}
		if w.Items == 0 {
			if w.Bad == 0 {
				t.Fatalf("Copy(%q): neither items nor problems", in)
			}
			return
		}
		w2 := item.NewWriter(&twice, nil)
		if err := w2.Copy("f", bytes.NewReader(once.Bytes())); err != nil || w2.Bad != 0 || !bytes.Equal(once.Bytes(), twice.Bytes()) || w2.Items != w.Items {
			t.Fatalf("Copy(%q) = %q, and of that %q, %v", in, once.Bytes(), twice.Bytes(), w2.Problems)
		}
	})
}
