package basis

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/memory"
	"github.com/nacre-dev/nacre/internal/pluginhost"
)

// Kin is a session's place among agents that asked for one another (M-69). With its zero
// value a person began the session, and its agent asks for nobody.
type Kin struct {
	// Parent is the session whose agent asked for this one, and Row that run's row in the ledger.
	Parent nacre.SessionID
	Row    string
	// Handed is what a sub-agent was given; nil for a session that a person began.
	Handed *Handed
	// Offer gives the tools by which the session's agent asks for sub-agents; nil for none.
	Offer func() []nacre.Tool
}

// Handed is what a sub-agent was given of what its parent has.
type Handed struct {
	// Principal is who its calls act for: one under its parent's, with the words of the
	// operator that its parent had, and none of the task.
	Principal nacre.Principal
	// Rules are all that it may reach.
	Rules []nacre.EgressRule
	// Tools are those it was given, each with its capability.
	Tools map[nacre.ToolName]nacre.CapabilityID
	// Check says why its token for a tool is not good now; a [*nacre.Refusal].
	Check func(tool nacre.ToolName) error
	// Told is what its parent had been told when it asked.
	Told nacre.Label
	// Memory is what it works with.
	Memory memory.Working
	// Over is told, when the session closes, whether an outsider's words have entered it.
	Over func(tainted bool)
}

// FactParent names, in a receipt, the session whose agent asked for the work.
const FactParent = "parent"

// Working is the memory that the session works with.
func (k Kin) Working() memory.Working {
	if k.Handed == nil {
		return memory.Working{}
	}
	return k.Handed.Memory
}

// Has tells whether the session may know a capability at all.
func (k Kin) Has(c nacre.Capability) bool {
	return k.Handed == nil || k.Handed.Tools[c.Tool] == c.ID
}

// Needed are the plugins that have a tool of the session's.
func (k Kin) Needed(found []pluginhost.Found) []pluginhost.Found {
	if k.Handed == nil {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(f pluginhost.Found) bool {
		for _, tool := range f.Manifest.Provides.Tools {
			if k.Handed.Tools[tool.Name] != "" {
				return false
			}
		}
		return true
	})
}

// Tools are those by which the session's agent asks for others.
func (k Kin) Tools() []nacre.Tool {
	if k.Offer == nil {
		return nil
	}
	return k.Offer()
}

// Holds refuses a sub-agent's call for which it has no token that is good, with a record.
func (k Kin) Holds(ctx context.Context, b *Basis, call nacre.Call) error {
	if k.Handed == nil {
		return nil
	}
	err := k.Handed.Check(call.Tool)
	if err == nil {
		return nil
	}
	detail, _ := json.Marshal(map[string]any{"code": nacre.CodeUnauthorized}) // a word
	// The recorder itself stops the session if it fails.
	_ = b.Recorder.Append(context.WithoutCancel(ctx), nacre.Record{
		Kind: nacre.KindCallReject, Source: "core", Topic: "tool.invoke." + string(call.Tool), Correlation: call.Correlation,
		Outcome: nacre.OutcomeRejected, Reason: string(nacre.ReasonTokenRefused), Detail: detail,
	})
	return err
}

// Over tells how the session was, when it closes.
func (k Kin) Over(tainted bool) {
	if k.Handed != nil {
		k.Handed.Over(tainted)
	}
}
