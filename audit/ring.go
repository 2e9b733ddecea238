package audit

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit/internal/keyfile"
)

// KindKeyRotate is the index record with which one signing key introduces the
// next, and the next MAC key by its id.
const KindKeyRotate nacre.Kind = "key.rotate"

// The domains of the statement of a rotation and of the id of a MAC key.
const (
	rotationDomain = "nacre-audit-rotation-v1\n"
	macIDDomain    = "nacre-audit-mac-id-v1\n"
)

// rotation is the detail of a key.rotate record. Its signature is the old key's.
type rotation struct {
	// Genesis is the index's: a statement counts in its own installation only.
	Genesis   Digest `json:"genesis"`
	MACKey    Digest `json:"mac_key"`
	Next      string `json:"next"`
	PublicKey string `json:"public_key"`
	Signature string `json:"signature,omitempty"`
}

func (r rotation) payload() []byte {
	r.Signature = ""
	return signable(r)
}

// rotationRecord is the record with which the old keys introduce the new ones.
func rotationRecord(genesis Digest, old, next Keys, now time.Time) (nacre.Record, error) {
	r := rotation{
		Genesis: genesis, MACKey: macID(next.macs[0]),
		Next: hex.EncodeToString(next.Public()), PublicKey: hex.EncodeToString(old.Public()),
	}
	r.Signature = hex.EncodeToString(old.Sign(rotationDomain, r.payload()))
	detail, err := json.Marshal(r)
	return nacre.Record{Kind: KindKeyRotate, Time: now, Source: source, Detail: detail}, err
}

// link is one signing key of an installation.
type link struct {
	key ed25519.PublicKey
	hex string
	// from is the index record that introduced it; heads of the index beyond it are this key's to sign.
	from uint64
}

// ring is the succession of an installation's signing keys, the oldest first,
// as the index tells it.
type ring struct{ links []link }

func ringOf(keys ...ed25519.PublicKey) ring {
	var r ring
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize {
			r.links = append(r.links, link{key: key, hex: hex.EncodeToString(key)})
		}
	}
	return r
}

// find returns the place of a key in the succession, or -1.
func (r ring) find(publicKey string) int {
	for i, l := range r.links {
		if l.hex == publicKey {
			return i
		}
	}
	return -1
}

// at is the place of the key that signs the index's heads at seq. A rotation
// is itself covered by the key that it retires.
func (r ring) at(seq uint64) int {
	place := 0
	for i, l := range r.links {
		if i > 0 && seq > l.from {
			place = i
		}
	}
	return place
}

// rotate takes a key.rotate record of the index: only the last key may introduce another.
func (r *ring) rotate(e Entry, genesis Digest) error {
	var d rotation
	if err := strictUnmarshal(e.Detail, &d); err != nil {
		return fmt.Errorf("%w: index record %d: %w", ErrTampered, e.Seq, err)
	}
	last := r.links[len(r.links)-1]
	next, err := ParsePublicKey(d.Next)
	switch {
	case err != nil || hex.EncodeToString(next) != d.Next:
		return fmt.Errorf("%w: index record %d introduces no key", ErrTampered, e.Seq)
	case d.PublicKey != last.hex || d.Genesis != genesis:
		return fmt.Errorf("%w: index record %d is not a rotation by the key in use", ErrTampered, e.Seq)
	case r.find(d.Next) >= 0 || len(r.links) >= keyfile.Most:
		return fmt.Errorf("%w: index record %d introduces a key again, or more than %d", ErrTampered, e.Seq, keyfile.Most)
	}
	if err := verifySignature(last.key, rotationDomain, d.payload(), d.Signature); err != nil {
		return fmt.Errorf("index record %d: rotation: %w", e.Seq, err)
	}
	r.links = append(r.links, link{next, d.Next, e.Seq})
	return nil
}

// verify checks a head's signature by a key of the succession that was in use
// between the index records low and high.
func (r ring) verify(h Head, low, high uint64) error {
	i := r.find(h.PublicKey)
	if i < 0 || i < r.at(low) || i > r.at(high) {
		return fmt.Errorf("%w: head of chain %.90q names another key than the trusted one in use then", ErrTampered, h.Chain)
	}
	return h.Verify(r.links[i].key)
}

// end is beyond every record of the index.
const end = ^uint64(0)

// macRing knows the secret MAC keys by their ids. A chain.open or key.rotate record names the key of
// what follows. A chain that names none was written with the first key that there was.
type macRing struct {
	sealers []*sealer // the newest first
	ids     []Digest
	current int
}

// newMACRing takes keys of 32 bytes each, one after another, the newest first.
func newMACRing(keys []byte) (*macRing, error) {
	if len(keys)%keyfile.Size != 0 || len(keys) > keyfile.Most*keyfile.Size {
		return nil, fmt.Errorf("MAC keys of %d bytes: each has %d", len(keys), keyfile.Size)
	}
	m := &macRing{}
	for ; len(keys) > 0; keys = keys[keyfile.Size:] {
		m.sealers = append(m.sealers, newSealer(keys[:keyfile.Size]))
		m.ids = append(m.ids, macID(keys[:keyfile.Size]))
	}
	m.current = len(m.sealers) - 1
	return m, nil
}

// switchTo selects the key of the records from here on. An id that is not
// known leaves none.
func (m *macRing) switchTo(id Digest) {
	m.current = -1
	for i, have := range m.ids {
		if have == id {
			m.current = i
		}
	}
}

// follow takes the key that a checkpoint names.
func (m *macRing) follow(id *Digest) {
	if id != nil {
		m.switchTo(*id)
	}
}

// name is the id of a key that is not the first one there was.
func (m *macRing) name(key int) *Digest {
	if key < 0 || key >= len(m.ids)-1 {
		return nil
	}
	return &m.ids[key]
}

// sum is the MAC that belongs to the record; ok is false where its key is not known.
func (m *macRing) sum(hash Digest) (mac Digest, ok bool) {
	if m.current < 0 {
		return mac, false
	}
	return m.sealers[m.current].sum(hash), true
}

// macID names a MAC key without telling it.
func macID(key []byte) Digest { return domainHash(macIDDomain, key) }
