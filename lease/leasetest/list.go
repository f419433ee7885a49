package leasetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"macbatch/lease"
)

// ListParams are the parameters of a job of kind "list". Its items are lines of
// at most 1000 bytes.
type ListParams struct {
	Items    int    `json:"items,omitempty"` // in a shard; 0: one
	Bytes    int64  `json:"bytes,omitempty"` // in a shard; 0: plenty
	Root     string `json:"root,omitempty"`
	Reuse    bool   `json:"reuse,omitempty"`
	Distinct string `json:"distinct,omitempty"` // tells jobs apart whose work is the same
}

// List implements store.Planner.
func (Planner) List(kind lease.Kind, params []byte) (pack lease.Packing, err error) {
	var p ListParams
	if kind != "list" {
		return pack, fmt.Errorf("kind %q is not known, or works on no list", kind)
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return pack, err
	}
	pack = lease.Packing{Need: lease.Need{Kind: Work, Root: p.Root}, Items: max(p.Items, 1), Bytes: p.Bytes, Line: 1001}
	if p.Bytes == 0 {
		pack.Bytes = 1 << 20
	}
	if p.Reuse {
		pack.Reuse = lease.ReuseDigest("list")
	}
	return pack, nil
}

// acceptList takes one string for each item; one that is empty tells of a failure.
func acceptList(s *lease.Shard, result []byte) (means lease.Acceptance, err error) {
	var items []string
	if err := json.Unmarshal(result, &items); err != nil {
		return means, err
	}
	if len(items) != int(s.Opens) {
		return means, fmt.Errorf("%d outcomes of %d items", len(items), s.Opens)
	}
	means.Maker = lease.Maker{Engine: "tester", Model: "m1", Server: "here"}
	for _, v := range items {
		switch v {
		case "":
			means.Failed++
		case "bad":
			return means, errors.New("the result is bad")
		}
	}
	return means, nil
}

// Lines is a list input of n lines, and what a submission says of it.
func Lines(n int) ([]byte, lease.Input) {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "line %d%s\n", i, strings.Repeat(".", i%7))
	}
	return b.Bytes(), lease.Input{Digest: lease.DigestOf(b.Bytes()), Bytes: int64(b.Len())}
}

// Upload stores a blob.
func Upload(t testing.TB, ctl lease.Control, b []byte) {
	t.Helper()
	if err := ctl.PutBlob(t.Context(), lease.Upload{Digest: lease.DigestOf(b), Size: int64(len(b)), Project: lease.DefaultProject}, bytes.NewReader(b)); err != nil {
		t.Fatalf("put blob: %v", err)
	}
}

// SubmitList uploads an input of n lines and submits a job of kind "list" over it.
func SubmitList(t testing.TB, ctl lease.Control, n int, p ListParams) lease.JobID {
	t.Helper()
	b, in := Lines(n)
	Upload(t, ctl, b)
	params, _ := json.Marshal(p) // it always encodes
	id, err := ctl.Submit(t.Context(), lease.Submission{Kind: "list", Params: params, Input: in})
	if err != nil {
		t.Fatalf("submit a list: %v", err)
	}
	return id
}

// Outcomes is the report of a list shard's items: a value each, but for the first
// `failed` of them.
func Outcomes(g lease.Grant, value string, failed int) lease.Report {
	items := make([]string, g.Lines.Items)
	for i := range items {
		if i >= failed {
			items[i] = value
		}
	}
	b, _ := json.Marshal(items) // it always encodes
	return settle(g, b)
}
