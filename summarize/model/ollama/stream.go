package ollama

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"macbatch/summarize/model"
)

const (
	maxLine = 16 << 20 // bytes of one line of a stream
	maxText = 16 << 20 // bytes of one answer
)

// stream reads the lines of an answer until the one that says it is done.
func stream(in io.Reader, q model.GenerateRequest) (out model.Generated, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 8<<10), maxLine)
	var text strings.Builder
	tokens := 0
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var a struct {
			Response string `json:"response"`
			Message  struct {
				Content string `json:"content"`
			} `json:"message"`
			Done   bool            `json:"done"`
			Reason string          `json:"done_reason"`
			Asked  int             `json:"prompt_eval_count"`
			Said   int             `json:"eval_count"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return out, model.Errorf(model.ErrBadAnswer, "line of the stream: %v", err)
		}
		if s := model.Complaint(a.Error); s != "" {
			return out, told(http.StatusOK, s)
		}
		text.WriteString(a.Response)
		text.WriteString(a.Message.Content)
		if text.Len() > maxText {
			return out, model.Errorf(model.ErrTruncated, "answer over %d bytes", maxText)
		}
		if tokens++; q.Progress != nil {
			q.Progress(tokens)
		}
		if a.Done {
			out.Usage = model.Usage{InputTokens: a.Asked, OutputTokens: a.Said}
			return finish(out, text.String(), a.Reason, q)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return out, model.Errorf(model.ErrBadAnswer, "a line of the stream is over %d bytes", maxLine)
	} else if err != nil {
		return out, err
	}
	return out, model.Errorf(model.ErrUnavailable, "the stream ended before the answer did")
}

// finish judges a whole answer.
func finish(out model.Generated, text, reason string, q model.GenerateRequest) (model.Generated, error) {
	out.Text, out.Finish = text, model.Stopped
	if reason == "length" {
		out.Finish = model.Length
		if q.MaxTokens == 0 || len(q.Schema) > 0 {
			return out, model.Errorf(model.ErrTruncated, "cut after %d tokens", out.Usage.OutputTokens)
		}
	}
	if strings.TrimSpace(text) == "" {
		return out, model.Errorf(model.ErrBadAnswer, "the answer is empty")
	}
	return out, nil
}

// kind says what a refusal means; nil: what its status says.
func kind(status int, text string) error {
	low := strings.ToLower(text)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(low, p) {
				return true
			}
		}
		return false
	}
	switch {
	case status == http.StatusNotFound && has("page not found"):
		return errNoCall
	case status == http.StatusNotFound, has("not found, try pulling it first"):
		return model.ErrNoModel
	case has("exceeds the context", "exceeds maximum context", "exceeds the available context", "context length exceeded", "prompt too long"):
		return model.ErrOverflow
	case status == http.StatusInternalServerError && has("failed to process inputs", "invalid format", "invalid json schema", "must be of type", "failed to parse grammar"):
		return model.ErrRefused
	case has("maximum pending requests"):
		return model.ErrBusy
	case status == http.StatusBadRequest && has("eof", "connection reset", "connection refused", "runner"):
		return model.ErrUnavailable // of the runner behind the server
	case has("unsupported value: nan", "unsupported value: +inf", "unsupported value: -inf"):
		return model.ErrBadAnswer
	}
	return nil
}

// told makes an error of a refusal inside a 200.
func told(status int, text string) *model.Error {
	e := model.Errorf(model.ErrUnavailable, "%s", text)
	e.Status = status
	if k := kind(http.StatusInternalServerError, text); k != nil {
		e.Kind = k
	}
	return e
}

// errNoCall is the kind of error of a server that does not know the path.
var errNoCall = fmt.Errorf("server too old for this call: %w", model.ErrDenied)

func missing(err error) bool { return errors.Is(err, errNoCall) }

// unit scales a vector to length one.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return v
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return v
}
