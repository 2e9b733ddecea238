package machines

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/disk"
)

// The files of the store's key, in the folder of keys. The key itself is on the machine that holds it, and on each
// machine is the one that it was admitted by. One line of hex digits each.
const (
	heldFile    = "store.key"
	trustedFile = "store.pub"
	// domain is what a certificate is signed in.
	domain = "nacre-machine-v1\n"
)

// statement is what the installation's key says of a machine.
type statement struct {
	Installation string `json:"installation"`
	Key          string `json:"key"`
	Name         string `json:"name"`
	Since        uint64 `json:"since"`
}

func (l Listed) statement(installation string) []byte {
	text, _ := json.Marshal(statement{installation, l.Key, l.Name, l.Since}) // texts and a number, in one order
	return append([]byte(domain), text...)
}

func (l Listed) certified(by ed25519.PublicKey, installation string) bool {
	return len(by) == ed25519.PublicKeySize && ed25519.Verify(by, l.statement(installation), l.certificate)
}

// line reads a file of one line of hex digits; nil where there is none.
func line(path string) ([]byte, error) {
	text, err := disk.Read(path, 2*ed25519.PublicKeySize+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%s is not a line of %d hex digits: restore it from a backup", path, 2*ed25519.PublicKeySize)
	}
	return key, nil
}

// held is the installation's key; nil on a machine that does not hold it.
func (m *Machine) held() (ed25519.PrivateKey, error) {
	seed, err := line(filepath.Join(m.paths.Keys(), heldFile))
	if err != nil || seed == nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// trusted is the key that certifies machines: the one that this machine trusted before, or the
// first that it meets.
func (m *Machine) trusted(now ed25519.PublicKey) (ed25519.PublicKey, error) {
	path := filepath.Join(m.paths.Keys(), trustedFile)
	for range 2 {
		before, err := line(path)
		switch {
		case err != nil:
			return nil, err
		case before != nil && !now.Equal(ed25519.PublicKey(before)):
			return nil, fmt.Errorf("%w: somebody changed the database, or it is a new one; remove %s to trust key %x", ErrOtherKey, path, []byte(now))
		case before != nil:
			return now, nil
		}
		if err := disk.Create(path, []byte(hex.EncodeToString(now)+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	return nil, fs.ErrNotExist
}

// ask writes this machine into the store. The first that does so holds the installation's key,
// and certifies itself.
func (m *Machine) ask(ctx context.Context, tx pgx.Tx, name string) error {
	key, err := m.claim(ctx, tx, name)
	if err != nil {
		return err
	}
	me := Listed{Name: name, Key: hex.EncodeToString(m.keys.Public())}
	if head, err := audit.ReadHead(m.paths.Audit(), audit.IndexChain, m.keys.Public()); err == nil {
		me.Since = head.Seq + 1
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if key != nil {
		me.certificate = ed25519.Sign(key, me.statement(m.store.Installation()))
	}
	own, err := leaseKeysOf(m.paths)
	if err != nil {
		return err
	}
	_, sealing := own.published(m, name) // while its key is the one that is certified
	_, err = tx.Exec(ctx, `INSERT INTO nacre_machine (name, key, since, certificate, sealing) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO NOTHING`,
		me.Name, []byte(m.keys.Public()), me.Since, me.certificate, sealing)
	return err
}

// claim makes this machine the holder of the installation's key where nobody is, and gives the
// key to whoever holds it.
func (m *Machine) claim(ctx context.Context, tx pgx.Tx, name string) (ed25519.PrivateKey, error) {
	key, err := m.held()
	if err != nil {
		return nil, err
	}
	var have []byte
	err = tx.QueryRow(ctx, `SELECT key FROM nacre_authority`).Scan(&have)
	if err == nil && key != nil && !key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(have)) {
		key = nil // of another store
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return key, err
	}
	if key == nil {
		if before, err := line(filepath.Join(m.paths.Keys(), trustedFile)); err != nil || before != nil {
			return nil, errors.Join(err, fmt.Errorf("%w: the store has none yet; let the machine that holds it use the store first", ErrOtherKey))
		}
		seed := make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // never fails
		if err := disk.Create(filepath.Join(m.paths.Keys(), heldFile), []byte(hex.EncodeToString(seed)+"\n"), 0o600); err != nil {
			return nil, err
		}
		if key, err = m.held(); err != nil {
			return nil, err
		}
	}
	_, err = tx.Exec(ctx, `INSERT INTO nacre_authority (key, machine) VALUES ($1, $2)`, []byte(key.Public().(ed25519.PublicKey)), name)
	return key, err
}

// holdsKey is the installation's key, on the machine that holds it; do is the command that needs it.
func holdsKey(m *Machine, a authority, do, name string) (ed25519.PrivateKey, error) {
	key, err := m.held()
	if err != nil {
		return nil, err
	}
	if key == nil || !key.Public().(ed25519.PublicKey).Equal(a.key) {
		return nil, fmt.Errorf("machine %s holds the key of the store: run nacre store %s %.80s there", a.holder, do, name)
	}
	return key, nil
}

// Admit certifies a machine that has asked, or is back though it was retired. It is for the machine that holds the
// installation's key.
func (m *Machine) Admit(ctx context.Context, name string) (Listed, error) {
	pool, a, _, err := m.standing(ctx)
	if err != nil {
		return Listed{}, err
	}
	key, err := holdsKey(m, a, "admit", name)
	if err != nil {
		return Listed{}, err
	}
	_, one, err := look(ctx, pool, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return Listed{}, fmt.Errorf("%w (%.80q)", ErrUnknown, name)
	}
	if err != nil {
		return Listed{}, database.Classified(err)
	}
	one.certificate = ed25519.Sign(key, one.statement(m.store.Installation()))
	one.Admitted, one.Here = true, false
	if _, err = pool.Exec(ctx, `UPDATE nacre_machine SET certificate = $2, retired = NULL WHERE name = $1`, name, one.certificate); err != nil {
		return Listed{}, database.Classified(err)
	}
	return one, nil
}
