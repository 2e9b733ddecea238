package database

import (
	"context"
	"errors"
)

// Witness signs what this machine says to the others of its installation, and verifies what they said: whoever can
// write to the database is none of them.
type Witness interface {
	// Name is that under which other machines verify what this one signed. The first time it asks the database.
	Name(ctx context.Context) (machine string, err error)
	// Sign signs a statement in that name.
	Sign(ctx context.Context, statement []byte) (signature []byte, err error)
	// Signers gives what verifies a statement of a machine that is admitted at this moment. An error of verify says
	// why the machine's word does not count, and what to do.
	Signers(ctx context.Context) (verify Verify, err error)
}

// Verify tells whether a machine signed a statement.
type Verify func(machine string, statement, signature []byte) error

var errNoWitness = errors.New("nobody signs for this machine in the [store], nor verifies what others signed")

// Signs makes a witness that of this machine. It comes before the first question.
func (s *Store) Signs(w Witness) { s.witness = w }

// Name is that of this machine's [Witness].
func (s *Store) Name(ctx context.Context) (machine string, err error) {
	if s.witness == nil {
		return "", errNoWitness
	}
	return s.witness.Name(ctx)
}

// Sign is that of this machine's [Witness].
func (s *Store) Sign(ctx context.Context, statement []byte) (signature []byte, err error) {
	if s.witness == nil {
		return nil, errNoWitness
	}
	return s.witness.Sign(ctx, statement)
}

// Signers are those of this machine's [Witness].
func (s *Store) Signers(ctx context.Context) (Verify, error) {
	if s.witness == nil {
		return nil, errNoWitness
	}
	return s.witness.Signers(ctx)
}
