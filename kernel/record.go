package kernel

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/internal/wire"
	"github.com/nacre-dev/nacre/policy"
)

// The kinds of record that are the kernel's own, beside those of a call that is
// carried out. They begin nothing, so nothing has to end.
const (
	KindDryRun nacre.Kind = "call.dry_run"
	KindGrant  nacre.Kind = "grant"
	KindExpand nacre.Kind = "handle.expand"
)

// reasonGone is the reason of a call whose caller left before anything was done.
const reasonGone = "caller_gone"

// How much of a short text a record keeps, in bytes: of one from outside, such
// as a handler's own code, and of the host's own.
const (
	maxWord = 64
	maxName = 200
)

// reject is rejected for a call.
func (k *journal) reject(ctx context.Context, r *run, err error) (nacre.Outcome, error) {
	err = k.rejected(ctx, r, err)
	return r.explain(nacre.Outcome{}), err
}

// rejected records a refusal before anything was done, and passes it on.
func (k *journal) rejected(ctx context.Context, r *run, err error) error {
	record := k.record(r, nacre.KindCallReject)
	record.Source, record.Outcome, record.Reason = "core", nacre.OutcomeRejected, reasonGone
	shown, known := refusalIn(err)
	if known {
		shown.Message, _ = k.redactor.String(wire.Cut(shown.Message, maxMessage))
		record.Stage, record.Reason = shown.Stage, string(shown.Reason)
		k.counters.denied(shown.Reason)
		if _, bare := err.(*nacre.Refusal); bare { //nolint:errorlint // what wraps it says more, and stays
			err = &shown
		}
	}
	r.grant = k.word(r.grant)
	k.trace(r, EventDeny, func(t *Trace) {
		t.Reason, t.Error, t.Code, t.Stage = nacre.ReasonCode(record.Reason), err.Error(), shown.Code, record.Stage
		t.Took, t.Outcome, t.HandleID = k.took(r), record.Outcome, r.handle
	})
	if failed := k.append(ctx, record, r.rejectDetail(shown, k.word(shown.Field))); failed != nil {
		return unrecorded(failed, "the call was refused, and that could not be recorded")
	}
	return err
}

// refusalIn is a copy of the refusal that err is or wraps.
func refusalIn(err error) (nacre.Refusal, bool) {
	var refusal *nacre.Refusal
	if errors.As(err, &refusal) && refusal != nil {
		return *refusal, true
	}
	return nacre.Refusal{}, false
}

func (r *run) rejectDetail(shown nacre.Refusal, field string) detail {
	d := newDetail()
	wire.Measure(&d.Summary, "agent_words", r.call.Hints.Justification)
	wire.Measure(&d.Summary, "arguments", r.call.Arguments)
	d.Text("call", plain(r.call.ID))
	if r.tool != nil {
		d.Text("capability", string(r.tool.capability.ID))
	}
	d.Text("code", string(shown.Code))
	d.Text("field", field)
	d.Text("grant", r.grant)
	d.Text("handle", r.handle)
	d.Text("principal", plain(r.call.Principal.ID))
	if r.tool != nil {
		d.request("request", policy.RecordedOf(r.request()))
	}
	d.Number("retry_after", int64(shown.RetryAfter))
	d.Text("rule", r.decision.Rule)
	return d
}

// took is how long a call has taken so far; a clock that went back says nothing.
func (k *journal) took(r *run) time.Duration { return max(k.now().Sub(r.now), 0) }

// recordBegin returns when the begin record is durable; otherwise nothing may run (K-21).
func (k *journal) recordBegin(ctx context.Context, r *run) error {
	record := k.record(r, nacre.KindCallBegin)
	record.Source, record.Stage, record.Outcome = "core", stageRoute, nacre.OutcomeAllowed
	if err := k.commit(ctx, record, r.beginDetail()); err != nil {
		return unrecorded(err, "the call could not be recorded, so nothing was done")
	}
	return nil
}

func (r *run) beginDetail() detail {
	d := newDetail()
	wire.Measure(&d.Summary, "agent_words", r.call.Hints.Justification)
	d.Text("approval", r.approval.digest)
	wire.Measure(&d.Summary, "arguments", r.arguments)
	d.Text("by", plain(r.approval.by))
	d.Text("call", plain(r.call.ID))
	d.Text("capability", string(r.tool.capability.ID))
	d.Text("code", string(r.decision.Code))
	d.Text("content", r.tool.capability.ContentHash)
	d.files("files", r.files)
	d.Text("grant", r.grant)
	d.Text("mode", r.call.Hints.Mode)
	d.Text("policy", r.policy)
	d.Text("principal", plain(r.call.Principal.ID))
	d.Text("question", r.approval.question)
	d.request("request", policy.RecordedOf(r.request()))
	d.Text("returns", r.tool.capability.Returns.String())
	d.Text("rule", r.decision.Rule)
	return d
}

// recordRehearsal records a dry run, which is a crossing too.
func (k *journal) recordRehearsal(ctx context.Context, r *run) error {
	record := k.record(r, KindDryRun)
	record.Source, record.Stage, record.Outcome = "core", stageRoute, nacre.OutcomeAllowed
	record.Reason = string(r.decision.Code)
	if err := k.append(ctx, record, r.beginDetail()); err != nil {
		return unrecorded(err, "the dry run could not be recorded")
	}
	return nil
}

// recordGrant returns when the grant's record is durable: a token that nobody
// could account for is not handed out.
func (k *journal) recordGrant(ctx context.Context, r *run, t nacre.Token) error {
	record := k.record(r, KindGrant)
	record.Source, record.Stage, record.Outcome, record.Reason = "core", stageAuthorize, nacre.OutcomeAllowed, string(r.decision.Code)
	d := newDetail()
	d.Text("capability", string(t.Capability))
	d.Text("code", string(r.decision.Code))
	d.Flag("constrained", !t.Constraints.IsZero())
	d.Text("expires", stamp(t.Expires))
	d.Text("grant", t.ID)
	d.Text("policy", r.policy)
	d.Text("principal", plain(t.Principal))
	d.Text("question", r.approval.question)
	d.request("request", policy.RecordedOf(r.request()))
	d.Text("rule", r.decision.Rule)
	if t.Uses != nil {
		d.Number("uses", int64(*t.Uses))
	}
	if err := k.commit(ctx, record, d); err != nil {
		return unrecorded(err, "the grant could not be recorded, so it was not made")
	}
	return nil
}

// recordExpand records a page before anybody sees it.
func (k *journal) recordExpand(ctx context.Context, r *run, id string, s shown) error {
	record := k.record(r, KindExpand)
	record.Source, record.Stage, record.Outcome = r.tool.source, stageRoute, nacre.OutcomeRouted
	if len(s.redacted) > 0 {
		record.Outcome = nacre.OutcomeSanitized
		k.counters.count(func(s *Stats) { s.Redactions++ })
	}
	k.trace(r, EventExpand, func(t *Trace) { t.HandleID, t.Summary, t.Outcome = id, s.summary(), record.Outcome })
	d := newDetail()
	d.Text("capability", string(r.tool.capability.ID))
	d.Text("handle", k.word(id))
	d.Text("label", s.label.String())
	d.Text("principal", plain(r.call.Principal.ID))
	d.List("redacted", s.redacted)
	d.Number("rows", int64(len(s.frame.Rows)))
	wire.Measure(&d.Summary, "shown", s.encoded)
	d.Flag("unvouched", s.label == nacre.Unvouched)
	err := k.append(ctx, record, d)
	if err != nil {
		return unrecorded(err, "the page could not be recorded, so it is not shown")
	}
	return nil
}

// recordEnd records what became of a call, before its answer is passed on
// (K-21); a handler's own refusal first as it was, then as it is seen (D-16).
func (k *journal) recordEnd(ctx context.Context, r *run, raw json.RawMessage, s shown, f *failure) error {
	const unknown = "the call was carried out, but its end could not be recorded; do not repeat it before somebody has looked"
	record := k.record(r, nacre.KindCallEnd)
	record.Source, record.Stage, record.Outcome = r.tool.source, stageRoute, nacre.OutcomeRouted
	if len(s.redacted) > 0 {
		record.Outcome = nacre.OutcomeSanitized
		k.counters.count(func(s *Stats) { s.Redactions++ })
	}
	if f != nil {
		record.Outcome, record.Reason = nacre.OutcomeError, string(f.refusal.Code)
		k.counters.count(func(s *Stats) { s.InvocationFailures++ })
	}
	if f != nil && f.handler {
		own := record
		own.Kind, own.Reason = nacre.KindCallHandler, k.word(f.refusal.Original)
		if err := k.append(ctx, own, r.endDetail(raw, s, f, own.Reason)); err != nil {
			return unrecorded(err, unknown)
		}
	} else if f != nil {
		record.Source = "core"
	}
	k.health.note(r.tool.source, f)
	k.traceEnd(r, s, f, record.Outcome)
	if err := k.append(ctx, record, r.endDetail(raw, s, f, "")); err != nil {
		return unrecorded(err, unknown)
	}
	return nil
}

// endDetail tells the size and the digest of what came and of what was shown of it.
func (r *run) endDetail(raw json.RawMessage, s shown, f *failure, original string) detail {
	d := newDetail()
	d.attempts("attempts", r.attempts)
	d.Text("call", plain(r.call.ID))
	d.Text("capability", string(r.tool.capability.ID))
	if f != nil {
		d.Text("cause", causeOf(f.cause))
		d.Text("code", string(f.refusal.Code))
	}
	d.Text("driver", r.driver)
	d.Text("grant", r.grant)
	d.Text("handle", s.handleID())
	if f == nil {
		d.Text("label", s.label.String())
	}
	if s.framed {
		d.Text("mode", s.frame.Mode.String())
	}
	d.Text("original", original)
	d.List("redacted", s.redacted)
	result := r.measure(&d.Summary, "result")
	d.Flag("retriable", f != nil && f.refusal.Retriable)
	if bytes.Equal(raw, s.encoded) { // it is passed on as it is: one digest is enough
		d.Measured("shown", result)
	} else {
		wire.Measure(&d.Summary, "shown", s.encoded)
	}
	d.Flag("unvouched", f == nil && s.label == nacre.Unvouched)
	return d
}

func (k *journal) traceEnd(r *run, s shown, f *failure, outcome string) {
	k.trace(r, EventInvoke, func(t *Trace) {
		t.Driver, t.Attempts, t.HandleID, t.Summary = r.driver, r.attempts, s.handleID(), s.summary()
		t.Took, t.Reason, t.Outcome = k.took(r), r.decision.Code, outcome
		if f != nil {
			t.Error, t.Code, t.Original, t.Summary, t.Stage = f.refusal.Message, f.refusal.Code, f.refusal.Original, nil, f.refusal.Stage
		}
	})
}

// causeOf names the kind of a failure. Its text may hold anything, arguments
// too: it is in the error that Call returns, for the host's log.
func causeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errPanicked):
		return "panic"
	case errors.Is(err, errDeadline), errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	default:
		return fmt.Sprintf("%T", err)
	}
}

// recordLate records an answer that came after its deadline and was dropped (D-14).
func (k *journal) recordLate(r *run) {
	record := k.record(r, nacre.KindCallHandler)
	record.Source, record.Stage, record.Outcome, record.Reason = r.tool.source, stageRoute, nacre.OutcomeError, "late_answer_dropped"
	d := newDetail()
	d.Text("call", plain(r.call.ID))
	d.Text("capability", string(r.tool.capability.ID))
	d.Text("grant", r.grant)
	_ = k.append(context.Background(), record, d) // the chain may be closed by now; the call itself ended long ago
}

func (k *journal) recordAsk(ctx context.Context, r *run, q nacre.Question) error {
	record := k.record(r, nacre.KindApprovalAsk)
	record.Source, record.Stage, record.Reason = "core", stageConfirm, string(r.decision.Code)
	d := newDetail()
	d.Text("call", plain(r.call.ID))
	d.Text("capability", string(q.Capability))
	d.Text("code", string(r.decision.Code))
	d.Text("digest", q.Digest)
	d.Text("expires", stamp(q.Expires))
	d.files("files", q.Files)
	d.origins("origins", q.Origins)
	d.Text("question", q.ID)
	err := k.append(ctx, record, d)
	r.at = record.Time
	k.trace(r, EventAsk, func(t *Trace) { t.Reason = r.decision.Code })
	if err != nil {
		return unrecorded(err, "the question could not be recorded, so nobody was asked")
	}
	return nil
}

func (k *journal) recordReply(ctx context.Context, r *run, q nacre.Question, answer nacre.Ruling, verdict error) error {
	record := k.record(r, nacre.KindApprovalReply)
	record.Source, record.Stage, record.Outcome, record.Reason = "core", stageConfirm, nacre.OutcomeAllowed, string(nacre.ReasonApproved)
	if refusal := new(nacre.Refusal); errors.As(verdict, &refusal) {
		record.Outcome, record.Reason = nacre.OutcomeDenied, string(refusal.Reason)
	}
	d := newDetail()
	d.Text("by", plain(answer.By))
	d.Text("call", plain(r.call.ID))
	d.Text("capability", string(q.Capability))
	d.Text("digest", q.Digest)
	if verdict == nil || answer.Verdict == nacre.Deny && answer.Digest == q.Digest {
		about := r.about(token.ScopeOf(answer))
		d.Text("like", hex.EncodeToString(about[:]))
	}
	d.Text("question", q.ID)
	if answer.For > 0 || answer.Scope == nacre.ScopeText {
		d.Text("scope", answer.Scope.String())
	}
	d.Number("stands", int64(answer.For/time.Second))
	if answer.Scope == nacre.ScopeText && q.Text != nil {
		d.Text("text", plain(q.Text.Source))
	}
	d.Number("times", int64(answer.Times))
	d.Text("verdict", answer.Verdict.String())
	err := k.append(ctx, record, d)
	r.at = record.Time
	k.trace(r, EventApprove, func(t *Trace) {
		if t.Reason = nacre.ReasonCode(record.Reason); verdict != nil {
			t.Error = verdict.Error()
		}
	})
	if err != nil {
		return unrecorded(err, "the answer could not be recorded, so nothing was done")
	}
	return nil
}

// record begins a record of this call.
func (k *journal) record(r *run, kind nacre.Kind) nacre.Record {
	return nacre.Record{
		Kind: kind, Time: k.now(), Group: r.call.Principal.Group, Session: r.call.Principal.Session,
		Topic: r.topic(), Correlation: r.call.Correlation,
	}
}

func (r *run) topic() string {
	if r.tool != nil {
		return r.tool.topic
	}
	if r.handle != "" { // of which nobody knows what it came from
		return string(KindExpand)
	}
	return topicOf(r.call.Tool)
}

func topicOf(name nacre.ToolName) string {
	if _, err := nacre.ParseToolName(string(name)); err != nil {
		return "tool.invoke.(malformed)"
	}
	return "tool.invoke." + string(name)
}

func (k *journal) append(ctx context.Context, record nacre.Record, d detail) error {
	return recorded(ctx, record, d, k.recorder.Append)
}

// commit returns when the record is durable.
func (k *journal) commit(ctx context.Context, record nacre.Record, d detail) error {
	return recorded(ctx, record, d, k.recorder.Commit)
}

func recorded(ctx context.Context, record nacre.Record, d detail, write func(context.Context, nacre.Record) error) (err error) {
	within := &patient{Context: context.WithoutCancel(ctx)}
	defer within.over()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("recorder %w: %v", errPanicked, p)
		}
	}()
	record.Detail = d.Done()
	return write(within, record)
}

// patient is the context of a record: it outlives the caller, for that an agent
// hung up is no reason to leave out what it did. Its clock runs from when
// somebody waits for it, which a recorder in memory never does.
type patient struct {
	context.Context //nolint:containedctx // it is one itself, with the caller's values

	mu     sync.Mutex
	within context.Context //nolint:containedctx // it is made late
	cancel context.CancelFunc
}

func (p *patient) begun() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.within == nil {
		p.within, p.cancel = context.WithTimeout(p.Context, recordDeadline)
	}
	return p.within
}

// Deadline implements context.Context, as Done and Err do.
func (p *patient) Deadline() (time.Time, bool) { return p.begun().Deadline() }

// Done begins the deadline.
func (p *patient) Done() <-chan struct{} { return p.begun().Done() }

// Err is nil before anybody waits.
func (p *patient) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.within == nil {
		return nil
	}
	return p.within.Err()
}

// over releases what was begun.
func (p *patient) over() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
}

func unrecorded(err error, message string) error {
	return fmt.Errorf("%w: %w", &nacre.Refusal{
		Code: nacre.CodePluginUnavailable, Stage: stageRoute, Reason: nacre.ReasonAuditFailed, Message: message,
	}, err)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// plain is a short text of the host's own, such as a person's name, as a record keeps it.
func plain(s string) string {
	if len(s) <= maxName && wire.IsPlain(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, wire.Cut(s, maxName))
}

// word is a short text of an agent's or a plugin's, as a record keeps it.
func (k *journal) word(s string) string {
	s, _ = k.redactor.String(wire.Cut(s, maxWord))
	return plain(s)
}
