package openai

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
)

const resource = "/audio/transcriptions"

var versionElement = regexp.MustCompile(`^v[0-9]+$`)

// Endpoint makes the one address of a server's transcriptions out of what people
// write: with or without /v1, the whole path, a slash at the end; whisper-server's
// /inference too. Plain http is for this machine alone, as a key and somebody's
// speech would go over the network in the clear.
func Endpoint(base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil {
		return nil, fmt.Errorf("address %q: not a URL", base) // its error may quote a password
	}
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("address of %q: must hold no user, query or fragment", u.Host)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("address %q: must be http:// or https:// and a host", base)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("address %q: plain http is for this machine alone: use https", base)
	}
	port := u.Port()
	if u.Host = strings.ToLower(u.Hostname()); strings.Contains(u.Host, ":") {
		u.Host = "[" + u.Host + "]"
	}
	if port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		u.Host += ":" + port
	}
	p := path.Clean("/" + u.Path)
	switch {
	case strings.HasSuffix(p, resource) || path.Base(p) == "inference":
	case versionElement.MatchString(path.Base(p)):
		p += resource
	default:
		p = strings.TrimSuffix(p, "/") + "/v1" + resource
	}
	u.Path, u.RawPath = p, ""
	return u, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
