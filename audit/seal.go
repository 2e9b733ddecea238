package audit

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre"
)

// Abandoned lists the chains whose writer ended without a closing head: what
// the next start must Seal, or go on with. It does not verify their records.
func Abandoned(root string, trusted ed25519.PublicKey) ([]string, error) {
	if _, err := os.Stat(filepath.Join(root, IndexChain)); isMissing(err) {
		return nil, nil // nothing was ever written
	}
	beside, err := namesBeside(root)
	if err != nil {
		return nil, err
	}
	index, err := readIndex(root, VerifyOptions{PublicKey: trusted})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range append(index.order, index.strangers(beside)...) {
		if index.isAbandoned(root, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (x *indexView) isAbandoned(root, chain string) bool {
	dir, err := chainDir(root, chain)
	if err != nil {
		return false // no chain's name: VerifyAll reports it
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || hasWriter(dir) {
		return false
	}
	events := x.events[chain]
	if len(events) == 0 {
		return !isEmpty(dir)
	}
	opened, last := uint64(0), nacre.Kind("")
	for _, e := range events {
		switch e.kind {
		case nacre.KindChainOpen:
			opened, last = e.Seq, e.kind
		case nacre.KindChainClose:
			last = e.kind
		}
	}
	if last == nacre.KindChainClose {
		return false
	}
	head, err := readHead(root, chain)
	if err == nil {
		err = x.ring.verify(head, events[0].at, end)
	}
	return err != nil || head.State != HeadClosed || head.Seq <= opened
}

// Seal closes a chain whose writer ended without doing so: it keeps a torn
// last line aside, writes chain.open and chain.close, and signs the closing
// head. It fails with ErrLocked while a writer lives, and with ErrTampered
// where the chain does not reach its last signed head.
func Seal(ctx context.Context, o Options) error {
	dir, err := o.check()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err != nil {
		return fmt.Errorf("chain %s cannot be sealed: %w", o.Chain, err)
	}
	c, err := Open(ctx, o)
	if err != nil {
		return err
	}
	c.sealing = true // nobody else knows the chain yet
	return c.Close(ctx)
}
