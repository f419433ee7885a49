package search

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
)

// vocabulary makes words of which some are common and most are rare, as Zipf has it.
func vocabulary(r *rand.Rand, n int) []string {
	syllables := strings.Fields("ka lo mi ne ta ru si po ve da ge hi jo la ma no pe ra su ti the in on er an re st ing co de")
	list := make([]string, n)
	for i := range list {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			b.WriteString(syllables[r.IntN(len(syllables))])
		}
		list[i] = b.String()
		if i >= len(syllables) {
			list[i] += fmt.Sprintf("%c%c", 'a'+i%26, 'a'+i/26%26)
		} else {
			list[i] = syllables[i]
		}
	}
	return list
}

// fill puts films of 1,000 segments each into an index, 100 of them to a part.
func fill(t *testing.T, ix *Index, segments int, text func() string) {
	t.Helper()
	const perPart, perFilm = 100, 1000
	ctx := context.Background()
	for at := 0; at < segments; {
		err := ix.update(ctx, func(sqlTx *sql.Tx) error {
			x := newTx(ctx, ix, nil, sqlTx)
			project, err := x.project(lease.DefaultProject)
			if err != nil {
				return err
			}
			insert, err := sqlTx.Prepare("INSERT INTO " + words(project) + "(rowid, text, start, stop) VALUES(?, ?, ?, ?)")
			if err != nil {
				return err
			}
			for range 10_000 / perPart {
				film, part := at/perFilm+1, at/perPart%(perFilm/perPart)
				if err := x.exec("INSERT OR IGNORE INTO films VALUES(?, ?, 'films', ?)", film, project, fmt.Sprintf("%d/film %d.mov", 2000+film%25, film)); err != nil {
					return err
				}
				if err := x.exec("INSERT INTO parts VALUES(1, ?, ?, 0, ?, ?, ?, ?, ?, ?)", at/perPart+1, film, film, project, part*600_000, (part+1)*600_000, at+1, at+perPart); err != nil {
					return err
				}
				for range perPart {
					at++
					if _, err := insert.Exec(at, text(), at%perFilm*6000, at%perFilm*6000+5000); err != nil {
						return err
					}
				}
			}
			return insert.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBenchSearch is scripts/bench search.
func TestBenchSearch(t *testing.T) {
	segments, err := strconv.Atoi(os.Getenv("MACBATCH_BENCH_SEARCH"))
	if err != nil {
		t.Skip("MACBATCH_BENCH_SEARCH=3000000 measures")
	}
	r := rand.New(rand.NewPCG(1, 2))
	v := vocabulary(r, 60_000)
	zipf := rand.NewZipf(r, 1.07, 3, uint64(len(v)-1))
	path := filepath.Join(t.TempDir(), "words.db")
	ix, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	began := time.Now()
	fill(t, ix, segments, func() string {
		var b strings.Builder
		for range 6 + r.IntN(9) {
			b.WriteString(v[zipf.Uint64()])
			b.WriteByte(' ')
		}
		return b.String()
	})
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d segments in %.0f s, %d MiB on disk\n", segments, time.Since(began).Seconds(), fi.Size()>>20)
	word := func(from, to int) string { return v[from+r.IntN(to-from)] }
	for _, q := range []struct {
		name string
		make func() lease.Query
	}{
		{"a common word", func() lease.Query { return lease.Query{Words: word(0, 30)} }},
		{"a rare word", func() lease.Query { return lease.Query{Words: word(20_000, 60_000)} }},
		{"a word that is nowhere", func() lease.Query { return lease.Query{Words: word(100, 60_000) + "qq"} }},
		{"a phrase of common words", func() lease.Query { return lease.Query{Words: `"` + word(0, 30) + " " + word(0, 30) + `"`} }},
		{"a phrase of rarer words", func() lease.Query { return lease.Query{Words: `"` + word(30, 2000) + " " + word(30, 2000) + `"`} }},
		{"a beginning, 2 letters", func() lease.Query { return lease.Query{Words: word(100, 60_000)[:2] + "*"} }},
		{"a beginning, 3 letters", func() lease.Query { return lease.Query{Words: word(100, 60_000)[:3] + "*"} }},
		{"a beginning, 5 letters", func() lease.Query { w := word(100, 60_000) + "ab"; return lease.Query{Words: w[:5] + "*"} }},
		{"common AND common", func() lease.Query { return lease.Query{Words: word(0, 30) + " " + word(0, 30)} }},
		{"common AND rare", func() lease.Query { return lease.Query{Words: word(0, 30) + " " + word(10_000, 60_000)} }},
		{"common OR rare", func() lease.Query { return lease.Query{Words: word(0, 30) + " OR " + word(10_000, 60_000)} }},
		{"rarer NOT common", func() lease.Query { return lease.Query{Words: word(500, 5000) + " NOT " + word(0, 30)} }},
		{"a common word in one film", func() lease.Query {
			return lease.Query{Words: word(0, 30), Film: fmt.Sprintf("*/film %d.mov", 1+r.IntN(max(1, segments/1000)))}
		}},
		{"a common word in a year", func() lease.Query { return lease.Query{Words: word(0, 30), Film: fmt.Sprintf("%d/*", 2000+r.IntN(25))} }},
	} {
		var took []time.Duration
		capped, hits := 0, 0
		for range 200 {
			query := q.make()
			began := time.Now()
			out, err := ix.Find(t.Context(), query, []lease.Project{lease.DefaultProject})
			took = append(took, time.Since(began))
			if err != nil {
				t.Fatalf("%+v: %v", query, err)
			}
			if hits += len(out.Hits); out.Capped {
				capped++
			}
		}
		slices.Sort(took)
		ms := func(i int) float64 { return float64(took[i].Microseconds()) / 1000 }
		fmt.Printf("%-28s p50 %7.2f ms  p95 %7.2f ms  max %7.2f ms  %5.1f hits, %3d of 200 capped\n", q.name, ms(100), ms(190), ms(199), float64(hits)/200, capped)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("memory: %d MiB of heap in use, %s resident at most\n", m.HeapInuse>>20, peak())
}

// peak is the greatest resident size so far, as Linux tells it.
func peak() string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
