package machines

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
)

// cuts are, by chains, the last records that were pruned.
type cuts struct {
	whole, part map[string]int64
}

// cutsOf are those that a machine's index says, up to a record of it.
func cutsOf(root string, upto uint64) (cuts, error) {
	c := cuts{map[string]int64{}, map[string]int64{}}
	err := audit.Read(root, audit.IndexChain, func(e audit.Entry) error {
		var d struct {
			Chain string
			Seq   int64
			Whole bool
		}
		switch _ = json.Unmarshal(e.Detail, &d); { // a record of another kind has another
		case e.Seq > upto:
		case e.Kind == nacre.KindChainOpen:
			delete(c.whole, d.Chain) // it began again
			delete(c.part, d.Chain)
		case e.Kind == audit.KindChainPrune && d.Whole:
			c.whole[d.Chain] = d.Seq
		case e.Kind == audit.KindChainPrune:
			c.part[d.Chain] = d.Seq
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // nothing was recorded
	}
	return c, err
}

// Prune takes out of the store what this machine's index says was pruned of its chains (K-20), as far as the store
// has that index. By it, every machine's audit verify accepts exactly that absence. It may be repeated.
func (m *Machine) Prune(ctx context.Context) error {
	if m == nil {
		return nil
	}
	pool, _, me, err := m.standing(ctx)
	if err != nil || !me.Admitted {
		return err
	}
	return told(database.Alone(ctx, pool, oneAtATime, func(tx pgx.Tx) error {
		var upto int64
		err := tx.QueryRow(ctx, `SELECT coalesce((SELECT upto FROM nacre_chain WHERE machine = $1 AND chain = $2), -1)`, me.Name, audit.IndexChain).Scan(&upto)
		if err != nil || upto < 0 {
			return err
		}
		c, err := cutsOf(m.paths.Audit(), uint64(upto))
		if err != nil {
			return err
		}
		for _, gone := range []struct {
			rows string
			of   map[string]int64
		}{{"nacre_chain", c.whole}, {"nacre_chain_line", c.part}} {
			chains, ends := make([]string, 0, len(gone.of)), make([]int64, 0, len(gone.of))
			for chain, end := range gone.of {
				chains, ends = append(chains, chain), append(ends, end)
			}
			_, err := tx.Exec(ctx, `DELETE FROM `+gone.rows+` c USING unnest($2::text[], $3::bigint[]) AS cut (chain, upto)
				WHERE c.machine = $1 AND c.chain = cut.chain AND c.upto <= cut.upto`, me.Name, chains, ends)
			if err != nil {
				return err
			}
		}
		return begin(ctx, tx, me.Name, c.part)
	}))
}

// begin lets chains begin after what was pruned of them, where a row holds both.
func begin(ctx context.Context, tx pgx.Tx, machine string, cuts map[string]int64) error {
	for chain, cut := range cuts {
		var first int64
		var lines []byte
		err := tx.QueryRow(ctx, `SELECT first, lines FROM nacre_chain_line WHERE machine = $1 AND chain = $2 AND first <= $3 AND upto > $3`, machine, chain, cut).Scan(&first, &lines)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		left := bytes.SplitAfterN(lines, []byte("\n"), int(cut-first)+2)
		if len(left) < int(cut-first)+2 {
			continue // it is not whole, which is for Verify to judge
		}
		if _, err := tx.Exec(ctx, `UPDATE nacre_chain_line SET first = $4, lines = $5 WHERE machine = $1 AND chain = $2 AND first = $3`, machine, chain, first, cut+1, left[len(left)-1]); err != nil {
			return err
		}
	}
	return nil
}

// retired is what the installation's key says of a machine that is gone for good: how far its index reached when
// its chains were taken out of the store.
type retired struct {
	Installation string `json:"installation"`
	Key          string `json:"key"`
	Name         string `json:"name"`
	Seq          uint64 `json:"seq"`
	Hash         string `json:"hash"`
	By           string `json:"by"`
	Time         string `json:"time"`
}

// retireDomain is what it is signed in.
const retireDomain = "nacre-machine-retired-v1\n"

// parseRetired reads a signature and what it signs, of a machine that is retired.
func parseRetired(text []byte, one Listed, by ed25519.PublicKey, installation string) (r retired, ok bool) {
	if len(text) <= ed25519.SignatureSize || len(by) != ed25519.PublicKeySize {
		return retired{}, false
	}
	signature, statement := text[:ed25519.SignatureSize], text[ed25519.SignatureSize:]
	if !ed25519.Verify(by, append([]byte(retireDomain), statement...), signature) || json.Unmarshal(statement, &r) != nil {
		return retired{}, false
	}
	return r, r.Installation == installation && r.Key == one.Key && r.Name == one.Name
}

// Why a machine is not retired.
var (
	ErrHere   = errors.New("this is that machine: nacre audit prune removes what is old of its chains")
	ErrWorks  = errors.New("a session of it works now: it is not gone")
	errHolder = errors.New("it holds the installation's key, without which no machine is admitted")
)

// Retire takes the chains of a machine that is gone for good out of the store, after they were verified. It says so
// in a statement of the installation's key, and every machine accepts exactly that absence. The machine is admitted
// no more. It is for the machine that holds the key, and tells how many records went.
func (m *Machine) Retire(ctx context.Context, name, by string, now time.Time) (records uint64, err error) {
	pool, a, me, err := m.standing(ctx)
	if err != nil {
		return 0, err
	}
	key, err := holdsKey(m, a, "retire", name)
	switch {
	case err != nil:
		return 0, err
	case name == me.Name:
		return 0, ErrHere
	case name == a.holder:
		return 0, fmt.Errorf("machine %s: %w", name, errHolder)
	}
	before, err := m.seen()
	if err != nil {
		return 0, err
	}
	err = database.Alone(ctx, pool, oneAtATime, func(tx pgx.Tx) error {
		records, err = retire(ctx, m, tx, key, before, retired{Installation: m.store.Installation(), Name: name, By: by, Time: now.UTC().Format(time.RFC3339)})
		return err
	})
	if err != nil {
		err = fmt.Errorf("machine %.80s stays as it is: %w", name, err)
	}
	return records, err
}

func retire(ctx context.Context, m *Machine, tx pgx.Tx, key ed25519.PrivateKey, before seen, says retired) (records uint64, err error) {
	name := says.Name
	_, one, err := look(ctx, tx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrUnknown
	}
	var works bool
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM nacre_session s WHERE machine = $1 AND state = 'running' AND NOT `+lost+`)`, name).Scan(&works)
	}
	switch {
	case err != nil:
		return 0, err
	case works:
		return 0, ErrWorks
	}
	one.Admitted = one.certified(key.Public().(ed25519.PublicKey), m.store.Installation())
	reached := seen{}
	reports, err := m.verify(ctx, tx, one, before, reached)
	if err != nil {
		return 0, fmt.Errorf("evidence that does not hold is kept: %w", err)
	}
	for _, r := range reports {
		records += r.Records
	}
	head, found := reached[name]
	if !found {
		return 0, errors.New("the store has no chain of it")
	}
	says.Key, says.Seq, says.Hash = one.Key, head.Seq, head.RecordHash.String()
	statement, _ := json.Marshal(says) // texts and a number
	signed := append(ed25519.Sign(key, append([]byte(retireDomain), statement...)), statement...)
	if _, err := tx.Exec(ctx, `UPDATE nacre_machine SET certificate = NULL, retired = $2 WHERE name = $1`, name, signed); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `DELETE FROM nacre_chain WHERE machine = $1`, name)
	return records, err
}

// left tells whether a machine's chains may be missing, of which head was verified here before: it was retired
// at that record or later.
func (l Listed) left(head audit.Head) bool {
	return l.Retired && (head.Seq < l.retired.Seq || head.Seq == l.retired.Seq && head.RecordHash.String() == l.retired.Hash)
}
