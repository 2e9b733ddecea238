// Package acceptance keeps the policy that a person accepted last, after they had seen
// what it decides otherwise (U-42). It promises that what is read back is the text
// that was accepted, or an error, and that each acceptance is recorded before it
// counts. It does not refuse sessions: [installation.Installation.PolicySeen] does.
package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/internal/disk"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/operator"
	"github.com/nacre-dev/nacre/policy"
)

const (
	// chainName begins the names of the chains of what was accepted.
	chainName = "policy-"
	// kind of their records.
	kind nacre.Kind = "policy.accept"
)

// accepted is a policy and who accepted it. The zero value is the shipped policy.
type accepted struct {
	installation.AcceptedPolicy
	Name string    `json:"name"` // of the file, whose ending tells its language
	Text string    `json:"text"`
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// Policy is the policy that was accepted last; the shipped one where none was.
func Policy(inst *installation.Installation) (*policy.Policy, error) {
	path := inst.AcceptedPolicyFile()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return policy.Shipped(), nil
	}
	if err != nil {
		return nil, err
	}
	var a accepted
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, damaged(path, err)
	}
	p := policy.Shipped()
	if a.Name != "" {
		if p, err = policy.Parse(a.Name, []byte(a.Text)); err != nil {
			return nil, damaged(path, err)
		}
	}
	if p.Version() != a.Version {
		return nil, damaged(path, errors.New("the text is not that of the version"))
	}
	return p, nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("%s is damaged (%w): remove it, and accept the policy again with nacre policy accept", path, err)
}

// Accept records that a person has seen the policy in force, whose version they name,
// and keeps it as the accepted one.
func Accept(ctx context.Context, inst *installation.Installation, version, by string) (err error) {
	now := accepted{By: by, Time: inst.Options.Now().UTC()}
	if now.Name, now.Text, now.Version, err = InForce(inst); err != nil {
		return err
	}
	if now.Version != version {
		return &config.Error{Err: fmt.Errorf("the policy in force is %s, not %s: nacre policy diff --replay shows what it decides otherwise", now.Version, version)}
	}
	chain, closed, err := operator.Chain(ctx, inst, chainName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	detail, err := json.Marshal(map[string]any{"by": by, "version": version})
	if err != nil {
		return err
	}
	record := nacre.Record{Time: now.Time, Kind: kind, Source: "operator", Outcome: "accepted", Detail: detail}
	if err := chain.Commit(context.WithoutCancel(ctx), record); err != nil {
		return err
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return disk.Write(inst.AcceptedPolicyFile(), data, 0o600)
}

// InForce is the policy as it is written now, with its file and text; the shipped one has no file.
func InForce(inst *installation.Installation) (name, text, version string, err error) {
	path, err := installation.PolicyFile(inst.Registry.Paths().Config)
	if err != nil || path == "" {
		return "", policy.ShippedText(), policy.Shipped().Version(), err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", "", err
	}
	p, err := policy.Parse(path, data)
	if err != nil {
		return "", "", "", &config.Error{Err: err}
	}
	return path, string(data), p.Version(), nil
}
