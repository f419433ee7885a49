package store_test

import (
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

func TestControl(t *testing.T) {
	leasetest.TestControl(t, func(t *testing.T) (lease.Control, *leasetest.Fixture) {
		f := leasetest.Open(t, memkv.New(), leasetest.NewBlobs(), leasetest.NewClock())
		return f.Near(), f
	})
}
