package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
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

// What the records of a call tell beyond the fields that all records have.
// Arguments, results and the agent's words are there by size and digest only.
type (
	rejectDetail struct {
		Call       string             `json:"call,omitempty"`
		Principal  string             `json:"principal"`
		Capability nacre.CapabilityID `json:"capability,omitempty"`
		Code       nacre.Code         `json:"code,omitempty"`
		Rule       string             `json:"rule,omitempty"`
		Field      string             `json:"field,omitempty"`
		RetryAfter int                `json:"retry_after,omitempty"`
		Grant      string             `json:"grant,omitempty"`
		Arguments  measure            `json:"arguments"`
		Words      measure            `json:"agent_words"`
		Request    *policy.Recorded   `json:"request,omitempty"`
	}
	beginDetail struct {
		Call       string             `json:"call,omitempty"`
		Principal  string             `json:"principal"`
		Capability nacre.CapabilityID `json:"capability"`
		Content    string             `json:"content,omitempty"`
		Policy     string             `json:"policy"`
		Code       nacre.ReasonCode   `json:"code"`
		Rule       string             `json:"rule,omitempty"`
		Grant      string             `json:"grant,omitempty"`
		Question   string             `json:"question,omitempty"`
		Approval   string             `json:"approval,omitempty"`
		By         string             `json:"by,omitempty"`
		Mode       string             `json:"mode,omitempty"`
		Arguments  measure            `json:"arguments"`
		Words      measure            `json:"agent_words"`
		Request    *policy.Recorded   `json:"request,omitempty"`
	}
	askDetail struct {
		Call       string             `json:"call,omitempty"`
		Capability nacre.CapabilityID `json:"capability"`
		Question   string             `json:"question"`
		Digest     string             `json:"digest"`
		Code       nacre.ReasonCode   `json:"code,omitempty"`
		Verdict    string             `json:"verdict,omitempty"`
		By         string             `json:"by,omitempty"`
		Expires    string             `json:"expires,omitempty"`
		Origins    []nacre.Origin     `json:"origins,omitempty"`
		// Stands says for how many seconds the answer holds, and for what.
		Stands int64  `json:"stands,omitempty"`
		Scope  string `json:"scope,omitempty"`
	}
	endDetail struct {
		Call       string             `json:"call,omitempty"`
		Capability nacre.CapabilityID `json:"capability"`
		Grant      string             `json:"grant,omitempty"`
		Code       nacre.Code         `json:"code,omitempty"`
		Original   string             `json:"original,omitempty"`
		Retriable  bool               `json:"retriable,omitempty"`
		Cause      string             `json:"cause,omitempty"`
		Driver     string             `json:"driver,omitempty"`
		Attempts   []Attempt          `json:"attempts,omitempty"`
		Result     measure            `json:"result"`
		Shown      measure            `json:"shown"`
		Mode       string             `json:"mode,omitempty"`
		Handle     string             `json:"handle,omitempty"`
		Redacted   []string           `json:"redacted,omitempty"`
		Label      string             `json:"label,omitempty"`
	}
	grantDetail struct {
		Principal   string             `json:"principal"`
		Capability  nacre.CapabilityID `json:"capability"`
		Grant       string             `json:"grant"`
		Code        nacre.ReasonCode   `json:"code"`
		Rule        string             `json:"rule,omitempty"`
		Policy      string             `json:"policy"`
		Question    string             `json:"question,omitempty"`
		Expires     string             `json:"expires"`
		Uses        int                `json:"uses,omitempty"`
		Constrained bool               `json:"constrained,omitempty"`
		Request     *policy.Recorded   `json:"request,omitempty"`
	}
	expandDetail struct {
		Principal  string             `json:"principal"`
		Capability nacre.CapabilityID `json:"capability"`
		Handle     string             `json:"handle"`
		Rows       int                `json:"rows"`
		Shown      measure            `json:"shown"`
		Redacted   []string           `json:"redacted,omitempty"`
		Label      string             `json:"label"`
	}
	// measure is what may be known of a value that is not kept.
	measure struct {
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256,omitempty"`
	}
)

func measured[T string | json.RawMessage](v T) measure {
	if len(v) == 0 {
		return measure{}
	}
	sum := sha256.Sum256([]byte(v))
	return measure{Bytes: len(v), SHA256: hex.EncodeToString(sum[:])}
}

// reject is rejected for a call.
func (k *Kernel) reject(ctx context.Context, r *run, err error) (nacre.Outcome, error) {
	return nacre.Outcome{}, k.rejected(ctx, r, err)
}

// rejected records a refusal before anything was done, and passes it on.
func (k *Kernel) rejected(ctx context.Context, r *run, err error) error {
	detail := rejectDetail{
		Call: plain(r.call.ID), Principal: plain(r.call.Principal.ID), Rule: r.decision.Rule, Grant: k.word(r.grant),
		Arguments: measured(r.call.Arguments), Words: measured(r.call.Hints.Justification),
	}
	if r.tool != nil {
		detail.Capability, detail.Request = r.tool.capability.ID, r.recorded()
	}
	record := k.record(r, nacre.KindCallReject)
	record.Source, record.Outcome, record.Reason = "core", nacre.OutcomeRejected, reasonGone
	if refusal := new(nacre.Refusal); errors.As(err, &refusal) {
		shown := *refusal
		shown.Message, _ = k.redactor.String(cut(shown.Message, maxMessage))
		detail.Code, detail.Field, detail.RetryAfter = shown.Code, k.word(shown.Field), shown.RetryAfter
		record.Stage, record.Reason = shown.Stage, string(shown.Reason)
		if err == error(refusal) { //nolint:errorlint // what wraps it says more, and stays
			err = &shown
		}
	}
	k.counters.denied(nacre.ReasonCode(record.Reason))
	k.trace(r, EventDeny, func(t *Trace) {
		t.Reason, t.Error, t.Code, t.Stage = nacre.ReasonCode(record.Reason), err.Error(), detail.Code, record.Stage
		t.Took, t.Outcome = k.now().Sub(r.now), record.Outcome
	})
	if failed := k.append(ctx, record, detail); failed != nil {
		return unrecorded(failed, "the call was refused, and that could not be recorded")
	}
	return err
}

// recorded is the request as it is kept, so that another policy can be held
// against it later (K-06).
func (r *run) recorded() *policy.Recorded {
	recorded := policy.RecordedOf(r.request())
	return &recorded
}

// recordBegin returns when the begin record is durable; otherwise nothing may run (K-21).
func (k *Kernel) recordBegin(ctx context.Context, r *run) error {
	record := k.record(r, nacre.KindCallBegin)
	record.Source, record.Stage, record.Outcome = "core", stageRoute, nacre.OutcomeAllowed
	if err := k.commit(ctx, record, k.beginDetail(r)); err != nil {
		return unrecorded(err, "the call could not be recorded, so nothing was done")
	}
	return nil
}

func (k *Kernel) beginDetail(r *run) beginDetail {
	return beginDetail{
		Call: plain(r.call.ID), Principal: plain(r.call.Principal.ID), Capability: r.tool.capability.ID,
		Content: r.tool.capability.ContentHash, Policy: r.policy, Code: r.decision.Code, Rule: r.decision.Rule,
		Grant: r.grant, Question: r.approval.question, Approval: r.approval.digest, By: plain(r.approval.by),
		Mode: r.call.Hints.Mode, Arguments: measured(r.arguments), Words: measured(r.call.Hints.Justification), Request: r.recorded(),
	}
}

// recordRehearsal records a dry run, which is a crossing too.
func (k *Kernel) recordRehearsal(ctx context.Context, r *run) error {
	record := k.record(r, KindDryRun)
	record.Source, record.Stage, record.Outcome = "core", stageRoute, nacre.OutcomeAllowed
	record.Reason = string(r.decision.Code)
	if err := k.append(ctx, record, k.beginDetail(r)); err != nil {
		return unrecorded(err, "the dry run could not be recorded")
	}
	return nil
}

// recordGrant returns when the grant's record is durable: a token that nobody
// could account for is not handed out.
func (k *Kernel) recordGrant(ctx context.Context, r *run, t nacre.Token) error {
	record := k.record(r, KindGrant)
	record.Source, record.Stage, record.Outcome, record.Reason = "core", stageAuthorize, nacre.OutcomeAllowed, string(r.decision.Code)
	detail := grantDetail{
		Principal: plain(t.Principal), Capability: t.Capability, Grant: t.ID, Code: r.decision.Code, Rule: r.decision.Rule, Policy: r.policy,
		Question: r.approval.question, Expires: stamp(t.Expires), Constrained: !t.Constraints.IsZero(), Request: r.recorded(),
	}
	if t.Uses != nil {
		detail.Uses = *t.Uses
	}
	if err := k.commit(ctx, record, detail); err != nil {
		return unrecorded(err, "the grant could not be recorded, so it was not made")
	}
	return nil
}

// recordExpand records a page before anybody sees it.
func (k *Kernel) recordExpand(ctx context.Context, r *run, id string, s shown) error {
	record := k.record(r, KindExpand)
	record.Source, record.Stage, record.Outcome = r.tool.source, stageRoute, nacre.OutcomeRouted
	if len(s.redacted) > 0 {
		record.Outcome = nacre.OutcomeSanitized
	}
	k.trace(r, EventExpand, func(t *Trace) { t.HandleID, t.Summary, t.Outcome = id, s.summary(), record.Outcome })
	err := k.append(ctx, record, expandDetail{
		Principal: plain(r.call.Principal.ID), Capability: r.tool.capability.ID, Handle: k.word(id), Rows: len(s.frame.Rows),
		Shown: measured(s.encoded), Redacted: s.redacted, Label: s.label.String(),
	})
	if err != nil {
		return unrecorded(err, "the page could not be recorded, so it is not shown")
	}
	return nil
}

// recordEnd records what became of a call, before its answer is passed on
// (K-21); a handler's own refusal first as it was, then as it is seen (D-16).
func (k *Kernel) recordEnd(ctx context.Context, r *run, raw json.RawMessage, s shown, f *failure) error {
	const unknown = "the call was carried out, but its end could not be recorded; do not repeat it before somebody has looked"
	detail := endDetail{
		Call: plain(r.call.ID), Capability: r.tool.capability.ID, Grant: r.grant, Driver: r.driver, Attempts: r.attempts,
		Result: measured(raw), Shown: measured(s.encoded), Handle: s.handleID(), Redacted: s.redacted, Label: s.label.String(),
	}
	if s.framed {
		detail.Mode = s.frame.Mode.String()
	}
	record := k.record(r, nacre.KindCallEnd)
	record.Source, record.Stage, record.Outcome = r.tool.source, stageRoute, nacre.OutcomeRouted
	if len(s.redacted) > 0 {
		record.Outcome = nacre.OutcomeSanitized
		k.counters.count(func(s *Stats) { s.Redactions++ })
	}
	if f != nil {
		record.Outcome, record.Reason = nacre.OutcomeError, string(f.refusal.Code)
		detail.Code, detail.Retriable, detail.Label = f.refusal.Code, f.refusal.Retriable, ""
		detail.Cause = causeOf(f.cause)
		k.counters.count(func(s *Stats) { s.InvocationFailures++ })
		if f.handler {
			own := record
			own.Kind, own.Reason = nacre.KindCallHandler, k.word(f.refusal.Original)
			before := detail
			before.Original = own.Reason
			if err := k.append(ctx, own, before); err != nil {
				return unrecorded(err, unknown)
			}
		}
		if !f.handler {
			record.Source = "core"
		}
	}
	k.health.note(r.tool.source, f)
	k.traceEnd(r, s, f, record.Outcome)
	if err := k.append(ctx, record, detail); err != nil {
		return unrecorded(err, unknown)
	}
	return nil
}

func (k *Kernel) traceEnd(r *run, s shown, f *failure, outcome string) {
	k.trace(r, EventInvoke, func(t *Trace) {
		t.Driver, t.Attempts, t.HandleID, t.Summary = r.driver, r.attempts, s.handleID(), s.summary()
		t.Took, t.Reason, t.Outcome = k.now().Sub(r.now), r.decision.Code, outcome
		if f != nil {
			t.Error, t.Code, t.Original, t.Summary = f.refusal.Message, f.refusal.Code, f.refusal.Original, nil
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
func (k *Kernel) recordLate(r *run) {
	record := k.record(r, nacre.KindCallHandler)
	record.Source, record.Stage, record.Outcome, record.Reason = r.tool.source, stageRoute, nacre.OutcomeError, "late_answer_dropped"
	detail := endDetail{Call: plain(r.call.ID), Capability: r.tool.capability.ID, Grant: r.grant}
	_ = k.append(context.Background(), record, detail) // the chain may be closed by now; the call itself ended long ago
}

func (k *Kernel) recordAsk(ctx context.Context, r *run, q nacre.Question) error {
	record := k.record(r, nacre.KindApprovalAsk)
	record.Source, record.Stage, record.Reason = "core", stageConfirm, string(r.decision.Code)
	err := k.append(ctx, record, askDetail{
		Call: plain(r.call.ID), Capability: q.Capability, Question: q.ID, Digest: q.Digest,
		Code: r.decision.Code, Expires: stamp(q.Expires), Origins: q.Origins,
	})
	k.trace(r, EventAsk, func(t *Trace) { t.Reason = r.decision.Code })
	if err != nil {
		return unrecorded(err, "the question could not be recorded, so nobody was asked")
	}
	return nil
}

func (k *Kernel) recordReply(ctx context.Context, r *run, q nacre.Question, ruling nacre.Ruling, verdict error) error {
	record := k.record(r, nacre.KindApprovalReply)
	record.Source, record.Stage, record.Outcome, record.Reason = "core", stageConfirm, nacre.OutcomeAllowed, string(nacre.ReasonApproved)
	if refusal := new(nacre.Refusal); errors.As(verdict, &refusal) {
		record.Outcome, record.Reason = nacre.OutcomeDenied, string(refusal.Reason)
	}
	err := k.append(ctx, record, askDetail{
		Call: plain(r.call.ID), Capability: q.Capability, Question: q.ID, Digest: q.Digest,
		Verdict: ruling.Verdict.String(), By: plain(ruling.By), Stands: int64(ruling.For / time.Second), Scope: scopeOf(ruling),
	})
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
func (k *Kernel) record(r *run, kind nacre.Kind) nacre.Record {
	topic := "tool.invoke.(malformed)"
	if _, err := nacre.ParseToolName(string(r.call.Tool)); err == nil {
		topic = "tool.invoke." + string(r.call.Tool)
	}
	correlation, err := nacre.ParseCorrelation(string(r.call.Correlation))
	if err != nil {
		correlation = ""
	}
	return nacre.Record{
		Kind: kind, Time: k.now(), Group: r.call.Principal.Group, Session: r.call.Principal.Session,
		Topic: topic, Correlation: correlation,
	}
}

func (k *Kernel) append(ctx context.Context, record nacre.Record, detail any) error {
	record, err := detailed(record, detail)
	if err != nil {
		return err
	}
	ctx, cancel := recordContext(ctx)
	defer cancel()
	return k.recorder.Append(ctx, record)
}

// commit returns when the record is durable.
func (k *Kernel) commit(ctx context.Context, record nacre.Record, detail any) error {
	record, err := detailed(record, detail)
	if err != nil {
		return err
	}
	ctx, cancel := recordContext(ctx)
	defer cancel()
	return k.recorder.Commit(ctx, record)
}

func detailed(record nacre.Record, detail any) (nacre.Record, error) {
	encoded, err := json.Marshal(detail)
	if err != nil {
		return record, fmt.Errorf("record %s: %w", record.Kind, err)
	}
	record.Detail = encoded
	return record, nil
}

// recordContext outlives the caller: that an agent hung up is no reason to
// leave out what it did.
func recordContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), recordDeadline)
}

func unrecorded(err error, message string) error {
	return fmt.Errorf("%w: %w", &nacre.Refusal{
		Code: nacre.CodePluginUnavailable, Stage: stageRoute, Reason: nacre.ReasonAuditFailed, Message: message,
	}, err)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func scopeOf(r nacre.Ruling) string {
	if r.For <= 0 {
		return ""
	}
	return r.Scope.String()
}

// plain is a short text of the host's own, such as a person's name, as a record keeps it.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, cut(s, maxName))
}

// word is a short text of an agent's or a plugin's, as a record keeps it.
func (k *Kernel) word(s string) string {
	s, _ = k.redactor.String(cut(s, maxWord))
	return plain(s)
}
