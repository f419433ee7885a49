package memkv

import (
	"errors"
	"strings"
	"testing"

	"macbatch/lease/kv"
	"macbatch/lease/kv/kvtest"
)

func TestEngine(t *testing.T) {
	kvtest.Run(t,
		func(t *testing.T) kv.Engine { return Open() },
		func(t *testing.T, e kv.Engine) kv.Engine { return e.(*DB).Reopen() })
}

// As with bbolt, a value changed before the commit is stored changed.
func TestKeepsSlices(t *testing.T) {
	db := Open()
	value := []byte("one")
	err := db.Update(func(w kv.Writer) error {
		if err := w.Put([]byte("a"), value); err != nil {
			return err
		}
		copy(value, "two")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, db, "a"); got != "two" {
		t.Fatalf("Get = %q, want the changed value", got)
	}
}

func get(t *testing.T, e kv.Engine, key string) string {
	t.Helper()
	var v string
	if err := e.View(func(r kv.Reader) error { v = string(r.Get([]byte(key))); return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

func put(e kv.Engine, key, value string) error {
	return e.Update(func(w kv.Writer) error { return w.Put([]byte(key), []byte(value)) })
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault  Fault
		usable bool
		want   string // the value after reopening
	}{
		{Fault{Err: kv.ErrFull}, true, "1"},
		{Fault{Err: kv.ErrUnknownOutcome}, false, "1"},
		{Fault{Err: kv.ErrUnknownOutcome, Applied: true}, false, "2"},
	} {
		db := Open()
		db.OnCommit = func(n int) *Fault {
			if n == 2 {
				return &c.fault
			}
			return nil
		}
		if err := put(db, "a", "1"); err != nil {
			t.Fatal(err)
		}
		if err := put(db, "a", "2"); !errors.Is(err, c.fault.Err) {
			t.Fatalf("Update = %v, want %v", err, c.fault.Err)
		}
		err := put(db, "b", "1")
		if c.usable != (err == nil) || !c.usable && !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Fatalf("%v: next Update = %v, usable %v", c.fault, err, c.usable)
		}
		if !c.usable {
			if err := db.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Fatalf("%v: next View = %v, want ErrUnknownOutcome", c.fault, err)
			}
		}
		if got := get(t, db.Reopen(), "a"); got != c.want {
			t.Fatalf("%v: after reopening a = %q, want %q", c.fault, got, c.want)
		}
	}
}

// The guard reports each way of breaking the contract.
func TestGuardReports(t *testing.T) {
	key := []byte("key")
	for name, bad := range map[string]func(e kv.Engine) error{
		"changed before": func(e kv.Engine) error {
			return e.Update(func(w kv.Writer) error {
				v := []byte("value")
				defer copy(v, "other")
				return w.Put(key, v)
			})
		},
		"twice": func(e kv.Engine) error {
			return e.Update(func(w kv.Writer) error { return errors.Join(w.Put(key, nil), w.Delete(key)) })
		},
		"inside a scan": func(e kv.Engine) error {
			return e.Update(func(w kv.Writer) error {
				w.Log(0, func(uint64, []byte) bool { _ = w.Put(key, nil); return true })
				return nil
			})
		},
	} {
		db := Open()
		if err := db.Update(func(w kv.Writer) error { return w.Append(1, nil) }); err != nil {
			t.Fatal(err)
		}
		rec := &recorder{TB: t}
		if err := bad(kvtest.Guard(rec, db)); err != nil {
			t.Fatal(err)
		}
		if len(rec.said) != 1 || !strings.Contains(rec.said[0], name) {
			t.Fatalf("guard said %q, want one line with %q", rec.said, name)
		}
	}
	db := Open()
	if err := put(db, "key", "value"); err != nil {
		t.Fatal(err)
	}
	rec := &recorder{TB: t}
	err := kvtest.Guard(rec, db).Update(func(w kv.Writer) error {
		v := []byte("v")
		err := errors.Join(w.Put(key, v), w.Append(1, v), w.Delete([]byte("other")))
		w.Scan(nil, nil, func(_, _ []byte) bool { return true })
		return err
	})
	if err != nil || len(rec.said) != 0 {
		t.Fatalf("fair use: %v, guard said %q", err, rec.said)
	}
	if err := put(db, "key", "value"); err != nil {
		t.Fatal(err)
	}
	var kept []byte
	_ = kvtest.Guard(t, db).View(func(r kv.Reader) error { kept = r.Get(key); return nil })
	if string(kept) == "value" {
		t.Fatal("a slice kept after its transaction still shows the value")
	}
}

type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, _ ...any) {
	r.said = append(r.said, format)
}
