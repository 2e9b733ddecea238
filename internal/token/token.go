// Package token promises that a grant made by this host is recognised and that any other is refused
// (K-10). A token is an HMAC-SHA256 over length-prefixed bytes of everything it allows, and it
// binds the roles and attributes its principal had when it was minted. A holder can take away from
// a token without any key, and nobody can give back (K-11). What a person ruled beyond one call is
// kept here too: [Standings].
//
// It does not decide who may have a token, holds no clock and no randomness,
// and writes nothing to disk.
package token

import (
	"crypto/sha256"
	"encoding/binary"
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

// The refusals of Verify, in the order in which they are checked (K-10), that of
// Ledger.Spend, and that of what nobody could have made by the rules.
var (
	ErrRevoked    = nacre.ErrTokenRevoked
	ErrExpired    = nacre.ErrTokenExpired
	ErrUnknownKey = nacre.ErrTokenUnknownKey
	ErrSignature  = nacre.ErrTokenSignature
	ErrPrincipal  = nacre.ErrTokenPrincipal
	ErrCapability = nacre.ErrTokenCapability
	ErrArguments  = nacre.ErrTokenArguments
	ErrSpent      = nacre.ErrTokenSpent
	ErrMalformed  = nacre.ErrTokenMalformed
)

// Digest is a SHA-256 over parts that cannot be confused with one another.
type Digest [sha256.Size]byte

// Sum digests parts under a name, so that digests made for different purposes
// never meet. Each part is length-prefixed.
func Sum(purpose string, parts ...string) Digest {
	var scratch [512]byte
	b := appendLong(scratch[:0], purpose)
	for _, part := range parts {
		b = appendLong(b, part)
	}
	return sha256.Sum256(b)
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
	roles := rolesOf(p)
	return Subject{id: p.ID, digest: authority(p, roles), roles: roles}
}

// Authority is what a token for the subject binds.
func (s Subject) Authority() [sha256.Size]byte { return s.digest }

// Authority digests what a principal may act as: its group, session, roles and
// attributes. Order and repetition of roles do not matter; adding, removing or
// changing anything does.
func Authority(p nacre.Principal) Digest { return authority(p, rolesOf(p)) }

func rolesOf(p nacre.Principal) []string {
	roles := slices.Clone(p.Roles)
	slices.Sort(roles)
	return slices.Compact(roles)
}

func authority(p nacre.Principal, roles []string) Digest {
	var scratch [512]byte
	b := appendLong(scratch[:0], "nacre.authority.1")
	b = appendLong(b, string(p.Group))
	b = appendLong(b, string(p.Session))
	b = appendLong(b, strconv.Itoa(len(roles)))
	for _, role := range roles {
		b = appendLong(b, role)
	}
	var few [8]string
	names := few[:0]
	for name := range p.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = appendLong(appendLong(b, name), p.Attributes[name])
	}
	return sha256.Sum256(b)
}

// appendLong writes a part with its length before it.
func appendLong(b []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}
