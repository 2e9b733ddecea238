package account

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/canonical"
)

// Check proves a file by a key that is trusted: its signatures, and that each chain's records link
// from the first to the signed end. The links, the counts, the cost and the outcome must be those
// that the records tell. The error wraps [audit.ErrTampered] where something does not hold, and
// says what.
func Check(data []byte, trusted ed25519.PublicKey) (*Account, error) {
	a, err := parse(data)
	if err != nil {
		return nil, err
	}
	if err := a.Receipt.SignedBy(trusted); err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "nacre-receipt-*")
	if err != nil {
		return nil, err
	}
	err = a.prove(root, trusted)
	if err == nil {
		err = a.follow(root)
	}
	return a, errors.Join(err, os.RemoveAll(root))
}

func parse(data []byte) (*Account, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%w: a receipt of more than %d MiB", audit.ErrTampered, MaxFile>>20)
	}
	text, line := bytes.CutSuffix(data, []byte("\n"))
	if !line || !canonical.Is(text) {
		return nil, fmt.Errorf("%w: it is no whole receipt in canonical form; nacre receipt writes one", audit.ErrTampered)
	}
	var a Account
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("%w: it is no receipt: %w", audit.ErrTampered, err)
	}
	if a.V != version || len(a.Chains) == 0 {
		return nil, fmt.Errorf("%w: it is no receipt of version %d, or has no records", audit.ErrTampered, version)
	}
	return &a, nil
}

// prove checks the chains, each against its own signed end, and unpacks them into root.
func (a *Account) prove(root string, trusted ed25519.PublicKey) error {
	var names []string
	for i := range a.Chains {
		c := &a.Chains[i]
		if err := c.Head.Verify(trusted); err != nil {
			return err
		}
		if c.Head.State != audit.HeadClosed {
			return fmt.Errorf("%w: chain %s has no signed end", audit.ErrTampered, c.Head.Chain)
		}
		if err := c.unpack(root); err != nil {
			return err
		}
		report, err := audit.Verify(root, c.Head.Chain, audit.VerifyOptions{PublicKey: trusted, Head: &c.Head})
		if err != nil {
			return err
		}
		if report.Records != c.Head.Seq+1 {
			return fmt.Errorf("%w: chain %s goes on behind its signed end", audit.ErrTampered, c.Head.Chain)
		}
		names = append(names, c.Head.Chain)
	}
	if a.Receipt.Facts[factChains] != strings.Join(names, " ") || !reflect.DeepEqual(a.Receipt.Heads.Chain, a.Chains[len(a.Chains)-1].Head) {
		return fmt.Errorf("%w: it has other chains than were signed", audit.ErrTampered)
	}
	return nil
}

// unpack writes a chain as a folder of its own, as audit reads it.
func (c *Chain) unpack(root string) error {
	if !filepath.IsLocal(c.Head.Chain) || strings.ContainsAny(c.Head.Chain, `/\`) {
		return fmt.Errorf("%w: chain %.40q", audit.ErrTampered, c.Head.Chain)
	}
	dir := filepath.Join(root, c.Head.Chain)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("%w: chain %s stands there twice", audit.ErrTampered, c.Head.Chain)
	}
	text := strings.Join(c.Records, "\n") + "\n"
	return errors.Join(os.WriteFile(filepath.Join(dir, "head.json"), c.Head.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "000001.jsonl"), []byte(text), 0o600))
}

// follow makes the links and the counts again from the records, and compares.
func (a *Account) follow(root string) error {
	told, err := a.tell(root)
	if err != nil {
		return err
	}
	digest, err := told.links.digest()
	if err != nil {
		return err
	}
	r := &a.Receipt
	base, commit := told.landed()
	for _, c := range []struct {
		what string
		same bool
	}{
		{"links", digest == r.Facts[factLinks] && told.links.same(a.Links)},
		{"policy", told.policy() == r.PolicyDigest},
		{"counts", told.tally.Counts == r.Counts},
		{"cost", told.tally.Cost == r.Cost},
		{"verdicts", slices.Equal(told.verdicts, r.Verdicts)},
		{"outcome", told.outcome == r.Outcome},
		{"merge", base == r.BaseCommit && commit == r.MergeCommit},
		{"times", told.first.Equal(r.Started) && told.last.Equal(r.Finished)},
	} {
		if !c.same {
			return fmt.Errorf("%w: the %s of the receipt do not follow from its records", audit.ErrTampered, c.what)
		}
	}
	return nil
}

// same compares by what stands in a file.
func (l Links) same(other Links) bool {
	have, err := l.digest()
	want, otherErr := other.digest()
	return err == nil && otherErr == nil && have == want
}

// tell reads the records of all chains, which are in root.
func (a *Account) tell(root string) (*told, error) {
	t := &told{verdicts: []audit.ReceiptVerdict{}, asked: map[string]int{}}
	for _, c := range a.Chains {
		err := audit.Read(root, c.Head.Chain, func(e audit.Entry) error { return t.add(c.Head.Chain, e) })
		if err != nil {
			return nil, err
		}
		t.tally.EndChain()
	}
	t.links.whole()
	return t, nil
}
