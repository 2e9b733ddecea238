package token

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/nacre-dev/nacre"
)

// decoder takes a token's bytes apart. Once bad, it returns zeros only.
type decoder struct {
	left []byte
	bad  bool
}

func (r *decoder) token() (t nacre.Token) {
	r.tag(rootTag)
	flags := r.flags(hasArguments | hasUses | hasConstraints)
	t.KeyID, t.ID, t.Principal = r.part(), r.part(), r.part()
	copy(t.Authority[:], r.take(len(t.Authority)))
	t.Capability = nacre.CapabilityID(r.part())
	t.Issued, t.Expires = r.time(), r.time()
	if flags&hasArguments != 0 {
		copy(t.Arguments[:], r.take(len(t.Arguments)))
	}
	if flags&hasUses != 0 {
		t.Uses = r.number()
	}
	if flags&hasConstraints != 0 {
		t.Constraints = r.constraints()
	}
	if n := int(r.byte()); n > 0 && n <= MaxCaveats {
		t.Caveats = make([]nacre.Caveat, n)
	} else {
		r.bad = r.bad || n != 0
	}
	for i := range t.Caveats {
		t.Caveats[i] = r.caveat()
	}
	copy(t.MAC[:], r.take(len(t.MAC)))
	return t
}

func (r *decoder) caveat() (c nacre.Caveat) {
	r.tag(caveatTag)
	flags := r.flags(hasUses | hasConstraints | hasPrincipal | hasRoles | hasExpires)
	c.ID = r.part()
	if flags&hasPrincipal != 0 {
		c.Principal = r.part()
	}
	if flags&hasRoles != 0 {
		c.Roles = r.list()
	}
	if flags&hasExpires != 0 {
		c.Expires = r.time()
	}
	if flags&hasUses != 0 {
		c.Uses = r.number()
	}
	if flags&hasConstraints != 0 {
		c.Constraints = r.constraints()
	}
	return c
}

func (r *decoder) constraints() (c nacre.Constraints) {
	flags := r.flags(hasMaxRows | hasFields | hasScope | hasKeys | hasPinned | hasPrefix)
	if flags&hasMaxRows != 0 {
		c.MaxRows = r.number()
	}
	if flags&hasFields != 0 {
		c.AllowedFields = r.list()
	}
	if flags&hasScope != 0 {
		c.Scope = r.pairs()
	}
	if flags&hasKeys != 0 {
		c.Arguments.AllowedKeys = r.list()
	}
	if flags&hasPinned != 0 {
		pairs := r.pairs()
		c.Arguments.Pinned = make(map[string]json.RawMessage, len(pairs))
		for key, value := range pairs {
			c.Arguments.Pinned[key] = json.RawMessage(value)
		}
	}
	if flags&hasPrefix != 0 {
		c.Arguments.Prefix = r.pairs()
	}
	return c
}

// take returns the next n bytes, or nil.
func (r *decoder) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.left) {
		r.bad = true
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *decoder) tag(want string) { r.bad = string(r.take(len(want))) != want || r.bad }

func (r *decoder) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *decoder) flags(known byte) byte {
	flags := r.byte()
	r.bad = r.bad || flags&^known != 0
	return flags
}

func (r *decoder) long() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// count is bounded by what is left: each thing counted takes at least 4 bytes.
func (r *decoder) count() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n)*4 > uint64(len(r.left)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *decoder) part() string {
	b := r.take(4)
	if b == nil {
		return ""
	}
	return string(r.take(int(binary.BigEndian.Uint32(b))))
}

func (r *decoder) number() *int {
	n := r.long()
	if n > maxNumber {
		r.bad = true
		return new(int)
	}
	number := int(n)
	return &number
}

func (r *decoder) time() time.Time {
	seconds := int64(r.long()) //nolint:gosec // a bijection
	b := r.take(4)
	if b == nil {
		return time.Time{}
	}
	return time.Unix(seconds, int64(binary.BigEndian.Uint32(b))).UTC()
}

func (r *decoder) list() []string {
	list := make([]string, r.count())
	for i := range list {
		list[i] = r.part()
	}
	return list
}

func (r *decoder) pairs() map[string]string {
	n := r.count()
	m := make(map[string]string, n)
	for range n {
		key := r.part()
		m[key] = r.part()
	}
	return m
}
