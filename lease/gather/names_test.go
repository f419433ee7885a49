package gather

import (
	"strings"
	"testing"

	"macbatch/transcode/inventory"
)

// mark is what the marked form of a path's name ends with.
func mark(p string) string { return digestMark(inventory.Path(p)) }

func TestAssign(t *testing.T) {
	long := strings.Repeat("x", 251)
	umlauts := strings.Repeat("ä", 125)
	raw := strings.Repeat("\xff", 251)
	for _, tt := range []struct {
		what string
		want map[string]string // path → name
	}{
		{"plain", map[string]string{"a.mp4": "a", "d/a.mp4": "d/a", "b.tar.mkv": "b.tar"}},
		{"odd", map[string]string{
			"-rf.mp4": "-rf", "a:b.mp4": "a:b", "%d.mp4": "%d", `"q'.mp4`: `"q'`, "$(touch x).mp4": "$(touch x)",
			"two\nlines.mp4": "two\nlines", "🎬.mp4": "🎬", ".hidden.mp4": ".hidden", " lead.mp4": " lead", "trail .mp4": "trail ",
			"no extension": "no extension", "dot..mp4": "dot.", ".mp4": ".mp4",
		}},
		{"not UTF-8", map[string]string{"\xff.mp4": "\xff", "\xfe.mp4": "\xfe", "a\xff.mp4": "a\xff.mp4", "a\xff.mkv": "a\xff.mkv"}},
		{"two extensions", map[string]string{"movie.mp4": "movie.mp4", "movie.mkv": "movie.mkv", "d/movie.mp4": "d/movie"}},
		{"case", map[string]string{
			"UPPER.MP4": "UPPER.MP4" + mark("UPPER.MP4"), "upper.mp4": "upper.mp4" + mark("upper.mp4"), "Upper.mkv": "Upper.mkv",
		}},
		{"folders by case", map[string]string{"D/a.mp4": "D/a.mp4" + mark("D/a.mp4"), "d/a.mp4": "d/a.mp4" + mark("d/a.mp4"), "d/b.mp4": "d/b"}},
		{"composed", map[string]string{
			"e\u0301.mp4": "e\u0301.mp4" + mark("e\u0301.mp4"), "\u00e9.mp4": "\u00e9.mp4" + mark("\u00e9.mp4"), "stra\u00dfe.mp4": "stra\u00dfe.mp4",
			"STRASSE.mkv": "STRASSE.mkv",
		}},
		{"a whole name that is another's stem", map[string]string{"a.mp4": "a.mp4" + mark("a.mp4"), "a.mkv": "a.mkv", "a.mp4.mov": "a.mp4"}},
		{"names like outputs", map[string]string{"a.mp4": "a", "a.srt.mp4": "a.srt", "a.summary.mp4": "a.summary", "manifest.mp4": "manifest"}},
		{"a folder like an output", map[string]string{"a.mp4": "a.mp4", "a.srt/b.mp4": "a.srt/b", "c.mp4": "c.mp4", "C.JSON/x/y.mp4": "C.JSON/x/y"}},
		{"a folder like the manifest", map[string]string{"manifest.jsonl/x.mp4": "x.mp4" + mark("manifest.jsonl/x.mp4")}},
		{"a folder like the work folder", map[string]string{".macbatch/x.mp4": "x.mp4" + mark(".macbatch/x.mp4"), "d/.macbatch/x.mp4": "d/.macbatch/x"}},
		{"long", map[string]string{
			long + ".mp4": long[:235] + mark(long+".mp4"), long + ".mkv": long[:235] + mark(long+".mkv"), long[:244] + ".mp4": long[:244],
			umlauts + ".mp4": umlauts[:234] + mark(umlauts+".mp4"), raw + ".mp4": raw[:235] + mark(raw+".mp4"),
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var paths, back []inventory.Path
			for p := range tt.want {
				paths = append(paths, inventory.Path(p))
				back = append([]inventory.Path{inventory.Path(p)}, back...)
			}
			n, again := assign("r", paths, nil, ""), assign("r", back, nil, "")
			for p, want := range tt.want {
				k := sourceKey{root: "r", path: inventory.Path(p)}
				if n.of[k] != want || again.of[k] != want {
					t.Errorf("name of %q = %q and %q, want %q", p, n.of[k], again.of[k], want)
				}
				name := want[strings.LastIndexByte(want, '/')+1:]
				if len(name)+len(suffixSummary) > maxName {
					t.Errorf("name of %q has %d bytes with its suffix", p, len(name)+len(suffixSummary))
				}
			}
			distinct(t, n, paths)
		})
	}
}

// distinct shows that no two outputs are one, nor one a folder of another, on a
// file system that folds.
func distinct(t *testing.T, n *names, paths []inventory.Path) {
	t.Helper()
	files := map[string]inventory.Path{manifestName: "the manifest", workDir: "the work folder"}
	for _, p := range paths {
		for _, s := range suffixes {
			f := fold(n.of[sourceKey{root: "r", path: p}] + s)
			if o, taken := files[f]; taken {
				t.Errorf("%q and %q share %q", p, o, f)
			}
			files[f] = p
		}
	}
	for f, p := range files {
		above(f, func(dir string) {
			if o, taken := files[dir]; taken {
				t.Errorf("%q of %q lies in a file of %q", f, p, o)
			}
		})
	}
}

func TestNamesStick(t *testing.T) {
	known := map[sourceKey]*Line{
		{root: "r", path: "b/movie.mkv"}: {Name: "b/movie"},
		{root: "other", path: "a.mp4"}:   {Name: "a"},
		{root: "other", path: "c.mp4"}:   {Name: "d"},
	}
	n := assign("r", []inventory.Path{"a.mp4", "b/movie.mkv", "b/movie.mp4", "d.srt/e.mp4"}, known, "")
	for p, want := range map[inventory.Path]string{
		"b/movie.mkv": "b/movie", "b/movie.mp4": "b/movie.mp4", "a.mp4": "a.mp4", "d.srt/e.mp4": "e.mp4" + mark("d.srt/e.mp4"),
	} {
		if got := n.of[sourceKey{root: "r", path: p}]; got != want {
			t.Errorf("name of %q = %q, want %q", p, got, want)
		}
	}
}

// FuzzAssign shows that any set of paths gets names that don't meet.
func FuzzAssign(f *testing.F) {
	f.Add("a.mp4|A.MP4|a.srt/a.mp4|a.mkv|manifest.jsonl/a|a.mp4.mp4|a.srt.mp4|.macbatch/x")
	f.Add("a|a.|a.summary.md/x.y|A.Summary.md/x.z|a.mp4~ca978112|a.srt/b.srt/c|a.srt/b|a.srt/b.x")
	f.Fuzz(func(t *testing.T, list string) {
		var paths []inventory.Path
		seen := map[inventory.Path]bool{}
		for s := range strings.SplitSeq(list, "|") {
			if p := inventory.Path(s); p.Check() == nil && !seen[p] {
				seen[p] = true
				paths = append(paths, p)
			}
		}
		n := assign("r", paths, nil, "")
		for _, p := range paths {
			if n.of[sourceKey{root: "r", path: p}] == "" {
				t.Errorf("%q has no name", p)
			}
		}
		distinct(t, n, paths)
	})
}
