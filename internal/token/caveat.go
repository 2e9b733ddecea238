package token

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
)

const (
	// maxSegment is the longest name that a holder gives a child, in bytes.
	maxSegment = 64
	maxRole    = 128
)

// Attenuate derives, without any key, a token that allows strictly what t allows and the caveat
// leaves (K-11). It refuses a caveat that asks for more than t says it has. A holder who writes one
// by hand gains nothing, because Verify keeps to the least of all.
func Attenuate(t nacre.Token, c nacre.Caveat) (nacre.Token, error) {
	if len(t.Caveats) >= MaxCaveats {
		return nacre.Token{}, fmt.Errorf("%w: it was handed down %d times, which is the most", ErrMalformed, MaxCaveats)
	}
	var err error
	if c.Constraints, err = normal(c.Constraints); err != nil {
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
	uses, roles, expires, constraints := t.Uses, []string(nil), t.Expires, t.Constraints
	for i := range t.Caveats {
		have := &t.Caveats[i]
		if have.Uses != nil {
			uses = have.Uses // no more than before, as this function saw to
		}
		if have.Roles != nil {
			roles = have.Roles
		}
		if !have.Expires.IsZero() {
			expires = have.Expires
		}
	}
	switch {
	case c.Expires.After(expires):
		return fmt.Errorf("%w: it would outlive what it derives from", ErrMalformed)
	case uses != nil && c.Uses != nil && *c.Uses > *uses:
		return fmt.Errorf("%w: %d uses of %d", ErrMalformed, *c.Uses, *uses)
	case roles != nil && !isSubset(c.Roles, roles):
		return fmt.Errorf("%w: it would have a role that its parent lacks", ErrMalformed)
	}
	if _, err := holder(t, c); err != nil {
		return err
	}
	constraints, err := narrowAll(constraints, append(slices.Clone(t.Caveats), *c))
	if err != nil {
		return err
	}
	return checkTighter(constraints, c.Constraints)
}

// checkTighter refuses a demand of which less is left than it asks for.
func checkTighter(left, asked nacre.Constraints) error {
	switch {
	case asked.MaxRows != nil && *left.MaxRows < *asked.MaxRows:
		return fmt.Errorf("%w: %d rows of %d", ErrMalformed, *asked.MaxRows, *left.MaxRows)
	case !isSubset(asked.AllowedFields, left.AllowedFields):
		return fmt.Errorf("%w: a field that its parent may not see", ErrMalformed)
	case !isSubset(asked.Arguments.AllowedKeys, left.Arguments.AllowedKeys):
		return fmt.Errorf("%w: an argument that its parent may not give", ErrMalformed)
	}
	for name, prefix := range asked.Arguments.Prefix {
		if left.Arguments.Prefix[name] != prefix {
			return fmt.Errorf("%w: a shorter prefix for %.80q than its parent's", ErrMalformed, name)
		}
	}
	return nil
}

func isSubset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// holder is the principal that a token is in the hands of after its caveats
// and some more.
func holder(t *nacre.Token, more ...*nacre.Caveat) (string, error) {
	principal := t.Principal
	hand := func(to string) error {
		if to == "" {
			return nil
		}
		if !isBelow(principal, to) {
			return fmt.Errorf("%w: %.80q does not lie under %.80q", ErrPrincipal, to, principal)
		}
		principal = to
		return nil
	}
	for i := range t.Caveats {
		if err := hand(t.Caveats[i].Principal); err != nil {
			return "", err
		}
	}
	for _, c := range more {
		if err := hand(c.Principal); err != nil {
			return "", err
		}
	}
	return principal, nil
}

// narrowAll is what is left of constraints after caveats.
func narrowAll(c nacre.Constraints, caveats []nacre.Caveat) (nacre.Constraints, error) {
	var err error
	for i := range caveats {
		if caveats[i].Constraints.IsZero() {
			continue
		}
		if c, err = constraint.Narrow(c, caveats[i].Constraints); err != nil {
			return nacre.Constraints{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return c, nil
}

// normal is constraints in the form in which they are signed.
func normal(c nacre.Constraints) (nacre.Constraints, error) {
	c, err := constraint.Normalize(c)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return c, nil
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
