package transcribe

import (
	"testing"
	"time"
)

func TestLimitsGrowWithTheSound(t *testing.T) {
	for _, c := range []struct {
		ms                int64
		silence, patience time.Duration
	}{
		{0, 2 * time.Minute, 5 * time.Minute},
		{15_000, 270 * time.Second, 10 * time.Minute},
		{600_000, 30 * time.Minute, 205 * time.Minute},
		{4 * 3600_000, 30 * time.Minute, 80*time.Hour + 5*time.Minute},
		{-1, 2 * time.Minute, 5 * time.Minute},
	} {
		if s, p := Silence(c.ms), Patience(c.ms); s != c.silence || p != c.patience {
			t.Errorf("%d ms: silence %v, patience %v, want %v, %v", c.ms, s, p, c.silence, c.patience)
		}
	}
}
