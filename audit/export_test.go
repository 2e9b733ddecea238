package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/bundle"
	"github.com/nacre-dev/nacre/audit/internal/rows"
)

// StopAt makes the removal end with err before the n-th of its steps, as a
// crash would: nothing is undone.
func (o *PruneOptions) StopAt(n int, err error) (steps *int) {
	steps = new(int)
	o.step = func(string) error {
		if *steps++; *steps == n {
			return err
		}
		return nil
	}
	return steps
}

// AtEachStep does something before each step of the removal.
func (o *PruneOptions) AtEachStep(do func()) {
	o.step = func(string) error { do(); return nil }
}

// SegmentsOf makes the segments that a database is pruned by small.
func (o *PruneOptions) SegmentsOf(bytes int64) { o.segmentBytes = bytes }

// SignedWith is the receipt's file as somebody with other keys would sign it.
func (r Receipt) SignedWith(keys Keys) []byte {
	r.PublicKey, r.Signature = hex.EncodeToString(keys.Public()), ""
	return signedLine(r.payload(), hex.EncodeToString(ed25519.Sign(keys.signing, append([]byte(receiptDomain), r.payload()...))))
}

// SignedWith is the head's file as somebody with other keys would sign it.
func (h Head) SignedWith(keys Keys) []byte {
	at, _ := time.Parse(timeForm, h.Time)
	return signHead(h, keys, at).Bytes()
}

// Sealing does what a chain does with a record before the disk.
func Sealing(keys Keys) func(nacre.Record) error {
	s, buf := newSealer(keys.macs[0]), make([]byte, 0, MaxLine)
	return func(r nacre.Record) error {
		b, err := encode(r)
		buf = s.seal(buf[:0], b)
		return err
	}
}

// ExecCatalog changes a catalog's file as somebody else would.
func ExecCatalog(path, statement string) error {
	db, err := rows.Open(path, rows.Careless)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}

// BundleBegin and BundleEnd are a bundle's first and last line.
const (
	BundleBegin = bundle.Begin
	BundleEnd   = bundle.End
)

// FailSync makes the n-th sync of a segment fail, and all after it.
func FailSync(o *Options, n int, err error) {
	o.wrap = func(f segmentFile) segmentFile { return &failingFile{f, &n, err} }
}

type failingFile struct {
	segmentFile
	left *int
	err  error
}

func (f *failingFile) Sync() error {
	if *f.left--; *f.left <= 0 {
		return f.err
	}
	return f.segmentFile.Sync()
}
