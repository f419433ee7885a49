package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// fieldFile is a file as people have them, and what must come of it.
type fieldFile struct {
	name  string
	bytes string
	file  string // its name; "": in.jsonl
	kind  string // "": embed

	ids     []string // of the answers, in order
	passed  []string // bodies that a server must be sent, byte for byte
	refused []string // what is told behind the file's name; nothing is queued then
}

const (
	fa = `{"custom_id":"a","input":"one"}`
	fb = `{"custom_id":"b","input":"two"}`
)

// chatLine is a batch line with a body of its own.
func chatLine(id, body string) string {
	return `{"custom_id":"` + id + `","method":"POST","url":"/v1/chat/completions","body":` + body + `}`
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func utf16s(order binary.AppendByteOrder, s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s)) // onto a buffer, which takes all
	_ = w.Close()
	return b.String()
}

// fieldFiles makes them: they are large, and the test binary is every command of the
// scripts as well.
func fieldFiles() []fieldFile {
	ab := []string{"a", "b"}
	return []fieldFile{
		// Line ends, marks and blanks.
		{name: "as it should be", bytes: fa + "\n" + fb + "\n", ids: ab},
		{name: "byte order mark", bytes: "\ufeff" + fa + "\n" + fb + "\n", ids: ab},
		{name: "CRLF", bytes: fa + "\r\n" + fb + "\r\n", ids: ab},
		{name: "both ends", bytes: fa + "\r\n" + fb + "\n", ids: ab},
		{name: "no final end", bytes: fa + "\n" + fb, ids: ab},
		{name: "blank lines", bytes: "\n\n" + fa + "\n \t\n" + fb + "\n\n\n", ids: ab},
		{name: "mark and CRLF and blanks", bytes: "\ufeff\r\n" + fa + "\r\n\r\n" + fb, ids: ab},
		{name: "mark within, as files joined have it", bytes: fa + "\n\ufeff" + fb + "\n", ids: ab},
		{name: "blanks around", bytes: "  \t" + fa + "  \n" + "\t" + fb + "\t\n", ids: ab},
		{name: "CR alone", bytes: fa + "\r" + fb + "\r", refused: []string{":1: lines end in CR alone"}},
		{name: "two CR", bytes: fa + "\r\r\n" + fb + "\r\r\n", ids: ab},
		{name: "upper-case extension", file: "IN.JSONL", bytes: fa + "\n" + fb + "\n", ids: ab},
		{name: "ndjson", file: "in.ndjson", bytes: fa + "\n" + fb + "\n", ids: ab},
		{name: "lines called json", file: "in.json", bytes: fa + "\n" + fb + "\n", ids: ab},
		{name: "name of odd bytes", file: "b\u00e4d %s\u202e$(x).jsonl", bytes: fa + "\n" + fb + "\n", ids: ab},

		// Other encodings and formats.
		{name: "UTF-16 little", bytes: utf16s(binary.LittleEndian, "\ufeff"+fa+"\n"), refused: []string{": the file is UTF-16"}},
		{name: "UTF-16 big, no mark", bytes: utf16s(binary.BigEndian, fa+"\n"), refused: []string{": the file is UTF-16"}},
		{name: "UTF-32", bytes: "\xff\xfe\x00\x00{\x00\x00\x00", refused: []string{": the file is UTF-32"}},
		{name: "Latin-1", bytes: fa + "\n" + `{"custom_id":"b","input":"caf` + "\xe9" + `"}`, refused: []string{":2: invalid UTF-8"}},
		{name: "gzip", bytes: gzipped(fa + "\n"), refused: []string{": the file is compressed by gzip"}},
		{name: "gzip by its name", file: "in.jsonl.gz", bytes: gzipped(fa + "\n"), refused: []string{": the file is compressed by gzip"}},
		{name: "zstd", bytes: "\x28\xb5\x2f\xfd" + strings.Repeat("x", 30), refused: []string{": the file is compressed by zstd"}},
		{name: "bzip2", bytes: "BZh91AY&SY" + strings.Repeat("x", 30), refused: []string{": the file is compressed by bzip2"}},
		{name: "xz", bytes: "\xfd7zXZ\x00" + strings.Repeat("x", 30), refused: []string{": the file is compressed by xz"}},
		{name: "ZIP", bytes: "PK\x03\x04" + strings.Repeat("x", 30), refused: []string{": the file is a ZIP archive"}},
		{name: "Parquet", bytes: "PAR1" + strings.Repeat("\x15\x00", 30), refused: []string{": the file is a Parquet table"}},
		{name: "SQLite", bytes: "SQLite format 3\x00" + strings.Repeat("\x15\x00", 30), refused: []string{": the file is a SQLite database"}},
		{name: "CSV", bytes: "custom_id,input\na,one\nb,two\n", refused: []string{":1: ", ":2: ", ":3: "}},
		{name: "a web page", bytes: "<!DOCTYPE html>\n<p>404\n", refused: []string{":1: ", ":2: "}},
		{name: "RFC 7464", bytes: "\x1e" + fa + "\n\x1e" + fb + "\n", refused: []string{":1: ", ":2: "}},

		// Not there.
		{name: "empty", bytes: "", refused: []string{": there are no items in it"}},
		{name: "blank", bytes: "\n \n\r\n", refused: []string{": there are no items in it"}},
		{name: "a mark only", bytes: "\ufeff", refused: []string{": there are no items in it"}},
		{name: "zeros at the end", bytes: fa + "\n" + strings.Repeat("\x00", 512), refused: []string{":2: there are NUL bytes in it"}},
		{name: "the end of DOS", bytes: fa + "\r\n" + fb + "\r\n\x1a", refused: []string{":3: "}},

		// No JSON, or not by the line.
		{name: "array on a line", bytes: "[" + fa + "," + fb + "]", refused: []string{":1: the file is one JSON array"}},
		{name: "array of lines", bytes: "[\n" + fa + ",\n" + fb + "\n]\n", refused: []string{":1: the file is one JSON array", ":2: ", ":4: "}},
		{name: "array called json", file: "in.json", bytes: "[\n" + fa + ",\n" + fb + "\n]\n", refused: []string{":1: the file is one JSON array"}},
		{name: "indented", bytes: "{\n  \"custom_id\": \"a\",\n  \"input\": \"x\"\n}\n", refused: []string{":1: an item must be on one line", ":2: ", ":4: "}},
		{name: "two on a line", bytes: fa + fb + "\n", refused: []string{":1: "}},
		{name: "cut off", bytes: fa + "\n" + fb[:20], refused: []string{":2: "}},
		{name: "comma behind", bytes: fa + ",\n" + fb + "\n", refused: []string{":1: "}},
		{name: "comma within", bytes: `{"custom_id":"a","input":"x",}`, refused: []string{":1: "}},
		{name: "quotes of print", bytes: "{\u201ccustom_id\u201d:\u201ca\u201d}\n" + fb, refused: []string{":1: "}},
		{name: "quotes of Python", bytes: "{'custom_id':'a','input':'x'}", refused: []string{":1: "}},
		{name: "NaN", bytes: fa + "\n" + `{"custom_id":"b","input":"x","score":NaN}`, refused: []string{":2: "}},
		{name: "a comment", bytes: "// mails\n" + fa + "\n", refused: []string{":1: "}},
		{name: "other values", bytes: "null\n5\n\"a\"\n[]\n" + fa, refused: []string{":1: ", ":2: ", ":3: ", ":4: "}},
		{name: "a tab in a text", bytes: "{\"custom_id\":\"a\",\"input\":\"x\ty\"}", refused: []string{":1: "}},
		{name: "a NUL in a text", bytes: "{\"custom_id\":\"a\",\"input\":\"x\x00y\"}", refused: []string{":1: there are NUL bytes in it"}},

		// Texts and numbers.
		{name: "lone surrogate", bytes: fb + "\n" + `{"custom_id":"a","input":"x\ud800y"}`, refused: []string{":2: "}},
		{name: "lone surrogate in an id", bytes: `{"custom_id":"\udc00","input":"x"}`, refused: []string{":1: "}},
		{name: "lone surrogate in a body", kind: "generate", bytes: chatLine("a", `{"model":"m","messages":[{"role":"user","content":"\ud83d"}]}`), refused: []string{":1: "}},
		{name: "pairs and controls by escape", bytes: `{"custom_id":"a","input":"\ud83d\ude00\u0000\u2028"}` + "\n" + fb, ids: ab},
		{name: "numbers", kind: "generate", bytes: chatLine("a", `{"model":"m","seed":12345678901234567890,"temperature":1e-400,"top_p":1.0,"x":-0,"y":0.1000000000000000055511151231257827,`+hi+`}`), ids: []string{"a"},
			passed: []string{`{"model":"m","seed":12345678901234567890,"temperature":1e-400,"top_p":1.0,"x":-0,"y":0.1000000000000000055511151231257827,` + hi + `}`}},
		{name: "blanks and escapes in a body", kind: "generate", bytes: chatLine("a", "{ \"model\" :\t\"m\",  "+`"messages":[{"role":"user","content":"\u00e9\/é"}] }`), ids: []string{"a"},
			passed: []string{"{ \"model\" :\t\"m\",  " + `"messages":[{"role":"user","content":"\u00e9\/é"}] }`}},
		{name: "deep", kind: "generate", bytes: chatLine("a", `{"model":"m",`+hi+`,"x":`+nested(60)+`}`), ids: []string{"a"}, passed: []string{`{"model":"m",` + hi + `,"x":` + nested(60) + `}`}},
		{name: "too deep", bytes: fa + "\n" + `{"custom_id":"b","input":"x","y":` + nested(20_000) + `}`, refused: []string{":2: nested deeper than 64"}},
		{name: "10 MB", bytes: fa + "\n" + `{"custom_id":"b","input":"` + strings.Repeat("word ", 2<<20) + `"}`, ids: ab},
		{name: "33 MB", bytes: fa + "\n" + `{"custom_id":"b","input":"` + strings.Repeat("x", 33<<20) + `"}` + "\n", refused: []string{":2: line over the limit of 33554432 bytes"}},
		{name: "white text", bytes: fa + "\n" + `{"custom_id":"b","input":" \n\u00a0"}`, refused: []string{":2: its text is empty"}},
		{name: "a list for a text", bytes: `{"custom_id":"a","input":["x"]}`, refused: []string{":1: input must be a string"}},

		// Ids and names.
		{name: "the same id", bytes: fa + "\n" + fb + "\n" + fa + "\n", refused: []string{`:3: custom_id "a" is that of line 1 too`}},
		{name: "the same id by escape", bytes: fa + "\n" + `{"custom_id":"\u0061","input":"x"}`, refused: []string{`:2: custom_id "a" is that of line 1 too`}},
		{name: "no id", bytes: `{"input":"x"}` + "\n" + `{"custom_id":null,"input":"x"}` + "\n" + `{"custom_id":7,"input":"x"}` + "\n" + `{"custom_id":"","input":"x"}` + "\n" + `{"Custom_ID":"a","input":"x"}`,
			refused: []string{":1: custom_id is missing", ":2: custom_id must be a string", ":3: custom_id must be a string", ":4: custom_id is empty", ":5: custom_id is missing"}},
		{name: "ids like paths", bytes: `{"custom_id":"../../etc/passwd","input":"x"}` + "\n" + `{"custom_id":"a/b\u0000","input":"x"}` + "\n" + `{"custom_id":"-rf","input":"x"}`, ids: []string{"../../etc/passwd", "a/b\x00", "-rf"}},
		{name: "ids of two forms", bytes: "{\"custom_id\":\"\u00e9\",\"input\":\"x\"}\n{\"custom_id\":\"e\u0301\",\"input\":\"x\"}", ids: []string{"\u00e9", "e\u0301"}},
		{name: "long ids", bytes: `{"custom_id":"` + strings.Repeat("x", 5000) + `","input":"x"}`, ids: []string{strings.Repeat("x", 5000)}},
		{name: "too long an id", bytes: fa + "\n" + `{"custom_id":"` + strings.Repeat("x", 9000) + `","input":"x"}`, refused: []string{":2: custom_id of 9000 bytes, over the limit"}},
		{name: "a name twice", bytes: `{"custom_id":"a","input":"x","input":"y"}`, refused: []string{":1: "}},
		{name: "a name twice in a body", kind: "generate", bytes: chatLine("a", `{"model":"m",`+hi+`,"seed":1,"seed":2}`), refused: []string{":1: "}},

		// Batch lines.
		{name: "mixed", bytes: fa + "\n" + `{"custom_id":"b","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"x"}}`, refused: []string{":2: is a batch line, and line 1 is a plain item"}},
		{name: "other calls", kind: "generate", bytes: strings.Replace(chatLine("a", `{"model":"m",`+hi+`}`), "POST", "post", 1) + "\n" +
			strings.Replace(chatLine("b", `{"model":"m",`+hi+`}`), "/v1/", "https://api.openai.com/v1/", 1), refused: []string{`:1: method must be "POST"`, ":2: url "}},
		{name: "bodies that are none", kind: "generate", bytes: chatLine("a", `"{}"`) + "\n" + chatLine("b", `null`) + "\n" + chatLine("c", `{}`) + "\n" + chatLine("d", `{"model":"m"}`) + "\n" + chatLine("e", `{"model":"m",`+hi+`,"stream":true}`),
			refused: []string{":1: body must be an object", ":2: body must be an object", ":3: body: model is missing", ":4: body: messages is missing", ":5: body: a batch can't stream"}},
		{name: "two models", kind: "generate", bytes: chatLine("a", `{"model":"m",`+hi+`}`) + "\n" + chatLine("b", `{"model":"n",`+hi+`}`), refused: []string{`:2: body asks for model "n", the job is of "m"`}},
		{name: "lists of texts", bytes: `{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":["x","y","z"]}}`, ids: []string{"a"}},
		{name: "an answer for an input", bytes: `{"id":"batch_req_1","custom_id":"a","response":{"status_code":200,"body":{}},"error":null}`, refused: []string{":1: "}},
	}
}
