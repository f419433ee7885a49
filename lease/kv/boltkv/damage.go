package boltkv

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// ErrDamaged is returned when a page of the store is not what bbolt left there.
var ErrDamaged = errors.New("the store is damaged")

// damage is a panic of bbolt's, which trusts what it reads from a page.
type damage struct{ cause any }

// found turns a panic of the bbolt call that it is deferred around into damage,
// so that guard can tell it from one of the code that reads.
func found() {
	if p := recover(); p != nil {
		panic(damage{p})
	}
}

func seek(c *bbolt.Cursor, key []byte) (k, v []byte) { defer found(); return c.Seek(key) }
func next(c *bbolt.Cursor) (k, v []byte)             { defer found(); return c.Next() }
func prev(c *bbolt.Cursor) (k, v []byte)             { defer found(); return c.Prev() }
func last(c *bbolt.Cursor) (k, v []byte)             { defer found(); return c.Last() }

// guard runs fn, which reads pages and what they hold. It turns what comes of a
// damaged one, a panic in bbolt or a slice that leads out of the file, into
// ErrDamaged. A panic of fn's own passes.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case damage:
			err = fmt.Errorf("%w: %v", ErrDamaged, p.cause)
		case interface{ Addr() uintptr }: // a fault at an address that is no nil pointer's
			err = fmt.Errorf("%w: a page points outside of the file", ErrDamaged)
		default:
			panic(p)
		}
	}()
	return fn()
}
