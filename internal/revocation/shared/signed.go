package shared

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a revocation as it stands in the store. Signed is a [word], or what an older nacre left there.
type row struct {
	ID        string
	Principal []byte
	Until     *time.Time
	Signed    []byte
}

func (r row) end() time.Time {
	if r.Until == nil {
		return time.Time{}
	}
	return r.Until.UTC()
}

// word is what a machine signed of a revocation.
type word struct {
	By        string `json:"by"`
	Signature []byte `json:"signature"`
}

// statement is what it signed.
func (s *List) statement(r row) []byte {
	text, _ := json.Marshal(struct { // texts, and a time that a database has
		Kind         string    `json:"kind"`
		Installation string    `json:"installation"`
		ID           string    `json:"id"`
		Principal    []byte    `json:"principal"`
		Until        time.Time `json:"until"`
	}{"revocation", s.store.Installation(), r.ID, r.Principal, r.end()})
	return text
}

// signed is this machine's word for a revocation; nothing where it cannot give one, since that counts as well.
func (s *List) signed(ctx context.Context, r row) []byte {
	machine, unnamed := s.store.Name(ctx)
	signature, unsigned := s.store.Sign(ctx, s.statement(r))
	if unnamed != nil || unsigned != nil {
		return nil
	}
	text, _ := json.Marshal(word{machine, signature}) // texts
	return text
}

// seen keeps what machines of the installation revoked. What nobody signed counts for as long as it stands in the
// store: whoever writes there must not be able to revoke something for good. What cannot be kept counts all the same.
func (s *List) seen(ctx context.Context, rows []row) {
	verify, err := s.store.Signers(ctx)
	if err != nil || s.keep == nil {
		return
	}
	for _, r := range rows {
		var w word
		if json.Unmarshal(r.Signed, &w) == nil && verify(w.By, s.statement(r), w.Signature) == nil {
			_ = s.keep(r.ID, string(r.Principal), r.end())
		}
	}
}

// Gone tells which of these revocations the store does not have. One of them is set.
func Gone(ctx context.Context, tx pgx.Tx, ids, principals []string) (gone []string, err error) {
	bytes := make([][]byte, len(principals))
	for i, p := range principals {
		bytes[i] = []byte(p)
	}
	rows, err := tx.Query(ctx, `SELECT k.id, k.principal FROM unnest($1::text[], $2::bytea[]) AS k (id, principal)
		WHERE NOT EXISTS (SELECT FROM nacre_revocation r WHERE r.id = k.id AND r.principal = k.principal)`, ids, bytes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var id string
		var principal []byte
		err := row.Scan(&id, &principal)
		return id + string(principal), err
	})
}
