package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/redact"
	"github.com/nacre-dev/nacre/internal/wire"
)

// The limits of the traces that a kernel keeps in memory (K-19).
const (
	// MaxTraces are kept; the oldest make room.
	MaxTraces = 10_000
	// maxTracedArguments is the most of a call's arguments that a trace keeps, in
	// bytes; of larger ones it keeps none.
	maxTracedArguments = 1 << 10
	// TraceVersion is that of an exported trace.
	TraceVersion = 1
)

// Event is what a trace is of.
type Event string

// The events.
const (
	EventInvoke  Event = "invoke"
	EventExpand  Event = "expand"
	EventDeny    Event = "deny"
	EventAsk     Event = "ask"
	EventApprove Event = "approve"
)

// Trace is one audited event (K-19), for a program that looks back at what this
// kernel did. The audit chain is the record that counts.
type Trace struct {
	Version  int    `json:"version"`
	ActionID string `json:"action_id"`
	Event    Event  `json:"event_type"`
	TraceSubject
	TraceRequest
	TraceRoute
	TraceResult
}

// TraceSubject is who acted on what, and under which grant.
type TraceSubject struct {
	Capability nacre.CapabilityID `json:"capability_id"`
	Principal  string             `json:"principal_id"`
	Group      nacre.Group        `json:"group,omitempty"`
	Session    nacre.SessionID    `json:"session,omitempty"`
	TokenID    string             `json:"token_id,omitempty"`
}

// TraceRequest is what was asked for.
type TraceRequest struct {
	// InvokedAt is when the event happened: of an invoke and a deny, when the call
	// came, or, where a person was asked about it, when they had answered.
	InvokedAt   time.Time         `json:"invoked_at"`
	Sensitivity nacre.Sensitivity `json:"sensitivity"`
	// Arguments are redacted; null where there were too many to keep.
	Arguments json.RawMessage `json:"args"`
	Mode      nacre.Mode      `json:"response_mode"`
}

// TraceRoute is which way it went.
type TraceRoute struct {
	Driver string `json:"driver_id,omitempty"`
	// Attempts are the drivers that failed before Driver was tried.
	Attempts []Attempt `json:"attempts,omitempty"`
	HandleID string    `json:"handle_id,omitempty"`
	// Correlation is the agent's own name of the call.
	Correlation nacre.Correlation `json:"correlation,omitempty"`
	// Tool is the name that the agent called, where there is such a tool.
	Tool nacre.ToolName `json:"tool,omitempty"`
}

// TraceResult is what came of it.
type TraceResult struct {
	// Outcome is routed, sanitized, rejected or error.
	Outcome string `json:"outcome,omitempty"`
	// Stage is the pipeline's stage that refused; zero where none did.
	Stage int `json:"stage,omitempty"`
	// Code is what the agent saw, Original a handler's own code before that.
	Code     nacre.Code `json:"code,omitempty"`
	Original string     `json:"original_code,omitempty"`
	// Took is from the call to its answer, in nanoseconds.
	Took time.Duration `json:"took_ns,omitempty"`
	// Error is redacted; empty where the event succeeded.
	Error  string           `json:"error,omitempty"`
	Reason nacre.ReasonCode `json:"reason_code,omitempty"`
	// Summary counts what was shown; nil where nothing was.
	Summary *ResultSummary `json:"result_summary"`
}

// Attempt is a driver that failed.
type Attempt struct {
	Driver string `json:"driver_id"`
	// Cause names the kind of failure, never its text.
	Cause string `json:"cause"`
}

// ResultSummary counts what a result showed, and holds none of it.
type ResultSummary struct {
	Facts     int  `json:"fact_count"`
	Rows      int  `json:"row_count"`
	Warnings  int  `json:"warning_count"`
	HasHandle bool `json:"has_handle"`
}

// Succeeded reports whether the event did what was asked for.
func (t Trace) Succeeded() bool { return t.Error == "" && t.Event != EventDeny }

// TraceQuery selects traces; the zero value of a field selects all.
type TraceQuery struct {
	Principal  string
	Capability nacre.CapabilityID
	// Group and Session select together: two groups may have sessions of one name.
	Group   nacre.Group
	Session nacre.SessionID
	Event   Event
	// Outcome is "succeeded" or "failed".
	Outcome string
	Reason  nacre.ReasonCode
	// Since is the first instant, Until the first no more.
	Since, Until time.Time
	// Limit is the most traces to return: nil all, zero none.
	Limit  *int
	Offset int
}

func (q TraceQuery) check() error {
	switch {
	case q.Offset < 0 || q.Limit != nil && *q.Limit < 0:
		return errors.New("query of traces: limit and offset cannot be negative")
	case q.Outcome != "" && q.Outcome != "succeeded" && q.Outcome != "failed":
		return fmt.Errorf("query of traces: outcome %.40q: succeeded or failed", q.Outcome)
	}
	return nil
}

func (q TraceQuery) matches(t *Trace) bool {
	return (q.Principal == "" || q.Principal == t.Principal) &&
		(q.Capability == "" || q.Capability == t.Capability) &&
		(q.Group == "" || q.Group == t.Group) &&
		(q.Session == "" || q.Session == t.Session) &&
		(q.Event == "" || q.Event == t.Event) &&
		(q.Outcome == "" || (q.Outcome == "succeeded") == t.Succeeded()) &&
		(q.Reason == "" || q.Reason == t.Reason) &&
		(q.Since.IsZero() || !t.InvokedAt.Before(q.Since)) &&
		(q.Until.IsZero() || t.InvokedAt.Before(q.Until))
}

// traces keeps the newest events, as they happened: what leaves it is redacted
// on the way out, so that a call does not wait for it.
type traces struct {
	cleaner *redact.Engine

	mu      sync.Mutex
	ring    []*Trace
	next    int // where the oldest is
	evicted int64
}

func (s *traces) add(t *Trace) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < MaxTraces {
		s.ring = append(s.ring, t)
		return false
	}
	s.ring[s.next] = t
	s.next = (s.next + 1) % MaxTraces
	s.evicted++
	return s.evicted == 1
}

func (s *traces) find(q TraceQuery) (found []Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ring {
		if t := s.ring[(s.next+i)%len(s.ring)]; q.matches(t) {
			found = append(found, *t)
		}
	}
	slices.SortStableFunc(found, func(a, b Trace) int { return a.InvokedAt.Compare(b.InvokedAt) })
	return found
}

// last is the newest event of an action.
func (s *traces) last(actionID string) (Trace, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ring {
		if t := s.ring[(s.next+len(s.ring)-1-i)%len(s.ring)]; t.ActionID == actionID {
			return *t, true
		}
	}
	return Trace{}, false
}

// trace keeps an event of this call.
func (k *journal) trace(r *run, event Event, change func(*Trace)) {
	t := &Trace{
		Version: TraceVersion, ActionID: r.call.ID, Event: event,
		TraceSubject: TraceSubject{Principal: r.call.Principal.ID, Group: r.call.Principal.Group, Session: r.call.Principal.Session, TokenID: r.grant},
		TraceRequest: TraceRequest{InvokedAt: r.at, Mode: r.mode}, TraceRoute: TraceRoute{Correlation: r.call.Correlation},
	}
	if event != EventInvoke && event != EventExpand {
		t.ActionID += "." + string(event)
	}
	if r.tool != nil {
		c := r.tool.capability
		t.Capability, t.Tool, t.Sensitivity = c.ID, c.Tool, c.Sensitivity
	}
	if written := r.written(); len(written) <= maxTracedArguments {
		t.Arguments = written
	}
	change(t)
	if k.events.add(t) {
		k.warn(fmt.Sprintf("more than %d traces: the oldest are dropped from now on; the audit chain has them all", MaxTraces))
	}
}

// QueryTraces returns the events that match, the oldest first and those of one
// instant as they came, so that the pages of an unchanged kernel are disjoint
// and complete (K-19).
func (k *traces) QueryTraces(q TraceQuery) ([]Trace, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	found := k.find(q)
	found = found[min(q.Offset, len(found)):]
	if q.Limit != nil {
		found = found[:min(*q.Limit, len(found))]
	}
	for i := range found {
		k.redactTrace(&found[i])
	}
	return found, nil
}

// Explain returns the event with an action's id; where several calls were given
// one id, the last of them.
func (k *traces) Explain(actionID string) (Trace, error) {
	found, ok := k.last(actionID)
	if !ok {
		return Trace{}, fmt.Errorf("no trace of action %.80q: it never was, or %d newer ones replaced it", actionID, MaxTraces)
	}
	k.redactTrace(&found)
	return found, nil
}

// EvictedTraces counts the events that made room for newer ones.
func (k *traces) EvictedTraces() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.evicted
}

// payloadKeys are what memory tools carry: content, never kept in a trace.
var payloadKeys = []string{"payload", "content", "value", "memory", "text", "body"}

func (k *traces) redactTrace(t *Trace) {
	t.Error, _ = k.cleaner.String(wire.Cut(t.Error, maxMessage))
	arguments, _, err := k.cleaner.JSON(t.Arguments)
	if err != nil || len(t.Arguments) == 0 {
		t.Arguments = json.RawMessage("null")
		return
	}
	if strings.HasPrefix(string(t.Capability), "memory.") || t.Sensitivity == nacre.SensitiveMemory {
		arguments = wire.Hide(arguments, payloadKeys, "[REDACTED]")
	}
	t.Arguments = arguments
}
