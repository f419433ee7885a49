// Package subtitle writes a transcript as SRT, WebVTT, plain text, tab-separated
// values or Markdown, and reads the first two back.
//
// A cue has at most two lines of 42 characters, of about equal length, and lasts at
// most seven seconds; where the next one leaves the room it stands for a second to
// each 17 characters. Cues are in order, never overlap and are never empty. What the formats would
// take for markup is escaped: by entities in WebVTT; in SRT, which has none, by
// an invisible word joiner (U+2060) that the readers here take out again. A
// transcript that breaks its own rules is repaired first, so that a written
// file is always monotone.
//
// A TSV file has a line of names, "start", "end", "text", and one for each segment,
// times in ms. A Markdown file has the title and a paragraph for each of the text
// file's, with its time.
//
// Without speech an SRT or text file is empty, a WebVTT or TSV file is its header,
// and a Markdown file says so.
//
// Errors are those of the writer; the readers name the line.
package subtitle
