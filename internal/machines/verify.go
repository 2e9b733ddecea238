package machines

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/registry"
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
// chains of one machine have. Chains are called MACHINE/CHAIN. Its error joins what does not hold: what is
// missing of a machine that was verified here before, too.
func (m *Machine) Verify(ctx context.Context) ([]audit.Report, error) {
	pool, a, _, err := m.standing(ctx)
	if err != nil {
		return nil, err
	}
	trusted, err := m.trusted(a.key)
	if err != nil {
		return nil, err
	}
	before, err := m.seen()
	if err != nil {
		return nil, err
	}
	var reports []audit.Report
	var wrong []error
	reached, gone := seen{}, map[string]bool{}
	err = database.Snapshot(ctx, pool, func(tx pgx.Tx) error {
		list, err := listed(ctx, tx, a, trusted, m.store.Installation())
		for _, one := range list {
			found, err := m.verify(ctx, tx, one, before, reached)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("machine %s: %w", one.Name, err))
			}
			if head, found := before[one.Name]; found && one.left(head) {
				gone[one.Name] = true
			}
			for _, r := range found {
				r.Chain = one.Name + "/" + r.Chain
				reports = append(reports, r)
			}
		}
		return err
	})
	for name, head := range before {
		if _, found := reached[name]; !found && !gone[name] {
			wrong = append(wrong, missing(m, name, head, nil))
		}
	}
	if err = errors.Join(append(wrong, err)...); err != nil {
		return reports, err
	}
	return reports, reached.keep(m.seenFile())
}

// Read gives each record of a machine's session as the store has it, in the order of its openings. The
// machine's key, its index and all of these chains are verified before, and where they do not hold it gives
// none. machine is its name, or the id at the end of it, of which twelve letters are enough.
func (m *Machine) Read(ctx context.Context, machine string, id nacre.SessionID, take func(audit.Entry) error) error {
	pool, a, _, err := m.standing(ctx)
	if err != nil {
		return err
	}
	trusted, err := m.trusted(a.key)
	if err != nil {
		return err
	}
	return database.Snapshot(ctx, pool, func(tx pgx.Tx) error {
		list, err := listed(ctx, tx, a, trusted, m.store.Installation())
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(one Listed) bool {
			return one.Name != machine && (len(machine) < shortest || !strings.HasPrefix(registry.MachineID(one.Name), machine))
		})
		switch {
		case len(list) != 1:
			return fmt.Errorf("%w: %.80s/%s", ErrNoSession, machine, id)
		case !list[0].Admitted:
			return fmt.Errorf("machine %s: %w: the installation's key did not certify it, so nothing of it is shown", list[0].Name, audit.ErrTampered)
		}
		if err := m.read(ctx, tx, list[0], string(id), take); err != nil {
			return fmt.Errorf("machine %s: %w", list[0].Name, err)
		}
		return nil
	})
}

// shortest is how much of a machine's id tells it from others.
const shortest = 12

// read verifies the chains of one session, and then gives their records.
func (m *Machine) read(ctx context.Context, tx pgx.Tx, one Listed, session string, take func(audit.Entry) error) error {
	key, err := hex.DecodeString(one.Key)
	if err != nil {
		return err
	}
	of := func(chain string) bool {
		opening, found := strings.CutPrefix(chain, session+".")
		_, err := strconv.ParseUint(opening, 10, 32)
		return found && err == nil
	}
	_, err = m.laid(ctx, some{moment{tx, one.Name}, func(chain string) bool { return chain == audit.IndexChain || of(chain) }}, func(root string) ([]audit.Report, error) {
		chains, err := began(root, one.Since)
		if err != nil {
			return nil, err
		}
		chains = slices.DeleteFunc(chains, func(chain string) bool { return !of(chain) })
		if len(chains) == 0 {
			return nil, fmt.Errorf("%w: %s/%s", ErrNoSession, one.Name, session)
		}
		for _, chain := range append([]string{audit.IndexChain}, chains...) {
			r, err := audit.Verify(root, chain, audit.VerifyOptions{PublicKey: key, Copy: &audit.Copy{Since: one.Since}})
			switch {
			case err != nil:
				return nil, fmt.Errorf("nothing is shown, since what the store has does not hold: %w", err)
			case r.State == audit.StatePruned:
				return nil, fmt.Errorf("%w: what %s/%s recorded was pruned there", ErrNoSession, one.Name, session)
			}
		}
		for _, chain := range chains {
			if err := audit.Read(root, chain, take); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return err
}

// some are a machine's chains as far as they are wanted.
type some struct {
	audit.Source
	wanted func(chain string) bool
}

// Heads implements [audit.Source].
func (s some) Heads(ctx context.Context) (map[string][]byte, error) {
	heads, err := s.Source.Heads(ctx)
	maps.DeleteFunc(heads, func(chain string, _ []byte) bool { return !s.wanted(chain) })
	return heads, err
}

// verify checks the chains of one machine, and notes how far they reach.
func (m *Machine) verify(ctx context.Context, tx pgx.Tx, one Listed, before, reached seen) ([]audit.Report, error) {
	chains := moment{tx, one.Name}
	heads, err := chains.Heads(ctx)
	if err != nil || len(heads) == 0 {
		return nil, err
	}
	if reached[one.Name], err = audit.ParseHead(heads[audit.IndexChain]); err != nil {
		return nil, err
	}
	if !one.Admitted {
		return nil, fmt.Errorf("%w: it has records, and the installation's key did not certify it", audit.ErrTampered)
	}
	key, err := hex.DecodeString(one.Key)
	if err != nil {
		return nil, err
	}
	reports, err := m.laid(ctx, chains, func(root string) ([]audit.Report, error) {
		all, err := audit.VerifyAll(root, audit.VerifyOptions{PublicKey: key, Copy: &audit.Copy{Since: one.Since}})
		if head, found := before[one.Name]; found && err == nil {
			if _, why := audit.Verify(root, audit.IndexChain, audit.VerifyOptions{PublicKey: key, Head: &head}); why != nil {
				err = missing(m, one.Name, head, why)
			}
		}
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
