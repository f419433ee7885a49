package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"macbatch/lease/kv"
)

// Run shows that an engine keeps the contract. open returns a new empty engine;
// reopen ends e and returns an engine on the same storage.
func Run(t *testing.T, open func(t *testing.T) kv.Engine, reopen func(t *testing.T, e kv.Engine) kv.Engine) {
	for _, c := range []struct {
		name string
		test func(s suite)
	}{
		{"Scan", suite.scan},
		{"Empty", suite.empty},
		{"Keys", suite.keys},
		{"Log", suite.log},
		{"Order", suite.order},
		{"Atomic", suite.atomic},
		{"OwnWrites", suite.ownWrites},
		{"Snapshot", suite.snapshot},
		{"Slices", suite.slices},
		{"Large", suite.large},
		{"Many", suite.many},
		{"Reopen", suite.reopens},
		{"Closed", suite.closed},
		{"Concurrent", suite.concurrent},
		{"Model", suite.model},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := suite{t, open(t), reopen}
			c.test(s)
		})
	}
}

type suite struct {
	*testing.T
	e      kv.Engine
	reopen func(t *testing.T, e kv.Engine) kv.Engine
}

func (s suite) update(fn func(w kv.Writer) error) {
	s.Helper()
	if err := s.e.Update(fn); err != nil {
		s.Fatal(err)
	}
}

func (s suite) view(fn func(r kv.Reader)) {
	s.Helper()
	if err := s.e.View(func(r kv.Reader) error { fn(r); return nil }); err != nil {
		s.Fatal(err)
	}
}

// put stores each "key=value" of pairs.
func (s suite) put(pairs ...string) {
	s.Helper()
	s.update(func(w kv.Writer) error {
		for _, p := range pairs {
			k, v, _ := bytes.Cut([]byte(p), []byte("="))
			if err := w.Put(k, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// want compares what scan yields, as "key=value", with pairs.
func want(t *testing.T, r kv.Reader, from, to []byte, pairs ...string) {
	t.Helper()
	var got []string
	r.Scan(from, to, func(k, v []byte) bool {
		got = append(got, string(k)+"="+string(v))
		return true
	})
	if !slices.Equal(got, pairs) {
		t.Fatalf("Scan(%q, %q) = %q, want %q", from, to, got, pairs)
	}
}

func wantLog(t *testing.T, r kv.Reader, from uint64, back bool, records ...string) {
	t.Helper()
	var got []string
	scan := r.Log
	if back {
		scan = r.LogBack
	}
	scan(from, func(seq uint64, data []byte) bool {
		got = append(got, fmt.Sprintf("%d=%s", seq, data))
		return true
	})
	if !slices.Equal(got, records) {
		t.Fatalf("log from %d (back %v) = %q, want %q", from, back, got, records)
	}
}

func (s suite) scan() {
	s.view(func(r kv.Reader) {
		want(s.T, r, nil, nil)
		wantLog(s.T, r, 0, false)
		wantLog(s.T, r, ^uint64(0), true)
	})
	s.put("b=2", "\xff=6", "a=1", "ab=5", "b\x00=4", "c=3")
	s.view(func(r kv.Reader) {
		want(s.T, r, nil, nil, "a=1", "ab=5", "b=2", "b\x00=4", "c=3", "\xff=6")
		want(s.T, r, []byte("ab"), []byte("c"), "ab=5", "b=2", "b\x00=4")
		want(s.T, r, []byte("aa"), []byte("b\x00"), "ab=5", "b=2")
		want(s.T, r, []byte("b"), nil, "b=2", "b\x00=4", "c=3", "\xff=6")
		want(s.T, r, nil, []byte("a"))
		want(s.T, r, nil, []byte{})
		want(s.T, r, []byte("c"), []byte("b"))
		want(s.T, r, []byte("d"), []byte("e"))
		n := 0
		r.Scan(nil, nil, func(_, _ []byte) bool { n++; return n < 2 })
		if n != 2 {
			s.Fatalf("Scan went on to %d keys after fn returned false at 2", n)
		}
	})
}

func (s suite) empty() {
	s.update(func(w kv.Writer) error {
		return errors.Join(w.Put([]byte("empty"), []byte{}), w.Put([]byte("nil"), nil), w.Append(1, nil))
	})
	check := func(r kv.Reader) {
		for _, k := range []string{"empty", "nil"} {
			if v := r.Get([]byte(k)); v == nil || len(v) != 0 {
				s.Fatalf("Get(%q) = %#v, want an empty value", k, v)
			}
		}
		if v := r.Get([]byte("missing")); v != nil {
			s.Fatalf("Get of a missing key = %#v, want nil", v)
		}
		want(s.T, r, nil, nil, "empty=", "nil=")
		wantLog(s.T, r, 0, false, "1=")
	}
	s.view(check)
	s.update(func(w kv.Writer) error {
		if err := w.Put([]byte("nil"), nil); err != nil {
			return err
		}
		check(w)
		return nil
	})
}

func (s suite) keys() {
	longest := bytes.Repeat([]byte{'k'}, kv.MaxKey)
	s.update(func(w kv.Writer) error {
		for _, key := range [][]byte{nil, {}, append(longest, 'k')} {
			if err := w.Put(key, nil); !errors.Is(err, kv.ErrKey) {
				s.Fatalf("Put of a key of %d bytes = %v, want ErrKey", len(key), err)
			}
			if err := w.Delete(key); !errors.Is(err, kv.ErrKey) {
				s.Fatalf("Delete of a key of %d bytes = %v, want ErrKey", len(key), err)
			}
		}
		return w.Put(longest, []byte("v"))
	})
	s.view(func(r kv.Reader) {
		if v := r.Get(longest); string(v) != "v" {
			s.Fatalf("Get of the longest key = %q, want \"v\"", v)
		}
		if v := r.Get(nil); v != nil {
			s.Fatalf("Get(nil) = %q, want nil", v)
		}
	})
	s.update(func(w kv.Writer) error {
		return errors.Join(w.Delete(longest), w.Delete([]byte("missing")))
	})
	s.view(func(r kv.Reader) { want(s.T, r, nil, nil) })
}

func (s suite) log() {
	s.update(func(w kv.Writer) error {
		return errors.Join(w.Append(1, []byte("a")), w.Append(2, []byte("b")))
	})
	s.update(func(w kv.Writer) error {
		return errors.Join(w.Append(10, []byte("c")), w.Append(1<<40, []byte("d")))
	})
	s.view(func(r kv.Reader) {
		wantLog(s.T, r, 0, false, "1=a", "2=b", "10=c", "1099511627776=d")
		wantLog(s.T, r, 2, false, "2=b", "10=c", "1099511627776=d")
		wantLog(s.T, r, 3, false, "10=c", "1099511627776=d")
		wantLog(s.T, r, 1<<41, false)
		wantLog(s.T, r, ^uint64(0), true, "1099511627776=d", "10=c", "2=b", "1=a")
		wantLog(s.T, r, 10, true, "10=c", "2=b", "1=a")
		wantLog(s.T, r, 9, true, "2=b", "1=a")
		wantLog(s.T, r, 0, true)
		for _, scan := range []func(uint64, func(uint64, []byte) bool){r.Log, r.LogBack} {
			n := 0
			scan(5, func(uint64, []byte) bool { n++; return false })
			if n != 1 {
				s.Fatalf("the log was scanned for %d records after fn returned false at 1", n)
			}
		}
		want(s.T, r, nil, nil) // the log is not in the map
	})
	s.update(func(w kv.Writer) error {
		err := errors.Join(w.Append(1<<40+1, []byte("e")), w.Trim(10))
		wantLog(s.T, w, 0, false, "10=c", "1099511627776=d", "1099511627777=e")
		return err
	})
	s.update(func(w kv.Writer) error { return w.Trim(0) })
	s.view(func(r kv.Reader) {
		wantLog(s.T, r, 0, false, "10=c", "1099511627776=d", "1099511627777=e")
		wantLog(s.T, r, 9, true)
	})
}

func (s suite) order() {
	refuse := func(seqs ...uint64) {
		s.Helper()
		for _, seq := range seqs {
			err := s.e.Update(func(w kv.Writer) error { return w.Append(seq, nil) })
			if !errors.Is(err, kv.ErrOrder) {
				s.Fatalf("Append(%d) = %v, want ErrOrder", seq, err)
			}
		}
	}
	refuse(0)
	s.update(func(w kv.Writer) error {
		if err := w.Append(5, nil); err != nil {
			return err
		}
		if err := w.Append(5, nil); !errors.Is(err, kv.ErrOrder) {
			s.Fatalf("Append(5) twice in a transaction = %v, want ErrOrder", err)
		}
		return w.Append(7, nil)
	})
	refuse(0, 5, 6, 7)
	s.update(func(w kv.Writer) error { return w.Trim(100) })
	refuse(5, 7) // also when none is left
	s.e = s.reopen(s.T, s.e)
	refuse(5, 7)
	aborted := errors.New("aborted")
	if err := s.e.Update(func(w kv.Writer) error { return errors.Join(w.Append(50, nil), aborted) }); !errors.Is(err, aborted) {
		s.Fatalf("Update = %v, want fn's error", err)
	}
	s.update(func(w kv.Writer) error { return w.Append(8, []byte("x")) })
	s.view(func(r kv.Reader) { wantLog(s.T, r, 0, false, "8=x") })
}

func (s suite) atomic() {
	s.put("keep=1", "delete=1")
	s.update(func(w kv.Writer) error { return w.Append(1, []byte("one")) })
	check := func() {
		s.Helper()
		s.view(func(r kv.Reader) {
			want(s.T, r, nil, nil, "delete=1", "keep=1")
			wantLog(s.T, r, 0, false, "1=one")
		})
	}
	change := func(w kv.Writer) error {
		return errors.Join(w.Put([]byte("keep"), []byte("2")), w.Put([]byte("new"), []byte("3")),
			w.Delete([]byte("delete")), w.Append(2, []byte("two")), w.Trim(2))
	}
	aborted := errors.New("aborted")
	err := s.e.Update(func(w kv.Writer) error { return errors.Join(change(w), aborted) })
	if !errors.Is(err, aborted) {
		s.Fatalf("Update = %v, want fn's error", err)
	}
	check()
	func() {
		defer func() {
			if r := recover(); r != "on purpose" {
				s.Fatalf("recovered %v, want fn's panic", r)
			}
		}()
		_ = s.e.Update(func(w kv.Writer) error {
			if err := change(w); err != nil {
				return err
			}
			panic("on purpose")
		})
	}()
	check()
	if err := s.e.View(func(kv.Reader) error { return aborted }); !errors.Is(err, aborted) {
		s.Fatalf("View = %v, want fn's error", err)
	}
	s.update(change)
	s.view(func(r kv.Reader) {
		want(s.T, r, nil, nil, "keep=2", "new=3")
		wantLog(s.T, r, 0, false, "2=two")
	})
}

func (s suite) ownWrites() {
	s.put("a=1", "b=1", "c=1")
	s.update(func(w kv.Writer) error {
		err := errors.Join(w.Put([]byte("b"), []byte("2")), w.Delete([]byte("a")), w.Put([]byte("d"), []byte("4")),
			w.Append(3, []byte("three")))
		want(s.T, w, nil, nil, "b=2", "c=1", "d=4")
		wantLog(s.T, w, 0, false, "3=three")
		wantLog(s.T, w, 9, true, "3=three")
		if v := w.Get([]byte("a")); v != nil {
			s.Fatalf("Get of a deleted key = %q, want nil", v)
		}
		if v := w.Get([]byte("d")); string(v) != "4" {
			s.Fatalf("Get of a new key = %q, want \"4\"", v)
		}
		return err
	})
}

func (s suite) snapshot() {
	s.put("a=1", "b=1")
	s.view(func(r kv.Reader) {
		done := make(chan error)
		go func() { // beside it, as another goroutine of the program would
			var err error
			for i := range 10 {
				err = errors.Join(err, s.e.Update(func(w kv.Writer) error {
					return errors.Join(w.Put([]byte("a"), fmt.Append(nil, i)), w.Put(fmt.Append(nil, "n", i), nil),
						w.Append(uint64(i+1), nil))
				}))
			}
			done <- err
		}()
		if err := <-done; err != nil {
			s.Fatal(err)
		}
		want(s.T, r, nil, nil, "a=1", "b=1")
		wantLog(s.T, r, 0, false)
	})
	s.view(func(r kv.Reader) {
		if v := r.Get([]byte("a")); string(v) != "9" {
			s.Fatalf("Get after the updates = %q, want \"9\"", v)
		}
	})
}
