package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

// look opens an image as the next process would. Where goOn is set it also goes
// on with it, on a copy.
func (im *image) look(c *commit, l loss, goOn bool) (f finding, err error) {
	db, err := boltkv.Open(im.path, boltkv.Options{InitialMmap: imageMap})
	if err != nil {
		f.damaged, f.what = true, fmt.Sprintf("commit %d, %s: %v", c.number, l.about, err)
		return f, nil //nolint:nilerr // it is the finding
	}
	f = c.judge(db, l)
	if err := db.Close(); err != nil {
		return f, err
	}
	if goOn && f == (finding{}) {
		return im.goOn(c, l)
	}
	return f, nil
}

// judge holds what an opened image holds against what it may hold.
func (c *commit) judge(db *boltkv.DB, l loss) (f finding) {
	f.what = fmt.Sprintf("commit %d, %s", c.number, l.about)
	if err := db.Check(); err != nil {
		f.damaged, f.what = true, fmt.Sprintf("%s: %v", f.what, err)
		return f
	}
	got, err := contents(db)
	if err == nil && got == c.prior && !l.durable && c.number == 1 {
		return finding{} // an engine without a store yet: the next process makes it
	}
	problems, err2 := store.Check(db, noBlobs{})
	if err2 != nil || len(problems) > 0 {
		f.wrong, f.what = true, fmt.Sprintf("%s: %v %v", f.what, problems, err2)
		return f
	}
	switch {
	case err != nil:
		f.damaged, f.what = true, fmt.Sprintf("%s: %v", f.what, err)
	case got == c.after && l.synced: // also where its meta page is torn, but behind what counts
		return finding{}
	case got == c.prior && !l.durable:
		return finding{}
	case got == c.prior:
		f.lost = true
	default:
		f.strange = true
	}
	return f
}

// goOn commits further on an image.
func (im *image) goOn(c *commit, l loss) (f finding, err error) {
	b, err := os.ReadFile(im.path)
	if err != nil {
		return f, err
	}
	defer func() {
		_, e := im.file.WriteAt(b, 0)
		err = errors.Join(err, im.file.Truncate(int64(len(b))), e)
	}()
	f.what = fmt.Sprintf("commit %d, %s, then gone on", c.number, l.about)
	db, err := boltkv.Open(im.path, boltkv.Options{InitialMmap: imageMap})
	if err != nil {
		return f, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s, err := store.Open(store.Options{Engine: db, Blobs: noBlobs{}, Planner: planner{}})
	if err == nil {
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		_, err = s.As(lease.Actor{ID: probeID, Role: lease.Admin}).Submit(ctx, lease.Submission{Kind: Kind, Params: []byte(`{"items":3}`)})
		stop()
		err = errors.Join(err, <-ended)
	}
	stop()
	if err == nil {
		err = db.Check()
	}
	var problems []lease.Problem
	if err == nil {
		problems, err = store.Check(db, noBlobs{})
	}
	if f.wrong = err != nil || len(problems) > 0; f.wrong {
		f.what = fmt.Sprintf("%s: %v %v", f.what, problems, err)
	}
	return f, db.Close()
}

// contents is a digest of all pairs and records.
func contents(e kv.Engine) (lease.Digest, error) {
	var all bytes.Buffer
	err := e.View(func(r kv.Reader) error {
		r.Scan(nil, nil, func(k, v []byte) bool { fmt.Fprintf(&all, "%x=%x\n", k, v); return true })
		r.Log(0, func(seq uint64, b []byte) bool { fmt.Fprintf(&all, "%d:%x\n", seq, b); return true })
		return nil
	})
	return lease.DigestOf(all.Bytes()), err
}
