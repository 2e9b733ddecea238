package machines

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
)

// moment is one machine's chains as the store has them at one moment.
type moment struct {
	tx      pgx.Tx
	machine string
}

// Heads implements [audit.Source].
func (m moment) Heads(ctx context.Context) (map[string][]byte, error) {
	rows, err := m.tx.Query(ctx, `SELECT chain, head FROM nacre_chain WHERE machine = $1`, m.machine)
	if err != nil {
		return nil, err
	}
	heads := map[string][]byte{}
	var chain string
	var head []byte
	_, err = pgx.ForEachRow(rows, []any{&chain, &head}, func() error { heads[chain] = bytes.Clone(head); return nil })
	return heads, err
}

// Lines implements [audit.Source].
func (m moment) Lines(ctx context.Context, chain string, fn func(seq uint64, line []byte) error) error {
	rows, err := m.tx.Query(ctx, `SELECT first, lines FROM nacre_chain_line WHERE machine = $1 AND chain = $2 ORDER BY first`, m.machine, chain)
	if err != nil {
		return err
	}
	var seq uint64
	var lines []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &lines}, func() error {
		for line := range bytes.Lines(lines) {
			if err := fn(seq, bytes.Clone(bytes.TrimSuffix(line, []byte("\n")))); err != nil {
				return err
			}
			seq++
		}
		return nil
	})
	return err
}

// Verify checks the chains of all machines as the store has them, of one moment: each machine's
// key is certified, and its chains hold by themselves. It needs as much room on the disk as the
// chains of one machine have. Chains are called MACHINE/CHAIN. Its error joins what does not hold.
func (m *Machine) Verify(ctx context.Context) ([]audit.Report, error) {
	pool, a, _, err := m.standing(ctx)
	if err != nil {
		return nil, err
	}
	trusted, err := m.trusted(a.key)
	if err != nil {
		return nil, err
	}
	var reports []audit.Report
	var wrong []error
	err = database.Snapshot(ctx, pool, func(tx pgx.Tx) error {
		list, err := listed(ctx, tx, a, trusted, m.store.Installation())
		for _, one := range list {
			found, err := m.verify(ctx, tx, one)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("machine %s: %w", one.Name, err))
			}
			for _, r := range found {
				r.Chain = one.Name + "/" + r.Chain
				reports = append(reports, r)
			}
		}
		return err
	})
	return reports, errors.Join(append(wrong, err)...)
}

// verify checks the chains of one machine.
func (m *Machine) verify(ctx context.Context, tx pgx.Tx, one Listed) ([]audit.Report, error) {
	chains := moment{tx, one.Name}
	heads, err := chains.Heads(ctx)
	switch {
	case err != nil || len(heads) == 0:
		return nil, err
	case !one.Admitted:
		return nil, fmt.Errorf("%w: it has records, and the installation's key did not certify it", audit.ErrTampered)
	}
	key, err := hex.DecodeString(one.Key)
	if err != nil {
		return nil, err
	}
	reports, err := m.laid(ctx, chains, func(root string) ([]audit.Report, error) {
		all, err := audit.VerifyAll(root, audit.VerifyOptions{PublicKey: key, Copy: &audit.Copy{Since: one.Since}})
		return append([]audit.Report{all.Index}, all.Chains...), err
	})
	if name, _ := m.name(); name != one.Name {
		return reports, err
	}
	if err != nil {
		return reports, fmt.Errorf("%w\nwhere a nacre of before wrote it, or a copy of the store was put back, nacre store migrate brings it from this machine's disk", err)
	}
	return reports, m.reaches(heads[audit.IndexChain])
}

// laid does something with chains in a folder, which is gone then.
func (m *Machine) laid(ctx context.Context, chains audit.Source, do func(root string) ([]audit.Report, error)) (_ []audit.Report, err error) {
	dir, err := os.MkdirTemp(m.paths.State, "verify-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root := filepath.Join(dir, "audit")
	if err := audit.Lay(ctx, chains, root); err != nil {
		return nil, err
	}
	return do(root)
}

// reaches holds this machine's own index against the one in the store: a disk that was put back
// ends before it.
func (m *Machine) reaches(text []byte) error {
	head, err := audit.ParseHead(text)
	if err == nil {
		_, err = audit.Verify(m.paths.Audit(), audit.IndexChain, audit.VerifyOptions{PublicKey: m.keys.Public(), Head: &head})
	}
	if err != nil {
		return fmt.Errorf("the chains on this machine's disk do not reach those in the store: %w", err)
	}
	return nil
}
