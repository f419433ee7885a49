package gather

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
)

// proxies puts a transcode job over films into c: of each what its proxy holds, ""
// for a film without a picture.
func proxies(t *testing.T, c *control, id lease.JobID, root string, films map[inventory.Path]string, order ...inventory.Path) lease.Job {
	t.Helper()
	job := &lease.Job{ID: id, Kind: pipeline.Transcode, State: lease.JobDone, Params: encoded(t, pipeline.LibraryParams{Root: root, Preset: transcode.Proxy})}
	c.jobs[id], c.rows[id] = job, nil
	var res inventory.Result
	for _, p := range order {
		res.Sources = append(res.Sources, inventory.Source{Path: p, Identity: inventory.Identity{Size: 100, MtimeNS: 5, Inode: 7}})
	}
	b := build{t: t, c: c, id: id, worker: "w"}
	b.add(pipeline.Scan, 0, lease.Done, "", pipeline.ScanPayload{Root: root}, res)
	for i, p := range order {
		r := transcode.Rendition{Preset: transcode.Proxy, FFmpeg: "5", NoPicture: true}
		if body := films[p]; body != "" {
			d := lease.DigestOf([]byte(body))
			c.values[d] = []byte(body)
			r = transcode.Rendition{Preset: transcode.Proxy, FFmpeg: "5", Digest: d.String(), Bytes: int64(len(body)), DurationMS: 9, Encoder: "libx264", Codec: "h264"}
		}
		b.add(pipeline.Render, uint32(i), lease.Done, "", pipeline.RenderPayload{Root: root, Path: p, Preset: transcode.Proxy}, r)
	}
	return *job
}

// Renditions and words of one film have lines of their own, and one name.
func TestRenditions(t *testing.T) {
	c, out := newControl(), t.TempDir()
	words := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one two"}, {path: "only.wav", says: "three"}})
	gathered(t, c, words, out)
	before := tree(t, out)
	films := map[inventory.Path]string{"a.mp4": "a small film", "only.wav": "", "b.mp4": "another"}
	job := proxies(t, c, jobB, "films", films, "a.mp4", "b.mp4", "only.wav")
	r := gathered(t, c, job, out)
	if r.Films != 3 || r.ByOutcome[Done] != 2 || r.ByOutcome[NoImage] != 1 || r.Written != 2 {
		t.Fatalf("Pass = %+v", r)
	}
	after := tree(t, out)
	if after["a.proxy.mp4"] != "a small film" || after["b.proxy.mp4"] != "another" || len(after) != len(before)+2 {
		t.Fatalf("outputs %v", after)
	}
	for name, text := range before {
		if name != manifestName && after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	for _, want := range []string{
		`"path":"a.mp4","size":100,"mtime_ns":5,"inode":7},"outcome":"done"`, `"path":"a.mp4","size":100,"mtime_ns":5,"inode":7},"preset":"proxy","outcome":"done"`,
		`"preset":"proxy","outcome":"no_picture","reason":"the film has no picture"`, `"made":{"render":{"shard":"` + lease.ShardID{Job: jobB, Seq: 2}.String() + `","worker":"w","fence":"102"},"ffmpeg":"5","encoder":"libx264","codec":"h264"`,
	} {
		if !strings.Contains(after[manifestName], want) {
			t.Errorf("the manifest has no %s:\n%s", want, after[manifestName])
		}
	}
	if problems, err := VerifyOutputs(out); err != nil || len(problems) > 0 {
		t.Fatalf("VerifyOutputs = %v, %v", problems, err)
	}
	// Again, by either job: nothing is written.
	was := stats(t, out)
	if r := gathered(t, c, job, out); r.Unchanged != 2 || r.Written != 0 {
		t.Errorf("again: %+v", r)
	}
	if r := gathered(t, c, words, out); r.Written != 0 {
		t.Errorf("the words again: %+v", r)
	}
	for name, s := range stats(t, out) {
		if was[name] != s {
			t.Errorf("%s was touched", name)
		}
	}
	write(t, filepath.Join(out, "a.proxy.mp4"), "somebody's cut")
	if problems, err := VerifyOutputs(out); err != nil || len(problems) != 1 || problems[0].Kind != OutputChanged {
		t.Fatalf("VerifyOutputs of a changed proxy = %v, %v", problems, err)
	}
	if r := gathered(t, c, job, out); r.Edited != 1 || tree(t, out)["a.proxy.mp4"] != "somebody's cut" {
		t.Errorf("what somebody changed: %+v", r)
	}
}

// Bytes that are not those of the digest never get the name.
func TestDamagedRendition(t *testing.T) {
	for name, body := range map[string]string{"other bytes": "a small FILM", "fewer": "a small", "more": "a small film and more"} {
		c, out := newControl(), t.TempDir()
		job := proxies(t, c, jobA, "films", map[inventory.Path]string{"a.mp4": "a small film"}, "a.mp4")
		c.values[lease.DigestOf([]byte("a small film"))] = []byte(body)
		g, err := New(c, job, out, usual)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Pass(t.Context()); err == nil {
			t.Errorf("%s: gathered", name)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(out, "a.proxy.mp4")); err == nil {
			t.Errorf("%s: has the final name", name)
		}
		c.values[lease.DigestOf([]byte("a small film"))] = []byte("a small film")
		gathered(t, c, job, out)
		if got := tree(t, out); got["a.proxy.mp4"] != "a small film" || len(got) != 2 {
			t.Errorf("%s, and then the right ones: %v", name, got)
		}
	}
}
