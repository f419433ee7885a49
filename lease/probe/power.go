package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"macbatch/lease/kv/boltkv"
)

// commitsFor is how many commits so many images are made of: enough for the file
// to grow and its pages to be used again, few enough for many images of each.
func commitsFor(images int) int { return min(max(images/40, 12), 400) }

// power is the scenario power-loss. Workers do not matter to it.
func power(ctx context.Context, o Options, r *Report) (err error) {
	rec, err := lived(ctx, o, commitsFor(o.Items), r)
	if err != nil {
		return err
	}
	r.must("ledger problems", r.LedgerProblems, 0)
	rnd := rand.New(rand.NewPCG(o.Seed, 2))
	im, err := newImage(o.Store+".image", rec.commits[0].base)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.close()) }()
	for i := range rec.commits {
		share := (o.Items - r.Images) / (len(rec.commits) - i)
		if err := im.play(ctx, rnd, &rec.commits[i], share, r); err != nil {
			return err
		}
	}
	r.must("images", r.Images, o.Items)
	r.must("damaged images", r.Damaged, 0)
	r.must("images that do not verify", r.StorageErrors, 0)
	r.must("acknowledged commits lost", r.Lost, 0)
	r.must("images of no commit", r.Strange, 0)
	return nil
}

// lived records the life of a new store.
func lived(ctx context.Context, o Options, commits int, r *Report) (*recorder, error) {
	db, err := boltkv.Open(o.Store, boltkv.Options{InitialMmap: imageMap})
	if err != nil {
		return nil, err
	}
	rec := &recorder{DB: db, path: o.Store}
	err = live(ctx, rec, rand.New(rand.NewPCG(o.Seed, 1)), commits)
	return rec, errors.Join(err, r.examine(db), db.Close())
}

// play makes power losses out of one commit and then lets it be.
func (im *image) play(ctx context.Context, rnd *rand.Rand, c *commit, n int, r *Report) error {
	for k := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l := lose(rnd, c, k)
		if err := im.apply(c, l); err != nil {
			return err
		}
		f, err := im.look(c, l, rnd.IntN(16) == 0)
		if err != nil {
			return err
		}
		f.tell(r)
		r.Images++
		if l.torn {
			r.Torn++
		}
		if err := im.undo(c); err != nil {
			return err
		}
	}
	return im.settle(c)
}

// finding is what was found wrong with an image.
type finding struct {
	what           string
	damaged, wrong bool // it does not open or is broken; it does not verify
	lost, strange  bool // an acknowledged commit is missing; its contents are no commit's
}

func (f *finding) tell(r *Report) {
	for _, c := range []struct {
		is bool
		n  *int
	}{{f.damaged, &r.Damaged}, {f.wrong, &r.StorageErrors}, {f.lost, &r.Lost}, {f.strange, &r.Strange}} {
		if c.is {
			*c.n++
			r.problem("%s", f.what)
		}
	}
}

// loss is how a power loss leaves what a commit wrote.
type loss struct {
	size    int64         // of the file
	parts   map[int][]int // of each write that is not lost: which sectors are kept; nil: all
	cut     int           // of the meta page: bytes kept, or -1 for all or none
	sector  int
	torn    bool
	synced  bool // the data pages were synced
	durable bool // the commit was
	about   string
}

// lose chooses one. The first of each commit are the plain cases.
func lose(rnd *rand.Rand, c *commit, k int) loss {
	l := loss{size: c.size, parts: map[int][]int{}, cut: -1, sector: []int{512, 4096}[rnd.IntN(2)]}
	meta := c.meta()
	switch {
	case k == 0:
		l.about = "nothing of the commit is there"
		if rnd.IntN(2) == 0 {
			l.size = c.before
		}
		return l
	case k == 1:
		l.about, l.synced, l.durable = "all of the commit is there", true, true
		for i := range c.writes {
			l.parts[i] = nil
		}
		return l
	case k == 2 || k > 3 && rnd.IntN(4) == 0:
		l.about, l.synced = "the meta page is missing", true
		for i := range c.writes {
			l.parts[i] = nil
		}
		delete(l.parts, meta)
		if k > 3 {
			l.about, l.torn = "the meta page is torn", true
			l.parts[meta] = nil
			l.cut = rnd.IntN(len(c.writes[meta].now))
		}
		return l
	}
	l.about = fmt.Sprintf("data pages are torn at %d bytes", l.sector)
	l.torn = true
	keep := rnd.Float64()
	for i, w := range c.writes {
		if i == meta {
			continue
		}
		sectors := []int{}
		for s := 0; s*l.sector < len(w.now); s++ {
			if rnd.Float64() < keep {
				sectors = append(sectors, s)
			}
		}
		l.parts[i] = sectors
	}
	return l
}

// imageMap is the address space for a store as small as a probe's.
const imageMap = 64 << 20

// image is a file that takes the place of the store's after a power loss.
type image struct {
	path string
	file *os.File
}

func newImage(path string, base []byte) (*image, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(base)
	return &image{path, f}, err
}

func (im *image) close() error {
	return errors.Join(im.file.Close(), os.Remove(im.path), os.Remove(im.path+".lock"))
}

// apply writes what the loss leaves of the commit.
func (im *image) apply(c *commit, l loss) error {
	if err := im.file.Truncate(l.size); err != nil {
		return err
	}
	for i, sectors := range l.parts {
		w := &c.writes[i]
		b := w.now
		switch {
		case i == c.meta() && l.cut >= 0:
			b = b[:l.cut]
		case sectors != nil:
			b = append([]byte(nil), w.was...)
			for _, s := range sectors {
				from := s * l.sector
				to := min(from+l.sector, len(w.now))
				copy(b[from:to], w.now[from:to])
			}
		}
		if _, err := im.file.WriteAt(b, w.off); err != nil {
			return err
		}
	}
	return nil
}

// undo makes the image what the file was before the commit.
func (im *image) undo(c *commit) error {
	for i := range c.writes {
		if _, err := im.file.WriteAt(c.writes[i].was, c.writes[i].off); err != nil {
			return err
		}
	}
	return im.file.Truncate(c.before)
}

// settle makes the image what the file was after the commit.
func (im *image) settle(c *commit) error {
	if err := im.file.Truncate(c.size); err != nil {
		return err
	}
	for i := range c.writes {
		if _, err := im.file.WriteAt(c.writes[i].now, c.writes[i].off); err != nil {
			return err
		}
	}
	return nil
}
