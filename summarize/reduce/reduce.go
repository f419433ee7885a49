package reduce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"macbatch/summarize"
	"macbatch/summarize/model"
)

// Options say how to summarize.
type Options struct {
	Context  int    // tokens of the model's context; 0: 4096
	Language string // of the summary; "": that of the text

	// Ask has the model answer a question. A question that is too long is answered
	// with model.ErrOverflow, or, when it leaves no room for the answer, with
	// model.ErrTruncated.
	Ask func(ctx context.Context, question string) (string, error)
}

const (
	defaultContext = 4096
	answerShare    = 4   // a quarter of the context is for the answer
	bytesPerToken  = 3   // at first; a piece that turns out to be too long is halved
	leastPiece     = 200 // bytes; a context that holds no more is too small
	maxRounds      = 8   // of summaries of summaries
	maxSummary     = 64 << 10
)

const (
	whole = "Summarize the following text in a few sentences%s. Write the summary only.\n\nText:\n%s\n\nSummary:"
	part  = "The following is part %d of %d of a longer text. Summarize it in a few sentences%s. Write the summary only.\n\nText:\n%s\n\nSummary:"
	join  = "The following are summaries of the parts of one text, in order. Make one summary of a few sentences of them%s. Write the summary only.\n\nSummaries:\n%s\n\nSummary:"
)

// Text returns a summary of a text. Errors are those of Ask; model.ErrOverflow
// when the context is too small for anything.
func Text(ctx context.Context, text string, o Options) (string, error) {
	r := newReducer(o)
	if len(text) <= r.limit {
		sum, err := r.ask(ctx, fmt.Sprintf(whole, r.in, text))
		if !errors.Is(err, model.ErrOverflow) {
			return sum, err
		}
		r.limit = len(text) / 2
	}
	for range maxRounds {
		sums, err := r.pieces(ctx, text)
		if err != nil {
			return "", err
		}
		longer := len(text)
		if text = strings.Join(sums, "\n\n"); len(sums) == 1 {
			return text, nil
		}
		if len(text) <= r.limit {
			sum, err := r.ask(ctx, fmt.Sprintf(join, r.in, text))
			if !errors.Is(err, model.ErrOverflow) {
				return sum, err
			}
			r.limit = len(text) / 2
		}
		if len(text) >= longer {
			return "", model.Errorf(model.ErrBadAnswer, "the summaries of %d bytes are %d bytes", longer, len(text))
		}
	}
	return "", model.Errorf(model.ErrBadAnswer, "still %d bytes after %d rounds", len(text), maxRounds)
}

type reducer struct {
	o     Options
	limit int    // bytes of a piece
	in    string // which language to write in
}

func newReducer(o Options) *reducer {
	if o.Context <= 0 {
		o.Context = defaultContext
	}
	r := &reducer{o: o, limit: o.Context * (answerShare - 1) / answerShare * bytesPerToken}
	if o.Language != "" {
		r.in = ", in the language " + o.Language
	}
	return r
}

func (r *reducer) ask(ctx context.Context, question string) (string, error) {
	s, err := r.o.Ask(ctx, question)
	if errors.Is(err, model.ErrTruncated) {
		err = fmt.Errorf("%w: %w", model.ErrOverflow, err)
	}
	if err != nil {
		return "", err
	}
	if s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD")); len(s) > maxSummary {
		return "", model.Errorf(model.ErrTruncated, "a summary of %d bytes", len(s))
	}
	return s, nil
}

// pieces summarizes a text piece by piece. When one turns out to be too long, all
// that are left are cut smaller.
func (r *reducer) pieces(ctx context.Context, text string) (sums []string, err error) {
	for text != "" {
		if r.limit < leastPiece {
			return nil, model.Errorf(model.ErrOverflow, "a context of %d tokens does not hold %d bytes", r.o.Context, leastPiece)
		}
		all := (len(text) + r.limit - 1) / r.limit
		piece, rest := cut(text, r.limit)
		s, err := r.ask(ctx, fmt.Sprintf(part, len(sums)+1, len(sums)+all, r.in, piece))
		if errors.Is(err, model.ErrOverflow) {
			r.limit /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		sums, text = append(sums, s), rest
	}
	return sums, nil
}

// cut takes a piece of at most limit bytes from a text: whole sentences where they fit.
func cut(text string, limit int) (piece, rest string) {
	if len(text) <= limit {
		return text, ""
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	at := 0
	for _, s := range summarize.Split(text[:end]) {
		i := strings.Index(text[at:end], s)
		if i < 0 {
			break // Split cleans what it returns
		}
		if at+i+len(s) >= end {
			break // this one may go on behind the end
		}
		at += i + len(s)
	}
	if at < end/2 { // one long sentence, or none that can be found again
		if at = strings.LastIndexAny(text[:end], " \t\n"); at < end/2 {
			at = end
		}
	}
	return text[:at], strings.TrimSpace(text[at:])
}
