package transcode

import (
	"reflect"
	"testing"
)

// levelsOf makes levels from lengths in ms and loudness, alternately.
func levelsOf(pairs ...int) []level {
	var l []level
	for i := 0; i < len(pairs); i += 2 {
		for range pairs[i] / frameMS {
			l = append(l, level(pairs[i+1]))
		}
	}
	return l
}

func TestLevelOf(t *testing.T) {
	for _, c := range []struct {
		meanSquare uint64
		want       level
	}{{0, 0}, {1, 1}, {2, 9}, {3, 13}, {107, silence}, {1074, quiet}, {1 << 30, 241}} {
		if got := levelOf(c.meanSquare); got != c.want {
			t.Fatalf("levelOf(%d) = %d, want %d", c.meanSquare, got, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		l     []level
		chunk int64
		want  []span
	}{
		{"short enough for one", levelsOf(45_000, 150), 30_000, []span{{0, 45_000, false}}},
		{"nothing", nil, 30_000, []span{{0, 0, false}}},
		{"a pause near the middle", levelsOf(28_000, 150, 600, 60, 31_400, 150), 30_000,
			[]span{{0, 28_300, false}, {28_300, 60_000, false}}},
		{"a pause that is not silent", levelsOf(28_000, 190, 600, 120, 31_400, 190), 30_000,
			[]span{{0, 28_300, false}, {28_300, 60_000, false}}},
		{"the longest of two", levelsOf(25_000, 150, 800, 60, 4_200, 150, 400, 60, 29_600, 150), 30_000,
			[]span{{0, 25_400, false}, {25_400, 60_000, false}}},
		{"of long ones the quietest", levelsOf(22_000, 150, 3_000, 60, 8_000, 150, 2_000, 20, 25_000, 150), 30_000,
			[]span{{0, 34_000, false}, {34_000, 60_000, false}}},
		{"a pause too far away", levelsOf(15_000, 150, 2_000, 60, 43_000, 150), 30_000,
			[]span{{0, 30_000, true}, {30_000, 60_000, false}}},
		{"a pause too short", levelsOf(28_000, 150, 290, 60, 31_710, 150), 30_000,
			[]span{{0, 28_240, true}, {28_240, 60_000, false}}},
		{"no pause: the quietest point", levelsOf(33_000, 150, 100, 140, 26_900, 150), 30_000,
			[]span{{0, 33_050, true}, {33_050, 60_000, false}}},
		{"all silent", levelsOf(60_000, 0), 30_000, []span{{0, 30_000, false}, {30_000, 60_000, false}}},
	} {
		if got := cut(c.l, int64(len(c.l))*frameMS, c.chunk); !reflect.DeepEqual(got, c.want) {
			t.Fatalf("%s: cut = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestWithSound(t *testing.T) {
	got := withSound([]span{{0, 20_000, false}, {20_000, 50_000, true}, {50_000, 55_000, false}}, 55_000)
	want := []Chunk{
		{Index: 0, StartMS: 0, DurationMS: 21_000, FromMS: 0, ToMS: 20_000},
		{Index: 1, StartMS: 19_000, DurationMS: 36_000, FromMS: 20_000, ToMS: 50_000, Forced: true},
		{Index: 2, StartMS: 42_000, DurationMS: 13_000, FromMS: 50_000, ToMS: 55_000},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("withSound = %+v, want %+v", got, want)
	}
}

// tiles fails unless the chunks' intervals are [0, total) without gap or overlap,
// each inside its sound and none empty.
func tiles(t *testing.T, chunks []Chunk, total int64) {
	t.Helper()
	at := int64(0)
	for i, c := range chunks {
		if c.Index != i || c.FromMS != at || c.ToMS <= c.FromMS || c.StartMS > c.FromMS || c.StartMS < 0 ||
			c.StartMS+c.DurationMS < c.ToMS || c.StartMS+c.DurationMS > total {
			t.Fatalf("chunk %+v after %d ms of %d", c, at, total)
		}
		if i > 0 && chunks[i-1].Forced {
			p := chunks[i-1]
			if p.StartMS+p.DurationMS < min(p.ToMS+overlapMS, total) || c.StartMS > max(c.FromMS-overlapMS, 0) {
				t.Fatalf("a forced cut at %d ms between %+v and %+v", p.ToMS, p, c)
			}
		}
		at = c.ToMS
	}
	if at != total {
		t.Fatalf("chunks end at %d ms of %d", at, total)
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte{200, 3, 150}, uint32(123_457), uint16(30))
	f.Fuzz(func(t *testing.T, pattern []byte, total uint32, chunkS uint16) {
		totalMS, chunkMS := int64(total%4_000_000)+1, max(int64(chunkS)*1000, minChunkMS)
		l := make([]level, (totalMS+frameMS-1)/frameMS)
		for i := range l {
			if len(pattern) > 0 {
				l[i] = level(pattern[i/40%len(pattern)])
			}
		}
		spans := cut(l, totalMS, chunkMS)
		tiles(t, withSound(spans, totalMS), totalMS)
		for _, s := range spans {
			if s.to-s.from > chunkMS*2 {
				t.Fatalf("cut(%d ms, %d) has a span of %d ms", totalMS, chunkMS, s.to-s.from)
			}
		}
	})
}
