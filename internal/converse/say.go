package converse

import (
	"context"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/conversation"
	"github.com/nacre-dev/nacre/internal/installation"
	"github.com/nacre-dev/nacre/internal/registry"
	"github.com/nacre-dev/nacre/internal/seal"
	"github.com/nacre-dev/nacre/internal/task"
)

// Saying is what a person says to an agent at their terminal (M-01).
type Saying struct {
	// Group is whose memory, tools and policy apply; empty is [installation.DefaultGroup].
	Group nacre.Group
	Words string
	// Anew begins another conversation, in place of the one that rests.
	Anew   bool
	Asking seal.Asking
	Tell   func(nacre.Step)
}

// Said is what came of it.
type Said struct {
	Session nacre.SessionID `json:"session"`
	// Answer is what the agent said last.
	Answer string `json:"answer"`
	// Ended is "done", or why the turn failed.
	Ended string `json:"ended"`
	Brain string `json:"brain,omitempty"`
	// Cost is in millionths of a dollar.
	Cost    int64  `json:"cost_microusd"`
	Receipt string `json:"receipt,omitempty"`
}

// Done reports whether nothing failed.
func (s Said) Done() bool { return task.Visit{Ended: s.Ended}.Done() }

// Say is one turn of the conversation of the terminal: the words are the operator's,
// and what the agent says last is the answer. A group has one such conversation.
func Say(ctx context.Context, inst *installation.Installation, s Saying) (Said, error) {
	v := conversation.Request{
		ID: registry.NewID(), Group: s.Group, Kind: "repl", Title: "said at a terminal", Said: s.Words,
		Frame: "The operator speaks to you at their terminal, and reads what you say last. They say:",
		From:  nacre.Source{Provenance: nacre.SeenOperator, Name: "what the operator said at their terminal"},
		Key:   "repl", Idle: inst.Config.Serve.Idle(), Tell: s.Tell,
	}
	if v.Group == "" {
		v.Group = installation.DefaultGroup
	}
	if s.Anew {
		v.Idle = time.Nanosecond // whatever rests has rested too long
	}
	done, err := Attend(ctx, inst, v, nil, s.Asking)
	return Said{v.ID, done.Report, done.Ended, done.Brain, done.Cost, done.Receipt}, err
}
