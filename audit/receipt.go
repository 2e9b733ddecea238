package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/disk"
)

// Receipt is the signed account of one run (M-59). It holds the heads that its
// chain and the index must still reach whenever it is shown.
type Receipt struct {
	V        int             `json:"v"`
	Session  nacre.SessionID `json:"session"`
	Group    nacre.Group     `json:"group"`
	Started  time.Time       `json:"started"`
	Finished time.Time       `json:"finished"`
	// TaskDigest is the SHA-256 of the task's text, as hex.
	TaskDigest string `json:"task_digest"`
	// Outcome of the run, such as "merged", "rejected" or "failed".
	Outcome string `json:"outcome"`
	ReceiptWork
	Verdicts []ReceiptVerdict `json:"verdicts"`
	Cost     ReceiptCost      `json:"cost"`
	Counts   ReceiptCounts    `json:"counts"`
	// Facts holds what later versions add, by name.
	Facts map[string]string `json:"facts,omitempty"`
	Heads ReceiptHeads      `json:"heads"`
	// PublicKey is for information: a verifier uses the key it trusts.
	PublicKey string `json:"public_key"`
	Signature string `json:"signature,omitempty"`
}

// ReceiptWork is what the work was done on and with, and what became of it.
type ReceiptWork struct {
	// Project is the project's folder or name.
	Project     string `json:"project,omitempty"`
	BaseCommit  string `json:"base_commit,omitempty"`
	MergeCommit string `json:"merge_commit,omitempty"`
	// Brain and Sandbox name what ran: the adapter with its version, the backend.
	Brain        string `json:"brain,omitempty"`
	Sandbox      string `json:"sandbox"`
	PolicyDigest string `json:"policy_digest"`
}

// ReceiptVerdict is the result of one check outside the agent.
type ReceiptVerdict struct {
	Check  string `json:"check"`
	Passed bool   `json:"passed"`
	// Tree names what was checked: a commit or a tree.
	Tree   string `json:"tree,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// ReceiptCost is what a run used. Money is in millionths of a US dollar.
type ReceiptCost struct {
	MicroUSD     int64 `json:"micro_usd"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	ModelCalls   int64 `json:"model_calls"`
}

// ReceiptCounts counts a run's decisions.
type ReceiptCounts struct {
	Allowed  int64 `json:"allowed"`
	Denied   int64 `json:"denied"`
	Asked    int64 `json:"asked"`
	Redacted int64 `json:"redacted"`
	BytesOut int64 `json:"bytes_out"`
	BytesIn  int64 `json:"bytes_in"`
}

// ReceiptHeads are the signed ends of the run's chain and of the index.
type ReceiptHeads struct {
	Chain Head `json:"chain"`
	Index Head `json:"index"`
}

func (r Receipt) payload() []byte {
	r.Signature = ""
	return signable(r)
}

// SignReceipt signs the account. The heads in it must be signed already, by
// the same keys: see [Chain.Head] and [ReadHead].
func SignReceipt(r Receipt, keys Keys) (Receipt, error) {
	if err := keys.check(); err != nil {
		return Receipt{}, err
	}
	r.V, r.PublicKey, r.Signature = version, hex.EncodeToString(keys.Public()), ""
	r.Started, r.Finished = r.Started.UTC().Round(0), r.Finished.UTC().Round(0)
	if r.Verdicts == nil {
		r.Verdicts = []ReceiptVerdict{}
	}
	if err := r.checkHeads(keys.known(), 0, end); err != nil {
		return Receipt{}, fmt.Errorf("sign receipt: %w", err)
	}
	payload := r.payload()
	if payload == nil || len(payload) > MaxReceipt-signedEnd-1 {
		return Receipt{}, errors.New("receipt has no canonical form: check its integers, times and size")
	}
	r.Signature = hex.EncodeToString(keys.Sign(receiptDomain, payload))
	return r, nil
}

func (r Receipt) checkHeads(keys ring, low, high uint64) error {
	if r.Heads.Index.Chain != IndexChain || r.Heads.Chain.Chain == IndexChain {
		return fmt.Errorf("%w: receipt does not hold the heads of a chain and of the index", ErrTampered)
	}
	return errors.Join(keys.verify(r.Heads.Chain, low, high), keys.verify(r.Heads.Index, low, high))
}

// Bytes is the receipt as its file holds it.
func (r Receipt) Bytes() []byte { return signedLine(r.payload(), r.Signature) }

// WriteReceipt puts a signed receipt in a file of mode 0600, at once and durably.
func WriteReceipt(path string, r Receipt) error {
	if r.Signature == "" {
		return errors.New("receipt is not signed: use SignReceipt")
	}
	if err := disk.Replace(path, r.Bytes(), nil); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// ParseReceipt reads a receipt in its canonical form, refusing unknown and
// duplicate keys. It does not check the signature.
func ParseReceipt(data []byte) (Receipt, error) {
	if len(data) > MaxReceipt {
		return Receipt{}, fmt.Errorf("%w: receipt of more than %d bytes", ErrTampered, MaxReceipt)
	}
	var r Receipt
	if err := strictUnmarshal(data, &r); err != nil {
		return Receipt{}, fmt.Errorf("%w: receipt: %w", ErrTampered, err)
	}
	if !bytes.Equal(r.Bytes(), data) {
		return Receipt{}, fmt.Errorf("%w: receipt is not in canonical form", ErrTampered)
	}
	return r, nil
}

// ReadReceipt reads a receipt's file like [ParseReceipt].
func ReadReceipt(path string) (Receipt, error) {
	data, err := disk.Read(path, MaxReceipt)
	if err != nil {
		return Receipt{}, err
	}
	return ParseReceipt(data)
}

// VerifyReceipt checks the receipt's signature by the trusted key, and that
// the chain and the index in root reach the heads in it.
func VerifyReceipt(r Receipt, root string, trusted ed25519.PublicKey) (Report, error) {
	o := VerifyOptions{PublicKey: trusted, Head: &r.Heads.Chain, IndexHead: &r.Heads.Index}
	return steady(root, func() (Report, error) {
		index, err := readIndex(root, o)
		if err == nil {
			err = r.verifySignature(trusted, index.ring)
		}
		if err != nil {
			err = asTampered(err)
			return Report{Chain: r.Heads.Chain.Chain, Problem: err.Error()}, err
		}
		return verifyWithIndex(root, r.Heads.Chain.Chain, o)
	})
}

// SignedBy checks the signatures of the receipt and its heads by one trusted key, without an index.
func (r Receipt) SignedBy(trusted ed25519.PublicKey) error {
	if len(trusted) != ed25519.PublicKeySize {
		return errNoKey
	}
	return errors.Join(r.checkHeads(ringOf(trusted), 0, end), verifySignature(trusted, receiptDomain, r.payload(), r.Signature))
}

// verifySignature accepts the key that was in use at the index's head in the
// receipt or a later one: a key that only an attacker introduced is in no
// succession.
func (r Receipt) verifySignature(trusted ed25519.PublicKey, keys ring) error {
	signer := keys.find(r.PublicKey)
	switch {
	case len(trusted) != ed25519.PublicKeySize:
		return errNoKey
	case r.V != version:
		return fmt.Errorf("%w: receipt of version %d", ErrTampered, r.V)
	case signer < 0 || signer < keys.at(r.Heads.Index.Seq):
		return fmt.Errorf("%w: receipt names another key than the trusted one", ErrTampered)
	}
	if err := verifySignature(keys.links[signer].key, receiptDomain, r.payload(), r.Signature); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	return r.checkHeads(keys, 0, r.Heads.Index.Seq)
}
