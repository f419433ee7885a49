// Package subtitle writes a transcript as SRT, WebVTT or plain text, and reads
// the first two back.
//
// A cue has at most two lines of 42 characters and lasts at most seven seconds;
// cues are in order, never overlap and are never empty. What the formats would
// take for markup is escaped: by entities in WebVTT; in SRT, which has none, by
// an invisible word joiner (U+2060) that the readers here take out again. A
// transcript that breaks its own rules is repaired first, so that a written
// file is always monotone.
//
// Without speech an SRT or text file is empty and a WebVTT file is its header.
//
// Errors are those of the writer; the readers name the line.
package subtitle
