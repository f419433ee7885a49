package reduce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"macbatch/summarize/model"
	"macbatch/summarize/reduce"
)

// reader stands for a model whose context holds so many bytes. It answers with the
// markers that it was shown.
type reader struct {
	holds int
	asked int
}

func (r *reader) ask(_ context.Context, question string) (string, error) {
	r.asked++
	if !utf8.ValidString(question) {
		return "", errors.New("a character was cut")
	}
	if len(question) > r.holds {
		return "", model.Errorf(model.ErrOverflow, "%d bytes", len(question))
	}
	_, text, _ := strings.Cut(question, ":\n")
	var seen []string
	for _, w := range strings.Fields(text) {
		if strings.HasPrefix(w, "§") {
			seen = append(seen, w)
		}
	}
	return " " + strings.Join(seen, " ") + "\n", nil
}

func TestEveryPartIsRead(t *testing.T) {
	for _, holds := range []int{700, 1500, 6000, 1 << 20} {
		for name, sep := range map[string]string{"sentences": ". Now ", "one sentence": " and ", "no spaces": "…"} {
			var b strings.Builder
			for i := range 40 {
				fmt.Fprintf(&b, "%s é %s§%d ", sep, strings.Repeat("wörd ", 40), i)
			}
			r := reader{holds: holds}
			sum, err := reduce.Text(t.Context(), b.String(), reduce.Options{Context: 4096, Ask: r.ask})
			if err != nil {
				t.Errorf("%s, %d bytes held: %v", name, holds, err)
				continue
			}
			for i := range 40 {
				if !strings.Contains(sum+" ", fmt.Sprintf("§%d ", i)) {
					t.Errorf("%s, %d bytes held: part %d was not read; %d questions", name, holds, i, r.asked)
					break
				}
			}
		}
	}
}

func TestGivesUp(t *testing.T) {
	small := reader{holds: 100}
	if _, err := reduce.Text(t.Context(), strings.Repeat("word ", 1000), reduce.Options{Ask: small.ask}); !errors.Is(err, model.ErrOverflow) {
		t.Errorf("a context that holds nothing = %v", err)
	}
	echo := func(_ context.Context, q string) (string, error) {
		if len(q) > 5000 {
			return "", model.Errorf(model.ErrOverflow, "x")
		}
		return q + q, nil
	}
	if _, err := reduce.Text(t.Context(), strings.Repeat("word ", 10000), reduce.Options{Ask: echo}); !errors.Is(err, model.ErrBadAnswer) {
		t.Errorf("summaries that grow = %v", err)
	}
	broken := errors.New("broken")
	if _, err := reduce.Text(t.Context(), "text", reduce.Options{Ask: func(context.Context, string) (string, error) { return "", broken }}); !errors.Is(err, broken) {
		t.Errorf("a broken model = %v", err)
	}
}
