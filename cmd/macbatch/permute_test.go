package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestPermute(t *testing.T) {
	app := newApp(&command{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: func(string) (string, bool) { return "", false }})
	for _, c := range []struct{ in, want string }{
		{"macbatch", "macbatch"},
		{"macbatch --help", "macbatch --help"},
		{"macbatch run library d -o out", "macbatch run -o out -- library d"},
		{"macbatch run -o out library d", "macbatch run -o out -- library d"},
		{"macbatch run library --fresh d --chunk=5m -v", "macbatch run --fresh --chunk=5m -v -- library d"},
		{"macbatch run library -- -d -o", "macbatch run -- library -d -o"},
		{"macbatch status j --wait --timeout 5m", "macbatch status --wait --timeout 5m -- j"},
		{"macbatch serve --root a=b --root c=d", "macbatch serve --root a=b --root c=d --"},
		{"macbatch run library - -o out", "macbatch run -o out -- library -"},
		{"macbatch run library d --nonsense x", "macbatch run --nonsense -- library d x"},
		{"macbatch run library d --help", "macbatch run --help"},
		{"macbatch project list --json", "macbatch project list --json --"},
		{"macbatch actor add ann --role reader --project a --project b", "macbatch actor add --role reader --project a --project b -- ann"},
		{"macbatch actor add ann --help", "macbatch actor add --help"},
		{"macbatch actor --help", "macbatch actor --help"},
		{"macbatch actor nonsense", "macbatch actor -- nonsense"},
		{"macbatch service install serve --root a=b --system -v", "macbatch service install --system -- serve --root a=b -v"},
		{"macbatch service install --dry-run control --listen=x --help", "macbatch service install --help"},
		{"macbatch nonsense -x y", "macbatch nonsense -x y"},
	} {
		got, err := permute(app, strings.Fields(c.in))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("permute(%q) = %q, %v, want %q", c.in, got, err, c.want)
		}
	}
	if _, err := permute(app, []string{"macbatch", "run", "-o"}); exitCode(err) != exitUsage {
		t.Errorf("a flag without its value: %v", err)
	}
	got, err := permute(app, []string{"macbatch", "serve", "--root", "a=x,y", "--", "--z"})
	if want := []string{"macbatch", "serve", "--root", "a=x,y", "--", "--z"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("permute with a comma = %q, %v, want %q", got, err, want)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain 日本 👩‍👩‍👧":   "plain 日本 👩‍👩‍👧",
		"a\nb\tc\x1b[31m":  `a\nb\u0009c\u001b[31m`,
		"\u202eevil\u2028": `\u202eevil\u2028`,
		"latin1 \xe9":      `latin1 \xe9`,
		"\x7f\u0085":       `\u007f\u0085`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
