package machines

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/database"
	"github.com/nacre-dev/nacre/internal/registry"
)

// saidDomain is what a machine signs in what it says to others in the store.
const saidDomain = "nacre-machine-said-v1\n"

// Why what a machine is said to have said does not count.
var (
	// ErrNotSaid says that the machine is not one whose word counts, or that it did not say this.
	ErrNotSaid  = errors.New("not the word of a machine that is admitted")
	errNoSigner = errors.New("it has not told the others what it signs with: update nacre there; where its key was rotated before that, remove keys/machine in its state folder, and it asks to be admitted under a new name")
)

// Signatures are of what machines say to one another in the store. Each signs with a key of its own. That key it
// signed with the one that the installation's key certified, so that it holds after that one was rotated.
type Signatures struct{ leases *Leases }

var _ database.Witness = (*Signatures)(nil)

// Sign lets all that an installation's machines say to one another be signed, where it has a store.
func Sign(r *registry.Registry, keys audit.Keys) {
	if leases := LeasesOf(r, keys); leases != nil {
		r.Store().Signs(&Signatures{leases})
	}
}

// Name is the one that others know this machine by.
func (s *Signatures) Name(ctx context.Context) (machine string, err error) {
	m, err := s.leases.meet(ctx)
	if err != nil {
		return "", err
	}
	return m.machine, nil
}

// Sign signs a statement of this machine's.
func (s *Signatures) Sign(ctx context.Context, statement []byte) (signature []byte, err error) {
	m, err := s.leases.meet(ctx)
	if err != nil {
		return nil, err
	}
	return ed25519.Sign(m.own.signs, append([]byte(saidDomain), statement...)), nil
}

// Signers gives what verifies a statement of a machine's, by the list of machines of this moment. Its errors are
// [ErrNotSaid].
func (s *Signatures) Signers(ctx context.Context) (database.Verify, error) {
	m, err := s.leases.meet(ctx)
	if err != nil {
		return nil, err
	}
	trusted, err := s.leases.trusted(m.authority.key)
	if err != nil {
		return nil, err
	}
	installation := s.leases.store.Installation()
	rows, err := m.pool.Query(ctx, `SELECT name, key, since, certificate, retired, sealing FROM nacre_machine`)
	if err != nil {
		return nil, told(err)
	}
	signers, whyNot := map[string]ed25519.PublicKey{}, map[string]error{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (one Listed, err error) {
		var key, gone, says []byte
		if err := row.Scan(&one.Name, &key, &one.Since, &one.certificate, &gone, &says); err != nil {
			return one, err
		}
		one.Key = hex.EncodeToString(key)
		_, retired := parseRetired(gone, one, trusted, installation)
		sealed, told := sealingOf(says, one, installation)
		signer, wrong := hex.DecodeString(sealed.Signer)
		switch {
		case retired || !one.certified(trusted, installation):
			whyNot[one.Name] = fmt.Errorf("it is not admitted: run on machine %s: nacre store admit %s", m.authority.holder, one.Name)
		case !told || wrong != nil || len(signer) != ed25519.PublicKeySize:
			whyNot[one.Name] = errNoSigner
		default:
			signers[one.Name] = signer
		}
		return one, nil
	})
	return func(machine string, statement, signature []byte) error {
		why := whyNot[machine]
		signer, known := signers[machine]
		switch {
		case why == nil && !known:
			why = errors.New("nacre store machines does not list it")
		case why == nil && !ed25519.Verify(signer, append([]byte(saidDomain), statement...), signature):
			why = errors.New("it did not sign this: somebody changed the database")
		}
		if why != nil {
			return fmt.Errorf("%w: machine %.80q: %w", ErrNotSaid, machine, why)
		}
		return nil
	}, told(err)
}
