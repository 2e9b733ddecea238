package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
)

// Presentation is a token's use: who wants to do what with it, and when.
type Presentation struct {
	// Caller is the id of whoever presents the token, as the host knows it: the
	// subject's own, or that of a child which the token was handed down to.
	Caller string
	// Subject is the principal that the token was minted for, as it is now.
	Subject    Subject
	Capability nacre.CapabilityID
	// Arguments are canonical. Nothing there meets no limit.
	Arguments json.RawMessage
	Now       time.Time
	// Revoked knows what was revoked; without it nothing verifies.
	Revoked Revocations
}

// Effective is what a token lets its caller do, after all caveats. It must not
// be changed: it may share memory with the token and the subject.
type Effective struct {
	Principal string
	// Roles are those that the subject has and no caveat took.
	Roles       []string
	Constraints nacre.Constraints
	Expires     time.Time
	// ID is that of the token, as [PathID] has it. RootID is that of the one it derives from, under
	// which uses are charged.
	ID     string
	RootID string

	bounds []bound
	root   *int
}

// bound is how often one link of a chain may be used. Its MAC tells it from
// every other link, whatever ids their holders chose.
type bound struct {
	link [sha256.Size]byte
	uses int
}

// Verify returns what t lets the caller do now, and an error where that is not
// what it wants to do. The first check that fails decides the error: revoked,
// expired, key, signature, principal, capability, arguments. Uses are charged
// by Ledger.Spend.
func (r *Ring) Verify(t nacre.Token, p Presentation) (Effective, error) {
	p.Now = r.clock(p.Now)
	if err := checkRevoked(&t, &p); err != nil {
		return Effective{}, err
	}
	if err := checkExpiry(&t, p.Now); err != nil {
		return Effective{}, err
	}
	key, err := r.key(t.KeyID, p.Now)
	if err != nil {
		return Effective{}, err
	}
	e := Effective{ID: PathID(&t), RootID: t.ID, Expires: t.Expires, root: t.Uses}
	if err := e.checkSignature(key, &t); err != nil {
		return Effective{}, err
	}
	if err := e.checkHolder(&t, &p); err != nil {
		return Effective{}, err
	}
	if !sameString(string(t.Capability), string(p.Capability)) {
		return Effective{}, ErrCapability
	}
	if err := e.checkArguments(&t, p.Arguments); err != nil {
		return Effective{}, err
	}
	return e, nil
}

func checkRevoked(t *nacre.Token, p *Presentation) error {
	if p.Revoked == nil {
		return fmt.Errorf("%w, or not: nothing here knows", ErrRevoked)
	}
	if len(t.Caveats) > MaxCaveats {
		return fmt.Errorf("%w: handed down %d times: at most %d", ErrSignature, len(t.Caveats), MaxCaveats)
	}
	if err := revoked(p, PathID(t), t.Principal); err != nil {
		return err
	}
	for i := range t.Caveats {
		if to := t.Caveats[i].Principal; to != "" {
			if err := revoked(p, "", to); err != nil {
				return err
			}
		}
	}
	return nil
}

// PathID is the id under which a token is revoked: its own, or, where it was
// handed down, those of its links with slashes between. No holder can choose
// an id that is another token's.
func PathID(t *nacre.Token) string {
	if len(t.Caveats) == 0 {
		return t.ID
	}
	var path strings.Builder
	path.WriteString(t.ID)
	for i := range t.Caveats {
		path.WriteByte('/')
		path.WriteString(t.Caveats[i].ID)
	}
	return path.String()
}

func revoked(p *Presentation, id, principal string) error {
	is, err := p.Revoked.Revoked(id, principal, p.Now)
	if err != nil {
		return fmt.Errorf("%w, or not: %w", ErrRevoked, err)
	}
	if is {
		return ErrRevoked
	}
	return nil
}

func checkExpiry(t *nacre.Token, now time.Time) error {
	if now.IsZero() || !now.Before(t.Expires) {
		return ErrExpired
	}
	for i := range t.Caveats {
		if until := t.Caveats[i].Expires; !until.IsZero() && !now.Before(until) {
			return ErrExpired
		}
	}
	return nil
}

func (r *Ring) key(id string, now time.Time) (*signer, error) {
	if set := r.keys.Load(); set != nil {
		if s := set.byID[id]; s != nil && (s.until.IsZero() || now.Before(s.until)) {
			return s, nil
		}
	}
	return nil, ErrUnknownKey
}

func (e *Effective) checkSignature(key *signer, t *nacre.Token) error {
	mac, err := key.sign(t)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	for i := range t.Caveats {
		c := &t.Caveats[i]
		if err := checkCaveat(c); err != nil {
			return fmt.Errorf("%w: %w", ErrSignature, err)
		}
		if mac, err = chain(mac, c); err != nil {
			return fmt.Errorf("%w: %w", ErrSignature, err)
		}
		if !c.Expires.IsZero() && c.Expires.Before(e.Expires) {
			e.Expires = c.Expires
		}
		if c.Uses != nil {
			e.bounds = append(e.bounds, bound{mac, *c.Uses})
		}
	}
	if !hmac.Equal(mac[:], t.MAC[:]) {
		return ErrSignature
	}
	return nil
}

// checkHolder works out who holds the token and which of the subject's roles
// it still has: those that the subject has, less those that caveats took.
func (e *Effective) checkHolder(t *nacre.Token, p *Presentation) (err error) {
	if p.Subject.id == "" || !sameString(t.Principal, p.Subject.id) || !same(t.Authority, p.Subject.digest) {
		return ErrPrincipal
	}
	if e.Principal, err = holder(t); err != nil {
		return err
	}
	if !sameString(e.Principal, p.Caller) {
		return ErrPrincipal
	}
	e.Roles = p.Subject.roles
	for i := range t.Caveats {
		if only := t.Caveats[i].Roles; only != nil {
			e.Roles = slices.DeleteFunc(slices.Clone(e.Roles), func(role string) bool { return !slices.Contains(only, role) })
		}
	}
	return nil
}

func (e *Effective) checkArguments(t *nacre.Token, arguments json.RawMessage) (err error) {
	if t.Arguments != (Digest{}) && !same(t.Arguments, ArgumentsDigest(arguments)) {
		return fmt.Errorf("%w: it is for other ones", ErrArguments)
	}
	if e.Constraints, err = narrowAll(t.Constraints, t.Caveats); err != nil {
		return fmt.Errorf("%w: %w", ErrArguments, err)
	}
	if err := constraint.CheckArguments(e.Constraints.Arguments, arguments); err != nil {
		return fmt.Errorf("%w: %w", ErrArguments, err)
	}
	return nil
}

// ArgumentsDigest is what a token for exactly these arguments binds. They must
// be canonical, since they are taken as they are.
func ArgumentsDigest(canonical json.RawMessage) Digest {
	return Sum("nacre.arguments.1", string(canonical))
}

func same(a, b Digest) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

func sameString(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
