// Package account promises one file that accounts for a piece of work (M-59, M-68). It has the
// records of all its openings, what they link from the policy to what was remembered, and a signed
// receipt over both. A stranger with the public key and nothing else can check it. A page for a
// person is made from it.
//
// The links and every count are a projection of the records, made again when the file is
// checked. What the records hold is what the audit holds: redacted, and with what the
// agent's program was asked and answered in excerpts.
package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/internal/canonical"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/receipt"
)

const (
	version = 1
	// MaxFile is the longest file, in bytes.
	MaxFile = 64 << 20
	// The facts that are added to a receipt: what is accounted for, of which kind, by
	// which chains, and the digest of the links.
	factWork, factKind, factChains, factLinks = "work", "kind", "chains", "links_sha256"
)

//go:embed receipt.schema.json
var schema []byte

// Schema is the JSON Schema of the file.
func Schema() []byte { return bytes.Clone(schema) }

// Account is the file.
type Account struct {
	V int `json:"v"`
	// Receipt is signed; it names the links' digest and the chains.
	Receipt audit.Receipt `json:"receipt"`
	Links   Links         `json:"links"`
	Chains  []Chain       `json:"chains"`
}

// Chain is one opening: its signed end, and its records as their lines, from the first on.
type Chain struct {
	Head    audit.Head `json:"head"`
	Records []string   `json:"records"`
}

// ErrLive is work that goes on.
var ErrLive = errors.New("it is not over yet: its account is complete when it has ended")

// Of accounts for the work that a name means: a session's latest, or that of a row of the
// ledger.
func Of(ctx context.Context, inst *installation.Installation, name string) (*Account, error) {
	work, err := receipt.Find(ctx, inst, name)
	if err != nil {
		return nil, err
	}
	if s, err := inst.Registry.Show(work.Session); err == nil && s.Live() && s.LatestWork() == work.Name {
		return nil, fmt.Errorf("session %s: %w", work.Session, ErrLive)
	}
	a := &Account{V: version}
	size := 0
	for _, name := range work.Chains {
		head, err := audit.ReadHead(inst.AuditRoot(), name, inst.PublicKey())
		if err != nil {
			return nil, fmt.Errorf("%w\nwhere the keys were rotated since, nacre audit export writes it with the index, which knows the earlier ones", err)
		}
		if head.State != audit.HeadClosed {
			return nil, fmt.Errorf("chain %s has no signed end yet: nacre sessions list ends what a killed process left", name)
		}
		records, err := linesOf(filepath.Join(inst.AuditRoot(), name), MaxFile/2-size)
		if err != nil {
			return nil, fmt.Errorf("chain %s: %w", name, err)
		}
		for _, line := range records {
			size += len(line)
		}
		a.Chains = append(a.Chains, Chain{head, records})
	}
	if err := a.sign(inst, work); err != nil {
		return nil, err
	}
	data, err := a.Bytes()
	if err != nil {
		return nil, err
	}
	return Check(data, inst.PublicKey()) // nothing is given away that would not hold
}

// linesOf are the records of a chain as they stand in its files, from the first on.
func linesOf(dir string, most int) ([]string, error) {
	var lines []string
	for n := 1; ; n++ {
		name := filepath.Join(dir, fmt.Sprintf("%06d.jsonl", n))
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && n > 1 {
			return lines, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("its first records were pruned")
		}
		if err == nil && info.Size() > int64(most) {
			err = fmt.Errorf("its records are longer than %d MiB: nacre audit export writes them of any length", MaxFile/2>>20)
		}
		if err != nil {
			return nil, err
		}
		data, err := disk.Read(name, int64(most))
		if err != nil {
			return nil, err
		}
		most -= len(data)
		for line := range strings.Lines(string(data)) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
}

// sign makes the links and the receipt from the records.
func (a *Account) sign(inst *installation.Installation, work receipt.Work) error {
	told, err := a.tell(inst.AuditRoot())
	if err != nil {
		return err
	}
	a.Links = told.links
	r := base(inst, work)
	if r.Facts == nil {
		r.Facts = map[string]string{}
	}
	r.Group, r.Outcome, r.PolicyDigest, r.Counts, r.Cost, r.Verdicts = told.group, told.outcome, told.policy(), told.tally.Counts, told.tally.Cost, told.verdicts
	r.Started, r.Finished, r.Sandbox = told.first, told.last, told.sandbox
	r.BaseCommit, r.MergeCommit = told.landed()
	digest, err := a.Links.digest()
	if err != nil {
		return err
	}
	r.Facts[factWork], r.Facts[factKind], r.Facts[factChains], r.Facts[factLinks] = work.Name, work.Kind, strings.Join(work.Chains, " "), digest
	r.Heads.Chain = a.Chains[len(a.Chains)-1].Head
	if r.Heads.Index, err = audit.ReadHead(inst.AuditRoot(), audit.IndexChain, inst.PublicKey()); err != nil {
		return err
	}
	a.Receipt, err = audit.SignReceipt(r, inst.Keys)
	return err
}

// base is what the receipt of the work's own end says that no record does, where there is
// one: what was asked, the project, the agent.
func base(inst *installation.Installation, work receipt.Work) audit.Receipt {
	r, err := audit.ReadReceipt(inst.ReceiptPath(work.Session))
	if err != nil || r.SignedBy(inst.PublicKey()) != nil || r.Heads.Chain.Chain != work.Chains[len(work.Chains)-1] {
		return audit.Receipt{Session: work.Session, TaskDigest: work.TaskDigest}
	}
	return r
}

// Bytes is the file: canonical JSON and a newline.
func (a *Account) Bytes() ([]byte, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	form, err := canonical.JSON(raw)
	if err != nil {
		return nil, err
	}
	return append(form, '\n'), nil
}

func (l Links) digest() (string, error) {
	raw, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	form, err := canonical.JSON(raw)
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:]), err
}

// told is what the records of the work tell.
type told struct {
	links    Links
	tally    receipt.Tally
	verdicts []audit.ReceiptVerdict
	group    nacre.Group
	outcome  string
	sandbox  string
	// asked is where the latest question stands about what has a digest.
	asked map[string]int

	first, last time.Time
}

func (t *told) policy() string {
	if n := len(t.links.Policy); n > 0 {
		return t.links.Policy[n-1].What
	}
	return ""
}

// landed is the commit before the work landed, and the one with it.
func (t *told) landed() (base, commit string) {
	if n := len(t.links.Landed); n > 0 {
		return t.links.Landed[n-1].From, t.links.Landed[n-1].Commit
	}
	return "", ""
}
