package kernel

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nacre-dev/nacre"
	"github.com/nacre-dev/nacre/internal/token"
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
func (k *Kernel) confirm(ctx context.Context, r *run) error {
	if r.decision.Verdict == nacre.Allow {
		return nil
	}
	if stands, ok := r.session.standings.find(r, k.now()); ok {
		return r.stand(stands)
	}
	if k.approver == nil {
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonNoApprover,
			fmt.Sprintf("%s needs a person's consent, and there is nobody to ask", r.call.Tool))
	}
	id, err := k.randomID()
	if err != nil {
		return errors.Join(unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, "the question could not be asked"), err)
	}
	q := k.question(r, id)
	if err := k.recordAsk(ctx, r, q); err != nil {
		return err
	}
	k.tell(r, q)
	ruling, err := k.ask(ctx, q)
	answered := k.now()
	verdict := ruled(r, q, ruling, err, answered)
	if failed := k.recordReply(ctx, r, q, ruling, verdict); failed != nil {
		return failed
	}
	if err == nil && (verdict == nil || ruling.Verdict == nacre.Deny) {
		r.session.standings.keep(r, q, ruling, answered)
	}
	if verdict != nil {
		return verdict
	}
	r.approval = approval{question: q.ID, digest: q.Digest, by: ruling.By}
	return nil
}

// tell says to the host that a person is being asked. What goes wrong there is
// no reason to ask nobody.
func (k *Kernel) tell(r *run, q nacre.Question) {
	defer func() { _ = recover() }()
	if r.call.OnAsk != nil {
		r.call.OnAsk(q.Expires)
	}
}

// stand applies what a person ruled for a time.
func (r *run) stand(s standing) error {
	if s.verdict != nacre.Allow {
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, fmt.Sprintf("User denied %s requests for a time", r.call.Tool))
	}
	r.approval = approval{question: s.question, digest: s.digest, by: s.by}
	return nil
}

func (k *Kernel) question(r *run, id string) nacre.Question {
	c, p := r.tool.capability, r.call.Principal
	expires, authority := k.now().Add(k.askTTL), r.subject.Authority()
	digest := token.Sum("nacre.question.1", append([]string{
		id, string(c.ID), string(c.Tool), string(r.arguments), c.ContentHash, r.tool.schemaDigest, r.policy,
		p.ID, string(p.Group), string(p.Session), string(authority[:]), strconv.FormatInt(expires.UnixNano(), 10),
	}, r.filesDigested()...)...)
	words, _ := k.redactor.String(cut(r.call.Hints.Justification, maxAgentWords))
	return nacre.Question{
		ID: id, Session: p.Session, Group: p.Group, Capability: c.ID, Arguments: slices.Clone(r.arguments), Files: slices.Clone(r.files),
		Digest: hex.EncodeToString(digest[:]), Origins: slices.Clone(r.origins), Why: why(r.decision), AgentWords: words, Expires: expires,
	}
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
func (k *Kernel) ask(ctx context.Context, q nacre.Question) (nacre.Ruling, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.askTTL, errUnanswered)
	defer cancel()
	return guarded(ctx, &k.left, func() (nacre.Ruling, error) { return k.approver.Ask(ctx, q) }, nil)
}

var errUnanswered = errors.New("nobody answered in time")

// ruled is nil only for an explicit consent to exactly this question, in time.
func ruled(r *run, q nacre.Question, ruling nacre.Ruling, err error, now time.Time) error {
	switch {
	case errors.Is(err, errUnanswered) || errors.Is(err, context.DeadlineExceeded) || err == nil && !now.Before(q.Expires):
		return unconfirmed(nacre.CodeConfirmationTimeout, nacre.ReasonUnanswered, fmt.Sprintf("nobody answered for %s in time", r.call.Tool))
	case err != nil:
		return errors.Join(unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, "the question could not be asked"), err)
	case ruling.Verdict != nacre.Allow:
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, fmt.Sprintf("User denied %s request", r.call.Tool))
	case subtle.ConstantTimeCompare([]byte(ruling.Digest), []byte(q.Digest)) != 1:
		return unconfirmed(nacre.CodeConfirmationDenied, nacre.ReasonDenied, "the answer was to another question")
	}
	return nil
}

func unconfirmed(code nacre.Code, reason nacre.ReasonCode, message string) error {
	return &nacre.Refusal{
		Code: code, Stage: stageConfirm, Reason: reason, Message: message,
		Retriable: code == nacre.CodeConfirmationTimeout,
	}
}

// cut shortens a text to limit bytes, and marks that it did.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
