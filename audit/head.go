package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre/internal/disk"

	"github.com/nacre-dev/nacre/internal/canonical"
)

// maxHead is the largest head.json in bytes.
const maxHead = 4 << 10

// signatureMember is how a signed document ends: after its sorted members.
const (
	signatureMember = `,"signature":"`
	signedEnd       = len(signatureMember) + 2*ed25519.SignatureSize + len(lineEnd)
)

// HeadState says whether a chain ends at its head.
type HeadState string

// The states of a head.
const (
	HeadOpen   HeadState = "open"
	HeadClosed HeadState = "closed"
)

// Head is a signed statement that a chain reaches a record. Kept on another
// machine it proves later that nothing before it was changed or cut off.
type Head struct {
	Chain string `json:"chain"`
	// Genesis is the random start of the chain, the prev_hash of record 0.
	Genesis Digest `json:"genesis"`
	// PublicKey is for information: a verifier uses the key it trusts.
	PublicKey  string    `json:"public_key"`
	RecordHash Digest    `json:"record_hash"`
	Seq        uint64    `json:"seq"`
	State      HeadState `json:"state"`
	Time       string    `json:"time"`
	V          int       `json:"v"`
	Signature  string    `json:"signature,omitempty"`
}

// payload is what is signed: the canonical members without the last brace.
func (h Head) payload() []byte {
	h.Signature = ""
	return signable(h)
}

// signable is the canonical form of a document without its last brace, or nil
// for what has none, which no signature fits.
func signable(document any) []byte {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	form, err := canonical.JSON(raw)
	if err != nil {
		return nil
	}
	return bytes.TrimSuffix(form, []byte("}"))
}

func signHead(h Head, keys Keys, now time.Time) Head {
	h.V, h.Time, h.PublicKey, h.Signature = version, now.UTC().Format(timeForm), hex.EncodeToString(keys.Public()), ""
	h.Signature = hex.EncodeToString(keys.Sign(headDomain, h.payload()))
	return h
}

var errNoKey = fmt.Errorf("no public key to trust: give the one in %s", PublicKeyFile)

// Verify checks that the trusted key signed the head.
func (h Head) Verify(trusted ed25519.PublicKey) error {
	switch {
	case len(trusted) != ed25519.PublicKeySize:
		return errNoKey
	case h.V != version:
		return fmt.Errorf("%w: head of version %d", ErrTampered, h.V)
	case h.PublicKey != hex.EncodeToString(trusted):
		return fmt.Errorf("%w: head of chain %.90q names another key than the trusted one", ErrTampered, h.Chain)
	case h.State != HeadOpen && h.State != HeadClosed:
		return fmt.Errorf("%w: head in unknown state %.20q", ErrTampered, h.State)
	}
	if err := verifySignature(trusted, headDomain, h.payload(), h.Signature); err != nil {
		return fmt.Errorf("head of chain %.90q: %w", h.Chain, err)
	}
	return nil
}

// Bytes is the head as head.json holds it, newline included.
func (h Head) Bytes() []byte { return signedLine(h.payload(), h.Signature) }

func signedLine(payload []byte, signature string) []byte {
	return []byte(string(payload) + signatureMember + signature + lineEnd + "\n")
}

// ParseHead reads a head in its canonical form. It does not check the signature.
func ParseHead(data []byte) (Head, error) {
	var h Head
	if err := strictUnmarshal(data, &h); err != nil {
		return Head{}, fmt.Errorf("%w: head: %w", ErrTampered, err)
	}
	if !bytes.Equal(h.Bytes(), data) {
		return Head{}, fmt.Errorf("%w: head is not in canonical form", ErrTampered)
	}
	return h, nil
}

// ReadHead reads a chain's head.json and checks that the trusted key signed it for that chain.
func ReadHead(root, chain string, trusted ed25519.PublicKey) (Head, error) {
	h, err := readHead(root, chain)
	if err != nil {
		return Head{}, err
	}
	return h, h.Verify(trusted)
}

// readHead does not check the signature.
func readHead(root, chain string) (Head, error) {
	dir, err := chainDir(root, chain)
	if err != nil {
		return Head{}, err
	}
	data, err := disk.Read(filepath.Join(dir, headFile), maxHead)
	if err != nil {
		return Head{}, err
	}
	h, err := ParseHead(data)
	if err != nil {
		return Head{}, err
	}
	if h.Chain != chain {
		return Head{}, fmt.Errorf("%w: head.json of chain %s belongs to chain %.90q", ErrTampered, chain, h.Chain)
	}
	return h, nil
}
