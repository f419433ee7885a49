package model

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// apiPaths are what people paste behind a server's address.
var apiPaths = []string{
	"/chat/completions", "/completions", "/embeddings", "/models", "/responses", "/v1",
	"/api/generate", "/api/chat", "/api/embed", "/api/embeddings", "/api/tags", "/api",
}

// ParseURL reads the address of a server in any of the forms that people know it
// by (with and without /v1, a slash at the end, the path of one of its calls) and
// returns the one form that paths such as /v1/models are added to. Plain HTTP is
// for loopback only.
func ParseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("server address %q: not a URL", s)
	}
	switch {
	case u.User != nil:
		return "", fmt.Errorf("server address: a credential does not belong into a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("server address %q: must begin with https:// or http://", s)
	case u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return "", fmt.Errorf("server address %q: must be scheme, host, port and path only", s)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", fmt.Errorf("server address %q: plain http is for this machine only; use https, or a tunnel", s)
	}
	path := strings.TrimRight(u.Path, "/")
	for again := true; again; {
		again = false
		for _, p := range apiPaths {
			if cut, ok := strings.CutSuffix(path, p); ok {
				path, again = strings.TrimRight(cut, "/"), true
			}
		}
	}
	return (&url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: path}).String(), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
