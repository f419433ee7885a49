package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"macbatch/lease"
	"macbatch/lease/join"
)

// Control is a control plane as this machine would use it.
type Control struct {
	URL    string
	Client *http.Client                    // which knows its key
	Ask    func(ctx context.Context) error // anything that needs the credential
}

// skew is how far the clocks may be apart. Nothing rests on them, but people read
// times of both.
const skew = 30 * time.Second

// Control looks whether the control plane is reached, is the one that is known, and
// knows this machine; and how far apart the clocks are.
func (c *Control) Check() Check {
	return Check{"control", "", func(ctx context.Context) (list []Finding) {
		began := time.Now()
		date, err := c.date(ctx)
		took := time.Since(began)
		if errors.Is(err, join.ErrPin) {
			return []Finding{bad(Fail, "control", "", "if the control plane lost its key, all join again: macbatch join use --replace", "%s: %v", c.URL, err)}
		}
		if err != nil {
			fix := Explain(runtime.GOOS, "", err)
			if fix == "" {
				fix = "macbatch control must run there"
			}
			return []Finding{bad(Fail, "control", "", fix, "%s is not reached: %v", c.URL, err)}
		}
		list = append(list, ok("control", "", "%s answers within %d ms", c.URL, took.Milliseconds()))
		switch err := c.Ask(ctx); {
		case errors.Is(err, lease.ErrUnauthorized):
			list = append(list, bad(Fail, "credential", "", "macbatch join new --again on the control host, then macbatch join use --replace here", "the control plane does not know this machine's token"))
		case err != nil && !errors.Is(err, lease.ErrForbidden): // known, and not of that role
			list = append(list, bad(Fail, "credential", "", "", "%v", err))
		default:
			list = append(list, ok("credential", "", "the control plane knows it"))
		}
		if date.IsZero() {
			return list
		}
		apart := date.Sub(began.Add(took / 2)).Round(time.Second)
		if apart.Abs() > skew {
			return append(list, bad(Warn, "clock", "", "let both set their clocks by the network", "the control plane's clock is %v %s", apart.Abs(), map[bool]string{true: "ahead", false: "behind"}[apart > 0]))
		}
		return append(list, ok("clock", "", "it agrees with the control plane's within %v", max(apart.Abs(), time.Second)))
	}}
}

// date asks for the control plane's time, to the second.
func (c *Control) date(ctx context.Context) (t time.Time, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/healthz", nil)
	if err != nil {
		return t, err
	}
	resp, err := c.Client.Do(r)
	if err != nil {
		return t, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)); err != nil {
		return t, err
	}
	if resp.StatusCode != http.StatusOK {
		return t, fmt.Errorf("it answers %s", resp.Status)
	}
	t, _ = http.ParseTime(resp.Header.Get("Date")) // none: the clocks are not compared
	return t, nil
}
