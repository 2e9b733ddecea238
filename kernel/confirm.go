package kernel

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/provenance"
	"github.com/nacre-dev/nacre/internal/token"
	"github.com/nacre-dev/nacre/internal/wire"
)

// maxAgentWords is how much of an agent's own justification a person is shown, in bytes.
const maxAgentWords = 1000

// approval is what a person said to a call; the zero value where nobody was asked.
type approval struct {
	question, digest, by string
}

// confirm asks a person where the policy or the tool's risk wants one. The
// question is bound by digest to all that the answer allows; every failure,
// every silence and every other digest denies (D-13).
func (k *desk) confirm(ctx context.Context, r *run) error {
	if r.decision.Verdict == nacre.Allow {
		return nil
	}
	if stands, ok := r.session.standings.Take(r.ruledOn(), k.log.now()); ok && (r.decision.Approvers < 2 || stands.Verdict == nacre.Deny) {
		return r.stand(stands) // what one person let stand is no answer of two
	}
	if k.approver == nil {
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonNoApprover,
			fmt.Sprintf("%s needs a person's consent, and there is nobody to ask", r.call.Tool))
	}
	id, err := k.ids.randomID()
	if err != nil {
		return unasked(err)
	}
	q := k.question(r, id)
	if err := k.log.recordAsk(ctx, r, q); err != nil {
		return err
	}
	r.tell(q)
	answer, err := k.ask(ctx, q)
	answered := k.log.now()
	verdict := ruled(ctx, r, q, answer, err, answered)
	if failed := k.log.recordReply(ctx, r, q, answer, verdict); failed != nil {
		return failed
	}
	if err == nil && (verdict == nil || answer.Verdict == nacre.Deny) {
		r.session.standings.Keep(r.about(token.ScopeOf(answer)), q, answer, answered)
	}
	if verdict != nil {
		return verdict
	}
	if answer.Scope == nacre.ScopeText && q.Text != nil {
		r.session.vouch(r.text)
	}
	r.approval = approval{question: q.ID, digest: q.Digest, by: answer.By}
	return nil
}

// tell says to the host that a person is being asked. What goes wrong there is
// no reason to ask nobody.
func (r *run) tell(q nacre.Question) {
	defer func() { _ = recover() }()
	if r.call.OnAsk != nil {
		r.call.OnAsk(q.Expires)
	}
}

// stand applies what a person ruled for a time.
func (r *run) stand(s token.Standing) error {
	if s.Verdict != nacre.Allow {
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, fmt.Sprintf("User denied %s requests for a time", r.call.Tool))
	}
	r.approval = approval{question: s.Question, digest: s.Digest, by: s.By}
	return nil
}

func (k *desk) question(r *run, id string) nacre.Question {
	c, p := r.tool.capability, r.call.Principal
	expires, authority := k.log.now().Add(k.askTTL), r.subject.Authority()
	if r.decision.Approvers < 2 { // one person's word is not that of two
		r.text = r.session.textOf(r.arguments, r.declared)
	}
	digest := token.Sum("nacre.question.2", append([]string{
		id, string(c.ID), string(c.Tool), string(r.arguments), c.ContentHash, r.tool.schemaDigest, r.policy,
		p.ID, string(p.Group), string(p.Session), string(authority[:]), strconv.FormatInt(expires.UnixNano(), 10), r.text.Whole(),
	}, r.filesDigested()...)...)
	words, _ := k.log.redactor.String(wire.Cut(r.call.Hints.Justification, maxAgentWords))
	return nacre.Question{
		ID: id, Session: p.Session, Group: p.Group, Capability: c.ID, Arguments: slices.Clone(r.arguments), Files: slices.Clone(r.files),
		Digest: hex.EncodeToString(digest[:]), Origins: slices.Clone(r.origins), Text: sourceText(r.text), Why: why(r.decision), AgentWords: words, Expires: expires,
		Safety: c.Safety, Approvers: r.decision.Approvers,
	}
}

// sourceText is what a person is told of a text that they can vouch for.
func sourceText(t provenance.Text) *nacre.SourceText {
	if !t.Is() {
		return nil
	}
	return &nacre.SourceText{Source: t.Name, Text: t.Whole()}
}

func why(d nacre.Decision) string {
	switch {
	case d.Message != "" && d.Rule != "":
		return d.Message + " (" + d.Rule + ")"
	case d.Message != "":
		return d.Message
	default:
		return d.Rule
	}
}

// ask returns when the person has answered, the time is over, or ctx ends.
func (k *desk) ask(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.askTTL, errUnanswered)
	defer cancel()
	return guarded(ctx, k.waiting, func() (nacre.Ruling, error) { return k.approver.Ask(ctx, q) }, nil)
}

var errUnanswered = errors.New("nobody answered in time")

// ruled is nil only for an explicit consent to exactly this question, in time.
func ruled(ctx context.Context, r *run, q nacre.Question, ruling nacre.Ruling, err error, now time.Time) error {
	switch {
	case errors.Is(err, errUnanswered) || errors.Is(err, context.DeadlineExceeded) || err == nil && !now.Before(q.Expires):
		return unconfirmed(nacre.CodeConfirmationTimeout, nacre.ReasonUnanswered, fmt.Sprintf("nobody answered for %s in time", r.call.Tool))
	case err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled)):
		return interrupted(err)
	case err != nil:
		return unasked(err)
	case ruling.Verdict != nacre.Allow:
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, fmt.Sprintf("User denied %s request", r.call.Tool))
	case subtle.ConstantTimeCompare([]byte(ruling.Digest), []byte(q.Digest)) != 1:
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, "the answer was to another question")
	}
	return nil
}

// unasked refuses what nobody has refused: the question did not reach a person,
// or the answer did not come back (F-32).
func unasked(err error) error {
	return refused(unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonInternal, "the question could not be asked"), err)
}

// interrupted refuses a call that ended, or whose session did, while its question was
// open: nobody has answered (D-24, F-61).
func interrupted(err error) error {
	return refused(&nacre.Refusal{
		Code: nacre.CodePluginUnavailable, Stage: stageConfirm, Reason: nacre.ReasonInterrupted, Retriable: true,
		Message: "the call or its session ended before anybody answered",
	}, err)
}

func unconfirmed(code nacre.Code, reason nacre.ReasonCode, message string) *nacre.Refusal {
	return &nacre.Refusal{
		Code: code, Stage: stageConfirm, Reason: reason, Message: message,
		Retriable: code == nacre.CodeConfirmationTimeout,
	}
}
