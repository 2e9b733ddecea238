// Package token promises that a grant made by this host is recognised and that
// any other is refused: a token is an HMAC-SHA256 over length-prefixed bytes
// of everything it allows, and it binds the roles and attributes its principal
// had when it was minted (K-10). A holder can take away from a token without
// any key, and nobody can give back (K-11).
//
// It does not decide who may have a token, holds no clock and no randomness,
// and writes nothing to disk.
package token

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"strconv"

	"github.com/nacre-dev/nacre"
)

// Limits of a token.
const (
	// MinKey is the shortest secret a key may have, in bytes.
	MinKey = 32
	// MaxCaveats is how often a token can be handed down.
	MaxCaveats = 16
	// MaxText is the longest text of a token, in bytes.
	MaxText = 16 << 10

	maxKeyID      = 64
	maxID         = 128
	maxPrincipal  = 1024
	maxCapability = 256
	// maxNumber bounds rows and uses.
	maxNumber = 1<<31 - 1
)

// The refusals of Verify, in the order in which they are checked (K-10), and
// that of Ledger.Spend.
var (
	ErrRevoked    = errors.New("token revoked")
	ErrExpired    = errors.New("token expired")
	ErrUnknownKey = errors.New("token signed by an unknown key")
	ErrSignature  = errors.New("token signature does not match")
	ErrPrincipal  = errors.New("token belongs to another principal, or to other roles and attributes")
	ErrCapability = errors.New("token is for another capability or other arguments")
	ErrArguments  = errors.New("arguments are outside of what the token allows")
	ErrSpent      = errors.New("token has no uses left")
)

// ErrMalformed is a token, caveat or constraint that nobody could have made by
// the rules.
var ErrMalformed = errors.New("token malformed")

// Digest is a SHA-256 over parts that cannot be confused with one another.
type Digest [sha256.Size]byte

// Sum digests parts under a name, so that digests made for different purposes
// never meet. Each part is length-prefixed.
func Sum(purpose string, parts ...string) Digest {
	h := sha256.New()
	var scratch [64]byte
	writePart(h, scratch[:0], purpose)
	for _, part := range parts {
		writePart(h, scratch[:0], part)
	}
	var d Digest
	h.Sum(d[:0])
	return d
}

func writePart(h hash.Hash, scratch []byte, part string) {
	h.Write(binary.BigEndian.AppendUint64(scratch, uint64(len(part))))
	h.Write(append(scratch, part...))
}

// Subject is a principal as tokens know it: its id, its roles, and a digest of
// all it may act as. It is computed once, and shares no memory with the
// principal. The zero Subject is nobody.
type Subject struct {
	id     string
	digest Digest
	roles  []string
}

// SubjectOf is p as it is now.
func SubjectOf(p nacre.Principal) Subject {
	return Subject{
		id: p.ID, digest: Authority(p),
		roles: slices.Compact(slices.Sorted(slices.Values(p.Roles))),
	}
}

// Authority is what a token for the subject binds.
func (s Subject) Authority() [sha256.Size]byte { return s.digest }

// Authority digests what a principal may act as: its group, session, roles and
// attributes. Order and repetition of roles do not matter; adding, removing or
// changing anything does.
func Authority(p nacre.Principal) Digest {
	roles := slices.Compact(slices.Sorted(slices.Values(p.Roles)))
	var scratch [512]byte
	b := appendLong(scratch[:0], "nacre.authority.1")
	b = appendLong(b, string(p.Group))
	b = appendLong(b, string(p.Session))
	b = appendLong(b, strconv.Itoa(len(roles)))
	for _, role := range roles {
		b = appendLong(b, role)
	}
	names := make([]string, 0, len(p.Attributes))
	for name := range p.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = appendLong(appendLong(b, name), p.Attributes[name])
	}
	return sha256.Sum256(b)
}

// appendLong writes a part as Sum does.
func appendLong(b []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}
