package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// TestWords: what finds what, and what is no query.
func TestWords(t *testing.T) {
	w := newWorld(t)
	w.says["a.mov"] = []string{"the happy birthday cake|a carrot and a Café crème|Ёлка в лесу родилась|don't stop", "my birthday is happy|ČEŠTINA je krásná"}
	w.work(w.submit(""), 0)
	w.catchUp()
	for _, c := range []struct{ words, want string }{
		{`happy birthday`, "a.mov@0 a.mov@100"},
		{`"happy birthday"`, "a.mov@0"},
		{`HAPPY AND NOT`, "!"},
		{`happy NOT cake`, "a.mov@100"},
		{`cake OR carrot`, "a.mov@0 a.mov@25"},
		{`(cake OR carrot) and`, "a.mov@25"},
		{`birth*`, "a.mov@0 a.mov@100"},
		{`"happy birt" *`, "!"},
		{`"happy birt"*`, "a.mov@0"},
		{`b*`, "!"},
		{`birth*day`, "!"},
		{`cafe creme`, "a.mov@25"},
		{`CAFÉ`, "a.mov@25"},
		{`cestina`, "a.mov@150"},
		{`ёлка`, "a.mov@50"},
		{`РОДИЛ*`, "a.mov@50"},
		{`"в лесу"`, "a.mov@50"},
		{`don't`, "a.mov@75"},
		{`"AND"`, "a.mov@25"},
		{`and`, "a.mov@25"},
		{`nothing`, ""},
		{`text:happy`, ""},
		{`happy AND ((birthday))`, "a.mov@0 a.mov@100"},
		{`cake OR happy NOT birthday OR carrot`, "a.mov@0 a.mov@25"},
		{``, "!"},
		{` `, "!"},
		{`AND happy`, "!"},
		{`happy OR`, "!"},
		{`NOT happy`, "!"},
		{`happy OR OR cake`, "!"},
		{`"happy`, "!"},
		{`(happy`, "!"},
		{`happy)`, "!"},
		{`()`, "!"},
		{`!?`, "!"},
		{`*`, "!"},
		{"happy\x00", "!"},
		{"\xff\xfe", "!"},
		{strings.Repeat("a ", 40), "!"},
		{strings.Repeat("(", 40) + "a", "!"},
		{strings.Repeat("long ", 300), "!"},
	} {
		if c.want == "!" {
			if out, err := w.ctl.Search(t.Context(), lease.Query{Words: c.words}); !errors.Is(err, lease.ErrInvalid) {
				t.Errorf("search for %q: %+v, %v, want %v", c.words, out, err, lease.ErrInvalid)
			}
			continue
		}
		if got := w.found(lease.Query{Words: c.words}); got != c.want {
			t.Errorf("search for %s finds %q, want %q", c.words, got, c.want)
		}
	}
}

// TestRank: what holds more of the words comes first, then where they are denser, then
// what is newer.
func TestRank(t *testing.T) {
	w := newWorld(t)
	w.says["a.mov"] = []string{"cake|cake and a lot of other things to say|carrot cake|cake", "carrots are no cake"}
	w.work(w.submit(""), 0)
	w.catchUp()
	out, err := w.ctl.Search(t.Context(), lease.Query{Words: "cake OR carrot"})
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	for _, h := range out.Hits {
		at = append(at, h.StartMS/1000)
	}
	if fmt.Sprint(at) != "[50 75 0 100 25]" {
		t.Fatalf("hits at %v s", at)
	}
}

// TestHit: an answer tells all that it takes to go there.
func TestHit(t *testing.T) {
	w := newWorld(t)
	w.says["b/ü.mov"] = []string{"", "one two|" + strings.Repeat("é fill ", 200) + "needle" + strings.Repeat(" fill é", 200)}
	id := w.submit("")
	w.work(id, 0)
	w.catchUp()
	out, err := w.ctl.Search(t.Context(), lease.Query{Words: "two"})
	if err != nil || len(out.Hits) != 1 {
		t.Fatalf("search: %+v, %v", out, err)
	}
	h := out.Hits[0]
	if h.Project != lease.DefaultProject || h.Root != "films" || h.Path != "b/ü.mov" || h.Shard.Job != id || h.StartMS != 100_000 || h.EndMS != 150_000 ||
		h.Text != "one two" || len(h.Marks) != 1 || h.Text[h.Marks[0][0]:h.Marks[0][1]] != "two" || out.Looked != 1 || out.Capped || out.Behind != 0 {
		t.Fatalf("search: %+v", out)
	}
	out, err = w.ctl.Search(t.Context(), lease.Query{Words: "needle"})
	if err != nil || len(out.Hits) != 1 {
		t.Fatalf("search: %+v, %v", out, err)
	}
	if h := out.Hits[0]; len(h.Text) > textBytes+10 || len(h.Marks) != 1 || h.Text[h.Marks[0][0]:h.Marks[0][1]] != "needle" || strings.ToValidUTF8(h.Text, "") != h.Text {
		t.Fatalf("a long segment is told as %q, marks %v", h.Text, h.Marks)
	}
}

// TestNewest: of a film the newest accepted transcripts count, whichever try or job
// they are of, and what is dropped leaves.
func TestNewest(t *testing.T) {
	w := newWorld(t)
	w.says["a.mov"] = []string{"alpha", "beta", "gamma"}
	w.says["b.mov"] = []string{"delta"}
	first := w.submit("")
	w.work(first, 0)
	w.catchUp()
	w.want("alpha OR beta OR gamma OR delta", "a.mov@0 a.mov@100 a.mov@200 b.mov@0")

	// A part that is done again: the earlier one counts until then.
	shard := hitShard(t, w, "beta")
	w.says["a.mov"][1] = "better"
	if _, err := w.ctl.Retry(t.Context(), first, lease.Selection{Shards: []uint32{shard.Seq}}, 0); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	w.want("beta", "a.mov@100")
	w.work(first, 0)
	w.catchUp()
	w.want("beta OR better", "a.mov@100")
	w.want("beta", "")
	w.want("alpha OR gamma", "a.mov@0 a.mov@200")

	// Another job meets the film again, shorter than it was.
	w.says["a.mov"] = []string{"omega", "better"}
	second := w.submit("")
	w.work(second, 3) // scan, transcode and the first part of a.mov
	w.catchUp()
	w.want("alpha OR omega", "a.mov@0")
	w.want("omega", "a.mov@0")
	w.want("gamma", "a.mov@200")
	w.work(second, 0)
	w.catchUp()
	w.want("gamma", "")
	w.want("better", "a.mov@100")
	w.want("delta", "b.mov@0")

	// It is dropped: the earlier ones are back.
	if err := w.ctl.Prune(t.Context(), []lease.JobID{second}); err != nil {
		t.Fatal(err)
	}
	w.want("omega", "") // at once, whatever the index knows
	w.catchUp()
	w.want("omega", "")
	w.want("alpha OR gamma", "a.mov@0 a.mov@200")

	// A job that is canceled while it runs, and then goes on.
	delete(w.says, "b.mov")
	w.says["a.mov"] = []string{"kappa", "lambda"}
	third := w.submit("")
	w.work(third, 3)
	w.catchUp()
	w.want("kappa OR alpha", "a.mov@0")
	w.want("kappa", "a.mov@0")
	if err := w.ctl.Cancel(t.Context(), third, "no"); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	w.want("kappa", "")
	w.want("alpha", "a.mov@0")
	if _, err := w.ctl.Retry(t.Context(), third, lease.Selection{}, 0); err != nil {
		t.Fatal(err)
	}
	w.catchUp()
	w.want("kappa", "a.mov@0")
	w.work(third, 0)
	w.catchUp()
	w.want("lambda", "a.mov@100")
	w.want("gamma", "")

	// What has lost its sound says nothing any more.
	w.says["a.mov"] = nil
	w.work(w.submit(""), 0)
	w.catchUp()
	w.want("kappa OR lambda OR alpha", "")
	checkIndex(t, w)
}

func hitShard(t *testing.T, w *world, words string) lease.ShardID {
	t.Helper()
	out, err := w.ctl.Search(t.Context(), lease.Query{Words: words})
	if err != nil || len(out.Hits) != 1 {
		t.Fatalf("search for %s: %+v, %v", words, out, err)
	}
	return out.Hits[0].Shard
}

// checkIndex: there are just the segments that parts speak of.
func checkIndex(t *testing.T, w *world) {
	t.Helper()
	var segments, parts int
	err := w.ix.writer.QueryRow("SELECT count(*) FROM words_1").Scan(&segments)
	if err == nil {
		err = w.ix.writer.QueryRow("SELECT count(*) FROM words_1 WHERE EXISTS (SELECT 1 FROM parts WHERE lo <= words_1.rowid AND hi >= words_1.rowid AND project = 1)").Scan(&parts)
	}
	if err == nil {
		_, err = w.ix.writer.Exec("INSERT INTO words_1(words_1) VALUES('integrity-check')")
	}
	if err != nil || segments != parts {
		t.Fatalf("%d segments, %d of parts, %v", segments, parts, err)
	}
}

// TestProjects: nobody is told a word of another project.
func TestProjects(t *testing.T) {
	w := newWorld(t)
	if err := w.ctl.CreateProject(t.Context(), "hidden"); err != nil {
		t.Fatal(err)
	}
	w.says["a.mov"] = []string{"alpha secret"}
	w.work(w.submit("hidden"), 0)
	w.says["a.mov"] = []string{"alpha open"}
	w.work(w.submit(""), 0)
	w.catchUp()
	w.want("alpha", "a.mov@0 a.mov@0")
	reader := *w
	reader.ctl = w.store.As(lease.Actor{ID: "r", Role: lease.Reader, Projects: []lease.Project{lease.DefaultProject}})
	reader.want("alpha", "a.mov@0")
	reader.want("secret", "")
	reader.want("open", "a.mov@0")
	if got := w.found(lease.Query{Words: "alpha", Project: "hidden"}); got != "a.mov@0" {
		t.Fatalf("in one project an admin finds %q", got)
	}
	nobody := *w
	nobody.ctl = w.store.As(lease.Actor{ID: "n", Role: lease.Reader})
	nobody.want("alpha", "")
}

// TestFilms: films are chosen before anything is ranked, however common the words.
func TestFilms(t *testing.T) {
	w := newWorld(t)
	w.says["old/a.mov"] = []string{"so it was"}
	w.work(w.submit(""), 0)
	many := strings.TrimSuffix(strings.Repeat("so it is|", 400), "|")
	for i := range 3 {
		w.says[fmt.Sprintf("new/%d.mov", i)] = []string{many}
	}
	delete(w.says, "old/a.mov")
	w.work(w.submit(""), 0)
	w.catchUp()
	out, err := w.ctl.Search(t.Context(), lease.Query{Words: "so", Limit: 3})
	if err != nil || len(out.Hits) != 3 || !out.Capped || out.Looked != Candidates {
		t.Fatalf("search for a common word: %d hits, %d looked at, capped %v, %v", len(out.Hits), out.Looked, out.Capped, err)
	}
	for film, want := range map[string]int{"old/*": 1, "*a.mov": 1, "new/1.mov": 400, "new/[12].mov": 500, "OLD/*": 0, "?ld/*": 1} {
		out, err := w.ctl.Search(t.Context(), lease.Query{Words: "so", Film: film})
		if err != nil || out.Looked != want || out.Capped != (want == 500) {
			t.Errorf("search in %s: %d looked at, capped %v, %v, want %d", film, out.Looked, out.Capped, err, want)
		}
	}
	// Where there are too many films to go through one by one, each is asked for its name.
	f := &finder{expr: `"so"`, film: "old/*", want: 5}
	tx, err := w.ix.readers.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := f.among(t.Context(), tx, 1, lease.DefaultProject); err != nil || len(f.found) != 1 || f.capped {
		t.Fatalf("among all films: %d, capped %v, %v", len(f.found), f.capped, err)
	}
}

// TestRebuilt: whatever happened to the file or the store, the index tells of the store.
func TestRebuilt(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(w *world)
	}{
		{"deleted", func(w *world) { must(t, os.Remove(w.path)) }},
		{"empty", func(w *world) { must(t, os.Truncate(w.path, 0)) }},
		{"truncated", func(w *world) { must(t, os.Truncate(w.path, 9000)) }},
		{"not a database", func(w *world) { must(t, os.WriteFile(w.path, []byte(strings.Repeat("hello ", 9000)), 0o600)) }},
		{"overwritten from its second page on", func(w *world) {
			b, err := os.ReadFile(w.path)
			must(t, err)
			for i := 4096; i < len(b); i++ {
				b[i] = 0xa5
			}
			must(t, os.WriteFile(w.path, b, 0o600))
		}},
		{"of another version", func(w *world) { w.alter("PRAGMA user_version = 99") }},
		{"without a table", func(w *world) { w.alter("DROP TABLE parts") }},
		{"of another store", func(w *world) { w.alter("UPDATE state SET store = 'ffff'") }},
		{"of another epoch", func(w *world) { w.alter("UPDATE state SET epoch = epoch + 1") }},
		{"ahead of the store", func(w *world) { w.alter("UPDATE state SET seq = seq + 100") }},
		{"of another history", func(w *world) { w.alter("UPDATE state SET print = x'00'") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.says["a.mov"] = []string{"alpha"}
			w.says["b.mov"] = []string{"beta"}
			w.work(w.submit(""), 0)
			w.catchUp()
			w.want("alpha OR beta", "a.mov@0 b.mov@0")
			w.alter("UPDATE films SET path = 'stale ' || path") // what is built anew is not this
			c.damage(w)
			w.open()
			w.catchUp()
			if got := w.found(lease.Query{Words: "alpha"}); got != "a.mov@0" {
				t.Fatalf("search finds %q", got)
			}
			w.want("beta", "b.mov@0")
			checkIndex(t, w)
		})
	}
}

// alter changes the file behind the index's back, and leaves the index closed.
func (w *world) alter(query string) {
	w.t.Helper()
	must(w.t, w.ix.Close())
	w.ix.mu.Lock()
	defer w.ix.mu.Unlock()
	must(w.t, w.ix.open())
	_, err := w.ix.writer.Exec(query)
	must(w.t, err)
	must(w.t, w.ix.close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRolledBack: a store that went back to an older copy of itself, and on from there,
// is not the one that was followed, though its sequence is beyond what was.
func TestRolledBack(t *testing.T) {
	w := newWorld(t)
	w.says["a.mov"] = []string{"alpha"}
	w.work(w.submit(""), 0)
	w.stop()
	old := leasetest.Copy(t, w.engine)
	w.run(w.engine)
	w.says = map[string][]string{"b.mov": {"beta"}}
	w.work(w.submit(""), 0)
	w.catchUp()
	w.want("alpha OR beta", "a.mov@0 b.mov@0")

	w.run(old)
	w.says = map[string][]string{"c.mov": {"gamma"}, "d.mov": {"delta"}}
	w.work(w.submit(""), 0)
	w.open()
	w.catchUp()
	w.want("alpha OR beta OR gamma OR delta", "a.mov@0 c.mov@0 d.mov@0")
}

// TestGap: where the ledger was cut behind what was followed, what happened is not known.
func TestGap(t *testing.T) {
	w := newWorld(t)
	w.says["a.mov"] = []string{"alpha"}
	first := w.submit("")
	w.work(first, 0)
	w.catchUp()
	w.says = map[string][]string{"b.mov": {"beta"}}
	w.work(w.submit(""), 0)
	if err := w.ctl.Prune(t.Context(), []lease.JobID{first}); err != nil {
		t.Fatal(err)
	}
	w.open() // with the ledger as the prune left it, at whatever page that is
	w.catchUp()
	w.want("alpha OR beta", "b.mov@0")
	w.run(memkv.Open()) // and another store altogether
	w.open()
	w.catchUp()
	w.want("alpha OR beta", "")
}

// TestDamageInUse: damage that a search meets is mended by who follows.
func TestDamageInUse(t *testing.T) {
	w := newWorld(t)
	w.says["a.mov"] = []string{"alpha"}
	w.work(w.submit(""), 0)
	w.catchUp()
	_, err := w.ix.writer.Exec("DROP TABLE words_1_content")
	must(t, err)
	out, err := w.ctl.Search(t.Context(), lease.Query{Words: "alpha"})
	if err != nil || len(out.Hits) != 0 || out.Behind == 0 {
		t.Fatalf("search: %+v, %v, want nothing found, and to be told why", out, err)
	}
	w.catchUp()
	w.want("alpha", "a.mov@0")
}

// TestRun: who follows finds what is accepted without being asked.
func TestRun(t *testing.T) {
	w := newWorld(t)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { done <- w.ix.Run(ctx, w.ctl, w.store.Mark) }()
	w.says["a.mov"] = []string{"alpha"}
	w.work(w.submit(""), 0)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for w.found(lease.Query{Words: "alpha"}) != "a.mov@0" {
		select {
		case <-tick.C:
		case err := <-done:
			t.Fatalf("follow: %v", err)
		case <-t.Context().Done():
			t.Fatal("nothing found")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestBuildGoesOn: an index that is closed again and again while it is built gets whole.
func TestBuildGoesOn(t *testing.T) {
	w := newWorld(t)
	for i := range 8 {
		w.says = map[string][]string{fmt.Sprintf("%d.mov", i): {"alpha"}}
		w.work(w.submit(""), 0)
	}
	steps := 0
	for more := true; more; steps++ {
		w.open()
		w.ix.follow(w.store.Mark)
		var err error
		_, more, err = w.ix.step(t.Context(), w.ctl)
		must(t, err)
		if out, err := w.ctl.Search(t.Context(), lease.Query{Words: "alpha"}); err != nil || more && out.Behind == 0 {
			t.Fatalf("step %d: %d hits, behind %d, %v", steps, len(out.Hits), out.Behind, err)
		}
	}
	w.want("alpha", "0.mov@0 1.mov@0 2.mov@0 3.mov@0 4.mov@0 5.mov@0 6.mov@0 7.mov@0")
	if steps < 8 {
		t.Fatalf("built in %d steps: nothing was interrupted", steps)
	}
}

// TestView: another process reads what is there.
func TestView(t *testing.T) {
	w := newWorld(t)
	if _, err := View(w.path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("view of nothing: %v", err)
	}
	w.says["a.mov"] = []string{"alpha"}
	w.work(w.submit(""), 0)
	w.catchUp()
	v, err := View(w.path)
	must(t, err)
	out, err := v.Find(t.Context(), lease.Query{Words: "alpha"}, nil)
	if err != nil || len(out.Hits) != 1 {
		t.Fatalf("view: %+v, %v", out, err)
	}
	must(t, v.Close())
}

// FuzzMatch: a query is refused, or the index can read what it was made into.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{`a b`, `"a b"*`, `a* OR (b NOT c)`, `a"b"c`, `NEAR(a b)`, `^a`, `{x y}: a`, `-a`, `a+b`, `"" a`, "a\u0301 б", `' " --`} {
		f.Add(s)
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		f.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	f.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(`CREATE VIRTUAL TABLE w USING fts5(text, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3 4', columnsize = 0); INSERT INTO w VALUES('a b c')`); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, words string) {
		expr, err := match(words)
		if err != nil {
			if !errors.Is(err, lease.ErrInvalid) {
				t.Fatalf("match(%q) = %v, want %v", words, err, lease.ErrInvalid)
			}
			return
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM w WHERE w MATCH ?", expr).Scan(&n); err != nil {
			t.Fatalf("match(%q) = %s: %v", words, expr, err)
		}
	})
}
