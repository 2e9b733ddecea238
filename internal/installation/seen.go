package installation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nacre-dev/nacre/internal/config"
	"github.com/nacre-dev/nacre/policy"
)

// AcceptedPolicy names the policy that a person accepted last.
type AcceptedPolicy struct {
	Version string `json:"version"` // as [policy.Policy.Version] says
}

// AcceptedPolicyFile keeps the policy that a person accepted last.
func (inst *Installation) AcceptedPolicyFile() string {
	return filepath.Join(inst.Registry.Paths().State, "policy-accepted.json")
}

// PolicySeen is an error where the operator wants each policy to be seen before it
// decides, and nobody accepted the one that would (U-42). Whoever installs nacre
// accepts the shipped one.
func (inst *Installation) PolicySeen() error {
	if !inst.Config.Policy.RequireReplay {
		return nil
	}
	seen := AcceptedPolicy{Version: policy.Shipped().Version()}
	data, err := os.ReadFile(inst.AcceptedPolicyFile())
	if err == nil {
		seen = AcceptedPolicy{}
		err = json.Unmarshal(data, &seen)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &config.Error{Err: fmt.Errorf("what policy was accepted cannot be read: %w: remove %s, and accept the policy again", err, inst.AcceptedPolicyFile())}
	}
	if now := inst.Policy.Version(); now != seen.Version {
		return config.Errorf("the policy was changed, and nobody accepted it ([policy] require_replay): nacre policy diff --replay shows what it decides otherwise, and nacre policy accept %s accepts it", now)
	}
	return nil
}
