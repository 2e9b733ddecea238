// Package replay shows what a policy would have decided on what happened. It reads records, which it
// does not verify, and changes nothing. A decision that hangs on values that no record keeps counts as
// undecidable, and is never guessed.
package replay

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/audit"
	"github.com/nacre-dev/nacre/policy"
)

// The limits of a replay: of one exported line, in bytes, and of the examples shown.
const (
	maxAuditLine = 2 << 20
	maxExamples  = 3
)

// Replay counts what a policy would change.
type Replay struct {
	Calls       int      `json:"calls"`
	Same        int      `json:"same"`
	Changed     int      `json:"changed"`
	Undecidable int      `json:"undecidable"`
	Unrecorded  int      `json:"unrecorded"`
	Changes     []Change `json:"changes"`
	// Undecided counts the conditions that decisions hang on.
	Undecided map[string]int `json:"undecided,omitempty"`
	policy    *policy.Policy
	// old decides in place of what was recorded, where it is not nil.
	old *policy.Policy
	at  map[string]int
}

// Change is a decision that would be another.
type Change struct {
	Capability nacre.CapabilityID `json:"capability"`
	Was        string             `json:"was"`
	WouldBe    string             `json:"would_be"`
	Rule       string             `json:"rule"`
	Calls      int                `json:"calls"`
	Examples   []string           `json:"examples"`
}

// New counts what a policy would change of what old, or where it is nil the
// policy of that day, decided.
func New(p, old *policy.Policy) *Replay {
	return &Replay{Changes: []Change{}, Undecided: map[string]int{}, policy: p, old: old, at: map[string]int{}}
}

// Between counts what a policy decides otherwise than an older one on what an installation has
// recorded, which may be nothing yet. root is the folder of its chains.
func Between(old, now *policy.Policy, root string) (*Replay, error) {
	r := New(now, old)
	if found, err := filepath.Glob(filepath.Join(root, "*")); err != nil || len(found) == 0 {
		return r, err
	}
	return r, Read(root, r.Take)
}

// decidedCall is what a record keeps of a decision on a call.
type decidedCall struct {
	Request  *policy.Recorded `json:"request"`
	Verdict  *nacre.Verdict   `json:"verdict"`
	Code     nacre.ReasonCode `json:"code"`
	Rule     string           `json:"rule"`
	Question string           `json:"question"`
}

// Take replays one record, where it is of a call that policy decided on.
func (r *Replay) Take(chain string, e audit.Entry) error {
	switch e.Kind {
	case nacre.KindCallBegin, nacre.KindCallReject, "call.dry_run":
	default:
		return nil
	}
	var call decidedCall
	if err := json.Unmarshal(e.Detail, &call); err != nil {
		return fmt.Errorf("record %d: %w", e.Seq, err)
	}
	was, decided := call.was(e)
	if !decided {
		return nil
	}
	r.Calls++
	if call.Request == nil {
		r.Unrecorded++
		return nil
	}
	d, undecided := decide(r.policy, *call.Request)
	if r.old != nil {
		before, unknown := decide(r.old, *call.Request)
		was, undecided = before.Verdict, cmp.Or(undecided, unknown)
	}
	switch {
	case undecided != "":
		r.Undecidable++
		r.Undecided[undecided]++
	case d.Verdict == was:
		r.Same++
	default:
		r.change(was, d, call.Request.Capability, fmt.Sprintf("%s#%d", chain, e.Seq))
	}
	return nil
}

// decide is what a policy and the kernel decide on a recorded call.
func decide(p *policy.Policy, request policy.Recorded) (d nacre.Decision, undecided string) {
	d, undecided = p.Replay(request)
	if request.HighRisk && d.Verdict == nacre.Allow {
		d.Verdict = nacre.Ask // which the kernel does of every call of such a tool
	}
	return d, undecided
}

func (r *Replay) change(was nacre.Verdict, d nacre.Decision, capability nacre.CapabilityID, example string) {
	r.Changed++
	key := fmt.Sprintf("%q %v %v %q", capability, was, d.Verdict, d.Rule)
	i, known := r.at[key]
	if !known {
		i = len(r.Changes)
		r.at[key] = i
		r.Changes = append(r.Changes, Change{Capability: capability, Was: was.String(), WouldBe: d.Verdict.String(), Rule: d.Rule})
	}
	c := &r.Changes[i]
	if c.Calls++; len(c.Examples) < maxExamples {
		c.Examples = append(c.Examples, example)
	}
}

// was is what was decided. A call that never came to the policy has no decision.
func (c decidedCall) was(e audit.Entry) (verdict nacre.Verdict, decided bool) {
	if c.Verdict != nil {
		return *c.Verdict, true
	}
	code := c.Code
	if e.Kind == nacre.KindCallReject {
		code = nacre.ReasonCode(e.Reason)
	}
	switch code { //nolint:exhaustive // all others are decisions that let through or refuse
	case nacre.ReasonUnknownTool, nacre.ReasonInvalidArguments, nacre.ReasonMalformed, nacre.ReasonGroupNotAllowed, nacre.ReasonRateLimited,
		nacre.ReasonTokenRefused, nacre.ReasonTokenRevoked, nacre.ReasonTokenExpired, nacre.ReasonTokenSpent, nacre.ReasonNoSession,
		nacre.ReasonInternal, nacre.ReasonAuditFailed, "caller_gone":
		return nacre.Deny, false
	case nacre.ReasonRuleAsk, nacre.ReasonHighRisk, nacre.ReasonTainted, nacre.ReasonDefaultAsk,
		nacre.ReasonDenied, nacre.ReasonUnanswered, nacre.ReasonInterrupted, nacre.ReasonNoApprover:
		return nacre.Ask, true
	}
	if e.Kind == nacre.KindCallReject {
		return nacre.Deny, c.Rule != "" || e.Stage == 4
	}
	if c.Question != "" {
		return nacre.Ask, true
	}
	return nacre.Allow, true
}

// Read gives fn the records of a chain, of a folder of chains, or of
// exported lines.
func Read(path string, fn func(chain string, e audit.Entry) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return readExported(path, fn)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	chains := 0
	for _, entry := range entries {
		if entry.IsDir() {
			chains++
			if err := readChain(path, entry.Name(), fn); err != nil {
				return err
			}
		}
	}
	if chains > 0 {
		return nil
	}
	return readChain(filepath.Dir(path), filepath.Base(path), fn)
}

func readChain(root, chain string, fn func(string, audit.Entry) error) error {
	return audit.Read(root, chain, func(e audit.Entry) error { return fn(chain, e) })
}

func readExported(path string, fn func(string, audit.Entry) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), maxAuditLine)
	n := 0
	for lines.Scan() {
		n++
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		var e audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := fn(filepath.Base(path), e); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if n == 0 && lines.Err() == nil {
		return errors.New("no records")
	}
	return lines.Err()
}
