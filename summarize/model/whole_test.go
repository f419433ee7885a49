package model

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckWhole(t *testing.T) {
	english, chinese := strings.Repeat("the lease ", 1000), strings.Repeat("租約說明誰在工作", 200)
	for name, c := range map[string]struct {
		tokens int
		text   string
		cut    bool
	}{
		"whole":               {2000, english, false},
		"whole, coarse":       {1000, english, false},
		"cut":                 {512, english, true},
		"cut, without spaces": {300, chinese, true},
		"whole, dense":        {1600, chinese, false},
		"not counted":         {0, english, false},
		"short":               {1, "so few words tell nothing", false},
		"one long word":       {100, strings.Repeat("x", 100_000), false},
	} {
		if err := CheckWhole(c.tokens, c.text); errors.Is(err, ErrOverflow) != c.cut {
			t.Errorf("%s: %v, want cut %v", name, err, c.cut)
		}
	}
}
