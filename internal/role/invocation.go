package role

import (
	"errors"
	"fmt"

	"github.com/nacre-dev/nacre/internal/atom"
)

// Invocation is everything that an orchestrator needs to start an agent by
// itself, such as with Claude Code's Agent tool.
type Invocation struct {
	AgentID       string `json:"agent_id" toml:"agent_id"`
	SubagentType  string `json:"subagent_type" toml:"subagent_type"`
	Isolation     string `json:"isolation" toml:"isolation"`
	Description   string `json:"description" toml:"description"`
	Prompt        string `json:"prompt" toml:"prompt"`
	VerifyCommand string `json:"verify_command" toml:"verify_command"`
	// LedgerRow is what the ledger will hold, in words: nothing is written.
	LedgerRow string `json:"ledger_row" toml:"ledger_row"`
	DNA       string `json:"dna" toml:"dna"`
	SpecSHA   string `json:"spec_sha" toml:"spec_sha"`
}

// Prepare composes a task into an Invocation (S-10). verify is the command
// that judges what comes back, dna the run's identity. It writes nothing.
func Prepare(r Resolved, t atom.Task, verify, dna string) (Invocation, error) {
	prompt, err := Compose(r, t)
	if err != nil {
		return Invocation{}, err
	}
	if t.AgentID == "" {
		return Invocation{}, errors.New("task.agent-id is missing: write one, or let nacre task run allocate it")
	}
	parent := first(t.Parent, "none")
	return Invocation{
		AgentID: t.AgentID, SubagentType: r.SubagentType, Isolation: r.Isolation,
		Description: fmt.Sprintf("%s agent %.12s", r.Name, t.AgentID), Prompt: prompt, VerifyCommand: verify,
		LedgerRow: fmt.Sprintf("running agent-id=%s role=%s parent=%s", t.AgentID, r.Name, parent),
		DNA:       dna, SpecSHA: t.SpecSHA(),
	}, nil
}
