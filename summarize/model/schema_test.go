package model

import (
	"strings"
	"testing"
)

func TestCheckAnswer(t *testing.T) {
	object := `{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":1,"maximum":9},"b":{"type":["string","null"],"maxLength":2}},"additionalProperties":false}`
	for _, c := range []struct{ schema, answer, want string }{
		{object, `{"a":1}`, ""},
		{object, " {\"a\":9,\"b\":null}\n", ""},
		{object, `{"a":1.0,"b":"éé"}`, ""},
		{object, `{"b":"x"}`, `no "a"`},
		{object, `{"a":1.5}`, "type integer"},
		{object, `{"a":0}`, "below"},
		{object, `{"a":10}`, "above"},
		{object, `{"a":1,"b":"abc"}`, "length"},
		{object, `{"a":1,"c":1}`, "must not be there"},
		{object, `[]`, "type object"},
		{object, `{"a":1} x`, "not JSON"},
		{object, `{"a":1}{}`, "more behind"},
		{object, `{"a":1`, "not JSON"},
		{object, ``, "not JSON"},
		{object, "```json\n{\"a\":1}\n```", "not JSON"},
		{`{"enum":["x",1,null]}`, `"x"`, ""},
		{`{"enum":["x",1,null]}`, `1.0`, ""},
		{`{"enum":["x",1,null]}`, `"y"`, "none of"},
		{`{"const":[1,{"a":true}]}`, `[1,{"a":true}]`, ""},
		{`{"const":1}`, `2`, "not the value"},
		{`{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}`, `["a","b"]`, ""},
		{`{"type":"array","items":{"type":"string"}}`, `["a",1]`, "answer[1]"},
		{`{"type":"array","minItems":1}`, `[]`, "below"},
		{`{"type":"array","maxItems":1}`, `[1,2]`, "above"},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`, ""},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, "anyOf"},
		{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `1`, "oneOf"},
		{`{"allOf":[{"type":"number"},{"maximum":3}]}`, `4`, "allOf"},
		{`{"type":"number"}`, `1e400`, "range"},
		{`{"properties":{"a":false}}`, `{"a":1}`, "must not be there"},
		{`true`, `1`, ""},
		{`{"$ref":"#/x"}`, `1`, ""},
		{`{"type":"boolean"}`, `true`, ""},
	} {
		_, err := CheckAnswer([]byte(c.schema), c.answer)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("CheckAnswer(%s, %s) = %v, want %q", c.schema, c.answer, err, c.want)
		}
	}
	deep := strings.Repeat(`{"items":`, 500) + "{}" + strings.Repeat("}", 500)
	if _, err := CheckAnswer([]byte(deep), strings.Repeat("[", 500)+strings.Repeat("]", 500)); err == nil {
		t.Error("CheckAnswer of 500 levels = nil")
	}
}
