package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"macbatch/lease/kv"
)

// A caller's slices are its own again once the transaction ended.
func (s suite) slices() {
	key, value, record := []byte("key"), []byte("value"), []byte("record")
	s.update(func(w kv.Writer) error { return errors.Join(w.Put(key, value), w.Append(1, record)) })
	for _, b := range [][]byte{key, value, record} {
		for i := range b {
			b[i] = 'X'
		}
	}
	check := func() {
		s.Helper()
		s.view(func(r kv.Reader) {
			want(s.T, r, nil, nil, "key=value")
			wantLog(s.T, r, 0, false, "1=record")
		})
	}
	check()
	s.e = s.reopen(s.T, s.e)
	check()
}

func (s suite) large() {
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	s.update(func(w kv.Writer) error {
		return errors.Join(w.Put([]byte("large"), value), w.Append(1, value), w.Put([]byte("small"), []byte("x")))
	})
	s.update(func(w kv.Writer) error { return w.Put([]byte("small"), []byte("y")) })
	s.e = s.reopen(s.T, s.e)
	s.view(func(r kv.Reader) {
		if v := r.Get([]byte("large")); !bytes.Equal(v, value) {
			s.Fatalf("Get returned %d bytes, not the %d put", len(v), len(value))
		}
		r.Log(0, func(_ uint64, data []byte) bool {
			if !bytes.Equal(data, value) {
				s.Fatalf("Log returned %d bytes, not the %d appended", len(data), len(value))
			}
			return true
		})
	})
}

func (s suite) many() {
	const n, page = 100_000, 10_000
	key := func(i int) []byte { return fmt.Appendf(nil, "key/%08d", i*7919%n) } // 7919 is prime: all keys, out of order
	for from := 0; from < n; from += page {
		s.update(func(w kv.Writer) error {
			for i := from; i < from+page; i++ {
				if err := errors.Join(w.Put(key(i), key(i)), w.Append(uint64(i+1), key(i))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check := func(first, count int) {
		s.Helper()
		s.view(func(r kv.Reader) {
			i := first
			r.Scan([]byte("key/"), []byte("key0"), func(k, v []byte) bool {
				if want := fmt.Sprintf("key/%08d", i); string(k) != want || string(v) != want {
					s.Fatalf("Scan yields %q=%q, want %q", k, v, want)
				}
				i++
				return true
			})
			if i-first != count {
				s.Fatalf("Scan yielded %d keys, want %d", i-first, count)
			}
			seq := uint64(first)
			r.Log(0, func(got uint64, data []byte) bool {
				if seq++; got != seq || !bytes.Equal(data, key(int(seq-1))) {
					s.Fatalf("Log yields %d=%q, want %d", got, data, seq)
				}
				return true
			})
			if int(seq)-first != count {
				s.Fatalf("Log yielded %d records, want %d", int(seq)-first, count)
			}
		})
	}
	check(0, n)
	s.update(func(w kv.Writer) error {
		for i := range n / 2 {
			if err := w.Delete(fmt.Appendf(nil, "key/%08d", i)); err != nil {
				return err
			}
		}
		return w.Trim(n/2 + 1)
	})
	check(n/2, n/2)
}

func (s suite) reopens() {
	for i := range 5 {
		s.update(func(w kv.Writer) error {
			return errors.Join(w.Put(fmt.Append(nil, "k", i), fmt.Append(nil, i)), w.Append(uint64(i+1), fmt.Append(nil, "r", i)))
		})
		s.e = s.reopen(s.T, s.e)
		s.view(func(r kv.Reader) {
			var pairs, records []string
			for j := range i + 1 {
				pairs = append(pairs, fmt.Sprintf("k%d=%d", j, j))
				records = append(records, fmt.Sprintf("%d=r%d", j+1, j))
			}
			want(s.T, r, nil, nil, pairs...)
			wantLog(s.T, r, 0, false, records...)
		})
	}
}

func (s suite) closed() {
	s.put("a=1")
	var wg sync.WaitGroup
	inside, closing := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		err := s.e.View(func(r kv.Reader) error {
			close(inside)
			<-closing
			want(s.T, r, nil, nil, "a=1") // Close waits for this
			return nil
		})
		if err != nil {
			s.Error(err)
		}
	})
	<-inside
	wg.Go(func() {
		close(closing)
		if err := s.e.Close(); err != nil {
			s.Error(err)
		}
	})
	wg.Wait()
	if err := s.e.Close(); err != nil {
		s.Fatalf("second Close = %v", err)
	}
	never := func() error { s.Error("fn was called after Close"); return nil }
	if err := s.e.View(func(kv.Reader) error { return never() }); !errors.Is(err, kv.ErrClosed) {
		s.Fatalf("View after Close = %v, want ErrClosed", err)
	}
	if err := s.e.Update(func(kv.Writer) error { return never() }); !errors.Is(err, kv.ErrClosed) {
		s.Fatalf("Update after Close = %v, want ErrClosed", err)
	}
}
