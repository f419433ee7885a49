package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"macbatch/lease/kv"
)

// concurrent has readers check an invariant that each write keeps: the sum of
// all accounts, and as many log records as there were transfers.
func (s suite) concurrent() {
	const accounts, transfers, readers = 20, 200, 4
	account := func(i int) []byte { return fmt.Appendf(nil, "account/%02d", i) }
	s.update(func(w kv.Writer) error {
		var err error
		for i := range accounts {
			err = errors.Join(err, w.Put(account(i), []byte("100")))
		}
		return errors.Join(err, w.Put([]byte("transfers"), []byte("0")))
	})
	number := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		if err != nil {
			s.Error(err)
		}
		return n
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range readers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := s.e.View(func(r kv.Reader) error {
					sum, records := 0, 0
					r.Scan([]byte("account/"), []byte("account0"), func(_, v []byte) bool { sum += number(v); return true })
					r.Log(0, func(uint64, []byte) bool { records++; return true })
					if n := number(r.Get([]byte("transfers"))); sum != accounts*100 || records != n {
						return fmt.Errorf("sum %d, %d records, %d transfers", sum, records, n)
					}
					return nil
				})
				if err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for range transfers / 2 {
				err := s.e.Update(func(w kv.Writer) error {
					n := number(w.Get([]byte("transfers"))) + 1
					from, to := account(n%accounts), account((n*7+1)%accounts)
					if bytes.Equal(from, to) {
						to = account((n*7 + 2) % accounts)
					}
					a, b := number(w.Get(from))-1, number(w.Get(to))+1
					return errors.Join(w.Put(from, strconv.AppendInt(nil, int64(a), 10)), w.Put(to, strconv.AppendInt(nil, int64(b), 10)),
						w.Put([]byte("transfers"), strconv.AppendInt(nil, int64(n), 10)), w.Append(uint64(n), nil))
				})
				if err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	wg.Wait()
	s.view(func(r kv.Reader) {
		if n := number(r.Get([]byte("transfers"))); n != transfers {
			s.Fatalf("%d transfers, want %d: an update was lost", n, transfers)
		}
	})
}

// model compares random transactions, some of them aborted, with a plain map
// and slice.
func (s suite) model() {
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	pairs := map[string]string{}
	var log []string // "seq=record"
	var seqs []uint64
	var last uint64
	aborted := errors.New("aborted")
	for range 300 {
		p, l, q, hi := maps.Clone(pairs), slices.Clone(log), slices.Clone(seqs), last
		abort := rnd.IntN(4) == 0
		err := s.e.Update(func(w kv.Writer) error {
			used := map[string]bool{}
			for range rnd.IntN(8) {
				k := strconv.Itoa(rnd.IntN(60))
				if used[k] {
					continue
				}
				used[k] = true
				if rnd.IntN(3) == 0 {
					delete(p, k)
					if err := w.Delete([]byte(k)); err != nil {
						return err
					}
					continue
				}
				p[k] = strconv.Itoa(rnd.IntN(1e6))
				if err := w.Put([]byte(k), []byte(p[k])); err != nil {
					return err
				}
			}
			for range rnd.IntN(3) {
				hi += 1 + rnd.Uint64N(3)
				q, l = append(q, hi), append(l, fmt.Sprintf("%d=r%d", hi, hi))
				if err := w.Append(hi, fmt.Append(nil, "r", hi)); err != nil {
					return err
				}
			}
			if rnd.IntN(20) == 0 {
				before := rnd.Uint64N(hi + 2)
				i, _ := slices.BinarySearch(q, before)
				q, l = q[i:], l[i:]
				if err := w.Trim(before); err != nil {
					return err
				}
			}
			if abort {
				return aborted
			}
			return nil
		})
		if abort != errors.Is(err, aborted) || !abort && err != nil {
			s.Fatalf("Update = %v, aborted %v", err, abort)
		}
		if !abort {
			pairs, log, seqs, last = p, l, q, hi
		}
		if rnd.IntN(25) == 0 {
			s.e = s.reopen(s.T, s.e)
		}
		s.view(func(r kv.Reader) {
			var all []string
			for _, k := range slices.Sorted(maps.Keys(pairs)) {
				all = append(all, k+"="+pairs[k])
			}
			want(s.T, r, nil, nil, all...)
			wantLog(s.T, r, 0, false, log...)
			back := slices.Clone(log)
			slices.Reverse(back)
			wantLog(s.T, r, last, true, back...)
		})
	}
}
