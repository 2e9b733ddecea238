package nacre

import (
	"context"
	"encoding/json"
	"time"
)

// Kind says what a record tells. Kinds are stable: programs select on them.
type Kind string

// The kinds of record.
const (
	KindChainOpen      Kind = "chain.open"
	KindChainClose     Kind = "chain.close"
	KindSessionOpen    Kind = "session.open"
	KindSessionClose   Kind = "session.close"
	KindSessionStop    Kind = "session.stop" // who told a session to stop
	KindSandboxStart   Kind = "sandbox.start"
	KindSandboxExit    Kind = "sandbox.exit"
	KindCallBegin      Kind = "call.begin"
	KindCallEnd        Kind = "call.end"
	KindCallReject     Kind = "call.reject"
	KindCallHandler    Kind = "call.handler"
	KindApprovalAsk    Kind = "approval.ask"
	KindApprovalReply  Kind = "approval.reply"
	KindApprovalClaim  Kind = "approval.claim"  // who settled a question, and how, before anybody acts on it
	KindApprovalRefuse Kind = "approval.refuse" // a press that decided nothing: late, twice, by a stranger or without the right
	KindEgress         Kind = "egress"
	KindModelBegin     Kind = "model.begin"
	KindModelEnd       Kind = "model.end"
	KindBrainEvent     Kind = "brain.event"
	KindGateRefuse     Kind = "gate.refuse" // a gate of the task's role refused a call, as the host heard before the agent did
	KindGateWarn       Kind = "gate.warn"   // a gate that warns or advises has something against a call, which happened
	KindPlugin         Kind = "plugin"
	KindMemory         Kind = "memory"
	KindVerify         Kind = "verify"
	KindMergeIntent    Kind = "merge.intent"
	KindMergeDone      Kind = "merge.done"
	KindEvent          Kind = "event" // what became of an event that could have started an agent
	KindOutcome        Kind = "outcome"
	KindLedger         Kind = "ledger"        // a row of the ledger comes to stand as Outcome says
	KindChild          Kind = "child"         // an agent asks for another one, and what becomes of that (M-69)
	KindMountGrant     Kind = "mount.grant"   // which folder of the host is shown inside, before it is (M-42)
	KindMountEnd       Kind = "mount.end"     // a folder was taken away
	KindMountRefuse    Kind = "mount.refused" // an agent asked for a folder that is shown to nobody
	KindRunKept        Kind = "run.kept"      // how far a run came is in the store, for another machine to carry it on
)

// The outcomes of a crossing of the door (D-16). Other kinds use words of their own.
const (
	OutcomeRouted    = "routed"
	OutcomeRejected  = "rejected"
	OutcomeSanitized = "sanitized"
	OutcomeError     = "error"
	OutcomeAllowed   = "allowed"
	OutcomeDenied    = "denied"
)

// Record is one fact about what happened, before it enters a chain. It never
// holds an argument's value or a secret, only names, counts and digests.
type Record struct {
	Kind        Kind        `json:"kind"`
	Time        time.Time   `json:"time"`
	Group       Group       `json:"group,omitempty"`
	Session     SessionID   `json:"session,omitempty"`
	Source      string      `json:"source,omitempty"`
	Topic       string      `json:"topic,omitempty"`
	Correlation Correlation `json:"correlation,omitempty"`
	Stage       int         `json:"stage,omitempty"`
	Outcome     string      `json:"outcome,omitempty"`
	Reason      string      `json:"reason,omitempty"`
	// Detail is a JSON object with what the kind adds. It must not hold floats.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Recorder writes records to an audit chain. Both methods may be called
// concurrently; records enter the chain in the order the calls return their
// sequence. A store that fails makes every later call fail too.
type Recorder interface {
	// Append puts the record in the chain; it is durable with the next group commit.
	Append(ctx context.Context, r Record) error
	// Commit returns only when the record and all before it are durable (K-21).
	Commit(ctx context.Context, r Record) error
}
