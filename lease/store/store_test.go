package store_test

import (
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

func TestControl(t *testing.T) {
	leasetest.TestControl(t, func(t *testing.T) (lease.Control, *leasetest.Fixture) {
		f := leasetest.Open(t, kvtest.Guard(t, memkv.Open()), leasetest.NewBlobs(), leasetest.NewClock())
		return f.Near(), f
	})
}
