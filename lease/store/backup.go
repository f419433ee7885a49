package store

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// A backup is a tar archive, whatever engine wrote it:
//
//	backup.json    backupHead: what it is of
//	store/000001   the first piece of the store: each pair as 1, key, value, and
//	…              behind all pairs each ledger record as 2, sequence, record;
//	               numbers are varints, bytes stand behind their length
//	blobs/DIGEST   each blob that the rows refer to
//	end.json       backupEnd: how it must have been; without it the archive is cut short
//
// All of it is the store as of one commit.
const (
	backupFormat = 1
	pieceSize    = 1 << 20
	maxPiece     = 256 << 20 // of an archive that is read: a row or record is far smaller

	headName = "backup.json"
	endName  = "end.json"
)

// backupHead begins a backup.
type backupHead struct {
	Format int       `json:"format"`
	Store  string    `json:"store"` // its identity, hexadecimal
	Epoch  uint32    `json:"epoch"`
	Seq    uint64    `json:"seq"` // of the newest event
	Made   time.Time `json:"made"`
}

// backupEnd ends a backup.
type backupEnd struct {
	Pieces  []lease.Digest `json:"pieces"`
	Pairs   uint64         `json:"pairs"`
	Records uint64         `json:"records"`
	Blobs   uint64         `json:"blobs"`
	Bytes   int64          `json:"bytes"`             // of the blobs
	Missing []lease.Digest `json:"missing,omitempty"` // blobs that rows refer to and that were not there
	Sum     lease.Digest   `json:"sum"`               // of backupHead and the rest of this, as JSON
}

// sum is over what no other digest covers.
func (e backupEnd) sum(head backupHead) (lease.Digest, error) {
	e.Sum = lease.Digest{}
	b, err := json.Marshal(struct {
		backupHead
		backupEnd
	}{head, e})
	return lease.DigestOf(b), err
}

// Backup implements lease.Control.
func (c *control) Backup(ctx context.Context, w io.Writer) error {
	if err := c.admin("backup"); err != nil {
		return err
	}
	s := c.s
	if s.broken.Load() {
		return lease.ErrUnknownOutcome
	}
	s.mu.Lock()
	s.holds++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.holds--
		s.mu.Unlock()
	}()
	return Backup(ctx, s.engine, s.blobs, s.now(), w)
}

// Backup writes an archive of a store whose blobs nobody removes meanwhile.
func Backup(ctx context.Context, e kv.Engine, blobs Blobs, now time.Time, w io.Writer) error {
	b := &backup{ctx: ctx, tar: tar.NewWriter(w), now: now}
	err := e.View(b.store)
	if err == nil {
		err = b.blobs(blobs)
	}
	if err == nil {
		b.end.Sum, err = b.end.sum(b.head)
	}
	if err == nil {
		err = b.json(endName, b.end)
	}
	if err == nil {
		err = b.tar.Close()
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

type backup struct {
	ctx   context.Context
	tar   *tar.Writer
	now   time.Time
	piece encoder
	needs []lease.Digest // blobs that rows refer to
	head  backupHead
	end   backupEnd
}

func (b *backup) entry(name string, size int64) error {
	if err := context.Cause(b.ctx); err != nil {
		return err
	}
	return b.tar.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: b.now.Truncate(time.Second)})
}

func (b *backup) file(name string, content []byte) error {
	if err := b.entry(name, int64(len(content))); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	return err
}

func (b *backup) json(name string, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.file(name, append(content, '\n'))
}

// store writes all pairs and records of a snapshot.
func (b *backup) store(r kv.Reader) error {
	id := r.Get([]byte{keyStore})
	if id == nil {
		return errNoIdentity
	}
	if err := checkIdentity(id); err != nil {
		return err // which blobs rows refer to is not known
	}
	h, err := decodeHead(r.Get([]byte{keyHead}))
	if err != nil {
		return err
	}
	b.head = backupHead{Format: backupFormat, Store: hex.EncodeToString(id[1:17]), Epoch: h.Epoch, Seq: h.Seq, Made: b.now.UTC().Round(0)}
	if err = b.json(headName, b.head); err != nil {
		return err
	}
	r.Scan(nil, nil, func(k, v []byte) bool {
		b.piece.byte(1)
		b.piece.string(string(k))
		b.piece.string(string(v))
		b.end.Pairs++
		b.need(k, v)
		err = b.flush(pieceSize)
		return err == nil
	})
	if err != nil {
		return err
	}
	r.Log(0, func(seq uint64, v []byte) bool {
		b.piece.byte(2)
		b.piece.uint(seq)
		b.piece.string(string(v))
		b.end.Records++
		err = b.flush(pieceSize)
		return err == nil
	})
	if err != nil {
		return err
	}
	return b.flush(1)
}

// need notes the blobs that a row refers to. A row that can't be read is backed up
// as it is: the verifier tells of it.
func (b *backup) need(k, v []byte) {
	if k[0] == keyJob && len(k) == 9 {
		if j, _, err := decodeJob(lease.JobID(decodeKey(k)), v); err == nil && !j.Input.Digest.IsZero() {
			b.needs = append(b.needs, j.Input.Digest)
		}
	}
	if k[0] != keyShard {
		return
	}
	row, err := decodeShard(shardOfKey(k), v)
	if err != nil {
		return
	}
	if row.State == lease.Done {
		b.needs = append(b.needs, keeps(&row.Result)...)
	}
	if !row.State.Terminal() {
		b.needs = append(b.needs, row.Inputs...)
	}
}

// flush writes the piece when it has as many bytes.
func (b *backup) flush(least int) error {
	if len(b.piece.b) < least {
		return nil
	}
	b.end.Pieces = append(b.end.Pieces, lease.DigestOf(b.piece.b))
	err := b.file(fmt.Sprintf("store/%06d", len(b.end.Pieces)), b.piece.b)
	b.piece.b = b.piece.b[:0]
	return err
}

func (b *backup) blobs(from Blobs) error {
	slices.SortFunc(b.needs, func(x, y lease.Digest) int { return bytes.Compare(x[:], y[:]) })
	for _, d := range slices.Compact(b.needs) {
		r, size, err := from.Open(d)
		if errors.Is(err, fs.ErrNotExist) {
			b.end.Missing = append(b.end.Missing, d)
			continue
		}
		if err != nil {
			return err
		}
		if err = b.entry("blobs/"+d.String(), size); err == nil {
			_, err = io.CopyN(b.tar, r, size)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("blob %v: %w", d, err)
		}
		b.end.Blobs++
		b.end.Bytes += size
	}
	return nil
}

// Archive is what a backup holds.
type Archive struct {
	Store   string // identity of the store it is of
	Epoch   uint32
	Seq     uint64 // of the newest event
	Made    time.Time
	Blobs   uint64
	Missing []lease.Digest // blobs that were missing already
}

// sink takes in what a backup holds.
type sink interface {
	piece(b []byte) error
	blob(d lease.Digest, size int64, r io.Reader) error
}

// checker only looks.
type checker struct{}

func (checker) piece([]byte) error { return nil }

func (checker) blob(d lease.Digest, _ int64, r io.Reader) error {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	if lease.Digest(h.Sum(nil)) != d {
		return lease.ErrDigest
	}
	return nil
}

// CheckBackup reads an archive to its end and checks every digest in it.
func CheckBackup(r io.Reader) (Archive, error) { return readBackup(r, checker{}) }

func readBackup(r io.Reader, to sink) (a Archive, err error) {
	if a, err = readArchive(tar.NewReader(bufio.NewReaderSize(r, 1<<16)), to); err != nil {
		return a, fmt.Errorf("read backup: %w", err)
	}
	return a, nil
}

func readArchive(t *tar.Reader, to sink) (a Archive, err error) {
	var head backupHead
	if err := readJSON(t, headName, &head); err != nil {
		return a, fmt.Errorf("not a backup of macbatch, or damaged: %w", err)
	}
	if head.Format != backupFormat {
		return a, fmt.Errorf("its format is %d, this version of macbatch knows %d", head.Format, backupFormat)
	}
	a = Archive{Store: head.Store, Epoch: head.Epoch, Seq: head.Seq, Made: head.Made}
	var pieces []lease.Digest
	var bytes int64
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return a, errors.New("it is cut short")
		}
		if err != nil {
			return a, err
		}
		switch {
		case h.Name == endName:
			return a, checkEnd(t, &a, head, pieces, bytes)
		case h.Name == fmt.Sprintf("store/%06d", len(pieces)+1) && h.Size <= maxPiece && a.Blobs == 0:
			b, err := io.ReadAll(t)
			if err == nil {
				pieces = append(pieces, lease.DigestOf(b))
				err = to.piece(b)
			}
			if err != nil {
				return a, fmt.Errorf("%s: %w", h.Name, err)
			}
		case len(h.Name) == len("blobs/")+64 && h.Name[:6] == "blobs/":
			d, err := lease.ParseDigest(h.Name[6:])
			if err == nil {
				err = to.blob(d, h.Size, t)
			}
			if err != nil {
				return a, fmt.Errorf("%s: %w", h.Name, err)
			}
			a.Blobs++
			bytes += h.Size
		default:
			return a, fmt.Errorf("%q does not belong there", h.Name)
		}
	}
}

// checkEnd holds what was read against what the archive says of itself.
func checkEnd(t *tar.Reader, a *Archive, head backupHead, pieces []lease.Digest, bytes int64) error {
	var end backupEnd
	if err := json.NewDecoder(t).Decode(&end); err != nil {
		return fmt.Errorf("%s: %w", endName, err)
	}
	if sum, err := end.sum(head); err != nil || sum != end.Sum {
		return errors.New("damaged: its beginning or its end was changed")
	}
	if !slices.Equal(end.Pieces, pieces) || end.Blobs != a.Blobs || end.Bytes != bytes {
		return errors.New("damaged: its pieces are not those it names at its end")
	}
	a.Missing = end.Missing
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return errors.New("it goes on behind its end, or is cut short")
	}
	return nil
}

func readJSON(t *tar.Reader, name string, into any) error {
	h, err := t.Next()
	if err != nil {
		return err
	}
	if h.Name != name || h.Size > 1<<16 {
		return fmt.Errorf("it begins with %.100q", h.Name)
	}
	return json.NewDecoder(t).Decode(into)
}

// filler writes a backup into an empty engine.
type filler struct {
	ctx    context.Context
	engine kv.Engine
	blobs  Blobs
}

func (f filler) blob(d lease.Digest, size int64, r io.Reader) error {
	return f.blobs.Put(f.ctx, d, size, r)
}

func (f filler) piece(b []byte) error {
	if err := context.Cause(f.ctx); err != nil {
		return err
	}
	return f.engine.Update(func(w kv.Writer) error {
		d := decoder{b: b}
		for len(d.b) > 0 && d.err == nil {
			var err error
			switch kind := d.byte(); kind {
			case 1:
				if k, v := d.bytes(), d.bytes(); d.err == nil {
					err = w.Put(k, v)
				}
			case 2:
				if seq, v := d.uint(), d.bytes(); d.err == nil {
					err = w.Append(seq, v)
				}
			default:
				err = fmt.Errorf("record of kind %d", kind)
			}
			if err != nil {
				return err
			}
		}
		return d.done()
	})
}

// Restored tells of a restore.
type Restored struct {
	Archive
	NewEpoch uint32
	Fenced   int // leases that were open
}

// Restore fills an empty engine from an archive and makes it a store that goes on
// on its own: every fence it grants beats all that were ever granted, also those
// after the backup, and the leases that were open in it are ended.
func Restore(ctx context.Context, r io.Reader, e kv.Engine, blobs Blobs, now func() time.Time) (out Restored, err error) {
	none := false
	err = e.View(func(r kv.Reader) error {
		none = empty(r)
		return nil
	})
	if err == nil && !none {
		err = errors.New("restore: the store is not empty")
	}
	if err != nil {
		return out, err
	}
	if out.Archive, err = readBackup(r, filler{ctx, e, blobs}); err != nil {
		return out, err
	}
	s, err := Open(Options{Engine: e, Blobs: blobs, Now: now})
	if err != nil {
		return out, err
	}
	if hex.EncodeToString(s.id[:]) != out.Store || s.head.Seq != out.Seq {
		return out, errors.New("restore: the store is not the one that the backup names")
	}
	out.NewEpoch, out.Fenced, err = s.restored()
	return out, err
}

// restored raises the epoch and ends all open leases. It runs without Run.
func (s *Store) restored() (epoch uint32, fenced int, err error) {
	run := func(fn func(*tx) error) error {
		c := &command{run: fn, done: make(chan error, 1)}
		if err := s.commit(c); err != nil {
			return err
		}
		return <-c.done
	}
	err = run(func(t *tx) error {
		t.raise(t.head.Epoch, "restored from a backup")
		epoch = t.head.Epoch
		return nil
	})
	for err == nil && len(s.index.leases) > 0 {
		err = run(func(t *tx) error {
			n, err := t.endLeases(pageRows)
			fenced += n
			return err
		})
	}
	if err != nil {
		return 0, 0, fmt.Errorf("restore: %w", err)
	}
	return epoch, fenced, nil
}

// raise moves the epoch above one that was seen: what is granted and numbered from
// now on is above all that ever was.
func (t *tx) raise(seen uint32, reason string) {
	t.head.Epoch = max(t.head.Epoch+1, seen+1, uint32(t.now.Unix()/60))
	t.head.Fence, t.head.Job = 0, 0
	t.tellStore(lease.Event{Kind: lease.EventRestored, Fence: lease.Fence(uint64(t.head.Epoch) << 32), Reason: reason})
}
