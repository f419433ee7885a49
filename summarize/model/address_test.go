package model

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:11434":                        "http://127.0.0.1:11434",
		"http://localhost:1234/v1":                      "http://localhost:1234",
		"http://localhost:1234/v1/":                     "http://localhost:1234",
		"http://[::1]:1234/v1/chat/completions":         "http://[::1]:1234",
		"https://API.example.com/v1/embeddings/":        "https://api.example.com",
		"https://example.com/openai/v1":                 "https://example.com/openai",
		"https://example.com:8443/a/b/v1/models":        "https://example.com:8443/a/b",
		"http://127.0.0.1:11434/api/generate":           "http://127.0.0.1:11434",
		"http://127.0.0.1:11434/api":                    "http://127.0.0.1:11434",
		"http://example.com":                            "! plain http",
		"http://10.0.0.7:11434":                         "! plain http",
		"http://127.0.0.1.example.com":                  "! plain http",
		"http://0.0.0.0:1":                              "! plain http",
		"ftp://127.0.0.1":                               "! must begin with",
		"127.0.0.1:11434":                               "! server address",
		"":                                              "! must begin with",
		"https://":                                      "! scheme, host",
		"https://user:secret@example.com":               "! credential",
		"https://example.com/v1?key=secret":             "! scheme, host",
		"https://example.com/v1#x":                      "! scheme, host",
		"file:///etc/passwd":                            "! must begin with",
		"unix:///tmp/x":                                 "! must begin with",
		"http://169.254.169.254/latest/meta-data/":      "! plain http",
		"https://example.com/v1/chat/completions/../..": "https://example.com/v1/chat/completions/../..",
	} {
		got, err := ParseURL(in)
		if bad, ok := strings.CutPrefix(want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), bad) {
				t.Errorf("ParseURL(%q) = %q, %v, want an error with %q", in, got, err, bad)
			}
			if err != nil && strings.Contains(err.Error(), "secret") && strings.Contains(in, "user:") {
				t.Errorf("ParseURL(%q) tells the credential: %v", in, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("ParseURL(%q) = %q, %v, want %q", in, got, err, want)
		}
		if again, err := ParseURL(got); err != nil || again != got {
			t.Errorf("ParseURL(%q) = %q, %v: not the one form", got, again, err)
		}
	}
}
