package api_test

import (
	"testing"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// TestControl runs the contract over the wire, in each form of an exchange:
// client, handler and a real store.
func TestControl(t *testing.T) {
	t.Run("stream", func(t *testing.T) { testControl(t, func(c *api.Client) lease.Control { return c }) })
	t.Run("compact", func(t *testing.T) { testControl(t, func(c *api.Client) lease.Control { return api.SpeakCompact(c) }) })
	t.Run("json", func(t *testing.T) { testControl(t, func(c *api.Client) lease.Control { return api.SpeakJSON(c) }) })
}

func testControl(t *testing.T, form func(*api.Client) lease.Control) {
	leasetest.TestControl(t, func(t *testing.T) (lease.Control, *leasetest.Fixture) {
		f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
		url := serve(t, api.NewHandler(api.Options{
			Authenticate: func(string) (lease.Actor, error) { return leasetest.Admin, nil },
			Control:      func(lease.Actor) lease.Control { return f.Near() },
		}))
		return form(dial(t, url, "token")), f
	})
}
