package token

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/constraint"
)

// What is signed begins with what it is, so that no caveat can pass for a token.
const (
	rootTag   = "nacre.token.2"
	caveatTag = "nacre.caveat.2"
	// textPrefix begins the text of every token.
	textPrefix = "nct2."
	// maxBytes is how many bytes MaxText of base64 hold.
	maxBytes = (MaxText - len(textPrefix)) / 4 * 3
)

// Which of the optional parts are there. A part that is not there takes no bytes.
const (
	hasArguments byte = 1 << iota
	hasUses
	hasConstraints
	hasPrincipal
	hasRoles
	hasExpires
)

const (
	hasMaxRows byte = 1 << iota
	hasFields
	hasScope
	hasKeys
	hasPinned
	hasPrefix
)

func flag(present bool, bit byte) byte {
	if present {
		return bit
	}
	return 0
}

// appendRoot writes the bytes that the host's key signs: each part has its
// length before it or a fixed one, so that no two tokens share their bytes.
func appendRoot(b []byte, t *nacre.Token) ([]byte, error) {
	pinned := t.Arguments != [sha256.Size]byte{}
	constrained := !t.Constraints.IsZero()
	b = append(b, rootTag...)
	b = append(b, flag(pinned, hasArguments)|flag(t.Uses != nil, hasUses)|flag(constrained, hasConstraints))
	b = appendPart(b, t.KeyID)
	b = appendPart(b, t.ID)
	b = appendPart(b, t.Principal)
	b = append(b, t.Authority[:]...)
	b = appendPart(b, string(t.Capability))
	b = appendTime(b, t.Issued)
	b = appendTime(b, t.Expires)
	if pinned {
		b = append(b, t.Arguments[:]...)
	}
	if t.Uses != nil {
		b = appendInt(b, *t.Uses)
	}
	if constrained {
		return appendConstraints(b, &t.Constraints)
	}
	return b, nil
}

// appendCaveat writes the bytes that the MAC before the caveat signs.
func appendCaveat(b []byte, c *nacre.Caveat) ([]byte, error) {
	constrained := !c.Constraints.IsZero()
	b = append(b, caveatTag...)
	b = append(b, flag(c.Uses != nil, hasUses)|flag(constrained, hasConstraints)|flag(c.Principal != "", hasPrincipal)|
		flag(c.Roles != nil, hasRoles)|flag(!c.Expires.IsZero(), hasExpires))
	b = appendPart(b, c.ID)
	if c.Principal != "" {
		b = appendPart(b, c.Principal)
	}
	if c.Roles != nil {
		b = appendList(b, c.Roles)
	}
	if !c.Expires.IsZero() {
		b = appendTime(b, c.Expires)
	}
	if c.Uses != nil {
		b = appendInt(b, *c.Uses)
	}
	if constrained {
		return appendConstraints(b, &c.Constraints)
	}
	return b, nil
}

func appendConstraints(b []byte, c *nacre.Constraints) ([]byte, error) {
	b = append(b, flag(c.MaxRows != nil, hasMaxRows)|flag(c.AllowedFields != nil, hasFields)|flag(c.Scope != nil, hasScope)|
		flag(c.Arguments.AllowedKeys != nil, hasKeys)|flag(c.Arguments.Pinned != nil, hasPinned)|flag(c.Arguments.Prefix != nil, hasPrefix))
	if c.MaxRows != nil {
		b = appendInt(b, *c.MaxRows)
	}
	if c.AllowedFields != nil {
		b = appendList(b, c.AllowedFields)
	}
	if c.Scope != nil {
		b = appendMap(b, c.Scope)
	}
	if c.Arguments.AllowedKeys != nil {
		b = appendList(b, c.Arguments.AllowedKeys)
	}
	var err error
	if c.Arguments.Pinned != nil {
		b, err = appendPinned(b, c.Arguments.Pinned)
	}
	if c.Arguments.Prefix != nil {
		b = appendMap(b, c.Arguments.Prefix)
	}
	return b, err
}

func appendPart(b []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...) //nolint:gosec // MaxText bounds it
}

func appendInt(b []byte, n int) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) } //nolint:gosec // a bijection

func appendTime(b []byte, t time.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Unix()))          //nolint:gosec // a bijection
	return binary.BigEndian.AppendUint32(b, uint32(t.Nanosecond())) //nolint:gosec // 0–999,999,999
}

func appendList(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list))) //nolint:gosec // MaxText bounds it
	for _, part := range list {
		b = appendPart(b, part)
	}
	return b
}

func appendMap(b []byte, m map[string]string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(m))) //nolint:gosec // MaxText bounds it
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = appendPart(appendPart(b, key), m[key])
	}
	return b
}

// appendPinned writes values in their canonical form, so that a token that
// travelled as JSON still verifies.
func appendPinned(b []byte, m map[string]json.RawMessage) ([]byte, error) {
	b = binary.BigEndian.AppendUint32(b, uint32(len(m))) //nolint:gosec // MaxText bounds it
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value, err := constraint.Canonical(m[key])
		if err != nil {
			return nil, fmt.Errorf("%w: pinned argument %.80q: %w", ErrMalformed, key, err)
		}
		b = appendPart(appendPart(b, key), string(value))
	}
	return b, nil
}

// Encode returns the one text form of a token, fit for a URL, a header and a
// file. It refuses what would be longer than MaxText.
func Encode(t nacre.Token) (string, error) {
	b, err := appendToken(make([]byte, 0, 512), &t)
	if err != nil {
		return "", err
	}
	return textPrefix + base64.RawURLEncoding.EncodeToString(b), nil
}

func appendToken(b []byte, t *nacre.Token) ([]byte, error) {
	if err := checkRoot(t); err != nil {
		return nil, err
	}
	b, err := appendRoot(b, t)
	if err != nil {
		return nil, err
	}
	b = append(b, byte(len(t.Caveats)))
	for i := range t.Caveats {
		if b, err = appendCaveat(b, &t.Caveats[i]); err != nil {
			return nil, err
		}
	}
	if b = append(b, t.MAC[:]...); len(b) > maxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes of text", ErrMalformed, MaxText)
	}
	return b, nil
}

// checkSize refuses a token that has no text.
func checkSize(t *nacre.Token) error {
	var scratch [1024]byte
	_, err := appendToken(scratch[:0], t)
	return err
}

// Decode reads what Encode wrote, and no other spelling of it. It says nothing
// of whether the token is good: Verify does.
func Decode(text string) (nacre.Token, error) {
	if len(text) > MaxText || len(text) < len(textPrefix) || text[:len(textPrefix)] != textPrefix {
		return nacre.Token{}, fmt.Errorf("%w: its text begins with %q and has at most %d bytes", ErrMalformed, textPrefix, MaxText)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text[len(textPrefix):])
	if err != nil {
		return nacre.Token{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := decoder{left: b}
	t := r.token()
	if r.bad || len(r.left) != 0 {
		return nacre.Token{}, fmt.Errorf("%w: its text is cut off or has something added", ErrMalformed)
	}
	// Whatever spelling slipped through above is not what Encode writes.
	again, err := Encode(t)
	if err != nil {
		return nacre.Token{}, err
	}
	if again != text {
		return nacre.Token{}, fmt.Errorf("%w: its text is not in the one form there is", ErrMalformed)
	}
	return t, nil
}
