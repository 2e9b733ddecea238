package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
)

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
	b = appendLong(b, "nacre.token.1")
	b = appendLong(b, t.KeyID)
	b = appendLong(b, t.ID)
	b = appendLong(b, t.Principal)
	b = appendLong(b, string(t.Authority[:]))
	b = appendLong(b, string(t.Capability))
	b = appendLong(b, string(t.Arguments[:]))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Expires.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(t.Expires.Nanosecond()))
	return binary.BigEndian.AppendUint64(b, uint64(t.Uses))
}
