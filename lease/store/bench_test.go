package store_test

import (
	"fmt"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// BenchmarkClaim is a claim and the reports on what it granted, without a disk: of 1
// and of 100 shards, with 1 and with 100 needs to choose among. A shard a report.
func BenchmarkClaim(b *testing.B) {
	for _, needs := range []int{1, 100} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("needs=%d/batch=%d", needs, batch), func(b *testing.B) {
				ctl := leasetest.Open(b, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock()).Near()
				w := leasetest.NewWorker(b, ctl, "w")
				for i := range needs {
					w.Offer.Roots = append(w.Offer.Roots, fmt.Sprint("root ", i))
				}
				fill := func() {
					for _, r := range w.Offer.Roots {
						leasetest.Submit(b, ctl, leasetest.Params{Items: 20_000 / needs, Root: r})
					}
				}
				fill()
				b.ReportAllocs()
				b.ResetTimer()
				left, reports := 20_000/needs*needs, []lease.Report(nil)
				for range b.N {
					if left < batch {
						b.StopTimer()
						fill()
						left += 20_000 / needs * needs
						b.StartTimer()
					}
					w.Request++
					out := w.Exchange(lease.Exchange{Reports: reports, Max: batch})
					if len(out.Grants) != batch {
						b.Fatalf("%d grants, want %d", len(out.Grants), batch)
					}
					left -= batch
					reports = reports[:0]
					for _, g := range out.Grants {
						reports = append(reports, leasetest.Done(g, "x"))
					}
				}
				b.StopTimer()
				w.Exchange(lease.Exchange{Reports: reports})
			})
		}
	}
}
