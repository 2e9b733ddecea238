// Package token promises that a grant made by this host is recognised and that
// any other is refused: a token is an HMAC-SHA256 over length-prefixed bytes
// of everything it allows, and it binds the roles and attributes its principal
// had when it was minted (K-10).
//
// It does not decide who may have a token, holds no clock and no randomness,
// and writes nothing to disk.
package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
)

// MinKey is the shortest secret a key may have, in bytes.
const MinKey = 32

// maxKeyID is the longest name of a key, in bytes.
const maxKeyID = 64

// The refusals of Verify, in the order in which they are checked (K-10), and
// that of Uses.Spend.
var (
	ErrRevoked    = errors.New("token revoked")
	ErrExpired    = errors.New("token expired")
	ErrUnknownKey = errors.New("token signed by an unknown key")
	ErrSignature  = errors.New("token signature does not match")
	ErrPrincipal  = errors.New("token belongs to another principal, or to other roles and attributes")
	ErrCapability = errors.New("token is for another capability or other arguments")
	ErrSpent      = errors.New("token has no uses left")
)

// Digest is a SHA-256 over parts that cannot be confused with one another.
type Digest [sha256.Size]byte

// Claims are what a token allows: one principal, with the authority it had,
// may use one capability with one set of arguments, so many times, until Expires.
type Claims struct {
	// ID is random, given by the host; revocation and uses are kept under it.
	ID         string
	Principal  string
	Authority  Digest
	Capability nacre.CapabilityID
	Arguments  Digest
	// Expires is the first instant at which the token is no longer good.
	Expires time.Time
	// Uses is how often it may be spent; the zero value allows none.
	Uses int
}

// Token is Claims signed by a key. The zero value never verifies.
type Token struct {
	Claims
	KeyID string
	MAC   [sha256.Size]byte
}

// Keys are the host's secrets by name: one signs, all verify, so that a key
// can be rotated while tokens of the last one are still out.
type Keys struct {
	current string
	secrets map[string][]byte
}

// NewKeys signs with the secret named current. Every secret needs MinKey bytes.
func NewKeys(current string, secrets map[string][]byte) (Keys, error) {
	if _, ok := secrets[current]; !ok {
		return Keys{}, fmt.Errorf("token key %.80q: no such secret", current)
	}
	own := make(map[string][]byte, len(secrets))
	for id, secret := range secrets {
		if id == "" || len(id) > maxKeyID {
			return Keys{}, fmt.Errorf("token key id of %d bytes: use 1–%d", len(id), maxKeyID)
		}
		if len(secret) < MinKey {
			return Keys{}, fmt.Errorf("token key %q has %d bytes: use at least %d random ones", id, len(secret), MinKey)
		}
		own[id] = slices.Clone(secret)
	}
	return Keys{current: current, secrets: own}, nil
}

// Mint signs claims with the current key.
func (k Keys) Mint(c Claims) (Token, error) {
	secret, ok := k.secrets[k.current]
	if !ok {
		return Token{}, ErrUnknownKey
	}
	if c.ID == "" || c.Principal == "" || c.Capability == "" || c.Uses < 1 {
		return Token{}, errors.New("token claims need an id, a principal, a capability and at least one use")
	}
	t := Token{Claims: c, KeyID: k.current}
	t.MAC = sign(secret, t)
	return t, nil
}

// Want is what a token must be good for.
type Want struct {
	Principal  string
	Authority  Digest
	Capability nacre.CapabilityID
	Arguments  Digest
	Now        time.Time
	// Revoked reports whether a token's id was revoked; nil means that none was.
	Revoked func(id string) bool
}

// Verify returns nil only for a token that was minted with one of these keys
// and is good for want now. The first check that fails decides the error:
// revoked, expired, key, signature, principal, capability.
func (k Keys) Verify(t Token, want Want) error {
	if want.Revoked != nil && want.Revoked(t.ID) {
		return ErrRevoked
	}
	if !want.Now.Before(t.Expires) {
		return ErrExpired
	}
	secret, ok := k.secrets[t.KeyID]
	if !ok {
		return ErrUnknownKey
	}
	mac := sign(secret, t)
	if !hmac.Equal(mac[:], t.MAC[:]) {
		return ErrSignature
	}
	if !sameString(t.Principal, want.Principal) || !same(t.Authority, want.Authority) {
		return ErrPrincipal
	}
	if !sameString(string(t.Capability), string(want.Capability)) || !same(t.Arguments, want.Arguments) {
		return ErrCapability
	}
	return nil
}

func same(a, b Digest) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

func sameString(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func sign(secret []byte, t Token) (mac [sha256.Size]byte) {
	h := hmac.New(sha256.New, secret)
	var scratch [512]byte
	h.Write(canonical(scratch[:0], t))
	h.Sum(mac[:0])
	return mac
}

// canonical is the byte string that is signed: each part with its length
// before it, so that no two tokens share one.
func canonical(b []byte, t Token) []byte {
	b = appendPart(b, "nacre.token.1")
	b = appendPart(b, t.KeyID)
	b = appendPart(b, t.ID)
	b = appendPart(b, t.Principal)
	b = appendPart(b, t.Authority[:])
	b = appendPart(b, string(t.Capability))
	b = appendPart(b, t.Arguments[:])
	b = binary.BigEndian.AppendUint64(b, uint64(t.Expires.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Expires.Nanosecond()))
	return binary.BigEndian.AppendUint64(b, uint64(t.Uses))
}

func appendPart[T string | []byte](b []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

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

// Authority digests what a principal may act as: its group, session, roles and
// attributes. Order and repetition of roles do not matter; adding, removing or
// changing anything does.
func Authority(p nacre.Principal) Digest {
	roles := slices.Compact(slices.Sorted(slices.Values(p.Roles)))
	parts := make([]string, 0, 3+len(roles)+2*len(p.Attributes))
	parts = append(parts, string(p.Group), string(p.Session), fmt.Sprint(len(roles)))
	parts = append(parts, roles...)
	names := make([]string, 0, len(p.Attributes))
	for name := range p.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		parts = append(parts, name, p.Attributes[name])
	}
	return Sum("nacre.authority.1", parts...)
}
