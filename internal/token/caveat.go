package token

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

const (
	// maxSegment is the longest name that a holder gives a child, in bytes.
	maxSegment = 64
	maxRole    = 128
)

// Attenuate derives, without any key, a token that allows strictly what t
// allows and the caveat leaves (K-11). It refuses a caveat that asks for more
// than t says it has; a holder who writes one by hand gains nothing, because
// Verify keeps to the least of all.
func Attenuate(t nacre.Token, c nacre.Caveat) (nacre.Token, error) {
	if len(t.Caveats) >= MaxCaveats {
		return nacre.Token{}, fmt.Errorf("%w: it was handed down %d times, which is the most", ErrMalformed, MaxCaveats)
	}
	var err error
	if c.Constraints, err = tidy(c.Constraints); err != nil {
		return nacre.Token{}, err
	}
	c.Roles, c.Uses = slices.Clone(c.Roles), cloneInt(c.Uses)
	if !c.Expires.IsZero() {
		c.Expires = plainTime(c.Expires)
	}
	if err := checkNarrower(&t, &c); err != nil {
		return nacre.Token{}, err
	}
	mac, err := chain(t.MAC, &c)
	if err != nil {
		return nacre.Token{}, err
	}
	t.Caveats = append(slices.Clone(t.Caveats), c)
	t.MAC = mac
	return t, checkSize(&t)
}

// checkNarrower tells an honest holder what Verify would not grant.
func checkNarrower(t *nacre.Token, c *nacre.Caveat) error {
	if err := checkCaveat(c); err != nil {
		return err
	}
	if t.ID == c.ID || slices.ContainsFunc(t.Caveats, func(have nacre.Caveat) bool { return have.ID == c.ID }) {
		return fmt.Errorf("%w: id %s is taken by what it derives from", ErrMalformed, c.ID)
	}
	parent := holding{principal: t.Principal, expires: t.Expires, constraints: t.Constraints}
	uses := t.Uses
	for i := range t.Caveats {
		if err := parent.narrow(&t.Caveats[i]); err != nil {
			return err
		}
		uses = fewer(uses, t.Caveats[i].Uses)
	}
	switch {
	case c.Expires.After(parent.expires):
		return fmt.Errorf("%w: it would outlive what it derives from", ErrMalformed)
	case uses != nil && c.Uses != nil && *c.Uses > *uses:
		return fmt.Errorf("%w: %d uses of %d", ErrMalformed, *c.Uses, *uses)
	case parent.limited && grows(parent.roles, c.Roles):
		return fmt.Errorf("%w: it would have a role that its parent lacks", ErrMalformed)
	}
	return parent.narrow(c)
}

func fewer(a, b *int) *int {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func grows(have, want []string) bool {
	return slices.ContainsFunc(want, func(role string) bool { return !slices.Contains(have, role) })
}

// checkCaveat refuses what no holder may write. Verify asks again, since a
// holder needs nobody's help to write a caveat.
func checkCaveat(c *nacre.Caveat) error {
	switch {
	case !isID(c.ID):
		return fmt.Errorf("%w: id %.80q: use 1–%d letters, digits, dots, dashes or _", ErrMalformed, c.ID, maxID)
	case c.Uses != nil && (*c.Uses < 1 || *c.Uses > maxNumber):
		return fmt.Errorf("%w: %d uses: use 1–%d, or none named", ErrMalformed, *c.Uses, maxNumber)
	}
	for _, role := range c.Roles {
		if role == "" || len(role) > maxRole || !utf8.ValidString(role) {
			return fmt.Errorf("%w: role %.80q: use 1–%d bytes", ErrMalformed, role, maxRole)
		}
	}
	return nil
}

// isBelow reports whether child lies strictly under parent, as "a/b" does
// under "a". Names that holders give are plain ASCII, so that none can be
// taken for another or for more than one.
func isBelow(parent, child string) bool {
	rest, ok := strings.CutPrefix(child, parent+"/")
	if !ok || len(child) > maxPrincipal {
		return false
	}
	for _, segment := range strings.Split(rest, "/") {
		if segment == "" || len(segment) > maxSegment || !isWord(segment[0]) {
			return false
		}
		for i := range len(segment) {
			if c := segment[i]; !isWord(c) && strings.IndexByte("-.:@+", c) < 0 {
				return false
			}
		}
	}
	return true
}

// chain is the MAC of what a caveat makes of a token with the MAC before.
func chain(before [sha256.Size]byte, c *nacre.Caveat) (mac [sha256.Size]byte, err error) {
	var scratch [512]byte
	b := appendPad(scratch[:0], &before, 0x36)
	if b, err = appendCaveat(b, c); err != nil {
		return mac, err
	}
	inner := sha256.Sum256(b)
	var outer [sha256.BlockSize + sha256.Size]byte
	b = appendPad(outer[:0], &before, 0x5c)
	return sha256.Sum256(append(b, inner[:]...)), nil
}

// appendPad is a key's first block in HMAC (RFC 2104). Each MAC of a chain is
// a key that is used once; crypto/hmac would allocate six times for it.
func appendPad(b []byte, key *[sha256.Size]byte, pad byte) []byte {
	for _, k := range key {
		b = append(b, k^pad)
	}
	for range sha256.BlockSize - sha256.Size {
		b = append(b, pad)
	}
	return b
}

// holding is what is left after some caveats.
type holding struct {
	principal   string
	roles       []string
	limited     bool // roles are the only ones
	expires     time.Time
	constraints nacre.Constraints
}

// narrow takes away what a caveat takes; it never gives.
func (h *holding) narrow(c *nacre.Caveat) (err error) {
	if c.Principal != "" {
		if !isBelow(h.principal, c.Principal) {
			return fmt.Errorf("%w: %.80q does not lie under %.80q", ErrPrincipal, c.Principal, h.principal)
		}
		h.principal = c.Principal
	}
	if c.Roles != nil {
		if h.limited {
			h.roles = intersect(h.roles, c.Roles)
		} else {
			h.roles, h.limited = c.Roles, true
		}
	}
	if !c.Expires.IsZero() && c.Expires.Before(h.expires) {
		h.expires = c.Expires
	}
	if !c.Constraints.IsZero() {
		h.constraints, err = Narrow(h.constraints, c.Constraints)
	}
	return err
}
