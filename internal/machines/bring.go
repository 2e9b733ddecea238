package machines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/disk"
)

const (
	// part is how many bytes of lines a row has at most, but for one line.
	part = 1 << 20
	// headFile is a chain's head, maxHead its largest size in bytes.
	headFile, maxHead = "head.json", 4 << 10
)

// Bring puts into the store what it lacks of this machine's closed chains: a nacre of before
// wrote them, or a copy of the store was put back. It tells which. A chain comes whole or not
// at all, and one that cannot come keeps no other from coming: the error names each.
func (m *Machine) Bring(ctx context.Context) (brought []string, err error) {
	pool, _, me, err := m.standing(ctx)
	if err != nil || !me.Admitted {
		return nil, err
	}
	chains, err := began(m.paths.Audit(), me.Since)
	if err != nil {
		return nil, err
	}
	pruned, err := cutsOf(m.paths.Audit(), math.MaxUint64)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, chain := range chains {
		head, err := m.closed(chain)
		if err != nil || head.State != audit.HeadClosed {
			continue // it is written, gone, or for nacre audit verify to judge
		}
		var done bool
		err = database.Alone(ctx, pool, oneAtATime, func(tx pgx.Tx) error {
			done, err = m.bring(ctx, tx, me.Name, head, pruned)
			return err
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("[store]: chain %s: %w", chain, err))
		}
		if errors.Is(err, database.ErrAway) || ctx.Err() != nil {
			break // so it would be with each one
		}
		if done && err == nil {
			brought = append(brought, chain)
		}
	}
	return brought, errors.Join(failed...)
}

// began are the chains that began after so many records of an index.
func began(root string, records uint64) (chains []string, err error) {
	known := map[string]bool{audit.IndexChain: true}
	err = audit.Read(root, audit.IndexChain, func(e audit.Entry) error {
		var d struct{ Chain string }
		opens := e.Kind == nacre.KindChainOpen && json.Unmarshal(e.Detail, &d) == nil
		if !opens || known[d.Chain] {
			return nil
		}
		if known[d.Chain] = true; e.Seq >= records {
			chains = append(chains, d.Chain)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was recorded
	}
	return chains, err
}

func (m *Machine) closed(chain string) (audit.Head, error) {
	text, err := disk.Read(filepath.Join(m.paths.Audit(), chain, headFile), maxHead)
	if err != nil {
		return audit.Head{}, err
	}
	return audit.ParseHead(text)
}

// bring puts in the lines of one chain that the store lacks, and that were not pruned here.
func (m *Machine) bring(ctx context.Context, tx pgx.Tx, machine string, head audit.Head, c cuts) (done bool, err error) {
	var next uint64
	err = tx.QueryRow(ctx, `SELECT coalesce((SELECT upto + 1 FROM nacre_chain WHERE machine = $1 AND chain = $2 FOR UPDATE), 0)`, machine, head.Chain).Scan(&next)
	if err != nil || next > head.Seq {
		return false, err
	}
	if cut, pruned := c.part[head.Chain]; pruned {
		next = max(next, uint64(cut)+1) //nolint:gosec // a record's number
	}
	_, err = tx.Exec(ctx, `INSERT INTO nacre_chain (machine, chain, upto, head) VALUES ($1, $2, $3, $4)
		ON CONFLICT (machine, chain) DO UPDATE SET upto = excluded.upto, head = excluded.head`, machine, head.Chain, head.Seq, head.Bytes())
	if err != nil {
		return false, err
	}
	files, err := filepath.Glob(filepath.Join(m.paths.Audit(), head.Chain, "[0-9]*.jsonl"))
	if err != nil {
		return false, err
	}
	slices.Sort(files)
	to := lines{next: next}
	for _, file := range files {
		if err := to.read(file, func(first uint64, text []byte) error {
			_, err := tx.Exec(ctx, `INSERT INTO nacre_chain_line (machine, chain, first, upto, lines) VALUES ($1, $2, $3, $4, $5)`, machine, head.Chain, first, to.next-1, text)
			return err
		}); err != nil {
			return false, err
		}
	}
	if to.next != head.Seq+1 {
		return false, fmt.Errorf("its lines end at record %d, and its head is at %d", int64(to.next)-1, head.Seq) //nolint:gosec // a record's number
	}
	return true, nil
}

// lines are a chain's from a record on. next is the one that comes next.
type lines struct{ next uint64 }

// read gives each part of a segment, from next on, with the number of its first record.
func (l *lines) read(file string, take func(first uint64, text []byte) error) error {
	f, err := disk.OpenRegular(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := bufio.NewReaderSize(f, audit.MaxLine)
	var text []byte
	first := l.next
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if errors.Is(err, io.EOF) || len(text) >= part {
			if len(text) > 0 {
				if err := take(first, text); err != nil {
					return err
				}
			}
			text, first = text[:0], l.next
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		var at struct{ Seq uint64 }
		if err := json.Unmarshal(line, &at); err != nil {
			return err
		}
		if at.Seq < l.next {
			continue
		}
		if at.Seq != l.next {
			return fmt.Errorf("record %d is not there any more", l.next)
		}
		text, l.next = append(text, line...), at.Seq+1
	}
}
