package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/nacre-dev/nacre"
)

const (
	// maxKeys is how many keys a ring holds.
	maxKeys = 16
	// lastYear is the last whole year that nanoseconds since 1970 can tell.
	lastYear = 2261
)

// Key is a secret under a name.
type Key struct {
	ID string
	// Secret has at least MinKey random bytes.
	Secret []byte
	// Until is the first instant at which it verifies nothing more; zero means
	// never, as the key that signs must.
	Until time.Time
}

// String does not print the secret.
func (k Key) String() string { return "[token key " + k.ID + "]" }

// GoString does not print the secret either.
func (k Key) GoString() string { return k.String() }

// Ring holds the host's keys: the first signs, all verify, so that a key can
// be rotated while tokens of the last one are still out. A ring's clock only
// goes forward: what it has seen expired stays expired. The zero Ring knows no
// key. Safe for concurrent use.
type Ring struct {
	keys atomic.Pointer[keySet]
	// latest is the latest instant that Verify was given, in ns since 1970.
	latest atomic.Int64
}

type keySet struct {
	current *signer
	byID    map[string]*signer
}

// signer keys an HMAC once, and clones nothing: its states are used again.
type signer struct {
	id     string
	until  time.Time
	states sync.Pool
}

type state struct {
	mac     hash.Hash
	scratch []byte
}

// NewRing signs with current and verifies with previous too.
func NewRing(current Key, previous ...Key) (*Ring, error) {
	r := new(Ring)
	return r, r.Rotate(current, previous...)
}

// Rotate replaces all keys at once: a token of a key that is not named any
// more is refused from now on. On an error nothing changes.
func (r *Ring) Rotate(current Key, previous ...Key) error {
	if len(previous) >= maxKeys {
		return fmt.Errorf("%d token keys: at most %d", len(previous)+1, maxKeys)
	}
	if !current.Until.IsZero() {
		return fmt.Errorf("token key %.80q signs, so it cannot have an end: name another one as the current key", current.ID)
	}
	set := &keySet{byID: make(map[string]*signer, len(previous)+1)}
	for _, key := range append([]Key{current}, previous...) {
		switch {
		case key.ID == "" || len(key.ID) > maxKeyID || !utf8.ValidString(key.ID):
			return fmt.Errorf("token key id of %d bytes: use 1–%d of UTF-8", len(key.ID), maxKeyID)
		case len(key.Secret) < MinKey:
			return fmt.Errorf("token key %q has %d bytes: use at least %d random ones", key.ID, len(key.Secret), MinKey)
		case set.byID[key.ID] != nil:
			return fmt.Errorf("token key %q is there twice", key.ID)
		}
		set.byID[key.ID] = newSigner(key)
	}
	set.current = set.byID[current.ID]
	r.keys.Store(set)
	return nil
}

func newSigner(key Key) *signer {
	secret := slices.Clone(key.Secret)
	return &signer{id: key.ID, until: key.Until, states: sync.Pool{New: func() any {
		return &state{mac: hmac.New(sha256.New, secret), scratch: make([]byte, 0, 1024)}
	}}}
}

// sign returns the MAC over the root of t: all of it but the caveats.
func (s *signer) sign(t *nacre.Token) (mac [sha256.Size]byte, err error) {
	st := s.states.Get().(*state)
	defer s.states.Put(st)
	st.scratch, err = appendRoot(st.scratch[:0], t)
	if err != nil {
		return mac, err
	}
	st.mac.Reset()
	st.mac.Write(st.scratch)
	st.scratch = st.mac.Sum(st.scratch[:0])
	return [sha256.Size]byte(st.scratch), nil
}

// Mint signs t with the current key. The caller fills in all but KeyID,
// Caveats and MAC, which must be empty; ID must be fresh and unguessable. The
// result shares no memory with t.
func (r *Ring) Mint(t nacre.Token) (nacre.Token, error) {
	set := r.keys.Load()
	if set == nil {
		return nacre.Token{}, ErrUnknownKey
	}
	if t.KeyID != "" || t.Caveats != nil || t.MAC != [sha256.Size]byte{} {
		return nacre.Token{}, fmt.Errorf("%w: it is minted already: attenuate it instead", ErrMalformed)
	}
	var err error
	if t.Constraints, err = normal(t.Constraints); err != nil {
		return nacre.Token{}, err
	}
	t.KeyID, t.Uses = set.current.id, cloneInt(t.Uses)
	t.Issued, t.Expires = plainTime(t.Issued), plainTime(t.Expires)
	if err := checkRoot(&t); err != nil {
		return nacre.Token{}, err
	}
	if t.MAC, err = set.current.sign(&t); err != nil {
		return nacre.Token{}, err
	}
	return t, checkSize(&t)
}

// plainTime drops what a token does not say: a zone and a monotonic reading.
func plainTime(t time.Time) time.Time { return t.Round(0).UTC() }

func cloneInt(n *int) *int {
	if n == nil {
		return nil
	}
	own := *n
	return &own
}

// checkRoot refuses a token that lacks a part, or has one that is out of bounds.
func checkRoot(t *nacre.Token) error {
	switch {
	case !isID(t.ID):
		return fmt.Errorf("%w: id %.80q: use 1–%d letters, digits, dots, dashes or _", ErrMalformed, t.ID, maxID)
	case t.KeyID == "" || len(t.KeyID) > maxKeyID || !utf8.ValidString(t.KeyID):
		return fmt.Errorf("%w: key id of %d bytes", ErrMalformed, len(t.KeyID))
	case t.Principal == "" || len(t.Principal) > maxPrincipal || !utf8.ValidString(t.Principal):
		return fmt.Errorf("%w: principal of %d bytes: use 1–%d of UTF-8", ErrMalformed, len(t.Principal), maxPrincipal)
	case t.Capability == "" || len(t.Capability) > maxCapability || !utf8.ValidString(string(t.Capability)):
		return fmt.Errorf("%w: capability of %d bytes: use 1–%d of UTF-8", ErrMalformed, len(t.Capability), maxCapability)
	case t.Authority == [sha256.Size]byte{}:
		return fmt.Errorf("%w: it is bound to nobody's roles and attributes", ErrMalformed)
	case t.Expires.IsZero() || !t.Issued.Before(t.Expires):
		return fmt.Errorf("%w: it expires before it begins", ErrMalformed)
	case t.Uses != nil && (*t.Uses < 1 || *t.Uses > maxNumber):
		return fmt.Errorf("%w: %d uses: use 1–%d, or none named for any number", ErrMalformed, *t.Uses, maxNumber)
	case len(t.Caveats) > MaxCaveats:
		return fmt.Errorf("%w: handed down %d times: at most %d", ErrMalformed, len(t.Caveats), MaxCaveats)
	}
	return nil
}

// isID accepts what a log, a file and a command line keep as it is.
func isID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isWord(c) && c != '.' && c != '-' && c != ':' {
			return false
		}
	}
	return true
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// clock returns the latest instant the ring has been given, or the zero time,
// at which nothing is good, for an instant that cannot be.
func (r *Ring) clock(now time.Time) time.Time {
	if year := now.Year(); year < 1970 || year > lastYear {
		return time.Time{}
	}
	for nanos := now.UnixNano(); ; {
		latest := r.latest.Load()
		switch {
		case nanos < latest:
			return time.Unix(0, latest)
		case nanos == latest || r.latest.CompareAndSwap(latest, nanos):
			return now
		}
	}
}
